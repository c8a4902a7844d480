"""How do tests use readers and writers of connectors without a job around them?"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any

from cutwater.batches import ObjectBatch, rows_of
from cutwater.connectors.contract import ReaderContext, Sink, SinkWriter, Source, SplitReader, WriterContext
from cutwater.protocol.ids import AttemptNumber, CheckpointId
from cutwater.protocol.splits import Split

PATIENCE_SECONDS = 60.0


class Reading:
    """One reader, and what it has read."""

    def __init__(self, source: Source, split: int | Split = 0, position: Any = None) -> None:
        self._woken = threading.Event()
        found = source.discover(parallelism=1).splits[split] if isinstance(split, int) else split
        self.reader: SplitReader = source.reader(found, position, ReaderContext(wake=self._woken.set))
        self.values: list[Any] = []

    def until(self, count: int) -> list[Any]:
        """Reads until there are as many values, or more; fails when they don't come."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while len(self.values) < count and not self.reader.finished:
            self._woken.clear()
            batch = self.reader.read(1000, 0.0)
            if batch is not None:
                self.values.extend(rows_of(batch))
            elif not self.reader.finished and not self._woken.wait(deadline - time.monotonic()):
                raise TimeoutError(f"{len(self.values)} of {count} values came")
        return self.values

    def until_it_fails(self) -> BaseException:
        try:
            self.until(1 << 60)
        except TimeoutError:
            raise
        except BaseException as error:
            return error
        raise AssertionError("it ended")

    def __enter__(self) -> Reading:
        return self

    def __exit__(self, *_: object) -> None:
        self.reader.close()


def read(source: Source, count: int, *, split: int = 0, position: Any = None) -> tuple[list[Any], Any]:
    """So many values, and the position behind them."""
    with Reading(source, split, position) as reading:
        return reading.until(count), reading.reader.position


class Writing:
    """One writer of one attempt; what writes to one target is one job."""

    def __init__(self, sink: Sink, *, attempt: int = 1, subtask: int = 0) -> None:
        self.sink = sink
        context = WriterContext(sink.name, "sink", subtask, 1, AttemptNumber(attempt))
        self.writer: SinkWriter = sink.writer(context)
        self._checkpoints = itertools.count(1)

    def write(self, values: Sequence[Any]) -> None:
        wait_until(self.writer.has_room)
        self.writer.write(ObjectBatch(list(values)))

    def prepare(self) -> Sequence[bytes]:
        prepared = self.writer.prepare(CheckpointId(next(self._checkpoints)))
        return prepared.result(PATIENCE_SECONDS) if isinstance(prepared, Future) else prepared

    def __enter__(self) -> Writing:
        return self

    def __exit__(self, *_: object) -> None:
        self.writer.close()


def wait_until(condition: Callable[[], bool], seconds: float = PATIENCE_SECONDS) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError("it did not come true")
        time.sleep(0.01)
