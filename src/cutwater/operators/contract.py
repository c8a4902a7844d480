"""What does a task ask of an operator?

An operator is called by one thread. It receives batches, emits batches through its context, and takes part in
checkpoints through `freeze`. Watermarks, barriers and the end of input are handled by the chain around it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal, Protocol, TypeAlias

from cutwater.batches import Batch
from cutwater.connectors.contract import Attachment, CallersThread, OwnThread
from cutwater.operators.metrics import TaskMetrics
from cutwater.operators.user_metrics import UserMetrics
from cutwater.protocol.ids import AttemptNumber, CheckpointId
from cutwater.protocol.state_layout import StateLayout
from cutwater.state.contract import FrozenKeyedState, KeyedBackend

RunElsewhere: TypeAlias = Callable[[Callable[[], Any], Callable[[Any, BaseException | None], None]], None]
FinishedCalls: TypeAlias = Sequence[tuple[Any, Any, BaseException | None]]
"""What each call was started as, and its result or error."""
PYTHON_ROWS_MAX = 2048
"""Rows of a typed batch that become Python objects at once: more of them don't fit into the processor's cache."""


@dataclass(frozen=True, slots=True)
class FrozenList:
    """Operator state at a barrier: items that are split among the tasks on restore, or all given to each (union)."""

    name: str
    items: tuple[bytes, ...]
    redistribution: Literal["split", "union"] = "split"


@dataclass(frozen=True, slots=True)
class OperatorSnapshot:
    """What one operator adds to a checkpoint."""

    keyed: FrozenKeyedState | None = None
    lists: tuple[FrozenList, ...] = ()
    #: (state, class): pickled objects of a class that must not change.
    pickled: tuple[tuple[str, str], ...] = ()
    #: `Operator.layout` of the keyed state.
    layout: StateLayout = ()
    #: What a savepoint must hold besides. Asked on a background thread, and only for a savepoint.
    attachments: Callable[[], Sequence[Attachment]] = tuple
    #: More of it, which the stream doesn't wait for.
    late: LatePart | None = None

    def with_part(self, part: OperatorSnapshot) -> OperatorSnapshot:
        """This and what came late; only the late part may have attachments."""
        return replace(self, lists=self.lists + part.lists, attachments=part.attachments, late=None)


class LatePart:
    """A part of a snapshot that is known later. Used by the loop's thread."""

    def __init__(self) -> None:
        self._part: OperatorSnapshot | None = None
        self._then: Callable[[OperatorSnapshot], None] | None = None

    def known(self, part: OperatorSnapshot) -> None:
        self._part = part
        if self._then is not None:
            self._then(part)

    def then(self, call: Callable[[OperatorSnapshot], None]) -> None:
        """Calls back, once: now if it is known, or when it is."""
        assert self._then is None, "one waits for it"
        self._then = call
        if self._part is not None:
            call(self._part)


class EventLoop(Protocol):
    """Runs coroutines elsewhere, many at the same time. Used by the loop's thread."""

    def start(self, calls: Sequence[tuple[Any, Callable[[], Awaitable[Any]]]]) -> None:
        """Begins these calls, each with what it is known by when it has finished. Never blocks."""
        ...

    def close(self, last: Callable[[], Awaitable[Any]] | None) -> None:
        """Interrupts what is under way, makes one last call and raises its error. Blocks until then, but not long."""
        ...


