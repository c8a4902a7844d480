"""Does a table that anyone may have written lead to anything but one of our errors?"""

from __future__ import annotations

import contextlib
import io
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import given
from hypothesis import strategies as st
from tests.fuzz.conftest import EXPECTED, FUZZ
from tests.fuzz.mutations import damaged

from cutwater.canonical import StateRows, from_batch, to_batch
from cutwater.inspection.rows import loads_for, read, readable
from cutwater.inspection.snapshots import StatePart
from cutwater.snapshots.checksums import checksum_of
from cutwater.snapshots.format import StateTable, TaskSnapshot

ROWS = StateRows("n", "map", [0, 1], ["a", (1, 2)], [{"x": 1}, 2], [b"bytes", {3: [4]}])


def parquet(table: pa.Table) -> bytes:
    sink = io.BytesIO()
    pq.write_table(table, sink)
    return sink.getvalue()


VALID = parquet(pa.Table.from_batches([to_batch(ROWS)]))


def read_all(root: Path, data: bytes) -> None:
    folder = root / "savepoint"
    folder.mkdir(exist_ok=True)
    (folder / "t.parquet").write_bytes(data)
    table = StateTable("op", "n", "map", 2, 0, 127, "t.parquet", len(data), checksum_of(data))
    part = StatePart(str(folder), "op", "n", TaskSnapshot("op", 0, (), inline=b"", tables=(table,)))
    with contextlib.suppress(*EXPECTED):
        for batch in read(part):
            readable(batch).to_pylist()
            with contextlib.suppress(*EXPECTED):
                from_batch(batch, "n", "map", loads=loads_for(trust=False))


@FUZZ
@given(data=damaged(VALID) | st.binary(max_size=200))
def test_a_damaged_table(watch: Path, data: bytes):
    read_all(watch, data)


columns = st.lists(
    st.tuples(
        st.sampled_from(["key_group", "key", "namespace", "value", "key_text", "value_text", "other"]),
        st.lists(st.one_of(st.integers(-3, 3)), min_size=2, max_size=2)
        | st.lists(st.binary(max_size=8), min_size=2, max_size=2)
        | st.lists(st.text(max_size=8), min_size=2, max_size=2)
        | st.lists(st.none(), min_size=2, max_size=2)
        | st.just([{"_1": 1, "_2": None}, None])
        | st.just([[1], []]),
        st.sampled_from(["", "plain", "pickle", "tuple", "list", "record", "opaque", "\udcff", "evil"]),
    ),
    max_size=6,
    unique_by=lambda column: column[0],
)


@FUZZ
@given(columns=columns)
def test_a_table_with_other_columns(watch: Path, columns: list[tuple[str, list[Any], str]]):
    fields, arrays = [], []
    for name, values, form in columns:
        array = pa.array(values)
        metadata = {"cutwater.form": form.encode("utf-8", "surrogateescape")} if form else None
        fields.append(pa.field(name, array.type, metadata=metadata))
        arrays.append(array)
    read_all(watch, parquet(pa.Table.from_arrays(arrays, schema=pa.schema(fields))))
