"""How does a stream writer of a Python data source take part in checkpoints?

In the slots its `write` gets the rows of one epoch as an iterator, on a thread of its own, while they come in; at the
barrier the iterator ends, and what `write` returns, its commit message, becomes the committable. The driver gives the
messages of all tasks to its `commit`, with the number of the epoch, and notes that it is done.
"""

from __future__ import annotations

import copy
import threading
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from typing import Any, Protocol

import msgspec
import pyarrow as pa

from cutwater.batches import Batch, ObjectBatch
from cutwater.connectors.contract import Delivery, DriverContext, Prepared, Sink, SinkWriter, WriterContext
from cutwater.connectors.failures import user_function_failed
from cutwater.connectors.pickling import pickle_values, unpickle_values
from cutwater.connectors.spark.applied import AppliedEpochs, Epoch
from cutwater.connectors.spark.folders import staging_folder
from cutwater.errors import ConfigurationError, SerializationError, StorageError
from cutwater.protocol.ids import CheckpointId

BATCHES_MAX = 4
"""That wait for a slow writer."""


class EpochMessages(Protocol):
    """A stream writer of a data source. May block. Pickled on its way to the slots."""

    def write(self, batches: Iterator[pa.RecordBatch]) -> Any:
        """In a slot: the rows of one epoch; its commit message."""
        ...

    def commit(self, messages: list[Any], epoch: int) -> None:
        """In the driver."""
        ...


class _Committable(msgspec.Struct, frozen=True, array_like=True):
    epoch: Epoch
    message: bytes


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_Committable).decode


class MessageSink(Sink):
    """The driver commits."""

    delivery = Delivery.WRITE_AHEAD
    commits_in_driver = True

    def __init__(self, name: str, target: EpochMessages, schema: pa.Schema, *, staging: str | None) -> None:
        self._name = name
        self._target = target
        self._schema = schema
        self._staging = staging
        self._folder: str | None = None

    @property
    def name(self) -> str:
        return f"spark_data_source({self._name})"

    def introduced(self, context: DriverContext) -> Sink:
        sink = copy.copy(self)
        sink._folder = staging_folder(context, self._staging)
        return sink

    def check(self, *, restores: bool = False) -> None:
        if self._folder is None:
            raise ConfigurationError(f"{self.name} needs Spark", hint="run the job on Spark: cw.Environment(spark=…)")

    def writer(self, context: WriterContext) -> SinkWriter:
        return MessageWriter(self, self._target, self._schema, context)

    def commit(self, committables: Sequence[bytes]) -> None:
        assert self._folder is not None, "the sink was not introduced to its job"
        messages: dict[Epoch, list[Any]] = defaultdict(list)
        for committable in map(_decode, committables):
            messages[committable.epoch] += unpickle_values(committable.message)
        applied = AppliedEpochs(self._folder)
        for epoch in sorted(messages, key=lambda epoch: epoch.number):
            try:
                if epoch not in applied:
                    self._commit_one(epoch, messages[epoch])
                    applied.add(epoch)
            except OSError as error:
                raise StorageError(f"folder {self._folder!r} can't be used", detail=str(error)) from error

    def _commit_one(self, epoch: Epoch, messages: list[Any]) -> None:
        try:
            self._target.commit(messages, epoch.number)
        except Exception as error:
            given = f"{len(messages)} messages of epoch {epoch.number}"
            raise user_function_failed(f"commit of {self.name}", error, given=given) from error


class MessageWriter(SinkWriter):
    """Feeds one `write` after the other."""

    def __init__(self, sink: MessageSink, target: EpochMessages, schema: pa.Schema, context: WriterContext) -> None:
        super().__init__(sink)
        self._sink_name = sink.name
        self._target = target
        self._schema = schema
        self._context = context
        self._feed: _Feed | None = None

    def has_room(self) -> bool:
        return self._feed is None or self._feed.has_room()

    def write(self, batch: Batch) -> None:
        if self._feed is None:
            self._feed = _Feed(self._target, self._context.wake, name=self._sink_name)
        self._feed.put(self._columns(batch))

    def prepare(self, checkpoint: CheckpointId) -> Prepared:
        feed, self._feed = self._feed, None
        if feed is None:
            return []
        epoch = Epoch(self._context.run, int(self._context.attempt), int(checkpoint))

        def committable(message: Any) -> list[bytes]:
            return [_encode(_Committable(epoch, pickle_values([message], owner=self._sink_name)))]

        return feed.end(committable)

    def commit(self, committables: Sequence[bytes]) -> None:
        """The driver does it."""

    def close(self) -> None:
        if self._feed is not None:
            self._feed.abandon()

    def _columns(self, batch: Batch) -> pa.RecordBatch:
        try:
            if isinstance(batch, ObjectBatch):
                return pa.RecordBatch.from_pylist(list(batch.values), schema=self._schema)
            return batch.select(self._schema.names).cast(self._schema)
        except (AttributeError, KeyError, TypeError, ValueError, pa.ArrowException) as error:
            columns = ", ".join(f"{field.name} {field.type}" for field in self._schema)
            raise SerializationError(
                f"records don't fit the columns of {self._sink_name}",
                detail=f"{error}; the columns are {columns}",
                hint="give typed rows, or dicts",
            ) from error


class _Abandoned(Exception):
    """The attempt is over: what the iterator raises in `write`."""


class _Feed:
    """One epoch: an iterator of batches in the hands of `write`, on a thread of its own."""

    def __init__(self, target: EpochMessages, wake: Callable[[], None], *, name: str) -> None:
        self._target = target
        self._wake = wake
        self._name = name
        self._changed = threading.Condition()
        self._batches: deque[pa.RecordBatch] = deque()
        self._ended = self._abandoned = False
        self._message: Future[Any] = Future()
        threading.Thread(target=self._run, name="cutwater-data-source", daemon=True).start()

    def has_room(self) -> bool:
        if self._message.done():
            self._message.result()  # raises why it failed; one that returned early has taken all it wanted
        with self._changed:
            return self._message.done() or len(self._batches) < BATCHES_MAX

    def put(self, batch: pa.RecordBatch) -> None:
        with self._changed:
            self._batches.append(batch)
            self._changed.notify()

    def end(self, committable: Callable[[Any], list[bytes]]) -> Future[Sequence[bytes]]:
        """The promise of what the message becomes."""
        prepared: Future[Sequence[bytes]] = Future()

        def done(message: Future[Any]) -> None:
            try:
                prepared.set_result(committable(message.result()))
            except Exception as error:
                prepared.set_exception(error)

        with self._changed:
            self._ended = True
            self._changed.notify()
        self._message.add_done_callback(done)
        return prepared

    def abandon(self) -> None:
        with self._changed:
            self._abandoned = True
            self._changed.notify()

    def _run(self) -> None:
        try:
            self._message.set_result(self._target.write(self._rows()))
        except BaseException as error:
            failure = user_function_failed(f"write of {self._name}", error, given="the rows of an epoch")
            self._message.set_exception(failure)
        finally:
            self._wake()

    def _rows(self) -> Iterator[pa.RecordBatch]:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._batches or self._ended or self._abandoned)
                if self._abandoned:
                    raise _Abandoned
                if not self._batches:
                    return
                batch = self._batches.popleft()
            self._wake()
            yield batch
