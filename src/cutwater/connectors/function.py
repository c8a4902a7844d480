"""How does a user's function become a sink?

It may take long, so it runs on a thread of the writer's own: the records of a batch after those of the batch before,
while the stream goes on. A barrier is passed when the function has returned for everything in front of it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any

from cutwater.batches import Batch, rows_of
from cutwater.connectors.contract import Delivery, Prepared, Sink, SinkWriter, WriterContext
from cutwater.connectors.failures import user_function_failed
from cutwater.connectors.settings import check_callable
from cutwater.protocol.ids import CheckpointId

Consume = Callable[[list[Any]], object]
#: Rows that wait for the function.
WAITING_ROWS_MAX = 20_000


def function(consume: Consume, *, idempotent: bool = False) -> FunctionSink:
    """Calls `consume(values)` with every batch, a list, in the slots.

    Each task calls it on a thread of its own, once at a time and in order; tasks of one slot may call it at the same
    time. A function that takes long holds up its own task only.

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
        return FunctionWriter(self, context)


class FunctionWriter(SinkWriter):
    """Everything but the calls themselves happens on the loop's thread."""

    def __init__(self, sink: FunctionSink, context: WriterContext) -> None:
        super().__init__(sink)
        self._consume = sink.consume
        self._name = sink.name
        self._wake = context.wake
        self._thread = context.own_thread()
        #: Batches, and promises for barriers between them.
        self._waiting: deque[Batch | Future[Sequence[bytes]]] = deque()
        #: Also of those that the function is being called with.
        self._rows = 0
        self._calling = False
        self._failure: BaseException | None = None

    def has_room(self) -> bool:
        if self._failure is not None:
            raise self._failure
        return self._rows < WAITING_ROWS_MAX

    def write(self, batch: Batch) -> None:
        self._rows += batch.num_rows
        self._waiting.append(batch)
        self._go_on()

    def prepare(self, checkpoint: CheckpointId) -> Prepared:
        if self._failure is not None:
            raise self._failure
        promise: Future[Sequence[bytes]] = Future()
        self._waiting.append(promise)
        self._go_on()
        return promise

    def close(self) -> None:
        self._waiting.clear()
        self._thread.close()

    def _go_on(self) -> None:
        """Calls the function with what waits in front of the next barrier, unless it is being called."""
        if self._calling or self._failure is not None:
            return
        batches: list[Batch] = []
        while self._waiting:
            item = self._waiting[0]
            if not isinstance(item, Future):
                batches.append(item)
            elif batches:
                break
            else:
                item.set_result(())
            self._waiting.popleft()
        if batches:
            self._calling = True
            rows = sum(batch.num_rows for batch in batches)
            self._thread.submit(partial(self._call, batches), partial(self._called, rows))

    def _called(self, rows: int, _: Any, error: BaseException | None) -> None:
        self._calling = False
        was_full = self._rows >= WAITING_ROWS_MAX
        self._rows -= rows
        if error is not None:
            self._fail(error)
        elif was_full:
            self._wake()
        self._go_on()

    def _fail(self, error: BaseException) -> None:
        self._failure = error
        for item in self._waiting:
            if isinstance(item, Future):
                item.set_exception(error)
        self._waiting.clear()
        self._wake()

    # On the writer's own thread.

    def _call(self, batches: Sequence[Batch]) -> None:
        for batch in batches:
            values = list(rows_of(batch))  # a copy: it is the user's now
            try:
                self._consume(values)
            except Exception as error:
                given = f"{batch.num_rows} records"
                raise user_function_failed(f"the sink {self._name}", error, given=given) from error