@dataclass(slots=True)
class OperatorContext:
    """What an operator may use. Made by the task before `open`."""

    job_id: str
    job_name: str
    uid: str
    name: str
    subtask: int
    parallelism: int
    max_parallelism: int
    attempt: AttemptNumber
    #: The key groups that this task owns.
    groups: range
    now_seconds: Callable[[], float]
    #: Milliseconds since the epoch: processing time.
    wall_ms: Callable[[], int]
    #: What the task tells about itself; an operator counts what it drops here.
    metrics: TaskMetrics
    #: Sends a batch down the main output.
    emit: Callable[[Batch], None]
    #: Sends a batch down a side output; a tag that nobody reads is dropped.
    emit_side: Callable[[str, Batch], None]
    #: Event time has come this far, behind everything emitted. For operators with `forwards_time = False`.
    emit_watermark: Callable[[int], None]
    #: Nothing holds event time back from here, until the next record or watermark.
    emit_idle: Callable[[], None]
    #: Opens this operator's keyed state; the restored state is already in it. None for operators without a key.
    keyed_backend: Callable[[], KeyedBackend]
    #: The restored keyed state as (name, key group, bytes), for operators that keep it in a form of their own.
    restored_keyed: Callable[[], Iterable[tuple[str, int, bytes]]]
    #: The restored items of operator state, by name; empty on a fresh start.
    restored_lists: dict[str, list[bytes]] = field(default_factory=dict)
    #: Runs a function on a background thread, then a callback (result, error) on the loop's thread.
    run_in_background: RunElsewhere = None  # type: ignore[assignment]
    #: The same for opening connections, which may take long: nothing else waits behind it.
    open_elsewhere: RunElsewhere = None  # type: ignore[assignment]
    #: Calls back when a promise is kept or broken: (result, error), on the loop's thread.
    when_done: Callable[[Future[Any], Callable[[Any, BaseException | None], None]], None] = None  # type: ignore[assignment]
    #: Opens an event loop of this operator's own; it is called with calls that have finished, on the loop's thread.
    event_loop: Callable[[Callable[[FinishedCalls], None]], EventLoop] = None  # type: ignore[assignment]
    #: Starts a thread of this operator's own, which the operator closes. From any thread.
    own_thread: Callable[[], OwnThread] = CallersThread
    #: Has the task take its turn soon. From any thread.
    wake: Callable[[], None] = lambda: None
    #: Sends a value to the connector's driver side (`Sink.receive`).
    report: Callable[[Any], None] = None  # type: ignore[assignment]
    #: Attempts are numbered within it.
    run: str = "0"
    #: The job has the operators of the restored snapshot, each with as many tasks: a task reads what it read before.
    same_inputs: bool = True
    #: What the user's function counts; the function knows them as `context.metrics`.
    user_metrics: UserMetrics = field(default_factory=UserMetrics)


