"""What must a source and a sink promise?

A source is split into parts that can each be read on their own and resumed at a position. A sink either takes part in
the checkpoint (`prepare` → committables in the snapshot → `commit` after it completed) or it doesn't, and says so.
Sources and sinks are pickled with the job and sent to the slots, so they hold settings, not connections.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import pyarrow as pa

from cutwater.batches import Batch
from cutwater.protocol.ids import AttemptNumber, CheckpointId
from cutwater.protocol.known_origins import KnownOrigins
from cutwater.protocol.splits import Split


class Replay(StrEnum):
    """Can a source read again what it has read before?"""

    REPLAYABLE = "replayable"
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


class Source(ABC):
    """Where records come from."""

    replay: Replay = Replay.REPLAYABLE
    #: True: all splits are spread over the tasks at once (splits that never end).
    #: False: a task asks for the next split when it is done with one (splits that end).
    eager: bool = False
    #: Seconds between two looks for new splits, while discovery isn't complete.
    discovery_interval_seconds: float = 1.0

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

    def discover_new(self, parallelism: int, known: KnownOrigins) -> Discovery:
        """`discover`, when splits of these origins need not be listed. What the runtime calls: in the same way.

        A source that may find very many splits overrides it, and says what is gone, so that it can be forgotten.
        """
        return self.discover(parallelism)

    @abstractmethod
    def reader(self, split: Split, position: Any) -> SplitReader:
        """Opens a split at a position (None: its beginning). In a slot, on the loop's thread."""


class SplitReader(ABC):
    """Reads one split. Used by one thread."""

    @abstractmethod
    def read(self, limit: int, now_seconds: float) -> Batch | None:
        """Up to `limit` records that are there now; None: nothing now (or ever, see `finished`). Must not wait."""

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

    def wake_at(self) -> float | None:
        """When `read` may have something, if that is known (a rate limit); None: ask again soon."""
        return None

    def close(self) -> None:
        """Releases what the reader holds. Called once, also after a failure."""


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

    @property
    @abstractmethod
    def name(self) -> str:
        """A few words for plans and messages, e.g. `parquet(out/)`."""

    @abstractmethod
    def writer(self, context: WriterContext) -> SinkWriter:
        """Opens the writer of one task. In a slot, on the loop's thread."""

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
    ) -> None:
        """Before an attempt starts: commit exactly these, roll back all else that this run prepared. In the driver.

        Only what attempts before this one prepared (None: all): a driver that was thought dead may recover late, when
        a newer attempt has begun to write. And only what this run prepared: what another one prepared may be in a
        snapshot that somebody restores later.

        `attached`: from a savepoint, by name, what `attachments` gave to it. The savepoint may be restored several
        times, by jobs whose sink of this uid has other settings.

        The default commits; a sink whose unfinished work is visible or takes room overrides it.
        """
        self.commit(committables)

    def job_ended(self, failure: BaseException | None) -> None:
        """The job is over; nothing will be reported any more. In the driver, once."""

    def receive(self, value: Any) -> None:
        """A value that a writer or a commit reported. In the driver."""


class SinkWriter(ABC):
    """Writes for one task. Used by one thread, but for `commit`."""

    def __init__(self, sink: Sink) -> None:
        self.sink = sink

    @abstractmethod
    def write(self, batch: Batch) -> None:
        """Takes the records. May block for as long as the outside needs (that is backpressure)."""

    def prepare(self, checkpoint: CheckpointId) -> list[bytes]:
        """The barrier is here: everything written so far goes into these committables (may be none)."""
        return []

    def commit(self, committables: Sequence[bytes]) -> None:
        """Publishes after the checkpoint completed. On a background thread. Default: the sink's own commit.

        A writer overrides it when publishing needs its context, e.g. to report to the driver.
        """
        self.sink.commit(committables)

    def flush(self) -> None:
        """Hands on what is buffered; called at barriers, at the end and when the stream pauses (plain sinks)."""

    def close(self) -> None:
        """Releases what the writer holds; unprepared work is dropped. Called once, also after a failure."""
