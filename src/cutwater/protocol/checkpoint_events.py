"""What does the checkpoint coordinator hear, and what can it ask for?"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from cutwater.errors import ConfigurationError
from cutwater.protocol.ids import AttemptNumber, CheckpointId, TaskId


class CheckpointKind(StrEnum):
    """Why a checkpoint is taken, and so who owns the snapshot."""

    CHECKPOINT = "checkpoint"
    """For recovery; ours to delete."""
    SAVEPOINT = "savepoint"
    """A user asked for it and owns it; we never delete a completed one."""
    FINAL = "final"
    """All input was read: the last one, after which everything that was prepared is committed."""


@dataclass(frozen=True, slots=True)
class CheckpointPolicy:
    """How often, how long, how many. `interval_seconds=None`: only on request."""

    interval_seconds: float | None
    timeout_seconds: float = 600
    min_pause_seconds: float = 0
    max_concurrent: int = 1
    tolerable_failures: int = 0
    retain: int = 3

    def __post_init__(self) -> None:
        if self.interval_seconds is not None and self.interval_seconds <= 0:
            raise ConfigurationError(f"the checkpoint interval must be positive, not {self.interval_seconds} s")
        if self.timeout_seconds <= 0:
            raise ConfigurationError(f"the checkpoint timeout must be positive, not {self.timeout_seconds} s")
        if self.min_pause_seconds < 0:
            raise ConfigurationError(f"the pause between checkpoints can't be negative ({self.min_pause_seconds} s)")
        if self.max_concurrent < 1:
            raise ConfigurationError(f"at least one checkpoint must be allowed at a time, not {self.max_concurrent}")
        if self.tolerable_failures < 0:
            raise ConfigurationError(f"tolerable checkpoint failures can't be negative ({self.tolerable_failures})")
        if self.retain < 1:
            raise ConfigurationError(
                f"at least one completed checkpoint must be retained, not {self.retain}",
                hint="without one the job could recover from nothing",
            )


@dataclass(frozen=True, slots=True)
class AttemptStarted:
    """All tasks of the attempt run. `restored` names a snapshot of this job; None: it began empty or from elsewhere.

    `next_checkpoint` is the lowest id that no attempt of this job has used. `kept` are completed checkpoints of earlier
    attempts that are still there: those before the restored one count as retained, whichever driver took them.
    """

    attempt: AttemptNumber
    tasks: frozenset[TaskId]
    restored: CheckpointId | None
    next_checkpoint: CheckpointId
    now_seconds: float
    kept: tuple[CheckpointId, ...] = ()


@dataclass(frozen=True, slots=True)
class AttemptStopped:
    """The attempt's tasks are gone or going; whatever they still say is ignored."""


@dataclass(frozen=True, slots=True)
class ClockTicked:
    """Time passed; useful at `wake_at()`, harmless at any other moment."""

    now_seconds: float


@dataclass(frozen=True, slots=True)
class CheckpointRequested:
    """Somebody wants a snapshot now; `request` names who is to be answered."""

    kind: CheckpointKind
    request: str
    now_seconds: float


@dataclass(frozen=True, slots=True)
class SnapshotAcknowledged:
    """The task's part of the snapshot is durable."""

    attempt: AttemptNumber
    checkpoint: CheckpointId
    task: TaskId
    now_seconds: float


@dataclass(frozen=True, slots=True)
class SnapshotDeclined:
    """The task can't deliver its part."""

    attempt: AttemptNumber
    checkpoint: CheckpointId
    task: TaskId
    reason: str
    now_seconds: float


@dataclass(frozen=True, slots=True)
class ManifestPublished:
    """The snapshot is complete and durable: recovery would find it."""

    attempt: AttemptNumber
    checkpoint: CheckpointId
    now_seconds: float


@dataclass(frozen=True, slots=True)
class PublishFailed:
    """The manifest could not be written."""

    attempt: AttemptNumber
    checkpoint: CheckpointId
    reason: str
    now_seconds: float


@dataclass(frozen=True, slots=True)
class TriggerCheckpoint:
    """Tell every task of the attempt to begin the checkpoint."""

    attempt: AttemptNumber
    checkpoint: CheckpointId
    kind: CheckpointKind
    request: str | None


@dataclass(frozen=True, slots=True)
class PublishManifest:
    """All parts are durable: write the manifest and answer with its fate."""

    attempt: AttemptNumber
    checkpoint: CheckpointId
    kind: CheckpointKind


@dataclass(frozen=True, slots=True)
class NotifyCompleted:
    """Tell every task, and the requester if there is one."""

    attempt: AttemptNumber
    checkpoint: CheckpointId
    kind: CheckpointKind
    request: str | None


@dataclass(frozen=True, slots=True)
class NotifyAborted:
    """Tell every task; `request` is set if the request ends with it (a final checkpoint is tried again instead)."""

    attempt: AttemptNumber
    checkpoint: CheckpointId
    reason: str
    request: str | None


@dataclass(frozen=True, slots=True)
class DiscardSnapshot:
    """Delete what is there of the snapshot; asked twice, the second finds little or nothing."""

    checkpoint: CheckpointId


@dataclass(frozen=True, slots=True)
class RefuseRequest:
    """Answer the requester: there will be no snapshot."""

    request: str
    reason: str


@dataclass(frozen=True, slots=True)
class FailAttempt:
    """Too many checkpoints failed in a row; asked at most once per attempt."""

    reason: str


CheckpointEvent = (
    AttemptStarted
    | AttemptStopped
    | ClockTicked
    | CheckpointRequested
    | SnapshotAcknowledged
    | SnapshotDeclined
    | ManifestPublished
    | PublishFailed
)
CheckpointEffect = (
    TriggerCheckpoint
    | PublishManifest
    | NotifyCompleted
    | NotifyAborted
    | DiscardSnapshot
    | RefuseRequest
    | FailAttempt
)
