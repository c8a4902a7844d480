"""Is state the same after a trip through the tables of a savepoint, between any two backends?"""

from __future__ import annotations

import io
from collections.abc import Iterator
from datetime import date, timedelta, timezone
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import given
from hypothesis import strategies as st

from cutwater.canonical import StateRows, from_batch, to_batch
from cutwater.state.contract import KeyedBackend, RestoredState

from .test_rocksdb_properties import ALL_KEYS, Side, few_examples, heap, local_files, operations, rocks

values = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False),
    st.text(st.characters(exclude_categories=[])),
    st.binary(),
    st.dates(),
    st.datetimes(),
    st.datetimes(timezones=st.just(timezone(timedelta(hours=2)))),
    st.decimals(allow_nan=False),
    st.tuples(st.integers(0, 9), st.text(max_size=2)),
    st.lists(st.integers(0, 9), max_size=3),
    st.dictionaries(st.text(max_size=2), st.integers(0, 9), max_size=2),
)
columns = st.one_of(
    st.lists(values, min_size=1, max_size=8),
    *(st.lists(st.one_of(st.none(), kind), min_size=1, max_size=8) for kind in (st.integers(), st.text(), st.dates())),
    st.lists(st.tuples(st.integers(), st.text(max_size=2)), min_size=1, max_size=8),
    st.lists(st.lists(st.floats(allow_nan=False), max_size=3), min_size=1, max_size=8),
)


def through_parquet(batch: pa.RecordBatch) -> pa.RecordBatch:
    file = io.BytesIO()
    pq.write_table(pa.Table.from_batches([batch]), file)
    return pq.read_table(io.BytesIO(file.getvalue())).to_batches()[0]


@given(columns, columns)
def test_values_of_any_type_come_back_as_they_were(keys: list[Any], found: list[Any]) -> None:
    count = min(len(keys), len(found))
    rows = StateRows("s", "map", list(range(count)), keys[:count], found[:count], found[:count])
    back = from_batch(through_parquet(to_batch(rows)), "s", "map")
    assert back == rows
    assert [type(value) for value in back.values] == [type(value) for value in rows.values]


def test_simple_values_are_plain_columns_for_everyone() -> None:
    rows = StateRows("s", "value", [0, 1], ["a", "b"], None, [1, 2])
    batch = to_batch(rows)
    assert batch.to_pylist() == [{"key_group": 0, "key": "a", "value": 1}, {"key_group": 1, "key": "b", "value": 2}]
    mixed = to_batch(StateRows("s", "value", [0, 1], [date(2026, 1, 1), "b"], None, [(1, [2]), Decimal(1)]))
    assert mixed.column("key_text").to_pylist() == ['"2026-01-01"', '"b"']
    assert mixed.column("value_text").to_pylist() == ["[1,[2]]", '"1"']


def tables_of(backend: KeyedBackend) -> Iterator[StateRows]:
    for name, kind, batch in backend.freeze().tables(3):
        yield from_batch(through_parquet(batch), name, kind)


@few_examples
@given(st.lists(operations, max_size=40), st.sampled_from(["heap to rocksdb", "rocksdb to heap"]))
def test_a_savepoint_of_one_backend_is_restored_in_another(steps: list[tuple[Any, ...]], way: str) -> None:
    with local_files() as local:
        backends = (heap(), rocks(local)) if way == "heap to rocksdb" else (rocks(local), heap())
        before, model = Side(backends[0]), Side(heap())
        for step in steps:
            before.do(step)
            model.do(step)
        backends[1].restore(RestoredState(rows=list(tables_of(backends[0]))))
        after = Side(backends[1])
        assert after.contents(ALL_KEYS) == model.contents(ALL_KEYS)
        assert after.due() == model.due()
        for backend in backends:
            backend.close()
