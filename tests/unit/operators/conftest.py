"""A task around one operator, without threads: what it emits is kept, background work runs when the test says so."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pytest

from cutwater.batches import Batch, ObjectBatch, rows_of
from cutwater.operators.contract import Operator, OperatorContext
from cutwater.operators.metrics import TaskMetrics
from cutwater.protocol.ids import AttemptNumber, CheckpointId
from cutwater.state.contract import FrozenKeyedState, KeyedBackend, KeyedBackendSettings
from cutwater.state.heap import HeapBackend


class Harness:
    """Opens an operator, feeds it, and keeps what it does."""

    def __init__(
        self,
        operator: Operator,
        *,
        lists: dict[str, list[bytes]] | None = None,
        keyed: Iterable[tuple[str, int, bytes]] = (),
        subtask: int = 0,
        parallelism: int = 1,
    ) -> None:
        self.operator = operator
        self.batches: list[Batch] = []
        self.side: list[tuple[str, list[Any]]] = []
        self.now_seconds = 0.0
        self.wall_ms = 1_700_000_000_000
        self.metrics = TaskMetrics(task="parse[0]")
        self.watermarks: list[int | None] = []  # None: idle
        self.background: list[tuple[Callable[[], Any], Callable[[Any, BaseException | None], None]]] = []
        self.backend = HeapBackend(KeyedBackendSettings(max_parallelism=8, groups=range(8)))
        self._restored = list(keyed)
        operator.open(
            OperatorContext(
                job_id="job-1",
                job_name="test",
                uid="uid",
                name="parse",
                subtask=subtask,
                parallelism=parallelism,
                max_parallelism=8,
                attempt=AttemptNumber(1),
                groups=range(8),
                now_seconds=lambda: self.now_seconds,
                wall_ms=lambda: self.wall_ms,
                metrics=self.metrics,
                emit=self.batches.append,
                emit_side=lambda tag, batch: self.side.append((tag, rows_of(batch))),
                emit_watermark=self.watermarks.append,
                emit_idle=lambda: self.watermarks.append(None),
                keyed_backend=self._keyed_backend,
                restored_keyed=lambda: self._restored,
                restored_lists=lists or {},
                run_in_background=lambda work, done: self.background.append((work, done)),
                report=lambda value: None,
            )
        )

    def feed(self, *values: Any, port: int = 0) -> None:
        self.operator.process(ObjectBatch(list(values)), port)

    def feed_at(self, *timed: tuple[Any, int], port: int = 0) -> None:
        """(value, event time in milliseconds) pairs."""
        times = np.array([time for _, time in timed], dtype=np.int64)
        self.operator.process(ObjectBatch([value for value, _ in timed], times), port)

    @property
    def output(self) -> list[Any]:
        """All that was emitted since the last look."""
        taken = [row for batch in self.batches for row in rows_of(batch)]
        self.batches.clear()
        return taken

    def freeze(self, checkpoint: int = 1) -> dict[str, list[bytes]]:
        """The operator state of a snapshot, as a restored task would get it."""
        return {part.name: list(part.items) for part in self.operator.freeze(CheckpointId(checkpoint)).lists}

    def freeze_keyed(self) -> FrozenKeyedState:
        keyed = self.operator.freeze(CheckpointId(1)).keyed
        assert keyed is not None
        return keyed

    def run_background(self) -> None:
        """The oldest piece of background work, and its callback."""
        work, done = self.background.pop(0)
        try:
            result = work()
        except Exception as error:  # handed on, as a thread pool does
            done(None, error)
        else:
            done(result, None)

    def _keyed_backend(self) -> KeyedBackend:
        self.backend.restore(self._restored)
        return self.backend


@pytest.fixture(scope="session")
def task() -> type[Harness]:
    return Harness