class Operator(ABC):
    """The runtime side of one operator, one instance per task."""

    context: OperatorContext
    #: False: watermarks end here, and the operator makes its own (`context.emit_watermark`).
    forwards_time: ClassVar[bool] = True
    #: False: it doesn't matter to what follows whether the input of this operator is idle.
    forwards_idleness: ClassVar[bool] = True
    #: Typed batches come in parts of at most so many rows; None: whole.
    typed_rows_max: ClassVar[int | None] = None

    #: Parts of restored state that the operator has no use for can be left out.
    drops_state_by_name: ClassVar[bool] = False

    @property
    def layout(self) -> StateLayout:
        """What the keyed state consists of, if a snapshot with another one must be refused. Also before `open`."""
        return ()

    @property
    def side_tags(self) -> frozenset[str]:
        """The side outputs that it has by itself."""
        return frozenset()

    @property
    def side_function(self) -> Any:
        """The user's function that may have more of them; None: there is none."""
        return None

    def open(self, context: OperatorContext) -> None:
        """Before the first batch, after state was restored. May block."""
        self.context = context

    def on_start(self) -> None:
        """The outputs are connected: from now on the operator may emit by itself."""

    @abstractmethod
    def process(self, batch: Batch, port: int) -> None:
        """Takes a batch that came in on a port; emits any number of batches."""

    def has_room(self) -> bool:
        """False: the task brings nothing more until `context.wake` was called and this is True. Asked before each piece
        of work, so it must be quick; it must not wait for a barrier, which comes behind that work.
        """
        return True

    def has_room_ahead_of_barrier(self) -> bool:
        """The same while a barrier is expected. An operator whose snapshot holds what it took in can take more, so that
        the barrier needn't wait for it.
        """
        return self.has_room()

    def on_watermark(self, timestamp_ms: int) -> None:
        """Event time has advanced; the chain forwards the watermark afterwards."""

    def in_turn(self, leave: Callable[[], None]) -> None:
        """A watermark or a sign of idleness may leave: call it now, or when all that came in before has left."""
        leave()

    def next_wall_ms(self) -> int | None:
        """When `on_wall_time` wants to be called next; None: never. Asked often, so it must be quick."""
        return None

    def on_wall_time(self, now_ms: int) -> None:
        """Processing time has reached what `next_wall_ms` asked for."""

    def on_idle_input(self) -> None:
        """No input is ready right now: a moment to flush what only waits for more."""

    def on_end(self) -> None:
        """All inputs have ended: emit what is left. The end is forwarded when the operator is `drained`."""

    def drained(self) -> bool:
        """False: it will still emit by itself, though its input has ended. Then it calls `context.wake`."""
        return True

    def before_freeze(self, checkpoint: CheckpointId) -> None:
        """A barrier has come: emit what must be in front of it. The operators above it have done so."""

    def freeze(self, checkpoint: CheckpointId) -> OperatorSnapshot:
        """The synchronous part of a snapshot; must be quick. Nothing may be emitted here."""
        return OperatorSnapshot()

    def on_checkpoint_completed(self, checkpoint: CheckpointId) -> None:
        """The checkpoint is complete and durable. May be skipped for a checkpoint when a later one completes."""

    def busy(self) -> bool:
        """True while background work must end before the task may count as finished (a commit under way)."""
        return False

    def close(self) -> None:
        """Releases what the operator holds. Called once, also after a failure."""


class SourceOperator(Operator):
    """The head of a chain without inputs: the task polls it."""

    @abstractmethod
    def poll(self) -> bool:
        """Emits what can be read now, a batch at the most; False: nothing was there."""

    @property
    @abstractmethod
    def finished(self) -> bool:
        """No record will ever come again."""

    @abstractmethod
    def wants_split(self) -> bool:
        """True once, when the reader needs another split; the task forwards the request."""

    @abstractmethod
    def add_splits(self, splits: Sequence[Any]) -> None: ...

    @abstractmethod
    def no_more_splits(self) -> None: ...

    @property
    @abstractmethod
    def stopped(self) -> bool:
        """The end is not the end of the input: a later run may go on reading."""

    @property
    def alignment(self) -> tuple[str, int] | None:
        """The group of sources that wait for each other, and how far this one may be ahead (ms). Also before `open`.

        Such a source reads no further than its first watermarks before `limit_time` was called."""
        return None

    @property
    def paused(self) -> bool:
        """There are splits, and `limit_time` allows none of them to be read."""
        return False

    @abstractmethod
    def limit_time(self, timestamp_ms: int | None) -> None:
        """Read no split whose watermark is beyond this, so that slower sources can catch up; None: read all."""

    @abstractmethod
    def take_finished(self) -> Sequence[str]:
        """Splits that were read to their end since the last call, if others may wait for that."""

    @abstractmethod
    def stop(self) -> None:
        """Read no further. Unfinished splits stay in the snapshots, so that a later run can go on with them."""

    @abstractmethod
    def wake_at(self) -> float | None: ...

    @abstractmethod
    def take_progress(self) -> tuple[int, bytes] | None:
        """At most once: a batch was read and waits; (its sequence, the encoded readers behind it), once per batch."""

    @abstractmethod
    def confirm(self, sequence: int) -> None:
        """At most once: the coordinator knows the progress up to this batch; it may be emitted."""

    def process(self, batch: Batch, port: int) -> None:
        raise AssertionError("a source has no input")


def tags_of(*tags: str | None) -> frozenset[str]:
    """Those that there are."""
    return frozenset(tag for tag in tags if tag is not None)
