"""Every kind of window and join as a whole job, on columns and on Python values: always DuckDB's answer.

The records are told out of order, within the bound that the watermarks know, and many share their time; plain, killed
and rescaled runs must give the same. Where records come later than the bound, nothing may be lost silently.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from random import Random
from typing import Any, Literal, NamedTuple

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import cutwater as cw
from cutwater.testing.harness import LocalLauncher

from .local import LocalRuns

DISORDER_MS = 40
STEP_MS = 4
BASE_MS = 1_436_918_400_000
FILES, ROWS_PER_GROUP = 6, 5

Kind = Literal["typed", "objects"]
KINDS: tuple[Kind, ...] = ("typed", "objects")
SEEDS = range(3)


class Event(NamedTuple):
    key: str
    time: int
    number: int
    value: int


@dataclass(frozen=True)
class Streams:
    """The inputs of a job, with event time; only those that it asks for are read."""

    env: cw.Environment
    root: Path
    kind: Kind

    @property
    def left(self) -> cw.DataStream:
        return stream_of(self.env, self.root / "l", self.kind)

    @property
    def right(self) -> cw.DataStream:
        return stream_of(self.env, self.root / "r", self.kind)


@dataclass(frozen=True)
class Case:
    """A kind of window or join: the job, the same in SQL over the tables l and r, and what a result says."""

    name: str
    build: Callable[[Streams], cw.DataStream]
    sql: str
    shape: Callable[[Any], tuple[Any, ...]]


# The data.


def shuffled_events(random: Random, count: int, *, first: int = 0, keys: int = 5) -> list[Event]:
    """No event is older than the newest before it by more than the disorder; about three share their time."""
    span = count * 2 // STEP_MS
    events = [
        Event(f"key-{random.randrange(keys)}", BASE_MS + first + random.randrange(span) * STEP_MS, n, n % 11 - 5)
        for n in range(count)
    ]
    return sorted(events, key=lambda event: event.time + random.randint(0, DISORDER_MS))


def write_events(folder: Path, events: list[Event]) -> None:
    """Files that follow each other in the order of telling, in small batches."""
    folder.mkdir(parents=True)
    per_file = -(-len(events) // FILES)
    for part in range(FILES):
        rows = events[part * per_file : (part + 1) * per_file]
        table = pa.table({name: [getattr(event, name) for event in rows] for name in Event._fields})
        pq.write_table(table, folder / f"part-{part}.parquet", row_group_size=ROWS_PER_GROUP)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root, random = tmp_path_factory.mktemp("events"), Random(3)
    write_events(root / "l", shuffled_events(random, 360))
    # One version of a key at a time: which of two would count in a lookup depends on which comes last.
    right = {(event.key, event.time): event for event in shuffled_events(random, 240)}
    write_events(root / "r", list(right.values()))
    return root


@pytest.fixture(scope="module")
def answers(folder: Path) -> dict[str, Counter[Any]]:
    with duckdb.connect() as connection:
        for side in "lr":
            connection.execute(f"CREATE VIEW {side} AS SELECT * FROM '{folder}/{side}/*.parquet'")
        return {case.name: Counter(connection.execute(case.sql).fetchall()) for case in CASES}


def stream_of(env: cw.Environment, folder: Path, kind: Kind) -> cw.DataStream:
    """Every file has a clock of its own; each batch moves it on."""
    source = env.from_source(cw.sources.files(folder, format="parquet"), uid=f"events-{folder.name}")
    watermarks = cw.watermarks.bounded(f"{DISORDER_MS}ms", every="0s")
    timed = source.assign_timestamps("time", watermarks, unit="ms")
    return timed if kind == "typed" else timed.map(as_event, uid=f"objects-{folder.name}")


def as_event(row: Any) -> Event:
    return Event(*row)


def runs_of(case: Case, root: Path, kind: Kind, *, seed: int, state_backend: str = "memory") -> LocalRuns:
    return LocalRuns(lambda env: case.build(Streams(env, root, kind)), seed=seed, state_backend=state_backend)


def shaped(case: Case, results: Iterable[Any]) -> Counter[Any]:
    return Counter(map(case.shape, results))


# The kinds.


def milliseconds(moment: datetime) -> int:
    return round(moment.timestamp() * 1_000)


def window_row(row: Any) -> tuple[Any, ...]:
    return (row.key, milliseconds(row.window_start), milliseconds(row.window_end), *row[3:])


def pair_row(pair: Any) -> tuple[Any, ...]:
    """(left number, right number), of a row of both sides' columns or of a tuple of two events."""
    if hasattr(pair, "number_right"):
        return pair.number, pair.number_right
    left, right = pair
    return left and left.number, right and right.number


