"""What must a source and a sink promise?

A source is split into parts that can each be read on their own and resumed at a position. A sink either takes part in
the checkpoint (`prepare` → committables in the snapshot → `commit` after it completed) or it doesn't, and says so.
Sources and sinks are pickled with the job and sent to the slots, so they hold settings, not connections.

All tasks of a slot share one thread, its loop. What it calls may not wait on the outside: readers and writers are
opened on other threads, and those that talk to a server do it on a thread of their own (`bases/`).
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, MutableMapping, Sequence, Set
from concurrent.futures import Future
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, TypeAlias

import pyarrow as pa

from cutwater.batches import Batch
from cutwater.protocol.ids import AttemptNumber, CheckpointId
from cutwater.protocol.known_origins import KnownOrigins
from cutwater.protocol.splits import Split

if TYPE_CHECKING:
    # With a default: a source that says nothing of its records is one of Any.
    from typing_extensions import TypeVar

    Record = TypeVar("Record", default=Any, covariant=True)
else:
    from typing import TypeVar

    Record = TypeVar("Record", covariant=True)


class Replay(StrEnum):
    """Can a source read again what it has read before?"""

    REPLAYABLE = "replayable"
    #: What a checkpoint has not acknowledged comes again, and so may what it holds: the source can't tell them apart.
    REDELIVERED = "redelivered"
    NOT_REPLAYABLE = "not_replayable"


class Delivery(StrEnum):
    """How a sink hands its records on."""

    TRANSACTIONAL = "transactional"
    IDEMPOTENT = "idempotent"
    WRITE_AHEAD = "write_ahead"
    FINGERPRINT = "fingerprint"
    PLAIN = "plain"


@dataclass(frozen=True, slots=True)
class Discovery:
    """Splits found by one look. `complete`: none will follow."""

    splits: tuple[Split, ...]
    complete: bool
    #: Digests of known origins that the look did not find; None: it can't tell, e.g. because it found nothing at all.
    gone: Set[bytes] | None = None
    #: What the next look is given, also after a restart: it is in every snapshot.
    state: bytes = b""


@dataclass(frozen=True, slots=True)
class ReaderContext:
    """Who reads, and how the reader gets the loop's attention."""

    job_id: str = ""
    uid: str = ""
    subtask: int = 0
    attempt: AttemptNumber = field(default=AttemptNumber(0))
    #: Says that `read` has something, or that the reader failed. From any thread; costs next to nothing.
    wake: Callable[[], None] = field(default=lambda: None, compare=False)
    #: True: what can't be decoded is handed over by `SplitReader.take_unreadable`. False: it raises.
    tolerant: bool = False
    #: For what the readers of one task share, such as a client of all their partitions. Readers of a task may be
    #: opened at the same time: use `setdefault`.
    shared: MutableMapping[str, Any] = field(default_factory=dict, compare=False)


@dataclass(frozen=True, slots=True)
class DriverContext:
    """What the driver's side of a source or sink has to work with."""

    job_id: str
    uid: str
    #: Where the checkpoints are, a URL; None: in the driver's memory.
    storage: str | None
    #: The SparkSession that runs the job. May block for seconds.
    spark: Callable[[], Any] = field(compare=False)


@dataclass(frozen=True, slots=True)
class Unreadable:
    """What a source got and could not decode."""

    #: As it came: for most sources, the bytes.
    raw: Any
    #: Within its split, for people.
    position: object
    error: BaseException
    #: The user's function that was to decode it; None: there is none.
    function: object = None


class Source(ABC, Generic[Record]):
    """Where records come from."""

    replay: Replay = Replay.REPLAYABLE
    #: True: all splits are spread over the tasks at once (splits that never end).
    #: False: a task asks for the next split when it is done with one (splits that end).
    eager: bool = False
    #: Seconds between two looks for new splits, while discovery isn't complete.
    discovery_interval_seconds: float = 1.0
    #: True: splits may name others in `Split.after`, and are read when those have been read to their end.
    has_successors: bool = False
    #: True: `checkpoint_completed` is called.
    hears_of_checkpoints: bool = False
    #: True: its driver's side runs Spark jobs, which need a core besides those of the slots.
    uses_spark: bool = False
    #: True: its readers obey `ReaderContext.tolerant`. False: `on_error` other than "fail" is refused.
    can_tolerate: bool = False
    #: False: its input has no end.
    bounded: bool = True

    @property
    @abstractmethod
    def name(self) -> str:
        """A few words for plans and messages, e.g. `files(books/*.txt)`."""

    @property
    def schema(self) -> pa.Schema | None:
        """The Arrow schema of every batch; None: a stream of Python values."""
        return None

    def narrowed(self, columns: frozenset[str], as_keys: frozenset[str]) -> Source:
        """A source of the same records with these columns only, if that is cheaper; positions mean the same.

        `as_keys` are columns that are grouped by: strings may come dictionary-encoded.
        """
        return self

    @abstractmethod
    def discover(self, parallelism: int) -> Discovery:
        """Lists the splits there are now. In the driver, off the coordinator's thread: may block.

        Called until it says complete, every `discovery_interval_seconds`. Splits that were found before may be
        found again: they are recognised by their origin.
        """

    def discover_new(self, parallelism: int, known: KnownOrigins, state: bytes = b"") -> Discovery:
        """`discover`, when splits of these origins need not be listed. What the runtime calls: in the same way.

        A source that may find very many splits overrides it, and says what is gone, so that it can be forgotten.
        `state` is that of the look before; empty on the first look of all.
        """
        return self.discover(parallelism)

    def introduced(self, context: DriverContext) -> Source:
        """The same source for this job on Spark. In the driver, before `check` and before it is sent to slots."""
        return self

    def check(self) -> None:
        """Raises a clear error when there is nothing to read from. In the driver, before the job starts: may block."""

    def checkpoint_completed(self, unread: Set[str], state: bytes) -> None:
        """No look will ever be given an older state than this one, and of all splits that were found up to it only
        these will be read again. In the driver, off the coordinator's thread: may block. The next checkpoint waits.
        """

    def job_ended(self) -> None:
        """The job is over. In the driver, once. Must not wait long."""

    @abstractmethod
    def reader(self, split: Split, position: Any, context: ReaderContext) -> SplitReader:
        """Opens a split at a position (None: its beginning). In a slot, off the loop's thread: may block."""


