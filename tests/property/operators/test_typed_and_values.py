"""A typed stream gives what the same records give as Python values, whatever their types and however Arrow lays them
out: dictionaries with repetitions and nulls, views, time zones around the change of the clock, NaN, both zeros."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.operators.conftest import Harness

from cutwater.errors import KeyTypeError
from cutwater.graph.keys import KeySelector
from cutwater.operators.aggregations import Aggregation
from cutwater.operators.columnar.partial import PartialAggregateOperator
from cutwater.operators.columnar.plan import AggregatePlan, plan_aggregates
from cutwater.operators.columnar.running import HeldColumnsOperator, RunningColumnsOperator
from cutwater.operators.keyed_folds import RunningFolds
from cutwater.protocol.key_groups import key_group
from cutwater.state.columnar.key_groups import RowGroups

#: Around the changes of the clock in Berlin, in New York, on Lord Howe (by half an hour), and of the date line in Apia.
ZONES = {
    "Europe/Berlin": datetime(2024, 10, 27, 0, 30, tzinfo=UTC),
    "America/New_York": datetime(2024, 11, 3, 5, 30, tzinfo=UTC),
    "Australia/Lord_Howe": datetime(2024, 4, 6, 14, 45, tzinfo=UTC),
    "Pacific/Apia": datetime(2011, 12, 30, 9, 30, tzinfo=UTC),
    "+05:30": datetime(1969, 12, 31, 23, 59, tzinfo=UTC),
}
TEXTS = st.sampled_from(["", "a", "b", "é", "e\u0301", "\x00", "a much longer text than fits into a view"])
STEPS = st.integers(-6, 6)


def moments(zone: str, unit: str) -> st.SearchStrategy[datetime]:
    fraction = timedelta(0) if unit == "s" else timedelta(milliseconds=7)
    return STEPS.map(lambda step: ZONES[zone] + step * timedelta(minutes=15) + (step % 2) * fraction)


KEYS: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "string": (pa.string(), TEXTS),
    "large_string": (pa.large_string(), TEXTS),
    "string_view": (pa.string_view(), TEXTS),
    "binary": (pa.binary(), TEXTS.map(str.encode)),
    "binary_view": (pa.binary_view(), TEXTS.map(str.encode)),
    "int8": (pa.int8(), st.integers(-128, 127)),
    "int64": (pa.int64(), st.sampled_from([-(2**63), -1, 0, 1, 2**63 - 1])),
    "uint32": (pa.uint32(), st.sampled_from([0, 1, 2**32 - 1])),
    "bool": (pa.bool_(), st.booleans()),
    "date32": (pa.date32(), st.sampled_from([date(1, 1, 1), date(1969, 12, 31), date(9999, 12, 31)])),
    "date64": (pa.date64(), st.sampled_from([date(1969, 12, 31), date(2024, 2, 29)])),
    "naive": (pa.timestamp("us"), STEPS.map(lambda step: datetime(1970, 1, 1) + step * timedelta(microseconds=1))),  # noqa: DTZ001
    **{
        f"{zone} {unit}": (pa.timestamp(unit, zone), moments(zone, unit))
        for zone in ZONES
        for unit in ("s", "ms", "us", "ns")
    },
}
FLOATS = st.sampled_from([math.nan, 0.0, -0.0, 1.5, -2.0, math.inf, -math.inf])
VALUES: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "float64": (pa.float64(), FLOATS),
    "float32": (pa.float32(), FLOATS),
    "int32": (pa.int32(), st.integers(-9, 9)),
    "time": (pa.timestamp("us", "Europe/Berlin"), moments("Europe/Berlin", "us")),
}


def encoded(draw: st.DrawFn, column: pa.Array) -> pa.Array:
    """As it is, or as codes of a dictionary, which may repeat values and hold nulls."""
    plain = column.type
    if not pa.types.is_string(plain) and not pa.types.is_large_string(plain) and not pa.types.is_binary(plain):
        return column
    if not draw(st.booleans()):
        return column
    values = column.to_pylist()
    dictionary = draw(st.permutations([*dict.fromkeys(values), *draw(st.lists(st.sampled_from([*values, None])))]))
    codes = [draw(st.sampled_from([at for at, each in enumerate(dictionary) if each == value])) for value in values]
    return pa.DictionaryArray.from_arrays(pa.array(codes, pa.int32()), pa.array(dictionary, plain))


@dataclass(frozen=True)
class Stream:
    """Batches of one schema, and what is to be aggregated."""

    keys: tuple[str, ...]
    aggregations: dict[str, Aggregation]
    batches: list[pa.RecordBatch]

    def plan(self, *, turned: bool = False) -> AggregatePlan:
        order = list(self.aggregations.items())
        schema = pa.schema(
            [(field.name, getattr(field.type, "value_type", field.type)) for field in self.batches[0].schema]
        )
        made = plan_aggregates(schema, self.keys, dict(order[::-1] if turned else order))
        assert made is not None
        return made

    def on_values(self, *, turned: bool = False) -> RunningFolds:
        order = tuple(self.aggregations.items())
        return RunningFolds(KeySelector(columns=self.keys), order[::-1] if turned else order)


@st.composite
def streams(draw: st.DrawFn) -> Stream:
    keys = draw(st.lists(st.sampled_from(sorted(KEYS)), min_size=1, max_size=2))
    value = draw(st.sampled_from(sorted(VALUES)))
    kinds = ["min", "max"] if value == "time" else ["sum", "min", "max", "mean"]
    chosen = draw(st.lists(st.sampled_from(kinds), min_size=1, unique=True))
    aggregations = {f"{kind}_of_v": Aggregation(kind, "v") for kind in chosen}  # type: ignore[arg-type]
    aggregations["n"] = Aggregation("count")
    names = [f"k{number}" for number in range(len(keys))]
    columns = [(KEYS[kind][0], KEYS[kind][1]) for kind in keys]
    columns.append((VALUES[value][0], st.none() | VALUES[value][1]))
    batches = []
    for _ in range(draw(st.integers(1, 3))):
        rows = draw(st.lists(st.tuples(*(strategy for _, strategy in columns)), min_size=1, max_size=12))
        arrays = [pa.array(found, type=kind) for found, (kind, _) in zip(zip(*rows, strict=True), columns, strict=True)]
        arrays[:-1] = [encoded(draw, array) for array in arrays[:-1]]
        batches.append(pa.RecordBatch.from_arrays(arrays, [*names, "v"]))
    return Stream(tuple(names), aggregations, batches)


def alike(value: Any) -> Any:
    """The same for what counts as the same: any NaN, both zeros, one moment in all zones."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value + 0.0
    if isinstance(value, datetime) and value.tzinfo is not None:
        return value.astimezone(UTC)
    return value


