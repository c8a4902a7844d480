"""How is a checkpoint kept from completing, when all the sinks under test have prepared it?

By another sink in the same job, which promises its part and keeps the promise when the kit says so. A job that is
killed meanwhile has prepared output that must never be seen.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import Future

from cutwater.batches import Batch
from cutwater.connectors.contract import Delivery, Prepared, Sink, SinkWriter, WriterContext
from cutwater.protocol.ids import CheckpointId
from cutwater.testing.connectors.controls import Controls

LOOK_SECONDS = 0.01


class BrakeSink(Sink):
    """Gets no records."""

    delivery = Delivery.IDEMPOTENT

    def __init__(self, controls: Controls) -> None:
        self.controls = controls

    @property
    def name(self) -> str:
        return "brake"

    def writer(self, context: WriterContext) -> SinkWriter:
        return BrakeWriter(self, context.subtask)


class BrakeWriter(SinkWriter):
    def __init__(self, sink: BrakeSink, subtask: int) -> None:
        super().__init__(sink)
        self._controls = sink.controls
        self._subtask = subtask
        self._closed = threading.Event()

    def write(self, batch: Batch) -> None:
        pass

    def prepare(self, checkpoint: CheckpointId) -> Prepared:
        if not self._controls.barrier_came(checkpoint, subtask=self._subtask):
            return []
        promise: Future[Sequence[bytes]] = Future()
        threading.Thread(target=self._keep, args=(promise,), name="cutwater-brake", daemon=True).start()
        return promise

    def close(self) -> None:
        self._closed.set()

    def _keep(self, promise: Future[Sequence[bytes]]) -> None:
        while self._controls.checkpoints_are_held and not self._closed.wait(LOOK_SECONDS):
            pass
        promise.set_result([])