class SplitReader(ABC):
    """Reads one split. Used by the loop's thread, also where it was opened by another."""

    #: True: `context.wake` is called when `read` has something. False: it is asked again and again.
    wakes_loop: ClassVar[bool] = False

    @abstractmethod
    def read(self, limit: int, now_seconds: float) -> Batch | None:
        """Up to `limit` records that are there now; None: nothing now (or ever, see `finished`). Must not wait."""

    def take_unreadable(self) -> Sequence[Unreadable]:
        """What the last `read` came across and could not decode. Asked after every `read` of a tolerant reader, also
        after one that returned nothing; the position is behind all of it.
        """
        return ()

    @property
    @abstractmethod
    def position(self) -> Any:
        """Where to resume, after everything that `read` has returned: builtins that msgspec can encode."""

    @property
    @abstractmethod
    def finished(self) -> bool:
        """True when `read` will never return a record again."""

    @property
    def watermark_ms(self) -> int | None:
        """Event time in this split as the outside world tells it (`watermarks.injected`); None: it doesn't."""
        return None

    @property
    def lag(self) -> int | None:
        """Records that are there and were not read yet, as far as the outside tells; None: it doesn't."""
        return None

    def wake_at(self) -> float | None:
        """When `read` may have something, if that is known (a rate limit); None: when the reader wakes the loop, or,
        if it never does, ask again soon.
        """
        return None

    def checkpoint_completed(self, position: Any) -> None:
        """What was read up to this position will never be read again: now it may be acknowledged. Must not wait."""

    def close(self) -> None:
        """Releases what the reader holds. Called once, also after a failure. Must not wait long."""


class OwnThread(Protocol):
    """A thread that a writer has for itself, for code that may take long and isn't ours. Used by the loop's thread."""

    def submit(self, work: Callable[[], Any], done: Callable[[Any, BaseException | None], None]) -> None:
        """Runs `work` there, one after the other, and then `done(result, error)` on the loop's thread."""
        ...

    def close(self) -> None:
        """What has not begun is forgotten. What runs is waited for, but not long, and `done` is not called."""
        ...


class CallersThread:
    """An `OwnThread` that is none: for a writer without a job around it. Everything is done at once."""

    def submit(self, work: Callable[[], Any], done: Callable[[Any, BaseException | None], None]) -> None:
        try:
            result = work()
        except BaseException as error:  # the writer decides
            done(None, error)
        else:
            done(result, None)

    def close(self) -> None:
        """There is nothing to close."""


