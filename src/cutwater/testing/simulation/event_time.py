"""Does event time keep its promises in a simulated job?

The operators here stand in the dataflow like a user's. Each holds every watermark and every record that reaches it
against what it was promised before, also before a crash: a broken promise ends the run.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from cutwater.batches import Batch, ObjectBatch, rows_of, times_of
from cutwater.connectors.contract import SplitReader
from cutwater.operators.contract import FrozenList, Operator, OperatorContext, OperatorSnapshot
from cutwater.operators.event_time import frozen_watermark, restored_watermark
from cutwater.protocol.elements import Watermark
from cutwater.protocol.ids import CheckpointId
from cutwater.protocol.watermarks import MAX_TIMESTAMP_MS, MIN_TIMESTAMP_MS
from cutwater.runtime.seams import ChannelId, Element
from cutwater.testing.simulation import registry
from cutwater.testing.simulation.world import InvariantBroken

WATCHED_STATE = "watched"
WAITING_STATE = "waiting"
SORTED_STATE = "sorted"


class Promise:
    """Event time at one place: it never goes back, and no record comes behind it."""

    def __init__(self, place: str, reached_ms: int | None = None) -> None:
        self._place = place
        self.reached_ms = reached_ms

    def advance(self, timestamp_ms: int) -> None:
        if self.reached_ms is not None and timestamp_ms < self.reached_ms:
            raise InvariantBroken("event time goes back", f"{self._place}: {timestamp_ms} after {self.reached_ms}")
        self.reached_ms = timestamp_ms

    def check(self, batch: Batch) -> None:
        times = times_of(batch)
        if times is None:
            raise InvariantBroken("records keep their event time", f"{self._place}: {rows_of(batch)}")
        if self.reached_ms is not None and int(times.min()) <= self.reached_ms:
            raise InvariantBroken(
                "no false lateness", f"{self._place}: {rows_of(batch)} at {times.tolist()} behind {self.reached_ms}"
            )


class ChannelPromises:
    """The same for every channel between slots, on its own."""

    def __init__(self) -> None:
        self._promises: dict[ChannelId, Promise] = {}

    def carries(self, channel: ChannelId, element: Element) -> None:
        match element:
            case Watermark(timestamp_ms):
                if timestamp_ms != MIN_TIMESTAMP_MS:  # it only says that the channel counts again
                    self._promise(channel).advance(timestamp_ms)
            case ObjectBatch() | pa.RecordBatch():
                if times_of(element) is not None:
                    self._promise(channel).check(element)
            case _:
                pass

    def _promise(self, channel: ChannelId) -> Promise:
        return self._promises.setdefault(channel, Promise(str(channel)))


class WatchTime(Operator):
    """Hands everything on, and looks."""

    def open(self, context: OperatorContext) -> None:
        super().open(context)
        place = f"{context.uid}[{context.subtask}] of attempt {context.attempt}"
        self._promise = Promise(place, restored_watermark(context, WATCHED_STATE))

    def process(self, batch: Batch, port: int) -> None:
        self._promise.check(batch)
        self.context.emit(batch)

    def on_watermark(self, timestamp_ms: int) -> None:
        self._promise.advance(timestamp_ms)

    def freeze(self, checkpoint: CheckpointId) -> OperatorSnapshot:
        return OperatorSnapshot(lists=self._frozen_promise())

    def _frozen_promise(self) -> tuple[FrozenList, ...]:
        reached = self._promise.reached_ms
        return frozen_watermark(self.context, None if reached == MAX_TIMESTAMP_MS else reached, WATCHED_STATE)


class SortByTime(WatchTime):
    """(key, number, time) in any order → (key, rank, number) by time: a record leaves when event time has passed it."""

    def open(self, context: OperatorContext) -> None:
        super().open(context)
        self._backend = context.keyed_backend()
        self._waiting = self._backend.list_state(WAITING_STATE)
        self._sorted = self._backend.value_state(SORTED_STATE, 0)

    def process(self, batch: Batch, port: int) -> None:
        registry.current().touch("sort")
        self._promise.check(batch)
        times = times_of(batch)
        assert times is not None
        for (key, number, _), time in zip(rows_of(batch), times.tolist(), strict=True):
            self._backend.set_current_key(key)
            self._waiting.add((time, number))

    def on_watermark(self, timestamp_ms: int) -> None:
        super().on_watermark(timestamp_ms)
        registry.current().time_seen(timestamp_ms)
        output: list[Any] = []
        for key in sorted(self._backend.keys(WAITING_STATE)):
            self._backend.set_current_key(key)
            waiting = sorted(self._waiting.get())
            due = [number for time, number in waiting if time <= timestamp_ms]
            if due:
                rank = self._sorted.value()
                output += [(key, rank + index, number) for index, number in enumerate(due, 1)]
                self._sorted.update(rank + len(due))
                self._leave(waiting[len(due) :])
        if output:
            self.context.emit(ObjectBatch(output))

    def _leave(self, waiting: list[Any]) -> None:
        if waiting:
            self._waiting.update(waiting)
        else:
            self._waiting.clear()

    def freeze(self, checkpoint: CheckpointId) -> OperatorSnapshot:
        return OperatorSnapshot(keyed=self._backend.freeze(), lists=self._frozen_promise())


class QuietReader(SplitReader):
    """Never has a record, and ends only when event time has come this far elsewhere: if it holds time back, never."""

    def __init__(self, until_ms: int) -> None:
        self._until_ms = until_ms

    def read(self, limit: int, now_seconds: float) -> Batch | None:
        return None

    @property
    def position(self) -> int:
        return 0

    @property
    def finished(self) -> bool:
        return registry.current().latest_time_ms >= self._until_ms
