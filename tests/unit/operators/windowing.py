"""A window operation as it is written, in a task without threads."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from tests.unit.operators.conftest import Harness

import cutwater as cw
from cutwater.batches import rows_of, times_of
from cutwater.protocol.watermarks import MAX_TIMESTAMP_MS
from cutwater.testing.harness import LocalLauncher

Written = Callable[[cw.KeyedStream], cw.DataStream]


def operator_of(written: Written, *key: Any) -> Any:
    """The operator of a window operation on a stream of (key, value) pairs with event time."""
    env = cw.Environment(parallelism=1, launcher=LocalLauncher())
    stream = env.from_collection([None]).assign_timestamps(lambda record: 0, cw.watermarks.monotonous())
    result = written(stream.key_by(*(key or (lambda record: record[0],))))
    return env._dataflow.graph.nodes[result._outputs[0].sender].build()


class Windows(Harness):
    """Feeds records at times, moves the watermark, and looks at what comes out."""

    def __init__(self, written: Written, *key: Any, **restored: Any) -> None:
        super().__init__(operator_of(written, *key), **restored)

    def at(self, *timed: tuple[Any, int]) -> Windows:
        self.feed_at(*timed)
        return self

    def watermark(self, timestamp_ms: int) -> list[Any]:
        """What comes out until then."""
        self.operator.on_watermark(timestamp_ms)
        return self.output

    def end(self) -> list[Any]:
        return self.watermark(MAX_TIMESTAMP_MS)

    def wall(self, now_ms: int) -> list[Any]:
        """The wall clock moves on; timers are called as a task would."""
        self.wall_ms = now_ms
        due = self.operator.next_wall_ms()
        if due is not None and due <= now_ms:
            self.operator.on_wall_time(now_ms)
        return self.output

    def restored(self, written: Written) -> Windows:
        """A new task that goes on from a snapshot taken now."""
        snapshot = self.operator.freeze(1)
        lists = {part.name: list(part.items) for part in snapshot.lists}
        return Windows(written, keyed=list(snapshot.keyed.chunks()), lists=lists)


def spans(rows: Iterable[Any]) -> list[tuple[Any, ...]]:
    """Results with the windows' times as milliseconds: (key, start, end, …)."""
    return [(row[0], _ms(row[1]), _ms(row[2]), *row[3:]) for row in rows]


def times(batches: Iterable[Any]) -> list[Any]:
    """The event times of all records."""
    found: list[Any] = []
    for batch in batches:
        of_batch = times_of(batch)
        found += [None] * len(rows_of(batch)) if of_batch is None else of_batch.tolist()
    return found


def _ms(time: Any) -> int:
    return round(time.timestamp() * 1000)