@dataclass(frozen=True, slots=True)
class WriterContext:
    """Who writes: enough to make names that no other task and no other attempt uses."""

    job_id: str
    uid: str
    subtask: int
    parallelism: int
    attempt: AttemptNumber
    #: Sends a value to the driver's side of this sink (`Sink.receive`); the collecting sink lives on it. Plain data
    #: that msgpack knows: None, bool, int, float, str, bytes, lists and dicts of them.
    report: Any = field(default=None, compare=False)
    #: Attempts are numbered within it: a run begins when a job is started, and goes on with restore="latest".
    run: str = "0"
    #: Says that the writer has room again, or that it failed. From any thread; costs next to nothing.
    wake: Callable[[], None] = field(default=lambda: None, compare=False)
    #: Starts a thread of the writer's own, which the writer closes.
    own_thread: Callable[[], OwnThread] = field(default=CallersThread, compare=False)
    #: A clock that only goes forward.
    now_seconds: Callable[[], float] = field(default=time.monotonic, compare=False)
    #: Milliseconds since the epoch: processing time.
    wall_ms: Callable[[], int] = field(default=lambda: time.time_ns() // 1_000_000, compare=False)


Pieces = Callable[[], Iterable[bytes]]
"""Reads something large, some bytes at a time, from its start. May block; raises when it can't be read."""


@dataclass(frozen=True, slots=True)
class Attachment:
    """Bytes outside the snapshot that a committable stands for. The name is one that no other of the sink has."""

    name: str
    pieces: Pieces


class Sink(ABC):
    """Where records go."""

    delivery: Delivery = Delivery.PLAIN
    #: Typed batches may come with columns that are codes of a dictionary; else the values are spelled out before.
    takes_encoded: bool = False
    #: True: event time that no column of the user's holds comes with a typed batch, see `batches`; else it is left out.
    takes_times: bool = False
    #: True: `commit` is called in the driver, off the coordinator's thread, with what all tasks have prepared and no
    #: commit has succeeded for; in the slots the writers' own `commit` must do nothing. One call at a time. The next
    #: checkpoint is not complete before, and the job doesn't end before.
    commits_in_driver: bool = False
    #: True: its driver's side runs Spark jobs, which need a core besides those of the slots.
    uses_spark: bool = False

    @property
    @abstractmethod
    def name(self) -> str:
        """A few words for plans and messages, e.g. `parquet(out/)`."""

    @abstractmethod
    def writer(self, context: WriterContext) -> SinkWriter:
        """Opens the writer of one task. In a slot, off the loop's thread: may block. Records wait meanwhile."""

    def introduced(self, context: DriverContext) -> Sink:
        """The same sink for this job on Spark. In the driver, before `check` and before it is sent to slots."""
        return self

    def check(self, *, restores: bool = False) -> None:
        """Raises a clear error when the target can't be written. In the driver, before the job starts.

        `restores`: the job goes on from a snapshot, so that output of its own may be there already; otherwise what is
        there is not its own.
        """

    def commit(self, committables: Sequence[bytes]) -> None:
        """Makes prepared work visible. Idempotent: may be called again with the same after a failure, anywhere."""

    def attachments(self, committables: Sequence[bytes]) -> Sequence[Attachment]:
        """What a savepoint must hold a copy of, so that these can be committed whatever happens outside.

        In a slot, on a background thread, while the savepoint is written; the copies are read there, too. Meanwhile
        the committables may be committed. None for a sink whose committables are all there is to commit.
        """
        return ()

    def recover(
        self,
        *,
        job_id: str,
        uid: str,
        committables: Sequence[bytes],
        attempt: AttemptNumber | None = None,
        run: str = "0",
        attached: Mapping[str, Pieces] | None = None,
        parallelism_before: int | None = None,
    ) -> None:
        """Before an attempt starts: commit exactly these, roll back all else that this run prepared. In the driver.

        Only what attempts before this one prepared (None: all): a driver that was thought dead may recover late, when
        a newer attempt has begun to write. And only what this run prepared: what another one prepared may be in a
        snapshot that is restored later.

        `parallelism_before`: how many tasks wrote before the snapshot; None: there is no snapshot.

        `attached`: from a savepoint, by name, what `attachments` gave to it. The savepoint may be restored several
        times, by jobs whose sink of this uid has other settings.

        The default commits; a sink whose unfinished work is visible or takes room overrides it.
        """
        self.commit(committables)

    def job_ended(self, failure: BaseException | None) -> None:
        """The job is over; nothing will be reported any more. In the driver, once."""

    def receive(self, value: Any) -> None:
        """A value that a writer or a commit reported. In the driver."""


Prepared: TypeAlias = "Sequence[bytes] | Future[Sequence[bytes]]"
"""Committables, or the promise of them: the stream goes on meanwhile, and the snapshot waits."""


class SinkWriter(ABC):
    """Writes for one task. Used by the loop's thread, also where it was opened by another; `commit` is not."""

    def __init__(self, sink: Sink) -> None:
        self.sink = sink

    def has_room(self) -> bool:
        """False: no record is brought until `context.wake` was called and this is True. Raises when writing failed."""
        return True

    @abstractmethod
    def write(self, batch: Batch) -> None:
        """Takes the records, when there was room. Must not wait on the outside."""

    def prepare(self, checkpoint: CheckpointId) -> Prepared:
        """The barrier is here: everything written so far goes into these committables (may be none).

        A writer without committables promises none when the outside has acknowledged what was written before.
        """
        return []

    def release(self) -> None:
        """What the next `prepare` gives must hold nothing back for a later commit: it may be the last one."""

    def commit(self, committables: Sequence[bytes]) -> None:
        """Publishes after the checkpoint completed. On a background thread. Default: the sink's own commit.

        A writer overrides it when publishing needs its context, e.g. to report to the driver.
        """
        self.sink.commit(committables)

    def flush(self) -> None:
        """Hands on what is buffered; called at barriers, at the end and when the stream pauses (plain sinks).

        Must not wait on the outside: `prepare` does, by a promise.
        """

    def close(self) -> None:
        """Releases what the writer holds; unprepared work is dropped. Called once, also after a failure. Must not
        wait long.
        """
