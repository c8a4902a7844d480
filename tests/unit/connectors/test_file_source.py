from __future__ import annotations

import gc
import os
import pickle
import weakref

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cutwater.batches import rows_of
from cutwater.connectors import sources
from cutwater.connectors.contract import ReaderContext
from cutwater.errors import ConfigurationError, StorageError, UserError


def read_split(source, split, position=None, limit=3):
    reader = pickle.loads(pickle.dumps(source)).reader(split, position, ReaderContext())
    records = []
    while not reader.finished:
        batch = reader.read(limit, 0.0)
        assert batch is None or 0 < batch.num_rows <= limit
        records += rows_of(batch) if batch is not None else []
    reader.close()
    return records


def read_all(source):
    return [record for split in source.discover(1).splits for record in read_split(source, split)]


def write_parquet(path, rows, *, group_rows=10):
    pq.write_table(pa.table({"n": range(rows), "s": [str(n) for n in range(rows)]}), path, row_group_size=group_rows)


def test_lines_come_without_their_ends(tmp_path):
    (tmp_path / "a.txt").write_bytes(b"one\r\n\ntwo \nthr\xc3\xa9\xc3\xa9")
    assert read_all(sources.files(tmp_path / "*.txt")) == ["one", "", "two ", "thréé"]


def test_a_folder_is_all_its_finished_files(tmp_path):
    for name in ("b.txt", "a.txt", ".hidden", "_SUCCESS", "c.txt.tmp"):
        (tmp_path / name).write_text(name)
    assert read_all(sources.files(str(tmp_path))) == ["a.txt", "b.txt"]


def test_a_recursive_glob_passes_over_hidden_folders(tmp_path):
    for folder in ("x/y", "_temporary", ".pending"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "f.txt").write_text(folder)
    assert read_all(sources.files(tmp_path / "**" / "*.txt")) == ["x/y"]


def test_a_file_named_in_full_is_read_whatever_its_name_and_only_once(tmp_path):
    (tmp_path / "_a[1].txt").write_text("x")
    assert read_all(sources.files([tmp_path / "_a[1].txt", f"file://{tmp_path}/_a[1].txt"])) == ["x"]


def test_relative_paths_are_resolved_in_the_driver(tmp_path, monkeypatch):
    (tmp_path / "a.txt").write_text("x")
    monkeypatch.chdir(tmp_path)
    source = sources.files("*.txt")
    monkeypatch.chdir("/")
    assert read_all(source) == ["x"]


@pytest.mark.parametrize("pattern", ["nowhere", "nothing/*.txt"])
def test_a_missing_path_is_a_clear_error(tmp_path, pattern):
    with pytest.raises(ConfigurationError, match="no file matches"):
        sources.files(tmp_path / pattern).discover(1)


def test_an_empty_folder_is_an_empty_stream(tmp_path):
    assert read_all(sources.files(tmp_path)) == []


def test_watching_finds_files_that_appear_later_and_keeps_the_ids(tmp_path):
    source = sources.files(tmp_path / "in" / "*", watch=True)
    assert source.discover(1).splits == ()
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a").write_text("x")
    first = source.discover(1)
    (tmp_path / "in" / "b").write_text("y")
    second = source.discover(1)
    assert (len(first.splits), len(second.splits), second.complete) == (1, 2, False)
    assert first.splits[0] in second.splits


def test_json_lines_are_values_and_blank_lines_are_skipped(tmp_path):
    (tmp_path / "a.jsonl").write_bytes(b'{"a": 1}\r\n\n \n\n\n[2]\n{"b": "\xc3\xa9"}')
    assert read_all(sources.files(tmp_path, format="json")) == [{"a": 1}, [2], {"b": "é"}]


def test_a_bad_json_line_is_named_by_file_and_byte(tmp_path):
    (tmp_path / "a.jsonl").write_bytes(b'{"a": 1}\n{oops\n')
    with pytest.raises(UserError, match=r"the line at byte 9 of file '.*a\.jsonl' can't be decoded"):
        read_all(sources.files(tmp_path, format="json"))


