"""Running aggregates on columns against the same on Python values, killed and restored at any point."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.operators.conftest import Harness

from cutwater.batches import rows_of, times_of, with_times
from cutwater.operators.aggregations import Aggregation
from cutwater.operators.columnar.partial import PartialAggregateOperator
from cutwater.operators.columnar.plan import AggregatePlan, plan_aggregates
from cutwater.operators.columnar.running import HeldColumnsOperator, RunningColumnsOperator, running_schema
from cutwater.operators.contract import Operator
from cutwater.protocol.key_groups import key_group

SCHEMA = pa.schema([("city", pa.string()), ("day", pa.int32()), ("price", pa.float64()), ("items", pa.int64())])
AGGREGATIONS = {
    "orders": Aggregation("count"),
    "revenue": Aggregation("sum", "price"),
    "fewest": Aggregation("min", "items"),
    "most": Aggregation("max", "items"),
    "average": Aggregation("mean", "items"),
}
Row = tuple[str, int, float | None, int | None]
ROWS = st.tuples(
    st.sampled_from(["Köln", "Oslo", "", "Lima"]),
    st.integers(0, 2),
    st.one_of(st.none(), st.integers(-100, 100).map(float)),
    st.one_of(st.none(), st.integers(-5, 5)),
)
BATCHES = st.lists(st.lists(ROWS, min_size=1, max_size=20), min_size=1, max_size=5)


def plan() -> AggregatePlan:
    made = plan_aggregates(SCHEMA, ["city", "day"], AGGREGATIONS)
    assert made is not None
    return made


def batch_of(rows: list[Row], *, encoded: bool = False) -> pa.RecordBatch:
    columns = [pa.array(column, type=field.type) for column, field in zip(zip(*rows, strict=True), SCHEMA, strict=True)]
    if encoded:
        columns[0] = columns[0].dictionary_encode()
    return pa.RecordBatch.from_arrays(columns, SCHEMA.names)


def aggregate(rows: list[Row], key: tuple[str, int]) -> tuple[Any, ...]:
    """The slow, obvious answer."""
    mine = [row for row in rows if row[:2] == key]
    prices = [row[2] for row in mine if row[2] is not None]
    items = [row[3] for row in mine if row[3] is not None]
    return (
        *key,
        len(mine),
        sum(prices) if prices else None,
        min(items) if items else None,
        max(items) if items else None,
        sum(items) / len(items) if items else None,
    )


def restored(operator: Operator, task: Harness, *, groups: range = range(8)) -> Harness:
    chunks = [chunk for chunk in task.freeze_keyed().chunks() if chunk[1] in groups]
    return Harness(operator, keyed=chunks)


@settings(max_examples=60)
@given(BATCHES, st.integers(0, 5), st.booleans())
def test_every_record_is_answered_with_the_aggregates_so_far_also_after_a_restore(
    batches: list[list[Row]], restore_before: int, encoded: bool
) -> None:
    task = Harness(RunningColumnsOperator(plan()))
    so_far: list[Row] = []
    for number, rows in enumerate(batches):
        if number == restore_before:
            task = restored(RunningColumnsOperator(plan()), task)
        task.operator.process(batch_of(rows, encoded=encoded), 0)
        expected = []
        for row in rows:
            so_far.append(row)
            expected.append(aggregate(so_far, row[:2]))
        assert task.output == expected


@settings(max_examples=60)
@given(BATCHES, st.integers(0, 5), st.booleans())
def test_every_key_of_a_batch_is_answered_once_when_rows_are_aggregated_before_the_shuffle(
    batches: list[list[Row]], restore_before: int, encoded: bool
) -> None:
    before, task = Harness(PartialAggregateOperator(plan())), Harness(HeldColumnsOperator(plan(), 0.0))
    so_far: list[Row] = []
    for number, rows in enumerate(batches):
        if number == restore_before:
            task = restored(HeldColumnsOperator(plan(), 0.0), task)
        before.operator.process(batch_of(rows, encoded=encoded), 0)
        (partial,) = before.batches
        before.batches.clear()
        task.operator.process(partial, 0)
        so_far += rows
        keys = dict.fromkeys(row[:2] for row in rows)
        assert task.output == [aggregate(so_far, key) for key in keys]


@settings(max_examples=30)
@given(BATCHES)
def test_the_state_of_one_task_becomes_that_of_two(batches: list[list[Row]]) -> None:
    task = Harness(RunningColumnsOperator(plan()))
    everything = [row for rows in batches for row in rows]
    task.operator.process(batch_of(everything), 0)
    halves = [restored(RunningColumnsOperator(plan()), task, groups=groups) for groups in (range(4), range(4, 8))]
    for key in {row[:2] for row in everything}:
        owner = halves[key_group(key, 8) // 4]
        owner.operator.process(batch_of([(*key, None, None)]), 0)
        assert owner.output == [aggregate([*everything, (*key, None, None)], key)]


def test_results_have_the_schema_that_was_announced_and_the_times_of_their_records() -> None:
    task = Harness(RunningColumnsOperator(plan()))
    times = np.array([5, 3], dtype=np.int64)
    task.operator.process(with_times(batch_of([("Oslo", 1, 1.0, 1), ("Lima", 1, 1.0, 1)]), times), 0)
    (result,) = task.batches
    found = times_of(result)
    assert result.schema.equals(running_schema(plan(), timed=True), check_metadata=True)
    assert found is not None
    assert found.tolist() == [5, 3]
    assert rows_of(result)[0] == ("Oslo", 1, 1, 1.0, 1, 1, 1.0)


def test_results_of_a_batch_carry_its_latest_time() -> None:
    before, task = Harness(PartialAggregateOperator(plan())), Harness(HeldColumnsOperator(plan(), 0.0))
    rows = with_times(batch_of([("Oslo", 1, 1.0, 1), ("Lima", 1, 1.0, 1)]), np.array([5, 3], dtype=np.int64))
    before.operator.process(rows, 0)
    task.operator.process(before.batches[0], 0)
    found = times_of(task.batches[0])
    assert found is not None
    assert found.tolist() == [5, 5]
