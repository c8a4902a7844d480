"""How do the first records of a stream come to the driver, as soon as they are there?

Without checkpoints: a preview is for looking, and is over when enough has come.
"""

from __future__ import annotations

import threading
from typing import Any

from cutwater.batches import Batch, rows_of
from cutwater.connectors.contract import Sink, SinkWriter, WriterContext
from cutwater.connectors.pickling import pickle_values, unpickle_values


class Preview:
    """What has come to the driver. Safe to use from several threads."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._changed = threading.Condition()
        self._records: list[Any] = []

    def add(self, records: list[Any]) -> None:
        with self._changed:
            self._records += records[: self._limit - len(self._records)]
            self._changed.notify_all()

    def is_full(self) -> bool:
        with self._changed:
            return len(self._records) >= self._limit

    def wait_until_full(self, timeout_seconds: float) -> bool:
        """Blocks; False: the time is over."""
        with self._changed:
            return self._changed.wait_for(lambda: len(self._records) >= self._limit, timeout_seconds)

    def records(self) -> list[Any]:
        with self._changed:
            return list(self._records)


class PreviewSink(Sink):
    """In the driver it holds what has come; pickled on its way to the slots it holds nothing."""

    def __init__(self, limit: int, preview: Preview | None = None) -> None:
        self._limit = limit
        self._preview = preview

    def __reduce__(self) -> tuple[Any, ...]:
        return PreviewSink, (self._limit,)

    @property
    def name(self) -> str:
        return f"preview({self._limit} records)"

    def writer(self, context: WriterContext) -> SinkWriter:
        return PreviewWriter(self, context, self._limit)

    def receive(self, value: Any) -> None:
        assert self._preview is not None, "records come to the driver"
        self._preview.add(unpickle_values(value))


class PreviewWriter(SinkWriter):
    """Sends as many as are wanted in all, and then no more: another task may have fewer."""

    def __init__(self, sink: PreviewSink, context: WriterContext, limit: int) -> None:
        super().__init__(sink)
        self._report = context.report
        self._wanted = limit

    def write(self, batch: Batch) -> None:
        records = rows_of(batch)[: self._wanted]
        if records:
            self._wanted -= len(records)
            self._report(pickle_values(records, owner="a preview"))