def test_bytes_that_are_not_utf8_are_named_by_file_and_byte(tmp_path):
    (tmp_path / "a.txt").write_bytes(b"fine\nb\xffd\n")
    with pytest.raises(UserError, match=r"the line at byte 5 of file '.*a\.txt' can't be decoded"):
        read_all(sources.files(tmp_path))


def test_the_path_can_be_included(tmp_path):
    (tmp_path / "a.txt").write_text("x\ny")
    path = str(tmp_path / "a.txt")
    assert read_all(sources.files(path, include_path=True)) == [(path, "x"), (path, "y")]


@pytest.mark.parametrize("format_", ["text", "json", "csv", "parquet"])
def test_a_vanished_file_is_a_clear_error(tmp_path, format_):
    path = tmp_path / "data"
    write_parquet(path, 10) if format_ == "parquet" else path.write_text("1\n2\n")
    source = sources.files(path, format=format_)
    split = source.discover(1).splits[0]
    path.unlink()
    with pytest.raises(StorageError, match="vanished"):
        source.reader(split, None, ReaderContext())


def test_a_file_that_shrank_before_it_was_opened_is_a_clear_error(tmp_path):
    path = tmp_path / "a"
    path.write_text("one\ntwo\n")
    source = sources.files(path)
    split = source.discover(1).splits[0]
    os.truncate(path, 4)
    with pytest.raises(StorageError, match="shrunk"):
        source.reader(split, 4, ReaderContext())


@pytest.mark.parametrize("size_bytes", [4, 5])
def test_a_file_that_shrinks_while_it_is_read_is_a_clear_error(tmp_path, size_bytes):
    path = tmp_path / "a"
    path.write_text("one\ntwo\n")
    source = sources.files(path)
    reader = source.reader(source.discover(1).splits[0], None, ReaderContext())
    os.truncate(path, size_bytes)
    with pytest.raises(StorageError, match="shrunk"):
        list(iter(lambda: reader.read(1, 0.0), None))


def test_what_was_appended_after_discovery_is_not_read(tmp_path):
    path = tmp_path / "a"
    path.write_text("one\ntw")
    source = sources.files(path, split_bytes=4)
    discovered = source.discover(1)
    with path.open("a") as file:
        file.write("o and more\nthree\n")
    assert [read_split(source, split) for split in discovered.splits] == [["one"], ["tw"]]


def test_csv_is_typed_by_the_first_file(tmp_path):
    (tmp_path / "a.csv").write_text('n,s\n1,x\n2,"y\nz"\n')
    (tmp_path / "b.csv").write_text("s,n\nw,3\n")
    source = sources.files(tmp_path, format="csv")
    assert source.schema == pa.schema([("n", pa.int64()), ("s", pa.string())])
    assert read_all(source) == [(1, "x"), (2, "y\nz"), (3, "w")]


def test_csv_that_does_not_fit_the_schema_is_named(tmp_path):
    (tmp_path / "a.csv").write_text("n\n1\n")
    (tmp_path / "b.csv").write_text("n\nx\n")
    with pytest.raises(UserError, match=r"b\.csv"):
        read_all(sources.files(tmp_path, format="csv"))


def test_csv_resumes_at_every_row(tmp_path):
    (tmp_path / "a.csv").write_text("n\n" + "".join(f"{n}\n\n" for n in range(20)))
    source = sources.files(tmp_path, format="csv")
    split = source.discover(1).splits[0]
    whole = read_split(source, split)
    assert [read_split(source, split, position) for position in range(21)] == [whole[n:] for n in range(21)]


def test_a_declared_schema_may_select_and_cast(tmp_path):
    write_parquet(tmp_path / "a.parquet", 3)
    source = sources.files(tmp_path, format="parquet", schema=pa.schema([("n", pa.int32())]))
    reader = source.reader(source.discover(1).splits[0], None, ReaderContext())
    assert reader.read(10, 0.0).schema == source.schema