def aggregated(windows: cw.WindowedStream) -> cw.DataStream:
    return windows.aggregate(
        n=cw.agg.count(),
        total=cw.agg.sum("value"),
        least=cw.agg.min("value"),
        most=cw.agg.max("value"),
        average=cw.agg.mean("value"),
        uid="window",
    )


AGGREGATES = "count(*), sum(value), min(value), max(value), avg(value)"


def aligned(name: str, size_ms: int, every_ms: int, offset_ms: int = 0) -> Case:
    window = (
        cw.tumbling(f"{size_ms}ms", offset=f"{offset_ms}ms")
        if size_ms == every_ms
        else cw.sliding(f"{size_ms}ms", f"{every_ms}ms", offset=f"{offset_ms}ms")
    )
    return Case(
        name,
        lambda streams: aggregated(streams.left.key_by("key").window(window)),
        f"""
        SELECT key, start, start + {size_ms}, {AGGREGATES} FROM (
            SELECT *, unnest(range((time - {offset_ms}) // {every_ms} * {every_ms} + {offset_ms},
                                   time - {size_ms}, -{every_ms})) AS start FROM l
        ) GROUP BY key, start
        """,
        window_row,
    )


def session(gap_ms: int) -> Case:
    return Case(
        "session",
        lambda streams: aggregated(streams.left.key_by("key").window(cw.session(f"{gap_ms}ms"))),
        f"""
        WITH cut AS (SELECT *, time - lag(time) OVER (PARTITION BY key ORDER BY time) > {gap_ms} AS is_new FROM l),
        numbered AS (SELECT *, sum(coalesce(is_new, false)::INT) OVER (PARTITION BY key ORDER BY time) AS session
                     FROM cut)
        SELECT key, min(time), max(time) + {gap_ms}, {AGGREGATES} FROM numbered GROUP BY key, session
        """,
        window_row,
    )


def counting(name: str, build: Callable[[cw.KeyedStream], cw.WindowedStream], counts: str) -> Case:
    return Case(
        name,
        lambda streams: build(streams.left.key_by("key")).count(uid="window"),
        f"SELECT key, {counts} FROM (SELECT key, count(*) AS n FROM l GROUP BY key), range(1, 1000) AS fired(i) "
        "WHERE i * 7 <= n",
        tuple,
    )


def window_join(how: Any) -> Case:
    return Case(
        f"window_join_{how}",
        lambda streams: streams.left.key_by("key").join(
            streams.right.key_by("key"), window=cw.tumbling("20ms"), how=how, uid="join"
        ),
        f"SELECT l.number, r.number FROM l {how} JOIN r ON l.key = r.key AND l.time // 20 = r.time // 20",
        pair_row,
    )


def interval_join(how: Any) -> Case:
    return Case(
        f"interval_join_{how}",
        lambda streams: streams.left.key_by("key").join(
            streams.right.key_by("key"), between=("-12ms", "8ms"), how=how, uid="join"
        ),
        f"SELECT l.number, r.number FROM l {how} JOIN r ON l.key = r.key AND r.time - l.time BETWEEN -12 AND 8",
        pair_row,
    )


def lookup(how: Any) -> Case:
    return Case(
        f"lookup_{how}",
        lambda streams: streams.left.key_by("key").lookup(streams.right.broadcast(), on="key", how=how, uid="lookup"),
        f"SELECT l.number, r.number FROM l ASOF {how} JOIN r ON l.key = r.key AND l.time >= r.time",
        pair_row,
    )


CASES = [
    aligned("tumbling", 50, 50),
    aligned("tumbling_with_offset", 50, 50, 13),
    aligned("sliding", 60, 20),
    aligned("sliding_uneven", 60, 25, 5),
    session(8),
    counting("count_window", lambda keyed: keyed.window(cw.count_window(7)), "7"),
    counting(
        "global_with_count_trigger",
        lambda keyed: keyed.window(cw.global_window()).trigger(cw.triggers.count(7)),
        "i * 7",
    ),
    window_join("inner"),
    window_join("left"),
    window_join("full"),
    interval_join("inner"),
    interval_join("left"),
    interval_join("full"),
    lookup("inner"),
    lookup("left"),
]
every_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
both_kinds = pytest.mark.parametrize("kind", KINDS)


@every_case
@both_kinds
@pytest.mark.parametrize("seed", SEEDS)
def test_a_job_gives_duckdbs_answer(
    folder: Path, answers: dict[str, Counter[Any]], case: Case, kind: Kind, seed: int
) -> None:
    results = runs_of(case, folder, kind, seed=seed).plain(parallelism=1 + seed)
    assert shaped(case, results) == answers[case.name]


