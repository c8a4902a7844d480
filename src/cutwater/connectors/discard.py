"""How fast is everything but the sink?"""

from __future__ import annotations

import threading
from typing import Any

from cutwater.batches import Batch
from cutwater.connectors.contract import Delivery, Sink, SinkWriter, WriterContext


def discard() -> DiscardSink:
    """Drops every record; the driver's sink object knows how many (`records`), for benchmarks.

    Idempotent: dropping again does no harm. But the count is of records written: it includes those that were written
    again after a failure, and lacks those since the last flush of a slot that died.
    """
    return DiscardSink()


class DiscardSink(Sink):
    delivery = Delivery.IDEMPOTENT
    takes_encoded = True

    def __init__(self) -> None:
        self.records = 0
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[Any, ...]:
        return DiscardSink, ()

    @property
    def name(self) -> str:
        return "discard"

    def writer(self, context: WriterContext) -> SinkWriter:
        return DiscardWriter(self, context)

    def receive(self, value: Any) -> None:
        with self._lock:
            self.records += value


class DiscardWriter(SinkWriter):
    def __init__(self, sink: DiscardSink, context: WriterContext) -> None:
        super().__init__(sink)
        self._report = context.report
        self._records = 0

    def write(self, batch: Batch) -> None:
        self._records += batch.num_rows

    def flush(self) -> None:
        if self._records:
            self._report(self._records)
        self._records = 0