def test_parquet_is_cut_at_row_groups_and_read_once(tmp_path):
    write_parquet(tmp_path / "a.parquet", 95)
    source = sources.files(tmp_path, format="parquet", split_bytes=900)
    assert 1 < len(source.discover(1).splits) < 10
    assert [row.n for row in read_all(source)] == list(range(95))


def test_a_closed_parquet_reader_is_freed_at_once_and_not_by_the_collector(tmp_path):
    write_parquet(tmp_path / "a.parquet", 20)
    source = sources.files(tmp_path, format="parquet")
    reader = source.reader(source.discover(1).splits[0], None, ReaderContext())
    while not reader.finished:
        reader.read(10, 0.0)
    alive = weakref.ref(reader)
    gc.disable()
    try:
        reader.close()
        del reader
        assert alive() is None
    finally:
        gc.enable()


def test_parquet_resumes_at_every_position_also_after_a_trip_through_the_snapshot(tmp_path):
    write_parquet(tmp_path / "a.parquet", 25)
    source = sources.files(tmp_path, format="parquet")
    (split,) = source.discover(1).splits
    reader = source.reader(split, None, ReaderContext())
    for row in range(26):
        position = msgspec.msgpack.decode(msgspec.msgpack.encode(reader.position))
        assert [row.n for row in read_split(source, split, position)] == list(range(row, 25))
        reader.read(1, 0.0)
    assert reader.finished


def test_typed_files_can_carry_their_path(tmp_path):
    write_parquet(tmp_path / "a.parquet", 1)
    source = sources.files(tmp_path, format="parquet", include_path=True)
    assert read_all(source) == [(0, "0", str(tmp_path / "a.parquet"))]
    assert source.schema.names == ["n", "s", "path"]


def test_a_missing_column_is_a_clear_error(tmp_path):
    write_parquet(tmp_path / "a.parquet", 1)
    source = sources.files(tmp_path, format="parquet", schema=pa.schema([("other", pa.int64())]))
    with pytest.raises(UserError, match="other"):
        read_all(source)


def test_a_file_that_is_not_parquet_is_named(tmp_path):
    (tmp_path / "a.parquet").write_text("no")
    with pytest.raises(StorageError, match=r"a\.parquet"):
        sources.files(tmp_path, format="parquet")


def test_watching_typed_files_needs_a_schema_or_a_first_file(tmp_path):
    with pytest.raises(ConfigurationError, match="inferred"):
        sources.files(tmp_path / "*.csv", format="csv", watch=True)


@pytest.mark.parametrize(
    ("pattern", "options"),
    [
        ([], {}),
        ("", {}),
        ("x", {"format": "xml"}),
        ("x", {"split_bytes": 0}),
        ("x", {"schema": pa.schema([])}),
        ("ftp://host/x", {}),
        ("s3://", {}),
        ("s3://bucket/a/../b", {}),
    ],
)
def test_impossible_settings_are_refused(pattern, options):
    with pytest.raises(ConfigurationError):
        sources.files(pattern, **options)


@pytest.mark.parametrize("position", [0, 1, 65_536, 70_000, 149_999])
def test_files_of_many_blocks_resume_in_any_block(tmp_path, position):
    rows = 150_000
    write_parquet(tmp_path / "a.parquet", rows, group_rows=rows)
    text = "".join(f"{n:09d}\n" for n in range(rows))
    (tmp_path / "a.csv").write_text("n\n" + text)
    (tmp_path / "a.txt").write_text(text)
    for format_, at in (("parquet", [0, position]), ("csv", position), ("text", position * 10)):
        source = sources.files(tmp_path / f"a.{format_.replace('text', 'txt')}", format=format_)
        (split,) = source.discover(1).splits
        records = read_split(source, split, at, limit=40_000)
        numbers = [int(record if format_ == "text" else record.n) for record in records]
        assert numbers == list(range(position, rows))