@every_case
@both_kinds
def test_a_job_whose_slots_are_killed_gives_the_same(
    folder: Path, answers: dict[str, Counter[Any]], case: Case, kind: Kind
) -> None:
    results = runs_of(case, folder, kind, seed=11).killed(parallelism=2)
    assert shaped(case, results) == answers[case.name]


@every_case
@both_kinds
@pytest.mark.parametrize(("before", "after"), [(3, 1), (2, 3)])
def test_a_job_that_goes_on_at_another_parallelism_gives_the_same(
    folder: Path, answers: dict[str, Counter[Any]], case: Case, kind: Kind, before: int, after: int
) -> None:
    results = runs_of(case, folder, kind, seed=after).rescaled(before, after)
    assert shaped(case, results) == answers[case.name]


@every_case
def test_a_job_on_rocksdb_whose_slots_are_killed_gives_the_same(
    folder: Path, answers: dict[str, Counter[Any]], case: Case
) -> None:
    results = runs_of(case, folder, "objects", seed=5, state_backend="rocksdb").killed(parallelism=2)
    assert shaped(case, results) == answers[case.name]


@every_case
@pytest.mark.parametrize("backend", ["filesystem", "rocksdb"])
def test_a_job_that_goes_on_at_one_parallelism_after_the_other_gives_the_same(
    folder: Path, answers: dict[str, Counter[Any]], case: Case, backend: str
) -> None:
    runs = runs_of(case, folder, "objects", seed=4, state_backend=backend)
    assert shaped(case, runs.rescaled(2, 4, 1, 3, after_checkpoints=1)) == answers[case.name]


# Later than the bound.


