"""Do whole jobs with joins give what DuckDB gives on the same data?

Jobs run on the production coordinator and slots, in this process; the data are out of order, and many records are of
one time.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import cutwater as cw
from cutwater.testing.harness import LocalLauncher

DISORDER_MS = 40
KINDS = ["inner", "left", "right", "full"]
OUTER_SQL = {"inner": "INNER", "left": "LEFT", "right": "RIGHT", "full": "FULL"}
TUMBLING = cw.tumbling("50ms")
SLIDING = cw.sliding("60ms", "25ms", offset="5ms")


class Event(NamedTuple):
    key: str
    time: int
    number: int


def shuffled_events(random: Random, count: int, *, keys: int = 7) -> list[Event]:
    """No event is older than the newest before it by more than the disorder."""
    events = [Event(f"k{random.randrange(keys)}", random.randrange(count * 2) // 4 * 4, n) for n in range(count)]
    return sorted(events, key=lambda event: event.time + random.randint(0, DISORDER_MS))


def environment(seed: int, **options: Any) -> cw.Environment:
    return cw.Environment(parallelism=1 + seed % 3, launcher=LocalLauncher(seed=seed), **options)


def keyed(env: cw.Environment, events: list[Event]) -> cw.KeyedStream:
    return timed(env.from_collection(events)).key_by(lambda event: event.key)


def timed(stream: cw.DataStream) -> cw.DataStream:
    strategy = cw.watermarks.bounded(f"{DISORDER_MS}ms", every="0s")
    return stream.assign_timestamps(lambda event: event.time, strategy)


def numbers(left: Event | None, right: Event | None) -> tuple[int | None, int | None]:
    return left and left.number, right and right.number


def table(events: list[Event]) -> pa.Table:
    return pa.table({name: [getattr(event, name) for event in events] for name in Event._fields})


def answer(sql: str, left: list[Event], right: list[Event]) -> Counter[Any]:
    with duckdb.connect() as connection:
        connection.register("l", table(left))
        connection.register("r", table(right))
        return Counter(connection.sql(sql).fetchall())


def both_sides(seed: int) -> tuple[list[Event], list[Event]]:
    random = Random(seed)
    return shuffled_events(random, 300), shuffled_events(random, 200)


@pytest.mark.parametrize("how", KINDS)
@pytest.mark.parametrize("seed", range(3))
def test_an_interval_join_equals_duckdbs(seed: int, how: Any) -> None:
    left, right = both_sides(seed)
    env = environment(seed)
    pairs = keyed(env, left).join(keyed(env, right), between=("-12ms", "8ms"), how=how, select=numbers)
    expected = answer(
        f"SELECT l.number, r.number FROM l {OUTER_SQL[how]} JOIN r"
        " ON l.key = r.key AND r.time - l.time BETWEEN -12 AND 8",
        left,
        right,
    )
    assert Counter(pairs.execute_and_collect()) == expected


@pytest.mark.parametrize("how", KINDS)
@pytest.mark.parametrize("seed", range(3))
def test_a_tumbling_window_join_equals_duckdbs(seed: int, how: Any) -> None:
    left, right = both_sides(seed)
    env = environment(seed)
    pairs = keyed(env, left).join(keyed(env, right), window=TUMBLING, how=how, select=numbers)
    expected = answer(
        f"SELECT l.number, r.number FROM l {OUTER_SQL[how]} JOIN r ON l.key = r.key AND l.time // 50 = r.time // 50",
        left,
        right,
    )
    assert Counter(pairs.execute_and_collect()) == expected


@pytest.mark.parametrize("how", KINDS)
def test_a_sliding_window_join_equals_duckdbs(how: Any) -> None:
    left, right = both_sides(5)
    env = environment(5)
    pairs = keyed(env, left).join(keyed(env, right), window=SLIDING, how=how, select=numbers)
    windows = (
        "SELECT key, number, start FROM {}, range(-95, 2000, 25) AS windows(start)"
        " WHERE start <= time AND time < start + 60"
    )
    expected = answer(
        f"SELECT a.number, b.number FROM ({windows.format('l')}) a {OUTER_SQL[how]} JOIN ({windows.format('r')}) b"
        " ON a.key = b.key AND a.start = b.start",
        left,
        right,
    )
    assert Counter(pairs.execute_and_collect()) == expected


@pytest.mark.parametrize("how", KINDS)
@pytest.mark.parametrize("seed", range(2))
def test_a_session_join_equals_duckdbs(seed: int, how: Any) -> None:
    left, right = both_sides(seed)
    env = environment(seed)
    pairs = keyed(env, left).join(keyed(env, right), window=cw.session("8ms"), how=how, select=numbers)
    expected = answer(
        f"""
        WITH both_sides AS (SELECT 'l' AS side, * FROM l UNION ALL SELECT 'r', * FROM r),
        cut AS (SELECT *, time - lag(time) OVER (PARTITION BY key ORDER BY time) > 8 AS is_new FROM both_sides),
        numbered AS (
            SELECT *, sum(coalesce(is_new, false)::INT) OVER (PARTITION BY key ORDER BY time) AS session FROM cut
        )
        SELECT a.number, b.number FROM (FROM numbered WHERE side = 'l') a
        {OUTER_SQL[how]} JOIN (FROM numbered WHERE side = 'r') b ON a.key = b.key AND a.session = b.session
        """,
        left,
        right,
    )
    assert Counter(pairs.execute_and_collect()) == expected


@pytest.mark.parametrize("by_key", [False, True])
@pytest.mark.parametrize(("how", "join"), [("inner", ""), ("left", "LEFT")])
@pytest.mark.parametrize("seed", range(2))
def test_a_lookup_equals_duckdbs_asof_join(seed: int, how: Any, join: str, by_key: bool) -> None:
    random = Random(seed)
    records = shuffled_events(random, 300)
    # One version of a key at a time: which of two would count depends on which comes last.
    versions = list({(event.key, event.time): event for event in shuffled_events(random, 60, keys=5)}.values())
    env = environment(seed)
    stream, known = keyed(env, records), keyed(env, versions)._stream.broadcast()
    if by_key:
        found = stream.lookup(known, on="key", how=how, select=numbers)
    else:
        found = stream._stream.lookup(known, key="key", on=lambda event: event.key, how=how, select=numbers)
    expected = answer(
        f"SELECT l.number, r.number FROM l ASOF {join} JOIN r ON l.key = r.key AND l.time >= r.time", records, versions
    )
    assert Counter(found.execute_and_collect()) == expected


@pytest.mark.parametrize("kind", ["interval", "window", "lookup"])
@pytest.mark.parametrize("seed", range(3))
def test_a_job_that_fails_and_goes_on_gives_the_same(seed: int, kind: str, tmp_path: Path) -> None:
    left, right = both_sides(seed)
    failed = tmp_path / "failed"

    def fails_once(event: Event) -> Event:
        if event == left[200] and not failed.exists():
            failed.touch()
            raise RuntimeError("as planned")
        return event

    def joined(env: cw.Environment) -> cw.DataStream:
        slowly = env.from_source(cw.sources.generator(left.__getitem__, count=len(left), per_second=200))
        stream, other = timed(slowly).map(fails_once).key_by(lambda event: event.key), keyed(env, right)
        if kind == "interval":
            return stream.join(other, between=("-12ms", "8ms"), how="full", select=numbers)
        if kind == "window":
            return stream.join(other, window=TUMBLING, how="full", select=numbers)
        known = other._stream.filter(lambda event: event.number % 5 == 0).broadcast()
        return stream.lookup(known, on="key", how="left", select=times)

    env = environment(
        seed, checkpoints=cw.Checkpoints(every="50ms"), restart=cw.restart.fixed_delay(attempts=3, delay="0s")
    )
    sink = cw.sinks.collect()
    joined(env).sink_to(sink)
    (recovery,) = env.execute("disturbed").status.recoveries
    assert recovery.restored_checkpoint is not None
    assert Counter(sink.collected.take()) == Counter(joined(environment(seed)).execute_and_collect())


def times(record: Event, version: Event | None) -> tuple[int, int | None]:
    # Of versions of one time any may have come last.
    return record.number, version and version.time


@pytest.mark.parametrize("seed", range(3))
def test_what_leaves_alone_is_in_time_for_a_window_behind_the_join(seed: int) -> None:
    left, right = both_sides(seed)
    env = environment(seed)
    pairs = keyed(env, left).join(keyed(env, right), between=("-12ms", "30ms"), how="full", select=numbers)
    counts = pairs.key_by(lambda pair: 0).window(TUMBLING).count().execute_and_collect()
    ((expected,),) = answer(
        "SELECT count(*) FROM l FULL JOIN r ON l.key = r.key AND r.time - l.time BETWEEN -12 AND 30", left, right
    )
    assert sum(result[-1] for result in counts) == expected


@pytest.mark.parametrize("how", KINDS)
def test_typed_streams_join_as_tables_do(how: Any, tmp_path: Path) -> None:
    left, right = both_sides(7)
    for name, events in (("left", left), ("right", right)):
        pq.write_table(table(events), tmp_path / f"{name}.parquet", row_group_size=50)
    env = environment(7)

    def typed(name: str) -> cw.KeyedStream:
        source = env.from_source(cw.sources.files(str(tmp_path / f"{name}.parquet"), format="parquet", split_bytes=1))
        strategy = cw.watermarks.bounded(f"{DISORDER_MS}ms", every="0s")
        return source.assign_timestamps("time", strategy, unit="ms").key_by("key")

    rows = typed("left").join(typed("right"), between=("-12ms", "8ms"), how=how)
    assert rows.schema is not None
    assert rows.schema.names == ["key", "time", "number", "time_right", "number_right", "__time"]
    expected = answer(
        "SELECT coalesce(l.key, r.key), l.time, l.number, r.time, r.number"
        f" FROM l {OUTER_SQL[how]} JOIN r ON l.key = r.key AND r.time - l.time BETWEEN -12 AND 8",
        left,
        right,
    )
    assert Counter(map(tuple, rows.execute_and_collect())) == expected
