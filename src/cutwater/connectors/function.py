"""How does a user's function become a sink?"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cutwater.batches import Batch, rows_of
from cutwater.connectors.contract import Delivery, Sink, SinkWriter, WriterContext
from cutwater.connectors.failures import user_function_failed
from cutwater.connectors.settings import check_callable

Consume = Callable[[list[Any]], object]


def function(consume: Consume, *, idempotent: bool = False) -> FunctionSink:
    """Calls `consume(values)` with every batch, a list, in the slots.

    Plain: after a failure it is called again with records that it has seen before, batched in another way. If that
    does no harm (an upsert by key), say `idempotent=True`, and an exactly-once job may use it.
    """
    check_callable("function(…)", consume)
    return FunctionSink(consume, idempotent=idempotent)


class FunctionSink(Sink):
    def __init__(self, consume: Consume, *, idempotent: bool) -> None:
        self.consume = consume
        self.delivery = Delivery.IDEMPOTENT if idempotent else Delivery.PLAIN

    @property
    def name(self) -> str:
        return f"function({getattr(self.consume, '__name__', type(self.consume).__name__)})"

    def writer(self, context: WriterContext) -> SinkWriter:
        return FunctionWriter(self)


class FunctionWriter(SinkWriter):
    def __init__(self, sink: FunctionSink) -> None:
        super().__init__(sink)
        self._consume = sink.consume
        self._name = sink.name

    def write(self, batch: Batch) -> None:
        values = list(rows_of(batch))  # a copy: it is the user's now
        try:
            self._consume(values)
        except Exception as error:
            given = f"{batch.num_rows} records"
            raise user_function_failed(f"the sink {self._name}", error, given=given) from error
