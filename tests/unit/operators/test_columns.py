"""Do select and filter by expression give the promised schema, and does event time go along?"""

from __future__ import annotations

import pickle
from typing import Any

import pyarrow as pa
import pytest

from cutwater.batches import TIME_COLUMN, TIME_METADATA, rows_of, times_of
from cutwater.columns.expressions import Column, col, lit
from cutwater.errors import UserError, UserFunctionError
from cutwater.operators.columns import FilterRowsOperator, SelectOperator, filtered_schema, selected_schema

N, K, TS = col("n"), col("k"), col("ts")
FIELDS = [
    pa.field("n", pa.int64(), nullable=False, metadata={b"unit": b"cm"}),
    pa.field("k", pa.int32()),
    pa.field("ts", pa.timestamp("us")),
]
UNTIMED = pa.schema(FIELDS, metadata={b"owner": b"me"})
TIMED = UNTIMED.with_metadata({b"owner": b"me", TIME_METADATA: b"ts"})
CARRIED = pa.schema([pa.field("n", pa.int64()), pa.field(TIME_COLUMN, pa.int64())], {TIME_METADATA: b"__time"})


def batch_of(schema: pa.Schema) -> pa.RecordBatch:
    if schema is CARRIED:
        return pa.record_batch([[1, 2], [1000, 2000]], schema=CARRIED)
    times = pa.array([1_000_000, 2_000_000, 3_000_000], pa.timestamp("us"))
    return pa.record_batch([pa.array([1, 2, 3]), pa.array([2, None, 0], pa.int32()), times], schema=schema)


def selected(task: Any, schema: pa.Schema, *, keeps_all: bool = False, **outputs: Column) -> pa.RecordBatch:
    """What select emits; it has the schema that was promised."""
    chain = task(SelectOperator(tuple(outputs.items()), keeps_all))
    chain.operator.process(batch_of(schema), 0)
    (batch,) = chain.batches
    promised = selected_schema(schema, tuple(outputs.items()), keeps_all=keeps_all, where="select")
    assert batch.schema.equals(promised, check_metadata=True)
    batch.validate(full=True)
    typed: pa.RecordBatch = batch
    return typed


def test_select_computes_its_columns_in_their_order(task: Any) -> None:
    batch = selected(task, UNTIMED, double=N * 2, k=K, one=lit(1))
    assert batch.to_pydict() == {"double": [2, 4, 6], "k": [2, None, 0], "one": [1, 1, 1]}


def test_with_columns_replaces_in_place_and_appends(task: Any) -> None:
    batch = selected(task, UNTIMED, keeps_all=True, new=N + K, k=lit("x"))
    assert batch.schema.names == ["n", "k", "ts", "new"]
    assert batch["k"].to_pylist() == ["x", "x", "x"]


def test_new_columns_are_computed_from_the_old_ones(task: Any) -> None:
    batch = selected(task, UNTIMED, keeps_all=True, n=N + 10, m=N)
    assert (batch["n"].to_pylist(), batch["m"].to_pylist()) == ([11, 12, 13], [1, 2, 3])


def test_a_column_that_is_passed_on_keeps_its_field_and_the_schema_its_metadata(task: Any) -> None:
    schema = selected(task, UNTIMED, m=N.alias("m"), sum=N + 1).schema
    assert schema.field("m").equals(FIELDS[0].with_name("m"), check_metadata=True)
    assert (schema.field("sum").nullable, schema.metadata) == (True, {b"owner": b"me"})


def test_event_time_stays_in_its_column_when_that_is_selected(task: Any) -> None:
    batch = selected(task, TIMED, ts=TS, n=N)
    assert (batch.schema.names, batch.schema.metadata[TIME_METADATA]) == (["ts", "n"], b"ts")


def test_event_time_follows_its_column_to_another_name(task: Any) -> None:
    batch = selected(task, TIMED, at=TS.alias("at"), n=N)
    assert (batch.schema.names, batch.schema.metadata[TIME_METADATA]) == (["at", "n"], b"at")


def test_event_time_that_is_not_selected_is_carried_on_unseen(task: Any) -> None:
    batch = selected(task, TIMED, n=N)
    assert batch.schema.names == ["n", TIME_COLUMN]
    assert batch.schema.metadata == {b"owner": b"me", TIME_METADATA: b"__time"}
    assert [tuple(row) for row in rows_of(batch)] == [(1,), (2,), (3,)]
    assert times_of(batch).tolist() == [1000, 2000, 3000]  # type: ignore[union-attr]


def test_event_time_outlives_a_column_that_takes_its_name(task: Any) -> None:
    batch = selected(task, TIMED, keeps_all=True, ts=lit("late"))
    assert batch.schema.names == ["n", "k", "ts", TIME_COLUMN]
    assert times_of(batch).tolist() == [1000, 2000, 3000]  # type: ignore[union-attr]


@pytest.mark.parametrize("keeps_all", [True, False])
def test_carried_event_time_stays_last(task: Any, keeps_all: bool) -> None:
    batch = selected(task, CARRIED, keeps_all=keeps_all, m=N + 1)
    assert batch.schema.names == [*(["n"] if keeps_all else []), "m", TIME_COLUMN]
    assert times_of(batch).tolist() == [1000, 2000]  # type: ignore[union-attr]