def shown(rows: list[Any]) -> list[dict[str, Any]]:
    return [{name: alike(value) for name, value in zip(row._fields, row, strict=True)} for row in rows]


@settings(max_examples=120, deadline=None)
@given(streams())
def test_a_row_has_the_key_group_of_its_key_in_python(stream: Stream) -> None:
    groups = RowGroups(128)
    for batch in stream.batches:
        keys = KeySelector(columns=stream.keys).keys_of(batch)
        found = groups.of([batch.column(name) for name in stream.keys]).tolist()
        assert found == [key_group(key, 128) for key in keys]


@settings(max_examples=120, deadline=None)
@given(streams(), st.integers(0, 3))
def test_every_record_is_answered_alike_also_when_restored_in_another_order(stream: Stream, restore_at: int) -> None:
    typed, values = Harness(RunningColumnsOperator(stream.plan())), Harness(stream.on_values())
    for number, batch in enumerate(stream.batches):
        if number == restore_at:
            typed = Harness(RunningColumnsOperator(stream.plan(turned=True)), keyed=list(typed.freeze_keyed().chunks()))
            values = Harness(stream.on_values(turned=True), keyed=list(values.freeze_keyed().chunks()))
        typed.operator.process(batch, 0)
        values.operator.process(batch, 0)
        assert shown(typed.output) == shown(values.output)


@settings(max_examples=120, deadline=None)
@given(streams())
def test_what_is_aggregated_before_the_shuffle_comes_out_alike(stream: Stream) -> None:
    before, typed = Harness(PartialAggregateOperator(stream.plan())), Harness(HeldColumnsOperator(stream.plan(), 0.0))
    values = Harness(stream.on_values())
    for batch in stream.batches:
        before.operator.process(batch, 0)
        typed.operator.process(before.batches.pop(), 0)
        values.operator.process(batch, 0)
        last = {tuple(str(row[name]) for name in stream.keys): row for row in shown(values.output)}
        found = {tuple(str(row[name]) for name in stream.keys): row for row in shown(typed.output)}
        assert found == last


@given(st.lists(FLOATS, min_size=1, max_size=8), st.data())
def test_neither_order_nor_partial_results_change_the_smallest_and_the_largest(
    values: list[float], data: st.DataObject
) -> None:
    schema = pa.schema([("k", pa.string()), ("v", pa.float64())])
    plan = plan_aggregates(schema, ["k"], {"low": Aggregation("min", "v"), "high": Aggregation("max", "v")})
    assert plan is not None
    before, typed = Harness(PartialAggregateOperator(plan)), Harness(HeldColumnsOperator(plan, 0.0))
    rest = data.draw(st.permutations(values))
    while rest:
        size = data.draw(st.integers(1, len(rest)))
        part, rest = rest[:size], rest[size:]
        before.operator.process(pa.RecordBatch.from_pydict({"k": ["a"] * size, "v": part}, schema=schema), 0)
        typed.operator.process(before.batches.pop(), 0)
    ordered = sorted(values, key=lambda value: (math.isnan(value), value))
    last = typed.output[-1]
    assert (alike(last.low), alike(last.high)) == (alike(ordered[0]), alike(ordered[-1]))


@given(st.lists(st.sampled_from(["a", "", None]), min_size=1, max_size=8), st.booleans())
def test_a_null_key_is_refused_wherever_it_is_written(keys: list[str | None], in_the_dictionary: bool) -> None:
    dictionary = ["", "a", None]
    codes = [dictionary.index(key) if key is not None or in_the_dictionary else None for key in keys]
    column = pa.DictionaryArray.from_arrays(pa.array(codes, pa.int32()), pa.array(dictionary))
    batch = pa.RecordBatch.from_arrays([column, pa.array(range(len(keys)))], ["k", "v"])
    plan = plan_aggregates(pa.schema([("k", pa.string()), ("v", pa.int64())]), ["k"], {"n": Aggregation("count")})
    assert plan is not None
    typed = Harness(RunningColumnsOperator(plan))
    if None in keys:
        with pytest.raises(KeyTypeError, match="has no key"):
            typed.operator.process(batch, 0)
    else:
        typed.operator.process(batch, 0)
        assert [tuple(row) for row in typed.output] == [(key, keys[: at + 1].count(key)) for at, key in enumerate(keys)]
