"""Does a bad line of a file cost only itself, wherever reading begins again?"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cutwater.batches import rows_of
from cutwater.connectors import sources
from cutwater.connectors.contract import ReaderContext, Source

SCHEMA = pa.schema([("n", pa.int64()), ("s", pa.string())])


def read(source: Source, *, limit: int = 1024, reopen: bool = False) -> tuple[list[Any], list[tuple[Any, object]]]:
    """Records, and what can't be read with its position. `reopen`: another reader goes on after each batch."""
    (split,) = source.discover(1).splits
    records: list[Any] = []
    unreadable: list[tuple[Any, object]] = []
    reader = source.reader(split, None, ReaderContext(tolerant=True))
    while not reader.finished:
        batch = reader.read(limit, 0.0)
        records += [] if batch is None else rows_of(batch)
        unreadable += [(each.raw, each.position) for each in reader.take_unreadable()]
        if reopen and not reader.finished:
            position = reader.position
            reader.close()
            reader = source.reader(split, position, ReaderContext(tolerant=True))
    reader.close()
    return records, unreadable


@pytest.mark.parametrize("limit", [1, 2, 1024])
def test_lines_of_text(tmp_path: Path, limit: int) -> None:
    (tmp_path / "a.txt").write_bytes(b"one\r\nt\xffo\r\nthree\nf\xff")
    found = read(sources.files(tmp_path / "a.txt"), limit=limit, reopen=True)
    assert found == (["one", "three"], [(b"t\xffo", 5), (b"f\xff", 16)])


@pytest.mark.parametrize("limit", [1, 2, 1024])
def test_lines_of_json(tmp_path: Path, limit: int) -> None:
    (tmp_path / "a.jsonl").write_bytes(b'{"n":1}\n\n{oops\n{"n":3}\n\xff\n')
    source = sources.files(tmp_path / "a.jsonl", format="json", include_path=True)
    records, unreadable = read(source, limit=limit, reopen=True)
    assert ([value for _, value in records], unreadable) == ([{"n": 1}, {"n": 3}], [(b"{oops", 9), (b"\xff", 23)])


def test_rows_of_csv(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(b'n,s,x\n1,a,\nx,b,\n3\n"4","c ""d"", e",\n5,\xff,\n6,f,,,\n')
    records, unreadable = read(sources.files(tmp_path / "a.csv", format="csv", schema=SCHEMA))
    assert [tuple(row) for row in records] == [(1, "a"), (4, 'c "d", e')]
    assert sorted(unreadable, key=lambda each: str(each[1])) == [
        (b'"x","b",""', "row 3"),
        (b"3", "row 4"),
        (b'"5","\xff",""', "row 6"),
        (b"6,f,,,", "row 7"),
    ]


ROWS = [b"1,a", b"x,a", b"7", b"2,", b"3,b,c"]


@given(st.lists(st.sampled_from(ROWS), min_size=1, max_size=12), st.integers(1, 4))
def test_each_row_of_csv_comes_once_wherever_reading_begins_again(
    tmp_path_factory: Any, rows: list[bytes], limit: int
) -> None:
    path = tmp_path_factory.mktemp("csv") / "a.csv"
    path.write_bytes(b"n,s\n" + b"".join(row + b"\n" for row in rows))
    records, unreadable = read(sources.files(path, format="csv", schema=SCHEMA), limit=limit, reopen=True)
    good = {b"1,a": (1, "a"), b"2,": (2, "")}
    assert [tuple(row) for row in records] == [good[row] for row in rows if row in good]
    expected = {b"x,a": b'"x","a"', b"7": b"7", b"3,b,c": b"3,b,c"}
    told = [(expected[row], f"row {number}") for number, row in enumerate(rows, start=2) if row in expected]
    assert sorted(unreadable, key=str) == sorted(told, key=str)


def test_only_the_columns_that_are_read_must_fit(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(b"n,s\nx,a\n2,b\n")
    source = sources.files(tmp_path / "a.csv", format="csv", schema=SCHEMA).narrowed(frozenset({"s"}), frozenset())
    assert [row.s for row in read(source)[0]] == ["a", "b"]
