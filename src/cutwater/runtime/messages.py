"""What do coordinator and slots say to each other?

Every message about an attempt carries its number, so that one of an older attempt is recognised and ignored.
Encoded as msgpack with the class name as tag.
"""

from __future__ import annotations

from typing import Any

import msgspec

from cutwater.operators.metrics import SlotMetrics
from cutwater.protocol.ids import AttemptNumber, CheckpointId, SlotId, TaskId
from cutwater.runtime.failures import FailureReport
from cutwater.snapshots.format import TaskSnapshot


class Message(msgspec.Struct, frozen=True, tag=True):
    """Base of all messages."""


# From a slot to the coordinator.


class SlotRegistered(Message, frozen=True):
    slot: SlotId
    address: str
    host: str
    pid: int


class MetricsReported(Message, frozen=True):
    """What the tasks of the slot have counted. Signs of life are the line's own business."""

    metrics: SlotMetrics


class LoggedLine(msgspec.Struct, frozen=True, array_like=True):
    """A line that was logged or printed in a slot; see `status.LogLine`."""

    at_ms: int
    level: str
    logger: str
    text: str
    attempt: int = 0
    task: str = ""


class LinesLogged(Message, frozen=True):
    """What user code wrote. Of the slot, not of an attempt: the driver wants to know it also when the job has ended."""

    lines: tuple[LoggedLine, ...]
    dropped: int = 0
    """More than may be sent."""


class OperatorOpening(Message, frozen=True):
    """The slot has the job's code, and now opens and restores this operator of a task; that may take long."""

    attempt: AttemptNumber
    task: TaskId
    operator: str


class AttemptDeployed(Message, frozen=True):
    """All tasks of this slot are open and restored; inputs may be connected to."""

    attempt: AttemptNumber
    restore_seconds: float


class AttemptDropped(Message, frozen=True):
    """Nothing of this attempt is left in the slot: the answer to `DropAttempt`."""

    attempt: AttemptNumber


class FirstRecordProcessed(Message, frozen=True):
    """The first record of the attempt went through a task here."""

    attempt: AttemptNumber


class SplitRequested(Message, frozen=True):
    attempt: AttemptNumber
    operator: str
    subtask: int


class SplitsFinished(Message, frozen=True):
    """Of a source whose splits have an order: these were read to their end."""

    attempt: AttemptNumber
    operator: str
    subtask: int
    splits: tuple[str, ...]


class SplitProgressed(Message, frozen=True):
    """At most once: a batch is about to be emitted; after a failure reading goes on behind it."""

    attempt: AttemptNumber
    operator: str
    subtask: int
    sequence: int
    readers: bytes
    """The open readers behind the batch, and the splits finished since the last one (see operators.source)."""


class SnapshotWritten(Message, frozen=True):
    attempt: AttemptNumber
    checkpoint: CheckpointId
    task: TaskId
    snapshot: TaskSnapshot


class SnapshotRefused(Message, frozen=True):
    attempt: AttemptNumber
    checkpoint: CheckpointId
    task: TaskId
    reason: str


class TaskFinished(Message, frozen=True):
    """All input was processed and passed on; the task waits for the last checkpoint."""

    attempt: AttemptNumber
    task: TaskId


class TaskCommitted(Message, frozen=True):
    """Everything up to this checkpoint is committed by the task's sinks."""

    attempt: AttemptNumber
    task: TaskId
    checkpoint: CheckpointId


class TaskFailed(Message, frozen=True):
    attempt: AttemptNumber
    task: TaskId
    error: FailureReport
    peer_lost: bool = False
    """A channel broke: some other slot is gone, and its own line will say so."""


class ConnectorReport(Message, frozen=True):
    """A value for the driver's side of a connector: plain data, never a pickle."""

    attempt: AttemptNumber
    operator: str
    value: Any


OfAttempt = (
    OperatorOpening
    | AttemptDeployed
    | FirstRecordProcessed
    | SplitRequested
    | SplitProgressed
    | SplitsFinished
    | SnapshotWritten
    | SnapshotRefused
    | TaskFinished
    | TaskCommitted
    | TaskFailed
    | ConnectorReport
)

FromSlot = SlotRegistered | MetricsReported | LinesLogged | AttemptDropped | OfAttempt


# From the coordinator to a slot.


class RestoreOrder(msgspec.Struct, frozen=True):
    """What the tasks of one slot restore: the snapshots that hold their state, and where the files are."""

    folder: str = ""
    tasks: tuple[TaskSnapshot, ...] = ()
    parallelism: dict[str, int] = {}
    """Of each operator when the snapshot was taken."""
    storage_url: str | None = None
    """Where the folder is, when not on the job's own storage."""


class DeployAttempt(Message, frozen=True):
    """Open these tasks, restore them, and report; do not send records yet."""

    attempt: AttemptNumber
    token: str
    job: bytes
    """The cloudpickled JobPlan; empty when the slot has it from an earlier attempt."""
    tasks: tuple[TaskId, ...]
    addresses: dict[str, str]
    """Slot address of each task, by str(TaskId)."""
    restore: RestoreOrder
    run: str = "0"
    """Attempts are numbered within it."""


class StartAttempt(Message, frozen=True):
    """Everyone is deployed: connect and go."""

    attempt: AttemptNumber


class TriggerCheckpoint(Message, frozen=True):
    attempt: AttemptNumber
    checkpoint: CheckpointId
    triggered_ms: int
    savepoint: str = ""
    """Where a savepoint goes; empty for a checkpoint."""


class CheckpointCompleted(Message, frozen=True):
    attempt: AttemptNumber
    checkpoint: CheckpointId


class CheckpointAborted(Message, frozen=True):
    attempt: AttemptNumber
    checkpoint: CheckpointId


class SplitsAssigned(Message, frozen=True):
    attempt: AttemptNumber
    operator: str
    subtask: int
    splits: tuple[tuple[str, bytes], ...]
    no_more: bool = False


class ProgressConfirmed(Message, frozen=True):
    attempt: AttemptNumber
    operator: str
    subtask: int
    sequence: int


class TimeLimited(Message, frozen=True):
    """Sources are aligned: read no split of this task that is further ahead in event time."""

    attempt: AttemptNumber
    operator: str
    subtask: int
    timestamp_ms: int | None


class StopSources(Message, frozen=True):
    """Read no further; what was read goes through to the sinks, then the job ends."""

    attempt: AttemptNumber
    drain: bool = False
    """Event time ends too: windows that are open give what they have."""


class DropAttempt(Message, frozen=True):
    """Drop its tasks, or know that they are gone, and say so."""

    attempt: AttemptNumber


class EndSlot(Message, frozen=True):
    """The slot's process may end: the job is over, or needs fewer slots."""

    job_is_over: bool


ToAttempt = (
    StartAttempt
    | TriggerCheckpoint
    | CheckpointCompleted
    | CheckpointAborted
    | SplitsAssigned
    | ProgressConfirmed
    | TimeLimited
    | StopSources
)

FromCoordinator = DeployAttempt | DropAttempt | EndSlot | ToAttempt

encode = msgspec.msgpack.Encoder().encode
decode_from_slot = msgspec.msgpack.Decoder(FromSlot).decode
decode_from_coordinator = msgspec.msgpack.Decoder(FromCoordinator).decode
