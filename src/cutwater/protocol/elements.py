"""What flows in a channel between the record batches?"""

from __future__ import annotations

from dataclasses import dataclass

from cutwater.protocol.ids import CheckpointId


@dataclass(frozen=True, slots=True)
class Barrier:
    """Everything before it belongs to the checkpoint, everything after it does not."""

    checkpoint: CheckpointId
    savepoint: str = ""
    """Where the snapshot goes if a user asked for it; else it is one of the job's own."""


@dataclass(frozen=True, slots=True)
class Watermark:
    """No record with a timestamp at or below this one will follow."""

    timestamp_ms: int


@dataclass(frozen=True, slots=True)
class Idle:
    """The channel holds event time back no longer, until its next record or watermark."""


@dataclass(frozen=True, slots=True)
class EndOfInput:
    """Nothing follows, barriers included. Not `complete`: the source was stopped, and a later run goes on with it."""

    complete: bool = True


Control = Barrier | Watermark | Idle | EndOfInput