def test_names_that_clash_are_refused() -> None:
    with pytest.raises(UserError, match='two columns of select are called "n"'):
        selected_schema(UNTIMED, (("n", N), ("n", K)), keeps_all=False, where="select")
    with pytest.raises(UserError, match='can\'t be called "__time"'):
        selected_schema(UNTIMED, ((TIME_COLUMN, N),), keeps_all=True, where="select")


def test_the_schema_changes_with_the_input(task: Any) -> None:
    chain = task(SelectOperator((("m", N),), False))
    for values in ([1], [1.5], [2]):
        chain.operator.process(pa.record_batch({"n": values}), 0)
    assert [batch.schema.field("m").type for batch in chain.batches] == [pa.int64(), pa.float64(), pa.int64()]


def test_select_emits_nothing_for_an_empty_batch(task: Any) -> None:
    chain = task(SelectOperator((("n", N),), False))
    chain.operator.process(batch_of(UNTIMED).slice(0, 0), 0)
    assert chain.batches == []


def test_filter_keeps_what_is_true_and_drops_null(task: Any) -> None:
    chain = task(FilterRowsOperator(K >= 0))
    chain.operator.process(batch_of(TIMED), 0)
    (kept,) = chain.batches
    assert kept["n"].to_pylist() == [1, 3]
    assert kept.schema.equals(filtered_schema(TIMED, K >= 0, where="filter"), check_metadata=True)


def test_filter_passes_a_batch_on_as_it_is_when_all_rows_stay(task: Any) -> None:
    batch = batch_of(TIMED)
    chain = task(FilterRowsOperator(N > 0))
    chain.operator.process(batch, 0)
    assert chain.batches[0] is batch


def test_filter_emits_no_empty_batch(task: Any) -> None:
    chain = task(FilterRowsOperator(N > 3))
    chain.operator.process(batch_of(UNTIMED), 0)
    chain.operator.process(batch_of(UNTIMED).slice(0, 0), 0)
    assert chain.batches == []


def test_filter_by_what_is_no_condition_is_refused(task: Any) -> None:
    with pytest.raises(UserError, match='expression "n" of filter is not a condition\n  detail: it gives int64'):
        filtered_schema(UNTIMED, N, where="filter")
    with pytest.raises(UserError, match='expression "n" of operator "parse" is not a condition'):
        task(FilterRowsOperator(N)).operator.process(batch_of(UNTIMED), 0)


@pytest.mark.parametrize("operator", [SelectOperator((("q", N // K),), False), FilterRowsOperator(N // K > 0)])
def test_a_failure_names_operator_expression_and_row(task: Any, operator: Any) -> None:
    with pytest.raises(UserFunctionError) as failure:
        task(operator).operator.process(batch_of(UNTIMED), 0)
    lines = str(failure.value).splitlines()
    assert lines[0].startswith('expression "n // k')
    assert lines[0].endswith('of operator "parse" failed on a row')
    assert "divide by zero" in lines[1]
    assert lines[2].strip() == "row 2 of the batch: n=3, k=0"


def test_a_failing_function_is_shown_with_the_users_line_and_the_row(task: Any) -> None:
    def reciprocal(array: pa.Array) -> list[Any]:
        return [1.0 / value for value in array.to_pylist() if value is not None]

    chain = task(FilterRowsOperator(K.fill_null(1).apply(reciprocal, returns="float64") > 0))
    with pytest.raises(UserFunctionError) as failure:
        chain.operator.process(batch_of(UNTIMED), 0)
    text = str(failure.value)
    assert text.startswith(
        'function "reciprocal" of operator "parse" failed on a batch, in the expression "k.fill_null'
    )
    assert "record: row 2 of the batch: k=0" in text
    assert f"at {__file__}:{reciprocal.__code__.co_firstlineno + 1} in " in text


def test_a_function_that_changes_its_type_is_refused(task: Any) -> None:
    chain = task(
        SelectOperator((("m", N.apply(lambda array: array if len(array) else pa.array([], "string"))),), False)
    )
    with pytest.raises(UserFunctionError, match="string on an empty batch, int64 on this one"):
        chain.operator.process(batch_of(UNTIMED), 0)


@pytest.mark.parametrize("operator", [SelectOperator((("n", N),), False), FilterRowsOperator(N > 0)])
def test_a_missing_column_is_named_with_the_operator(task: Any, operator: Any) -> None:
    with pytest.raises(UserError, match='operator "parse" reads column "n", which does not exist'):
        task(operator).operator.process(pa.record_batch({"m": [1]}), 0)


@pytest.mark.parametrize("operator", [SelectOperator((("n", N),), False), FilterRowsOperator(N > 0)])
def test_a_stream_without_columns_is_refused(task: Any, operator: Any) -> None:
    with pytest.raises(UserError, match='operator "parse" works on columns, but its input has none'):
        task(operator).feed(1)


def test_operators_can_be_shipped(task: Any) -> None:
    chain = task(pickle.loads(pickle.dumps(SelectOperator((("m", N + 1),), False))))
    chain.operator.process(batch_of(UNTIMED), 0)
    assert chain.batches[0].to_pydict() == {"m": [2, 3, 4]}
