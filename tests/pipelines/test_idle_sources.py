"""Sources that fall silent let the tasks of a window differ in their time: a change of parallelism must not show.

No window fires twice, and every record is in its window or late.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest

import cutwater as cw

from .local import LocalRuns

SCHEMA = pa.schema([("k", pa.string()), ("at", pa.int64()), ("x", pa.int64())])
FAST, SLOW = 400, 120
SEEDS = range(4)
PARALLELISMS = [(2, 1), (3, 2), (2, 3)]

Build = Callable[[cw.Environment], cw.DataStream]


def stream(env: cw.Environment) -> cw.DataStream:
    """A fast source and one that is silent now and then."""
    return source(env, "fast", FAST, 6000).union(source(env, "slow", SLOW, 600))


def source(env: cw.Environment, uid: str, count: int, per_second: int) -> cw.DataStream:
    generated = cw.sources.generator(lambda i: (f"k{i % 7}", i * 3, 1), count=count, per_second=per_second, splits=2)
    typed = env.from_source(generated, uid=uid).with_schema(SCHEMA, uid=f"typed-{uid}")
    return typed.assign_timestamps("at", cw.watermarks.bounded("5ms", idle_after="2ms"), unit="ms", uid=f"timed-{uid}")


def by_column(env: cw.Environment) -> cw.KeyedStream:
    return stream(env).key_by("k")


def by_function(env: cw.Environment) -> cw.KeyedStream:
    return stream(env).key_by(lambda row: row.k)


def counted(window: Any, keyed_by: Callable[[cw.Environment], cw.KeyedStream]) -> Build:
    """Results as (key, start, count), late records as (key, None, 1)."""

    def build(env: cw.Environment) -> cw.DataStream:
        windows = keyed_by(env).window(window).late_output("late").aggregate(n=cw.agg.count(), uid="windows")
        late = windows.side_output("late").map(lambda row: (row.k, None, 1), uid="late")
        return windows.map(lambda row: (row[0], row.window_start, row.n), uid="counted").union(late)

    return build


def with_timers(env: cw.Environment) -> cw.DataStream:
    return by_function(env).process(EveryHundred(), uid="timers")


class EveryHundred:
    """A tumbling window by hand; what the watermark has passed is late."""

    def open(self, context: Any) -> None:
        self.counts = context.map_state("counts")

    def process(self, row: Any, context: Any) -> Iterator[Any]:
        end = row.at - row.at % 100 + 99
        if context.watermark_ms is not None and end <= context.watermark_ms:
            yield row.k, None, 1
            return
        self.counts.put(end, self.counts.get(end, 0) + 1)
        context.register_event_timer(end)

    def on_timer(self, time_ms: int, context: Any) -> Iterator[Any]:
        yield context.current_key, time_ms, self.counts.get(time_ms)
        self.counts.remove(time_ms)


TUMBLING, SLIDING = cw.tumbling("100ms"), cw.sliding("100ms", every="20ms")
EACH_RECORD_ONCE: dict[str, Build] = {
    "tumbling, columns": counted(TUMBLING, by_column),
    "tumbling, objects": counted(TUMBLING, by_function),
    "timers": with_timers,
}
JOBS: dict[str, Build] = {
    **EACH_RECORD_ONCE,
    "sliding, columns": counted(SLIDING, by_column),
    "sliding, objects": counted(SLIDING, by_function),
}


def check(name: str, results: list[Any]) -> None:
    fired = Counter((key, start) for key, start, _ in results if start is not None)
    assert [window for window, times in fired.items() if times > 1] == []
    if name in EACH_RECORD_ONCE:
        assert sum(count for _, _, count in results) == FAST + SLOW


@pytest.mark.parametrize("name", JOBS)
@pytest.mark.parametrize("parallelisms", PARALLELISMS, ids=str)
@pytest.mark.parametrize("seed", SEEDS)
def test_no_window_fires_twice_in_a_job_that_goes_on_at_another_parallelism(
    name: str, parallelisms: tuple[int, int], seed: int
) -> None:
    check(name, LocalRuns(JOBS[name], seed=seed).rescaled(*parallelisms))


@pytest.mark.parametrize("name", ["sliding, columns", "timers"])
@pytest.mark.parametrize("parallelisms", [(2, 1), (3, 2)], ids=str)
@pytest.mark.parametrize("seed", SEEDS)
def test_no_window_fires_twice_in_a_job_that_is_rescaled_while_it_runs(
    name: str, parallelisms: tuple[int, int], seed: int
) -> None:
    check(name, LocalRuns(JOBS[name], seed=seed).rescaled_while_running(*parallelisms))


@pytest.mark.parametrize("name", ["tumbling, objects", "timers"])
@pytest.mark.parametrize("seed", SEEDS)
def test_no_window_fires_twice_on_rocksdb(name: str, seed: int) -> None:
    check(name, LocalRuns(JOBS[name], seed=seed, state_backend="rocksdb").rescaled(3, 1, 2, after_checkpoints=1))
