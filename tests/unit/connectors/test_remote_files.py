"""Readers and writers of local files on threads of their own."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any

import pytest

from cutwater.batches import Batch, ObjectBatch, rows_of
from cutwater.connectors.contract import ReaderContext, SinkWriter, SplitReader, WriterContext
from cutwater.connectors.discard import discard
from cutwater.connectors.remote_files import WriterOnThread, reader_on_thread
from cutwater.errors import StorageError
from cutwater.protocol.ids import AttemptNumber, CheckpointId

pytestmark = pytest.mark.threads
SECONDS = 30.0


class Numbers(SplitReader):
    """0, 1, 2, …; position: the next one. The server is gone before the numbers in `gone_before`, once each."""

    def __init__(self, position: int | None, gone_before: set[int]) -> None:
        self._next = position or 0
        self._gone_before = gone_before

    def read(self, limit: int, now_seconds: float) -> Batch:
        if self._next in self._gone_before:
            self._gone_before.remove(self._next)
            raise OSError("no answer")
        self._next += 1
        return ObjectBatch([self._next - 1])

    @property
    def position(self) -> int:
        return self._next

    @property
    def finished(self) -> bool:
        return self._next >= 10


def read_all(opening: Any) -> list[Any]:
    woken = threading.Event()
    reader = reader_on_thread(opening, None, ReaderContext(wake=woken.set), name="numbers")
    values: list[Any] = []
    try:
        while not reader.finished:
            woken.clear()
            batch = reader.read(10, 0.0)
            if batch is not None:
                values += rows_of(batch)
            elif not reader.finished:
                assert woken.wait(SECONDS)
    finally:
        reader.close()
    return values


def test_a_reader_opens_the_file_again_behind_the_last_batch_when_the_server_was_gone() -> None:
    gone_before = {0, 4, 9}
    assert read_all(lambda position: Numbers(position, gone_before)) == list(range(10))


def test_a_file_that_has_vanished_is_not_waited_for() -> None:
    def opening(position: int | None) -> SplitReader:
        raise FileNotFoundError("gone")

    with pytest.raises(StorageError, match="vanished"):
        read_all(opening)


class Slow(SinkWriter):
    """Writes when it may."""

    def __init__(self) -> None:
        super().__init__(discard())
        self.may_write = threading.Event()
        self.written: list[Any] = []
        self.threads: set[threading.Thread] = set()

    def write(self, batch: Batch) -> None:
        self.threads.add(threading.current_thread())
        assert self.may_write.wait(SECONDS)
        self.written += rows_of(batch)

    def prepare(self, checkpoint: CheckpointId) -> Sequence[bytes]:
        prepared, self.written = [bytes(self.written)], []
        return prepared


def on_thread(writer: SinkWriter) -> WriterOnThread:
    return WriterOnThread(writer, WriterContext("job", "out", 0, 1, AttemptNumber(1)))


def test_a_writer_that_blocks_makes_nobody_wait_and_its_barriers_stay_in_order() -> None:
    slow = Slow()
    writer = on_thread(slow)
    writer.write(ObjectBatch([1, 2]))
    first = writer.prepare(CheckpointId(1))
    writer.write(ObjectBatch([3]))
    second = writer.prepare(CheckpointId(2))
    assert isinstance(first, Future)
    assert not first.done()
    slow.may_write.set()
    assert (first.result(SECONDS), second.result(SECONDS)) == ([b"\1\2"], [b"\3"])
    assert threading.current_thread() not in slow.threads
    writer.close()


def test_what_makes_a_writer_fail_is_raised_on_the_loop() -> None:
    class Failing(Slow):
        def write(self, batch: Batch) -> None:
            raise StorageError("no space left")

    writer = on_thread(Failing())
    writer.write(ObjectBatch([1]))
    with pytest.raises(StorageError, match="no space left"):
        writer.prepare(CheckpointId(1)).result(SECONDS)
    with pytest.raises(StorageError, match="no space left"):
        writer.has_room()
    writer.close()
