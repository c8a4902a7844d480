"""How do results come back to the driver, each exactly once?

By write-ahead: the records of an epoch are themselves the committable, in the snapshot, with an id that no other epoch
has. To commit is to send it to the driver, which drops an id that it has seen.
"""

from __future__ import annotations

import io
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
import pyarrow as pa

from cutwater.batches import Batch, ObjectBatch, concatenate, rows_of
from cutwater.connectors.contract import Delivery, Sink, SinkWriter, WriterContext
from cutwater.connectors.pickling import pickle_values, unpickle_values
from cutwater.protocol.ids import CheckpointId


def collect() -> CollectSink:
    """Brings every record to the driver: iterate over the sink's `collected`.

    Transactional: each record arrives exactly once, when its checkpoint has completed. Records keep the order of
    their task; tasks interleave. All results lie in snapshots on their way and then in the driver's memory until they
    are taken: for large results write files.
    """
    return CollectSink(Collected())


class _Epoch(msgspec.Struct, frozen=True, array_like=True):
    """A committable: what one writer received between two barriers. Typed records are Arrow, values are pickled."""

    #: The job, uid, subtask and attempt that wrote it; with `run` and `number` unique for ever.
    writer: tuple[str, str, int, int]
    number: int
    is_arrow: bool
    records: bytes
    #: Within which attempts are numbered.
    run: str = "0"

    @property
    def id(self) -> tuple[str, ...]:
        """Of the writer, unlike that of any other."""
        return (self.run, *map(str, self.writer))


class Collected:
    """The results that arrived in the driver and weren't taken yet. Safe to use from several threads."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._records: deque[Any] = deque()
        self._seen = _Seen()
        self._ended = False
        self._failure: BaseException | None = None

    def add(self, epoch: _Epoch) -> None:
        with self._changed:
            if self._seen.is_new(epoch.id, epoch.number):
                self._records.extend(_records_of(epoch))
                self._changed.notify_all()

    def end(self, failure: BaseException | None = None) -> None:
        """No more will come: iterations end after what is there, or raise the job's failure then."""
        with self._changed:
            self._ended = True
            self._failure = failure
            self._changed.notify_all()

    def take(self) -> list[Any]:
        """All that is there now. Does not wait."""
        with self._changed:
            records = list(self._records)
            self._records.clear()
            return records

    def __iter__(self) -> Iterator[Any]:
        """Takes one record after another; waits for more until `end`."""
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._records or self._ended)
                if not self._records:
                    if self._failure is not None:
                        raise self._failure
                    return
                record = self._records.popleft()
            yield record


class CollectSink(Sink):
    """In the driver it holds what was collected; pickled on its way to the slots it holds nothing."""

    delivery = Delivery.TRANSACTIONAL

    def __init__(self, collected: Collected | None) -> None:
        self._collected = collected

    def __reduce__(self) -> tuple[Any, ...]:
        return CollectSink, (None,)

    @property
    def collected(self) -> Collected:
        assert self._collected is not None, "results are in the driver; a writer commits by reporting to it"
        return self._collected

    @property
    def name(self) -> str:
        return "collect"

    def writer(self, context: WriterContext) -> SinkWriter:
        return CollectWriter(self, context)

    def commit(self, committables: Sequence[bytes]) -> None:
        for committable in committables:
            self.receive(committable)

    def job_ended(self, failure: BaseException | None) -> None:
        self.collected.end(failure)

    def receive(self, value: Any) -> None:
        self.collected.add(msgspec.msgpack.decode(value, type=_Epoch))


class CollectWriter(SinkWriter):
    def __init__(self, sink: CollectSink, context: WriterContext) -> None:
        super().__init__(sink)
        self._report = context.report
        self._run = context.run
        self._writer = (context.job_id, context.uid, context.subtask, int(context.attempt))
        self._number = 0
        self._batches: list[Batch] = []

    def write(self, batch: Batch) -> None:
        # A copy of values: what the user does to a list afterwards isn't part of the result.
        self._batches.append(ObjectBatch(list(batch.values)) if isinstance(batch, ObjectBatch) else batch)

    def prepare(self, checkpoint: CheckpointId) -> list[bytes]:
        if not self._batches:
            return []
        batch = concatenate(self._batches)
        self._batches = []
        if isinstance(batch, ObjectBatch):
            epoch = _Epoch(self._writer, self._number, False, pickle_values(batch.values, owner="collect()"), self._run)
        else:
            epoch = _Epoch(self._writer, self._number, True, _to_arrow(batch), self._run)
        self._number += 1
        return [msgspec.msgpack.encode(epoch)]

    def commit(self, committables: Sequence[bytes]) -> None:
        for committable in committables:
            self._report(committable)


class _Seen:
    """Which epochs have arrived? A writer numbers them 0, 1, 2, …, so all but the stragglers fit in one number."""

    def __init__(self) -> None:
        self._next: dict[tuple[str, ...], int] = {}
        self._early: dict[tuple[str, ...], set[int]] = {}

    def is_new(self, writer: tuple[str, ...], number: int) -> bool:
        expected = self._next.get(writer, 0)
        early = self._early.setdefault(writer, set())
        if number < expected or number in early:
            return False
        early.add(number)
        while expected in early:
            early.remove(expected)
            expected += 1
        self._next[writer] = expected
        return True


def _to_arrow(batch: pa.RecordBatch) -> bytes:
    buffer = io.BytesIO()
    with pa.ipc.new_stream(buffer, batch.schema) as stream:
        stream.write_batch(batch)
    return buffer.getvalue()


def _records_of(epoch: _Epoch) -> list[Any]:
    if not epoch.is_arrow:
        return unpickle_values(epoch.records)
    return [row for batch in pa.ipc.open_stream(epoch.records) for row in rows_of(batch)]
