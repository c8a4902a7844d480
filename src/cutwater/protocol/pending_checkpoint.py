"""What must the coordinator remember of a checkpoint that isn't complete, and of the attempt it belongs to?"""

from __future__ import annotations

from dataclasses import dataclass

from cutwater.protocol.checkpoint_events import CheckpointKind
from cutwater.protocol.ids import AttemptNumber, CheckpointId, TaskId


@dataclass(slots=True)
class PendingCheckpoint:
    """Triggered, and neither completed nor given up."""

    checkpoint: CheckpointId
    kind: CheckpointKind
    request: str | None
    expires_at_seconds: float
    waiting: set[TaskId]

    @property
    def publishing(self) -> bool:
        """Every task acknowledged: the manifest is being written."""
        return not self.waiting


@dataclass(slots=True)
class RunningAttempt:
    """What is known of the running attempt, and forgotten with it."""

    number: AttemptNumber
    tasks: frozenset[TaskId]
    next_trigger_seconds: float | None
    pause_until_seconds: float
    failures: int = 0
    failing: bool = False
    final_requested: bool = False
    final_retry: str | None = None
    """The request whose final checkpoint failed and must be triggered again."""
    final_retry_seconds: float = 0