@pytest.fixture(scope="module")
def late_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As `folder`, but every twelfth record is told 200 ms later than that: when its windows are over."""
    root, random = tmp_path_factory.mktemp("late"), Random(5)
    for side, count in (("l", 360), ("r", 240)):
        events = shuffled_events(random, count)
        write_events(
            root / side,
            [event._replace(time=event.time - 200) if index % 12 == 7 else event for index, event in enumerate(events)],
        )
    return root


def told(root: Path, side: str) -> Counter[int]:
    """The numbers of all records."""
    with duckdb.connect() as connection:
        return Counter(
            number for (number,) in connection.execute(f"SELECT number FROM '{root}/{side}/*.parquet'").fetchall()
        )


def numbers_in(key: str, events: list[Any], context: Any) -> list[int]:
    return [event.number for event in events]


def with_late(results: cw.DataStream) -> cw.DataStream:
    """One stream of (is late, result)."""
    late = results.side_output("late")
    return results.map(lambda result: (False, result), uid="main").union(late.map(lambda row: (True, row), uid="late"))


WINDOWS = {"tumbling": cw.tumbling("50ms"), "sliding": cw.sliding("60ms", "20ms"), "session": cw.session("8ms")}
some_run = pytest.mark.parametrize(
    "run",
    [
        lambda runs: runs.plain(parallelism=1),
        lambda runs: runs.plain(parallelism=3),
        lambda runs: runs.killed(parallelism=2),
        lambda runs: runs.rescaled(3, 2),
    ],
    ids=["plain_1", "plain_3", "killed", "rescaled"],
)


@both_kinds
@some_run
@pytest.mark.parametrize("window", WINDOWS)
def test_a_record_is_in_its_windows_or_in_the_late_output_never_in_both(
    late_folder: Path, kind: Kind, window: str, run: Callable[[LocalRuns], list[Any]]
) -> None:
    def build(env: cw.Environment) -> cw.DataStream:
        keyed = stream_of(env, late_folder / "l", kind).key_by("key")
        return with_late(keyed.window(WINDOWS[window]).late_output("late").process(numbers_in, uid="window"))

    results = run(LocalRuns(build, seed=2))
    in_windows = Counter(row for is_late, row in results if not is_late)
    late = Counter(row.number for is_late, row in results if is_late)
    assert Counter(in_windows.keys()) + late == told(late_folder, "l")
    assert max(in_windows.values()) == (3 if window == "sliding" else 1)
    assert late


@both_kinds
@some_run
@pytest.mark.parametrize("seed", SEEDS)
def test_aggregates_and_late_output_together_account_for_every_record(
    late_folder: Path, kind: Kind, run: Callable[[LocalRuns], list[Any]], seed: int
) -> None:
    def build(env: cw.Environment) -> cw.DataStream:
        windows = stream_of(env, late_folder / "l", kind).key_by("key").window(WINDOWS["tumbling"]).late_output("late")
        return with_late(windows.aggregate(n=cw.agg.count(), numbers=cw.agg.sum("number"), uid="window"))

    results = run(LocalRuns(build, seed=seed))
    main = [row for is_late, row in results if not is_late]
    late = [row for is_late, row in results if is_late]
    everything = told(late_folder, "l")
    assert sum(row.n for row in main) + len(late) == everything.total()
    assert sum(row.numbers for row in main) + sum(row.number for row in late) == sum(everything)
    assert all(isinstance(row, tuple) and len(row) == len(Event._fields) for row in late)
    assert max(Counter((row.key, row.window_start) for row in main).values()) == 1, "a window that is over stays so"
    assert late


@both_kinds
@some_run
@pytest.mark.parametrize("how", [{"between": ("-12ms", "8ms")}, {"window": cw.tumbling("20ms")}], ids=str)
def test_a_record_is_in_a_full_join_or_in_the_late_output_of_its_side(
    late_folder: Path, kind: Kind, how: dict[str, Any], run: Callable[[LocalRuns], list[Any]]
) -> None:
    def build(env: cw.Environment) -> cw.DataStream:
        streams = Streams(env, late_folder, kind)
        left, right = streams.left.key_by("key"), streams.right.key_by("key")
        pairs = left.join(right, how="full", late_output=("late-l", "late-r"), uid="join", **how)
        tagged = [pairs.map(lambda pair: ("pair", pair_row(pair)), uid="pairs")]
        tagged += [
            pairs.side_output(f"late-{side}").map(lambda row, side=side: (side, row.number), uid=side) for side in "lr"
        ]
        return tagged[0].union(*tagged[1:])

    results = run(LocalRuns(build, seed=6))
    for place, side in enumerate("lr"):
        joined = {numbers[place] for tag, numbers in results if tag == "pair" and numbers[place] is not None}
        late = Counter(number for tag, number in results if tag == side)
        # A record is in many pairs, so that only the late ones can be counted.
        assert Counter(joined) + late == told(late_folder, side)
        assert late


@both_kinds
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("window", ["tumbling", "session"])
def test_records_that_are_dropped_are_counted(late_folder: Path, kind: Kind, window: str, seed: int) -> None:
    env = cw.Environment(parallelism=1 + seed, launcher=LocalLauncher(seed=seed))
    sink = cw.sinks.collect()
    keyed = stream_of(env, late_folder / "l", kind).key_by("key")
    keyed.window(WINDOWS[window]).count().sink_to(sink)
    status = env.execute("counted").status
    in_windows = sum(row.count for row in sink.collected.take())
    assert status.late_records > 0
    assert in_windows + status.late_records == told(late_folder, "l").total()


# The wall clock, and functions between the source and the windows.


@both_kinds
@some_run
def test_windows_of_processing_time_hold_every_record_once(
    folder: Path, kind: Kind, run: Callable[[LocalRuns], list[Any]]
) -> None:
    def build(env: cw.Environment) -> cw.DataStream:
        keyed = stream_of(env, folder / "l", kind).key_by("key")
        return keyed.window(cw.tumbling("5ms", time="processing")).process(numbers_and_size, uid="window")

    results = run(LocalRuns(build, seed=3))
    assert Counter(number for numbers, _ in results for number in numbers) == told(folder, "l")
    assert {size for _, size in results} == {5}
    assert len({numbers for numbers, _ in results}) > 5, "it took several windows"


def numbers_and_size(key: str, events: list[Any], context: Any) -> list[tuple[tuple[int, ...], int]]:
    return [(tuple(event.number for event in events), context.window.end_ms - context.window.start_ms)]


def test_a_function_of_batches_keeps_event_time_if_its_schema_has_the_column(folder: Path) -> None:
    schema = pa.schema([("time", pa.int64()), ("name", pa.string())])

    def renamed(batch: pa.RecordBatch) -> pa.RecordBatch:
        return pa.RecordBatch.from_arrays([batch.column("time"), batch.column("key")], schema=schema)

    env = cw.Environment(parallelism=2, launcher=LocalLauncher(seed=1))
    events = stream_of(env, folder / "l", "typed").map_batches(renamed, schema=schema)
    results = events.key_by("name").window(cw.tumbling("50ms")).count().execute_and_collect()
    with duckdb.connect() as connection:
        rows = connection.execute(
            f"SELECT key, time // 50 * 50, count(*) FROM '{folder}/l/*.parquet' GROUP BY ALL"
        ).fetchall()
    assert Counter((row.name, milliseconds(row.window_start), row.count) for row in results) == Counter(rows)
