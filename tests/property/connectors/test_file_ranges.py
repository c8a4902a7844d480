"""However a file is cut and wherever a reader stops and goes on: every record once, in order."""

from __future__ import annotations

import csv
import io
import json
import os
import tempfile

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import example, given
from hypothesis import strategies as st

from cutwater.batches import rows_of
from cutwater.connectors import sources
from cutwater.connectors.contract import ReaderContext

pieces = st.sampled_from(["\n", "\r\n", "\r", "a", "bc", "é", "𝄞", " ", "\u2028", "\x0b"])
texts = st.lists(pieces, max_size=40).map("".join)


def lines_of(text):
    """The definition: lines end with \\n or \\r\\n, the last one may have no end."""
    *ended, rest = text.split("\n")
    return [line.removesuffix("\r") for line in ended] + ([rest] if rest else [])


def read_in_steps(source, split, limits):
    """A fresh reader at the last position for every batch."""
    records, position = [], None
    for step in range(10_000):
        reader = source.reader(split, position, ReaderContext())
        if reader.finished:
            return records
        batch = reader.read(limits[step % len(limits)], 0.0)
        records += rows_of(batch) if batch is not None else []
        position = reader.position
        done = batch is None and reader.finished
        reader.close()
        if done:
            return records
    raise AssertionError("the reader doesn't end")


def read_through(source, split, limit):
    reader = source.reader(split, None, ReaderContext())
    records = []
    while not reader.finished:
        batch = reader.read(limit, 0.0)
        records += rows_of(batch) if batch is not None else []
    assert reader.read(limit, 0.0) is None
    reader.close()
    return records


limits = st.lists(st.integers(1, 5), min_size=1, max_size=3)


@given(text=texts, split_bytes=st.integers(1, 12), limits=limits)
@example(text="a\r\nb", split_bytes=2, limits=[1])
@example(text="\n\n\n", split_bytes=1, limits=[2])
def test_every_line_is_read_once_however_the_file_is_cut(text, split_bytes, limits):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "a.txt")
        with open(path, "wb") as file:
            file.write(text.encode())
        source = sources.files(path, split_bytes=split_bytes)
        splits = source.discover(1).splits
        through = [line for split in splits for line in read_through(source, split, limits[0])]
        in_steps = [line for split in splits for line in read_in_steps(source, split, limits)]
    assert (through, in_steps) == (lines_of(text), lines_of(text))


@given(
    values=st.lists(st.dictionaries(st.text(max_size=3), st.integers() | st.text(max_size=5), max_size=2), max_size=8),
    blanks=st.lists(st.sampled_from(["\n", "\r\n", "\n \n"]), min_size=1, max_size=4),
    split_bytes=st.integers(1, 30),
    limits=limits,
)
def test_every_json_line_is_read_once_however_the_file_is_cut(values, blanks, split_bytes, limits):
    values = [{key: v if isinstance(v, str) else v % 2**53 for key, v in value.items()} for value in values]
    text = "".join(json.dumps(value) + blanks[n % len(blanks)] for n, value in enumerate(values))
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "a.jsonl")
        with open(path, "wb") as file:
            file.write(text.encode())
        source = sources.files(path, format="json", split_bytes=split_bytes)
        read = [value for split in source.discover(1).splits for value in read_in_steps(source, split, limits)]
    assert read == values


@given(rows=st.integers(0, 40), group_rows=st.integers(1, 15), split_bytes=st.integers(1, 400), limits=limits)
def test_every_parquet_row_is_read_once_however_the_file_is_cut(rows, group_rows, split_bytes, limits):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "a.parquet")
        pq.write_table(pa.table({"n": pa.array(range(rows), pa.int64())}), path, row_group_size=group_rows)
        source = sources.files(path, format="parquet", split_bytes=split_bytes)
        splits = source.discover(1).splits
        through = [row.n for split in splits for row in read_through(source, split, limits[0])]
        in_steps = [row.n for split in splits for row in read_in_steps(source, split, limits)]
    assert (through, in_steps) == (list(range(rows)), list(range(rows)))


@given(values=st.lists(st.text('ab\n",é', max_size=4), min_size=1, max_size=12), limits=limits)
def test_csv_resumed_at_any_row_is_csv_read_through(values, limits):
    text = io.StringIO()
    writer = csv.writer(text, quoting=csv.QUOTE_ALL, lineterminator="\n")
    writer.writerows([["n", "s"], *([n, value] for n, value in enumerate(values))])
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "a.csv")
        with open(path, "w", newline="") as file:
            file.write(text.getvalue())
        schema = pa.schema([("n", pa.int64()), ("s", pa.string())])
        source = sources.files(path, format="csv", schema=schema)
        (split,) = source.discover(1).splits
        read = [tuple(row) for row in read_in_steps(source, split, limits)]
        through = [tuple(row) for row in read_through(source, split, limits[0])]
    assert read == through == list(enumerate(values))
