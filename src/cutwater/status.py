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
    """One checkpoint: finished, or under way."""

    checkpoint: int
    kind: str
    attempt: int
    outcome: str
    """"completed", "under way", or why it was aborted."""
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

    tasks_acknowledged: int = 0
    tasks_total: int = 0

    @property
    def completed(self) -> bool:
        return self.outcome == "completed"


@dataclass(frozen=True, slots=True)
class TaskCheckpointStatus:
    """The barrier's way through one task. The times follow each other: each begins where the one before ends."""

    task: str
    start_delay_seconds: float
    """From the trigger until the first barrier was there; of a source: until it heard of the trigger."""
    alignment_seconds: float
    """Until the barrier was there on all inputs."""
    sync_seconds: float
    """Until the state was frozen and the barrier passed on. Meanwhile the task did nothing else."""
    async_seconds: float
    """Until the state was written, beside the task's work."""
    acknowledged_seconds: float
    """From the trigger until the coordinator had heard of it."""
    size_bytes: int = 0
    new_bytes: int = 0


@dataclass(frozen=True, slots=True)
class CheckpointDetails:
    """A checkpoint, task by task: those that have acknowledged."""

    checkpoint: CheckpointStatus
    tasks: tuple[TaskCheckpointStatus, ...] = ()


@dataclass(frozen=True, slots=True)
class LatencyStatus:
    """How long barriers took from the trigger to the last tasks of the job, over the newest checkpoints.

    A barrier flows with the records and waits in the same queues: so long a record takes, at most.
    """

    p50_seconds: float
    p95_seconds: float
    p99_seconds: float
    samples: int


@dataclass(frozen=True, slots=True)
class OperatorStateStatus:
    """What an operator had in the newest completed checkpoint."""

    operator: str
    size_bytes: int
    task_bytes: tuple[int, ...] = ()
    """By subtask."""
    group_bytes: tuple[int, ...] = ()
    """Of keyed state, in the order of the key groups: each is the sum over so many neighbours that there are at most
    64. Empty where the backend doesn't tell groups apart (RocksDB)."""
    largest_group: int | None = None
    largest_group_bytes: int = 0


@dataclass(frozen=True, slots=True)
class MetricStatus:
    """A metric of the user's: `context.metrics`."""

    name: str
    kind: str
    """"counter", "gauge" or "histogram"."""
    value: float
    """Of a histogram: the sum of what was observed."""
    count: int = 0
    bounds: tuple[float, ...] = ()
    """Upper ends of a histogram's buckets; the last bucket has none."""
    counts: tuple[int, ...] = ()
    """What fell into each bucket: one more than there are bounds."""


@dataclass(frozen=True, slots=True)
class OperatorActivity:
    """What one operator of a task did since the attempt started."""

    operator: str
    records_in: int
    records_out: int
    busy_seconds: float
    """In this operator alone, without those that it called."""
    records_in_per_second: float = 0.0
    records_out_per_second: float = 0.0
    busy_share: float = 0.0
    """Of the last seconds, like the rates."""
    metrics: tuple[MetricStatus, ...] = ()


@dataclass(frozen=True, slots=True)
class TaskStatus:
    """What a task counted since its attempt started; rates and shares are of the last seconds."""

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
    records_in_per_second: float = 0.0
    records_out_per_second: float = 0.0
    busy_share: float = 0.0
    idle_share: float = 0.0
    backpressured_share: float = 0.0
    operators: tuple[OperatorActivity, ...] = ()
    """In the order of the chain."""


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
class LogLine:
    """A line that a slot or the driver wrote."""

    number: int
    """Counts all lines of the job, so that a reader can go on where it was."""
    at_ms: int
    level: str
    """"INFO", "WARNING", …; "PRINT" for what was printed."""
    logger: str
    text: str
    slot: str = ""
    """Empty: the driver."""
    attempt: int = 0
    task: str = ""
    """Whose turn it was."""


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
    checkpoints_under_way: tuple[CheckpointStatus, ...] = ()
    checkpoints_completed: int = 0
    checkpoints_failed: int = 0
    latency: LatencyStatus | None = None
    """None: no checkpoint has completed yet."""
    operator_states: tuple[OperatorStateStatus, ...] = ()
    recoveries: tuple[RecoveryStatus, ...] = ()
    """The newest ones, oldest first."""
    restarts: int = 0
    """All of them."""
    as_of_ms: int = 0
    """When this was so: milliseconds since the epoch."""
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

    def __str__(self) -> str:
        from cutwater.terminal.text import text_of_status

        return text_of_status(self)


@dataclass(frozen=True, slots=True, repr=False)
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

    def __str__(self) -> str:
        from cutwater.terminal.text import text_of_result

        return text_of_result(self)

    def __repr__(self) -> str:
        return f"<JobResult: {self}>"
