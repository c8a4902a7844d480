"""Are columns the same JSON as the rows they are made of?"""

from __future__ import annotations

from typing import Any

import msgspec
import pyarrow as pa
from hypothesis import assume, given
from hypothesis import strategies as st

from cutwater.connectors.bases.json_columns import json_objects

COLUMNS: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.string(): st.text(st.characters(codec="utf-8"), max_size=8),
    pa.large_string(): st.text("abü ", max_size=8),
    pa.int64(): st.integers(-(2**63), 2**63 - 1),
    pa.uint64(): st.integers(0, 2**64 - 1),
    pa.int8(): st.integers(-128, 127),
    pa.bool_(): st.booleans(),
}


@st.composite
def batches(draw: st.DrawFn) -> pa.RecordBatch:
    rows = draw(st.integers(0, 5))
    names = draw(st.lists(st.text(st.characters(codec="utf-8"), max_size=4), min_size=1, max_size=3, unique=True))
    kinds = [draw(st.sampled_from(list(COLUMNS))) for _ in names]
    columns = [
        pa.array(draw(st.lists(st.none() | COLUMNS[kind], min_size=rows, max_size=rows)), kind) for kind in kinds
    ]
    batch = pa.RecordBatch.from_arrays(columns, names)
    begin = draw(st.integers(0, rows))
    return batch.slice(begin)


@given(batches())
def test_columns_are_the_json_of_their_rows(batch: pa.RecordBatch) -> None:
    objects = json_objects(batch)
    assume(objects is not None)
    assert [text.encode() for text in objects.to_pylist()] == [*map(msgspec.json.encode, batch.to_pylist())]


def test_floats_are_left_to_others() -> None:
    assert json_objects(pa.RecordBatch.from_pydict({"f": [1.5]})) is None
    assert json_objects(pa.RecordBatch.from_pydict({})) is None


def test_what_must_be_escaped_is_left_to_others() -> None:
    for text in ('"', "\\", "\n", "\x00"):
        assert json_objects(pa.RecordBatch.from_pydict({"s": [text]})) is None
    assert json_objects(pa.RecordBatch.from_pydict({"s": ["plain é"]})) is not None
    assert json_objects(pa.RecordBatch.from_pydict({"s": ["\n", "plain", "\n"]}).slice(1, 1)) is not None
