"""The columnar state against plain dicts: any keys, any batches, encoded or not."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cutwater.protocol.key_groups import key_group, subtask_of
from cutwater.state.columnar.grouping import group_rows
from cutwater.state.columnar.key_groups import RowGroups, RowRouting
from cutwater.state.columnar.key_index import KeyIndex
from cutwater.state.columnar.layout import TableLayout, ValueLayout
from cutwater.state.columnar.table import AggregateTable, FrozenTables, restored_tables

INT64 = st.integers(-(2**63), 2**63 - 1)
MOMENTS = st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30))  # noqa: DTZ001 — naive ones are keys too
KEYS: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "string": (pa.string(), st.text(max_size=20)),
    "large_string": (pa.large_string(), st.text(max_size=20)),
    "binary": (pa.binary(), st.binary(max_size=20)),
    "int64": (pa.int64(), st.one_of(INT64, st.integers(-300, 300))),
    "int8": (pa.int8(), st.integers(-128, 127)),
    "uint32": (pa.uint32(), st.integers(0, 2**32 - 1)),
    "bool": (pa.bool_(), st.booleans()),
    "date": (pa.date32(), st.dates(date(1, 1, 2), date(9999, 12, 30))),
    "naive": (pa.timestamp("us"), MOMENTS),
    "aware": (pa.timestamp("us", "UTC"), MOMENTS.map(lambda moment: moment.replace(tzinfo=UTC))),
    "milliseconds": (pa.timestamp("ms"), MOMENTS.map(lambda moment: moment.replace(microsecond=0))),
}


def columns_of(kinds: list[str], rows: list[tuple[Any, ...]], *, encoded: bool, cut: int) -> list[pa.Array]:
    """The rows as columns, as a slice of a longer array, so that offsets are not zero."""
    columns = []
    for position, kind in enumerate(kinds):
        padded = [row[position] for row in rows[:cut]] + [row[position] for row in rows]
        column = pa.array(padded, type=KEYS[kind][0]).slice(min(cut, len(rows)))
        columns.append(column.dictionary_encode() if encoded and "string" in kind else column)
    return columns


@st.composite
def keyed_rows(draw: st.DrawFn, columns_max: int = 3) -> tuple[list[str], list[list[tuple[Any, ...]]]]:
    """Kinds of key columns, and batches of rows of them, with repetitions."""
    kinds = draw(st.lists(st.sampled_from(sorted(KEYS)), min_size=1, max_size=columns_max))
    row = st.tuples(*(KEYS[kind][1] for kind in kinds))
    pool = draw(st.lists(row, min_size=1, max_size=12))
    batches = draw(st.lists(st.lists(st.sampled_from(pool), min_size=1, max_size=30), min_size=1, max_size=4))
    return kinds, batches


@given(keyed_rows(), st.booleans(), st.integers(0, 3), st.sampled_from([1, 7, 128, 32768]))
def test_a_row_has_the_key_group_that_its_key_has(
    drawn: tuple[list[str], list[list[tuple[Any, ...]]]], encoded: bool, cut: int, max_parallelism: int
) -> None:
    kinds, batches = drawn
    groups = RowGroups(max_parallelism)
    for rows in batches:
        keys = [row[0] if len(kinds) == 1 else row for row in rows]
        found = groups.of(columns_of(kinds, rows, encoded=encoded, cut=cut))
        assert found.tolist() == [key_group(key, max_parallelism) for key in keys]


@given(st.lists(st.text(max_size=8), min_size=1, max_size=60), st.integers(1, 5), st.booleans())
def test_routing_sends_every_row_to_the_task_of_its_key_and_keeps_the_order(
    keys: list[str], receivers: int, encoded: bool
) -> None:
    column = pa.array(keys).dictionary_encode() if encoded else pa.array(keys)
    batch = pa.RecordBatch.from_arrays([column, pa.array(range(len(keys)))], ["key", "row"])
    parts = RowRouting(max_parallelism=8, receivers=receivers).parts(batch, [column])
    for task, part in enumerate(parts):
        wanted = [row for row, key in enumerate(keys) if subtask_of(key_group(key, 8), receivers, 8) == task]
        assert part.column("row").to_pylist() == wanted


@given(keyed_rows(), st.lists(st.booleans(), min_size=4, max_size=4), st.integers(0, 3))
def test_equal_keys_share_a_slot_and_new_keys_get_the_next(
    drawn: tuple[list[str], list[list[tuple[Any, ...]]]], encoded: list[bool], cut: int
) -> None:
    kinds, batches = drawn
    index = KeyIndex([KEYS[kind][0] for kind in kinds])
    known: dict[tuple[Any, ...], int] = {}
    for rows, is_encoded in zip(batches, encoded, strict=False):
        slots = index.slots_of(columns_of(kinds, rows, encoded=is_encoded, cut=cut))
        assert slots.tolist() == [known.setdefault(row, len(known)) for row in rows]
    columns = index.keys()
    assert list(zip(*(column.to_pylist() for column in columns), strict=True)) == list(known)


@given(keyed_rows(), st.booleans(), st.one_of(st.none(), st.lists(INT64, min_size=30, max_size=30)))
def test_rows_are_grouped_when_all_columns_are_equal(
    drawn: tuple[list[str], list[list[tuple[Any, ...]]]], encoded: bool, numbers: list[int] | None
) -> None:
    kinds, (rows, *_) = drawn
    extra = None if numbers is None else np.array(numbers[: len(rows)], dtype=np.int64) // 2**60
    groups = group_rows(columns_of(kinds, rows, encoded=encoded, cut=1), extra)
    whole = [row if extra is None else (*row, int(extra[position])) for position, row in enumerate(rows)]
    known: dict[tuple[Any, ...], int] = {}
    assert groups.ids.tolist() == [known.setdefault(row, len(known)) for row in whole]
    assert [whole[row] for row in groups.first_rows.tolist()] == list(known)


VALUES = st.one_of(st.none(), st.integers(-1000, 1000))
LAYOUT = TableLayout(
    (pa.field("key", pa.string()),),
    (
        ValueLayout("count_0", "count", None),
        ValueLayout("sum_1", "sum", pa.int32()),
        ValueLayout("min_2", "min", pa.int64()),
        ValueLayout("max_3", "max", pa.float64()),
        ValueLayout("sum_4", "sum", pa.float64()),
    ),
)
ROWS = st.lists(st.tuples(st.sampled_from("abcdef"), VALUES), min_size=1, max_size=30)


def inputs_of(values: list[int | None]) -> list[pa.Array | None]:
    return [None, *(pa.array(values, type=value.inputs) for value in LAYOUT.values[1:])]


def model(rows: list[tuple[str, int | None]]) -> dict[str, tuple[Any, ...]]:
    """What SQL says: nulls count for nothing, and nothing but nulls gives null."""
    found = {}
    for key in dict.fromkeys(key for key, _ in rows):
        values = [value for other, value in rows if other == key and value is not None]
        total = sum(values) if values else None
        low, high = (min(values), max(values)) if values else (None, None)
        found[key] = (sum(other == key for other, _ in rows), total, low, high, total)
    return found


def contents(batch: pa.RecordBatch) -> dict[str, tuple[Any, ...]]:
    return {row[0]: row[1:] for row in zip(*(column.to_pylist() for column in batch.columns), strict=True)}


@given(st.lists(ROWS, min_size=1, max_size=4))
def test_a_table_aggregates_as_sql_does(batches: list[list[tuple[str, int | None]]]) -> None:
    table = AggregateTable(LAYOUT)
    for rows in batches:
        table.add([pa.array([key for key, _ in rows])], inputs_of([value for _, value in rows]))
    assert contents(table.as_batch()) == model([row for rows in batches for row in rows])


@given(st.lists(ROWS, min_size=1, max_size=4))
def test_a_running_result_is_the_aggregate_of_the_rows_so_far(batches: list[list[tuple[str, int | None]]]) -> None:
    table = AggregateTable(LAYOUT)
    so_far: list[tuple[str, int | None]] = []
    for rows in batches:
        slots = table.slots_of([pa.array([key for key, _ in rows])])
        inputs = inputs_of([value for _, value in rows])
        columns = [column.run(slots, given_) for column, given_ in zip(table.values, inputs, strict=True)]
        for row, result in zip(rows, zip(*(column.to_pylist() for column in columns), strict=True), strict=True):
            so_far.append(row)
            assert result == model(so_far)[row[0]]


@settings(max_examples=50)
@given(ROWS, ROWS, st.integers(1, 4))
def test_a_frozen_table_stays_as_it_was_and_comes_back_in_parts(
    before: list[tuple[str, int | None]], after: list[tuple[str, int | None]], tasks: int
) -> None:
    table = AggregateTable(LAYOUT)
    table.add([pa.array([key for key, _ in before])], inputs_of([value for _, value in before]))
    frozen = FrozenTables("state", LAYOUT, 8)
    frozen.add(table, 5)
    table.add([pa.array([key for key, _ in after])], inputs_of([value for _, value in after]))
    chunks = list(frozen.chunks())
    assert [group for _, group, _ in chunks] == sorted({key_group(key, 8) for key, _ in before})
    found: dict[str, tuple[Any, ...]] = {}
    for task in range(tasks):
        mine = [chunk for chunk in chunks if subtask_of(chunk[1], tasks, 8) == task]
        for namespace, part in restored_tables(mine, "state", LAYOUT, operator="count").items():
            assert namespace == 5
            found.update(contents(part.as_batch()))
    assert found == model(before)


@pytest.mark.parametrize("keys", [5_000, 70_000])
def test_a_table_grows(keys: int) -> None:
    table = AggregateTable(LAYOUT)
    names = [f"user_{number}" for number in range(keys)]
    for _ in range(2):
        table.add([pa.array(names)], inputs_of([1] * keys))
    assert contents(table.as_batch()) == dict.fromkeys(names, (2, 2, 1, 1.0, 2.0))


def test_a_sum_that_overflows_is_refused_instead_of_wrapping() -> None:
    table = AggregateTable(TableLayout((pa.field("key", pa.string()),), (ValueLayout("sum", "sum", pa.int64()),)))
    with pytest.raises(Exception, match="too large for 64 bits"):
        table.add([pa.array(["a", "a"])], [pa.array([2**62, 2**62])])


def test_the_epoch_of_dates_and_times_is_pythons() -> None:
    moment = datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)
    column = pa.array([moment, moment + timedelta(microseconds=1)])
    assert RowGroups(128).of([column]).tolist() == [key_group(value, 128) for value in column.to_pylist()]
