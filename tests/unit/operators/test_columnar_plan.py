from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from tests.unit.operators.conftest import Harness

from cutwater.batches import with_times
from cutwater.errors import KeyTypeError, SerializationError, UserError
from cutwater.operators.aggregations import Aggregation
from cutwater.operators.columnar.partial import PartialAggregateOperator
from cutwater.operators.columnar.plan import plan_aggregates
from cutwater.operators.columnar.running import RunningColumnsOperator
from cutwater.operators.columnar.slices import Slices
from cutwater.operators.columnar.window import WindowColumnsOperator
from cutwater.protocol.ids import AttemptNumber, CheckpointId, TaskId
from cutwater.snapshots.storage import MemoryStorage
from cutwater.snapshots.tables import SavepointFolder, TablesRestore
from cutwater.snapshots.writer import write_task_savepoint

SCHEMA = pa.schema([("key", pa.string()), ("value", pa.int64()), ("name", pa.string()), ("weight", pa.float32())])
COUNT = {"count": Aggregation("count")}


def test_a_missing_key_column_is_named_with_the_columns_there_are() -> None:
    with pytest.raises(UserError, match='no column "kye" for key_by') as caught:
        plan_aggregates(SCHEMA, ["kye"], COUNT)
    assert "value int64" in str(caught.value)


def test_a_missing_value_column_is_named() -> None:
    with pytest.raises(UserError, match='no column "price" for sum'):
        plan_aggregates(SCHEMA, ["key"], {"sum": Aggregation("sum", "price")})


def test_a_result_can_not_be_named_like_the_key() -> None:
    with pytest.raises(UserError, match='two columns "key"'):
        plan_aggregates(SCHEMA, ["key"], {"key": Aggregation("count")})


@pytest.mark.parametrize(
    ("keys", "aggregations"),
    [
        (["weight"], COUNT),
        (["key"], {"sum": Aggregation("sum", "name")}),
        (["key"], {"min": Aggregation("min", "name")}),
        (["key"], {"sum": Aggregation("sum", lambda row: row.value)}),
    ],
    ids=["a float as key", "a sum of strings", "a smallest string", "a function"],
)
def test_what_columns_can_not_do_is_left_to_python(keys: list[str], aggregations: dict[str, Aggregation]) -> None:
    assert plan_aggregates(SCHEMA, keys, aggregations) is None


def test_aggregates_share_what_they_need() -> None:
    plan = plan_aggregates(
        SCHEMA, ["key"], {"n": Aggregation("count"), "m": Aggregation("count"), "mean": Aggregation("mean", "value")}
    )
    assert plan is not None
    assert [(value.kind, value.column) for value in plan.values] == [
        ("count", None),
        ("sum", "value"),
        ("count", "value"),
    ]
    assert plan.columns == {"key", "value"}


@pytest.mark.parametrize("operator", [RunningColumnsOperator, PartialAggregateOperator])
def test_a_null_key_is_refused_with_the_record(operator: type) -> None:
    plan = plan_aggregates(SCHEMA, ["key"], COUNT)
    task = Harness(operator(plan))
    rows = [{"key": "a", "value": 1}, {"key": None, "value": 2}]
    with pytest.raises(KeyTypeError, match="has no key") as caught:
        task.operator.process(pa.RecordBatch.from_pylist(rows, schema=SCHEMA), 0)
    assert "'value': 2" in str(caught.value)


def test_a_float_column_of_32_bits_keeps_its_type_in_min_and_max() -> None:
    plan = plan_aggregates(
        SCHEMA, ["key"], {"low": Aggregation("min", "weight"), "total": Aggregation("sum", "weight")}
    )
    assert plan is not None
    assert [field.type for field in plan.result_fields] == [pa.float32(), pa.float64()]


def test_state_that_was_written_on_python_values_is_refused_instead_of_lost() -> None:
    plan = plan_aggregates(SCHEMA, ["key"], COUNT)
    with pytest.raises(SerializationError, match="is not columnar"):
        Harness(RunningColumnsOperator(plan), keyed=[("count", 0, b"\x80")])


def running(*columns: str) -> RunningColumnsOperator:
    plan = plan_aggregates(SCHEMA, ["key"], {name: Aggregation("sum", name) for name in columns})
    assert plan is not None
    return RunningColumnsOperator(plan)


def test_a_restored_table_is_matched_by_the_names_of_its_columns() -> None:
    before = Harness(running("value", "weight"))
    row = {"key": "a", "value": 7, "weight": 0.5}
    before.operator.process(pa.RecordBatch.from_pylist([row], schema=SCHEMA), 0)
    after = Harness(running("weight", "value"), keyed=list(before.freeze_keyed().chunks()))
    after.operator.process(pa.RecordBatch.from_pylist([row], schema=SCHEMA), 0)
    assert after.output == [("a", 1.0, 14)]


def test_a_restored_table_without_a_needed_column_is_refused_by_the_task_itself() -> None:
    before = Harness(running("value"))
    before.operator.process(pa.RecordBatch.from_pylist([{"key": "a", "value": 7}], schema=SCHEMA), 0)
    with pytest.raises(SerializationError, match="sum_weight"):
        Harness(running("weight"), keyed=list(before.freeze_keyed().chunks()))


def test_an_open_window_is_restored_by_names_and_says_which_windows_it_belongs_to() -> None:
    def window(slices: Slices, *columns: str) -> WindowColumnsOperator:
        plan = plan_aggregates(SCHEMA, ["key"], {name: Aggregation("sum", name) for name in columns}, count_rows=True)
        assert plan is not None
        return WindowColumnsOperator(plan, slices, "late")

    before = Harness(window(Slices(10, 10), "value", "weight"))
    row = pa.RecordBatch.from_pylist([{"key": "a", "value": 7, "weight": 0.5}], schema=SCHEMA)
    before.operator.process(with_times(row, np.array([3], dtype=np.int64)), 0)
    after = Harness(window(Slices(10, 10), "weight", "value"), keyed=list(before.freeze_keyed().chunks()))
    after.operator.on_watermark(9)
    assert [tuple(found)[3:] for found in after.output] == [(0.5, 7)]
    assert dict(window(Slices(10, 5), "value").layout)["windows"] != dict(before.operator.layout)["windows"]


def test_a_savepoint_says_what_its_tables_hold_and_is_restored_by_the_names_of_their_columns() -> None:
    before = Harness(running("value", "weight"))
    row = {"key": "a", "value": 7, "weight": 0.5}
    before.operator.process(pa.RecordBatch.from_pylist([row], schema=SCHEMA), 0)
    storage = MemoryStorage()
    to = SavepointFolder(storage, "savepoint", AttemptNumber(1))
    written = write_task_savepoint(to, TaskId("sum", 0), [("sum", before.operator.freeze(CheckpointId(1)))])
    assert written.layouts == {"sum": before.operator.layout}
    tables = TablesRestore(storage, "savepoint", [written], "sum", range(8))
    (table,) = tables.batches()
    assert table.schema.names == ["key_group", "by_key", "sum_value", "sum_weight"]
    after = Harness(running("weight", "value"), keyed=list(tables.chunks()))
    after.operator.process(pa.RecordBatch.from_pylist([row], schema=SCHEMA), 0)
    assert after.output == [("a", 1.0, 14)]
