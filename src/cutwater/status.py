"""How is a job doing? Plain values, all the way down: a job handle, the control service and the tests read them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from cutwater.errors import CutwaterError, described
from cutwater.protocol.lifecycle import JobState


@dataclass(frozen=True, slots=True)
class FailureStatus:
    """What an error says."""

    kind: str
    """The name of its class, e.g. "UserFunctionError"."""
    fact: str
    detail: str = ""
    hint: str = ""

    def __str__(self) -> str:
        return described(self.fact, self.detail, self.hint)


def failure_of(error: BaseException) -> FailureStatus:
    """An error as data."""
    if isinstance(error, CutwaterError):
        return FailureStatus(type(error).__name__, error.fact, error.detail, error.hint)
    return FailureStatus(type(error).__name__, str(error) or type(error).__name__)


@dataclass(frozen=True, slots=True)
class OperatorStatus:
    """One operator of a chain."""

    uid: str
    name: str
    kind: str
    """"source", "operator" or "sink"."""
    written_at: str = ""
    """"wordcount.py:12", where the user wrote it."""


@dataclass(frozen=True, slots=True)
class ChainStatus:
    """Neighbouring operators that run as one task, as often as the parallelism says."""

    uid: str
    name: str
    parallelism: int
    operators: tuple[OperatorStatus, ...]


@dataclass(frozen=True, slots=True)
class EdgeStatus:
    """Records go from one chain to another."""

    sender: str
    receiver: str
    partitioning: str
    tag: str | None = None
    """The side output that it carries; None: the main output."""


@dataclass(frozen=True, slots=True)
class GraphStatus:
    """What is deployed; senders come before receivers."""

    chains: tuple[ChainStatus, ...] = ()
    edges: tuple[EdgeStatus, ...] = ()


@dataclass(frozen=True, slots=True)
class CheckpointStatus:
    """One finished checkpoint."""

    checkpoint: int
    kind: str
    attempt: int
    outcome: str
    """"completed", or why it was aborted."""
    duration_seconds: float
    triggered_at_ms: int = 0
    """When it began: milliseconds since the epoch."""
    size_bytes: int = 0
    new_bytes: int = 0
    """What was written for it; the rest of its size is shared with earlier ones."""
    start_delay_seconds_max: float = 0.0
    """From the trigger until the first barrier had reached the last task."""
    sync_seconds_max: float = 0.0
    async_seconds_max: float = 0.0
    alignment_seconds_max: float = 0.0
    source_pause_seconds_max: float = 0.0
    """The longest time that a source had no turn, from the trigger until its snapshot was written."""

    @property
    def completed(self) -> bool:
        return self.outcome == "completed"


@dataclass(frozen=True, slots=True)
class TaskStatus:
    """What a task counted since its attempt started."""

    task: str
    slot: str
    records_in: int
    records_out: int
    busy_seconds: float
    idle_seconds: float
    backpressured_seconds: float
    alignment_seconds: float
    queued_elements: int
    watermark_ms: int | None = None
    """How far event time has come here; None: nowhere yet."""
    late_records: int = 0
    bad_timestamps: int = 0
    skipped_records: int = 0
    dead_letters: int = 0
    lag: Mapping[str, int] = field(default_factory=dict)
    """By split of a source that knows: records that are there and were not read yet."""


@dataclass(frozen=True, slots=True)
class SlotStatus:
    """A registered slot."""

    slot: str
    host: str
    pid: int
    tasks: int


@dataclass(frozen=True, slots=True)
class RecoveryStatus:
    """A failure and how long the way back took, each time counted from the moment it was noticed."""

    attempt: int
    """The attempt that failed; 0: none could begin."""
    cause: str
    noticed_at_seconds: float
    noticed_at_ms: int = 0
    """The same as a time of day: milliseconds since the epoch."""
    restored_checkpoint: int | None = None
    slots_ready_seconds: float | None = None
    deployed_seconds: float | None = None
    restore_seconds: float | None = None
    first_record_seconds: float | None = None
    skipped: tuple[tuple[int, str], ...] = ()
    """Damaged snapshots that were passed over, with what is wrong with them."""


@dataclass(frozen=True, slots=True)
class JobStatus:
    """A job at one moment."""

    job_id: str
    name: str
    state: JobState
    attempt: int
    waiting_for: str = ""
    """What holds up the start: missing slots, or an operator that takes long to open."""
    failure: FailureStatus | None = None
    """Of a job that failed."""
    graph: GraphStatus = GraphStatus()
    slots: tuple[SlotStatus, ...] = ()
    tasks: tuple[TaskStatus, ...] = ()
    checkpoints: tuple[CheckpointStatus, ...] = ()
    """The newest ones, oldest first."""
    checkpoints_completed: int = 0
    checkpoints_failed: int = 0
    recoveries: tuple[RecoveryStatus, ...] = ()
    """The newest ones, oldest first."""
    restarts: int = 0
    """All of them."""
    running_seconds: float = 0.0
    """How long the current attempt, or the last one, has been running: from its start to the end of its input."""
    warnings: tuple[str, ...] = ()
    """The newest ones, oldest first."""
    warnings_total: int = 0

    @property
    def late_records(self) -> int:
        """Records of this attempt that came too late for their window or join and went to no side output."""
        return sum(task.late_records for task in self.tasks)

    @property
    def bad_timestamps(self) -> int:
        """Records of this attempt that were dropped because their timestamp was missing or absurd."""
        return sum(task.bad_timestamps for task in self.tasks)

    @property
    def skipped_records(self) -> int:
        """Records of this attempt that failed and were dropped: `on_error="skip"`."""
        return sum(task.skipped_records for task in self.tasks)

    @property
    def dead_letters(self) -> int:
        """Records of this attempt that failed and became dead letters: `on_error="dead_letter"`."""
        return sum(task.dead_letters for task in self.tasks)


@dataclass(frozen=True, slots=True)
class JobResult:
    """A job that ended well: finished, stopped or cancelled. A failure is raised, not returned."""

    status: JobStatus
    duration_seconds: float

    @property
    def state(self) -> JobState:
        return self.status.state

    @property
    def restarts(self) -> int:
        return self.status.restarts

    @property
    def checkpoints_completed(self) -> int:
        return self.status.checkpoints_completed
