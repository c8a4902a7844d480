"""Are joins written down as they should be, and mistakes refused on the line where they are made?"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pyarrow as pa
import pytest

import cutwater as cw
from cutwater.connectors.contract import Source
from cutwater.errors import BadTimestampError, GraphError, UserError
from cutwater.graph.model import Partitioning
from cutwater.operators.joins.interval import IntervalJoinOperator, OuterIntervalJoinOperator
from cutwater.operators.joins.windowed import AlignedWindowJoinOperator, SessionWindowJoinOperator
from cutwater.testing.harness import LocalLauncher

from .launchers import FakeLauncher

TUMBLING = cw.tumbling("10s")
ORDERS = pa.schema([("id", pa.int64()), ("price", pa.float64())])
PAYMENTS = pa.schema([("order", pa.int64()), ("price", pa.float64())])


def environment() -> cw.Environment:
    return cw.Environment(parallelism=2, launcher=FakeLauncher())


def two_streams() -> tuple[cw.DataStream, cw.DataStream]:
    env = environment()
    return env.from_collection([1], uid="left"), env.from_collection([2], uid="right")


def two_keyed() -> tuple[cw.KeyedStream, cw.KeyedStream]:
    left, right = two_streams()
    return left.key_by("id"), right.key_by("id")


class Typed(Source):
    """Says what it reads, and is never read."""

    name = "typed"

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema

    @property
    def schema(self) -> pa.Schema:
        return self._schema

    def discover(self, parallelism: int) -> Any: ...

    def reader(self, split: Any, position: Any, context: Any) -> Any: ...


def operator_of(stream: cw.DataStream) -> Any:
    (output,) = stream._outputs
    return stream._dataflow.graph.nodes[output.sender].build()


def test_a_join_reads_both_sides_by_key_on_a_port_each() -> None:
    left, right = two_keyed()
    joined = left.join(right, between=("-5s", "5s"), uid="pairs")
    edges = [(edge.sender, edge.port, edge.partitioning) for edge in joined._dataflow.graph.edges]
    assert edges == [("left", 0, Partitioning.HASH), ("right", 1, Partitioning.HASH)]


def test_an_outer_interval_join_holds_event_time_back_an_inner_one_does_not() -> None:
    left, right = two_keyed()
    assert type(operator_of(left.join(right, between=("-5s", "5s")))) is IntervalJoinOperator
    assert type(operator_of(left.join(right, between=("-5s", "5s"), how="left"))) is OuterIntervalJoinOperator


def test_each_kind_of_window_has_its_operator() -> None:
    left, right = two_keyed()
    session = cw.session("5s")
    assert isinstance(operator_of(left.join(right, window=TUMBLING)), AlignedWindowJoinOperator)
    assert isinstance(operator_of(left.join(right, window=session)), SessionWindowJoinOperator)


@pytest.mark.parametrize(
    ("between", "expected"),
    [
        (("-5s", "5s"), (-5000, 5000)),
        (("-1.5s", 0), (-1500, 0)),
        (("100ms", timedelta(seconds=2)), (100, 2000)),
        ((timedelta(seconds=-1), "+1s"), (-1000, 1000)),
        (("-1500us", "1500us"), (-1, 1)),
    ],
)
def test_bounds_are_durations_of_either_sign(between: Any, expected: tuple[int, int]) -> None:
    left, right = two_keyed()
    operator = operator_of(left.join(right, between=between))
    assert (operator._low[0], operator._high[0]) == expected


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "needs either `between` or `window`"),
        ({"between": ("0s", "1s"), "window": TUMBLING}, "not both"),
        ({"between": ("5s", "-5s")}, "bounds of between are reversed"),
        ({"between": "5s"}, "between must be two bounds"),
        ({"between": ("100us", "200us")}, "no two times lie between"),
        ({"between": ("five", "5s")}, "the lower bound of between is not a duration"),
        ({"between": (-5, "5s")}, "the lower bound of between has no unit: -5"),
        ({"between": (True, "5s")}, "the lower bound of between is not a duration"),
        ({"between": ("0s", "1s"), "how": "outer"}, "how can't be 'outer'"),
        ({"between": ("0s", "1s"), "select": 5}, "select needs a function"),
        ({"between": ("0s", "1s"), "late_output": 5}, "late_output is the tag"),
        ({"window": "10s"}, "'10s' is no window"),
        ({"window": cw.count_window(5)}, "can't be joined in count windows"),
        ({"window": cw.tumbling("10s", time="processing")}, "windows of event time"),
        ({"between": ("0s", "1s"), "colour": "red"}, "colour"),
    ],
)
def test_a_join_that_means_nothing_is_refused(options: dict[str, Any], message: str) -> None:
    left, right = two_keyed()
    with pytest.raises(UserError, match=message):
        left.join(right, **options)


def test_streams_without_a_key_are_not_joined() -> None:
    left, right = two_streams()
    with pytest.raises(GraphError, match="without a key") as failure:
        left.join(right, between=("0s", "1s"))
    assert "key_by" in failure.value.hint
    with pytest.raises(GraphError, match="two keyed streams"):
        left.key_by("id").join(right, between=("0s", "1s"))  # type: ignore[arg-type]
    with pytest.raises(GraphError, match="two keyed streams") as failure:
        left.key_by("id").join([1], between=("0s", "1s"))  # type: ignore[arg-type]
    assert "no stream" in failure.value.detail


def test_a_broadcast_right_side_is_for_lookup() -> None:
    left, right = two_streams()
    with pytest.raises(GraphError, match="broadcast") as failure:
        left.key_by("id").join(right.broadcast(), between=("0s", "1s"))  # type: ignore[arg-type]
    assert "lookup" in failure.value.hint


def test_streams_of_two_environments_do_not_meet() -> None:
    (left, _), (_, right) = two_keyed(), two_keyed()
    with pytest.raises(GraphError, match="different environments"):
        left.join(right, between=("0s", "1s"))
    with pytest.raises(GraphError, match="different environments"):
        left.lookup(right._stream.broadcast(), on="id")


def test_keys_of_different_length_can_not_be_equal() -> None:
    left, right = two_streams()
    with pytest.raises(GraphError, match="can't be equal"):
        left.key_by("city", "day").join(right.key_by("city"), between=("0s", "1s"))


def test_keys_of_types_that_never_equal_each_other_are_refused() -> None:
    env = environment()
    left, right = (env.from_source(Typed(schema)) for schema in (ORDERS, pa.schema([("name", pa.string())])))
    with pytest.raises(GraphError, match="can't be equal") as failure:
        left.key_by("id").join(right.key_by("name"), between=("0s", "1s"))
    assert failure.value.detail == "id is int64, name is string"


def test_a_column_that_a_typed_stream_lacks_is_named() -> None:
    env = environment()
    left, right = env.from_source(Typed(ORDERS)), env.from_source(Typed(PAYMENTS))
    with pytest.raises(UserError, match='"code"'):
        left.lookup(right.broadcast(), key="id", on="code")


def test_the_pairs_of_typed_streams_have_a_schema() -> None:
    env = environment()
    left, right = env.from_source(Typed(ORDERS)), env.from_source(Typed(PAYMENTS))
    joined = left.key_by("id").join(right.key_by("order"), between=("0s", "1s"))
    looked_up = left.lookup(right.broadcast(), key="id", on="order")
    by_function = left.key_by(lambda row: row.id).join(right.key_by("order"), between=("0s", "1s"))
    assert joined.schema is not None
    assert looked_up.schema is not None
    assert by_function.schema is not None
    assert joined.schema.names == looked_up.schema.names == ["id", "price", "price_right", "__time"]
    assert by_function.schema.names == ["id", "price", "order", "price_right", "__time"]


def test_the_latest_version_of_a_record_without_event_time_has_none_either() -> None:
    env = environment()
    left, right = env.from_source(Typed(ORDERS)), env.from_source(Typed(PAYMENTS))
    looked_up = left.lookup(right.broadcast(), key="id", on="order", time="latest")
    assert looked_up.schema is not None
    assert looked_up.schema.names == ["id", "price", "price_right"]


def test_what_select_makes_has_no_schema() -> None:
    env = environment()
    left, right = env.from_source(Typed(ORDERS)).key_by("id"), env.from_source(Typed(PAYMENTS)).key_by("order")
    assert left.join(right, between=("0s", "1s"), select=max).schema is None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"key": "id"}, "on"),
        ({"key": "id", "on": 5}, "can't use on=5"),
        ({"key": [], "on": "id"}, r"can't use key=\[\]"),
        ({"key": "id", "on": "id", "how": "full"}, "how can't be 'full'"),
        ({"key": "id", "on": "id", "time": "now"}, "time can't be 'now'"),
        ({"key": "id", "on": "id", "late_output": ("a", "b")}, "late_output is the tag"),
    ],
)
def test_a_lookup_that_means_nothing_is_refused(options: dict[str, Any], message: str) -> None:
    left, right = two_streams()
    with pytest.raises((UserError, TypeError), match=message):
        left.lookup(right.broadcast(), **options)


def test_a_lookup_needs_a_broadcast_stream_and_records_that_are_none() -> None:
    left, right = two_streams()
    with pytest.raises(GraphError, match="needs a broadcast stream") as failure:
        left.lookup(right, key="id", on="id")
    assert "broadcast()" in failure.value.hint
    with pytest.raises(GraphError, match="needs a broadcast stream"):
        left.lookup(right.key_by("id"), key="id", on="id")  # type: ignore[arg-type]
    with pytest.raises(GraphError, match="records of a lookup are broadcast"):
        left.broadcast().lookup(right.broadcast(), key="id", on="id")


# Whole jobs.

EARLY = [("a", 1000), ("b", 2000), ("a", 9000)]
LATE = [("a", 1500), ("a", 3000), ("b", 2100)]


def timed(env: cw.Environment, records: list[tuple[str, int]]) -> cw.DataStream:
    return env.from_collection(records).assign_timestamps(lambda record: record[1], cw.watermarks.bounded("5s"))


def first(record: tuple[str, int]) -> str:
    return record[0]


def test_a_job_joins_and_gives_tuples() -> None:
    env = cw.Environment(parallelism=2, launcher=LocalLauncher())
    left, right = timed(env, EARLY).key_by(first), timed(env, LATE).key_by(first)
    pairs = left.join(right, between=("0s", "1s")).execute_and_collect()
    assert sorted(pairs) == [(("a", 1000), ("a", 1500)), (("b", 2000), ("b", 2100))]


def test_a_job_without_timestamps_says_what_to_write() -> None:
    env = cw.Environment(parallelism=1, launcher=LocalLauncher(), restart=cw.restart.none())
    left, right = env.from_collection(EARLY).key_by(first), env.from_collection(LATE).key_by(first)
    with pytest.raises(BadTimestampError, match="have no timestamps") as failure:
        left.join(right, between=("0s", "1s")).execute_and_collect()
    assert "assign_timestamps" in failure.value.hint


def test_late_records_can_be_read_from_their_side_output() -> None:
    env = cw.Environment(parallelism=1, launcher=LocalLauncher())
    strategy = cw.watermarks.monotonous(every="0s")
    numbers = [*range(100_000, 200_000, 100), 5]
    left = env.from_collection(numbers).assign_timestamps(lambda n: n, strategy).key_by(lambda n: 0)
    joined = left.join(left, between=("0s", "0s"), late_output=("late left", "late right"))
    assert joined.side_output("late left").execute_and_collect() == [5]


def test_connected_streams_have_the_event_time_of_both_sides() -> None:
    class Counting:
        """When event time has come past a record: how many of its key, of both streams, had happened by then?"""

        def open(self, context: Any) -> None:
            self.times = context.list_state("times")

        def process1(self, record: Any, context: Any) -> None:
            self.times.add(context.timestamp_ms)
            context.register_event_timer(record[1])

        process2 = process1

        def on_timer(self, time: int, context: Any) -> list[Any]:
            return [(context.current_key, time, sum(known <= time for known in self.times.get()))]

    env = cw.Environment(parallelism=2, launcher=LocalLauncher(seed=3))
    both = timed(env, EARLY).key_by(first).connect(timed(env, LATE).key_by(first))
    counts = both.process(Counting()).execute_and_collect()
    assert sorted(counts) == [
        ("a", 1000, 1),
        ("a", 1500, 2),
        ("a", 3000, 3),
        ("a", 9000, 4),
        ("b", 2000, 1),
        ("b", 2100, 2),
    ]
