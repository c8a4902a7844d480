"""Files in other forms: CSV, Avro, compressed, in folders, and larger than what comes between two checkpoints."""

from __future__ import annotations

import datetime
import gzip
import os
from decimal import Decimal

import avro.datafile
import avro.io
import duckdb
import fastavro
import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.dataset
import pytest

import cutwater as cw
from cutwater.batches import ObjectBatch
from cutwater.connectors import sinks, sources
from cutwater.connectors.contract import ReaderContext, WriterContext
from cutwater.connectors.hive_folders import folder_name, is_inside
from cutwater.connectors.prepared_files import decode_prepared, is_piece_of
from cutwater.errors import ConfigurationError, SerializationError, SnapshotDamagedError, StorageError
from cutwater.protocol.ids import AttemptNumber, CheckpointId

CHECKPOINT = CheckpointId(1)
ROWS = [{"n": 1, "s": 'a,"b"\nc'}, {"n": None, "s": ""}, {"n": 3, "s": None}]


class Clock:
    now_seconds = 0.0

    def __call__(self) -> float:
        return self.now_seconds


def open_writer(sink, *, attempt=0, run="0", clock=None, wall_ms=lambda: 0):
    context = WriterContext(
        "job", "out", 0, 1, AttemptNumber(attempt), run=run, now_seconds=clock or Clock(), wall_ms=wall_ms
    )
    return sink.writer(context)


def written(sink, *batches):
    writer = open_writer(sink)
    for batch in batches:
        writer.write(ObjectBatch(batch) if isinstance(batch, list) else batch)
    writer.commit(writer.prepare(CHECKPOINT))
    writer.close()
    return [os.path.join(sink.folder, name) for name in published(sink.folder)]


def published(folder):
    found = []
    for root, _, names in os.walk(folder):
        found += [os.path.relpath(os.path.join(root, name), folder) for name in names if "/." not in root]
    return sorted(found)


def pending(folder):
    return os.listdir(os.path.join(folder, ".pending"))


def read_all(source):
    rows = []
    for split in source.discover(1).splits:
        reader = source.reader(split, None, ReaderContext())
        while not reader.finished:
            batch = reader.read(2, 0.0)
            if batch is not None:
                rows += batch.values if isinstance(batch, ObjectBatch) else batch.to_pylist()
        reader.close()
    return rows


def rows_read_by_resuming(source):
    """Each record by a reader of its own, opened where the one before was."""
    rows = []
    for split in source.discover(1).splits:
        position = None
        while True:
            reader = source.reader(split, position, ReaderContext())
            batch = reader.read(1, 0.0)
            position = msgspec.msgpack.decode(msgspec.msgpack.encode(reader.position))
            reader.close()
            if batch is None:
                break
            rows += batch.values if isinstance(batch, ObjectBatch) else batch.to_pylist()
    return rows


@pytest.mark.parametrize("compression", ["none", "gzip", "zstd"])
def test_csv_is_read_by_others_as_it_was_written(tmp_path, compression):
    (path,) = written(sinks.csv(tmp_path, compression=compression), ROWS, ROWS)
    assert (
        duckdb.sql(f"from read_csv('{path}', allow_quoted_nulls=false)").fetchall()
        == [(1, 'a,"b"\nc'), (None, ""), (3, None)] * 2
    )


@pytest.mark.parametrize("compression", ["none", "gzip", "zstd"])
@pytest.mark.parametrize("format", ["text", "json", "csv", "avro"])
def test_what_a_sink_writes_a_source_reads_and_resumes_anywhere(tmp_path, format, compression):  # noqa: A002
    records = [str(number) for number in range(20)] if format == "text" else [{"n": number} for number in range(20)]
    (path,) = written(sinks.files(tmp_path, format=format, compression=compression), records[:11], records[11:])
    source = sources.files(path, format=format)
    assert read_all(source) == rows_read_by_resuming(source) == records


def test_gzip_is_read_by_others(tmp_path):
    (path,) = written(sinks.json_lines(tmp_path, compression="gzip"), [{"a": 1}])
    assert path.endswith(".jsonl.gz")
    assert gzip.decompress(open(path, "rb").read()) == b'{"a":1}\n'  # noqa: SIM115


def test_avro_is_read_by_others(tmp_path):
    moment = datetime.datetime(2026, 11, 17, 12, 30, tzinfo=datetime.UTC)
    row = {"i": 1, "s": "x", "t": moment, "d": moment.date(), "l": [1, None], "r": {"q": True}, "m": Decimal("1.25")}
    (path,) = written(sinks.avro(tmp_path, compression="gzip"), [row, dict.fromkeys(row)])
    with avro.datafile.DataFileReader(open(path, "rb"), avro.io.DatumReader()) as found:
        assert list(found) == [row, dict.fromkeys(row)]


def test_a_column_that_avro_has_no_name_for_is_refused(tmp_path):
    with pytest.raises(SerializationError, match="Avro has no field 'a b'"):
        written(sinks.avro(tmp_path), [{"a b": 1}])


def test_csv_has_no_lists(tmp_path):
    with pytest.raises(SerializationError, match="CSV"):
        written(sinks.csv(tmp_path), [{"a": [1]}])


@pytest.mark.parametrize("split_bytes", [1, 100, 1 << 20])
@pytest.mark.parametrize("codec", ["null", "deflate", "zstandard"])
def test_each_record_of_an_avro_file_is_in_one_split(tmp_path, codec, split_bytes):
    rows = [{"n": number, "s": "x" * (number % 30)} for number in range(60)]
    fields = [{"name": "n", "type": "long"}, {"name": "s", "type": "string"}]
    with open(tmp_path / "in.avro", "wb") as file:
        fastavro.writer(file, {"type": "record", "name": "r", "fields": fields}, rows, codec=codec, sync_interval=150)
    assert read_all(sources.files(tmp_path / "in.avro", format="avro", split_bytes=split_bytes)) == rows


@pytest.mark.parametrize("name", ["in.jsonl.gz", "in.jsonl.zst", "in.avro"])
def test_a_file_that_is_cut_off_is_an_error_and_not_an_end(tmp_path, name):
    format = "avro" if name.endswith("avro") else "json"  # noqa: A001
    options = {} if format == "avro" else {"compression": "gzip" if name.endswith("gz") else "zstd"}
    (whole,) = written(sinks.files(tmp_path / "out", format=format, **options), [{"n": n} for n in range(100)])
    content = open(whole, "rb").read()  # noqa: SIM115
    (tmp_path / name).write_bytes(content[:-5])
    with pytest.raises(StorageError, match=name):
        read_all(sources.files(tmp_path / name, format=format))


def test_what_is_appended_to_a_compressed_file_after_its_discovery_is_not_read(tmp_path):
    path = tmp_path / "in.txt.gz"
    path.write_bytes(gzip.compress(b"a\nb\n"))
    source = sources.files(path)
    (split,) = source.discover(1).splits
    path.write_bytes(path.read_bytes() + gzip.compress(b"c\n"))
    reader = source.reader(split, None, ReaderContext())
    assert (reader.read(9, 0.0).values, reader.read(9, 0.0), reader.finished) == (["a", "b"], None, True)


VALUES = ["de", "a/b", "../x", "50%", "a=b", "é ü", "#?*:", "", None, "x.tmp", "'\"\\", "..", "a+b", "~", " "]


@pytest.mark.parametrize("format", ["parquet", "json", "csv"])
def test_folders_are_columns_for_duckdb_and_arrow(tmp_path, format):  # noqa: A002
    rows = [{"n": number, "part": value} for number, value in enumerate(VALUES)]
    paths = written(sinks.files(tmp_path, format=format, partition_by="part", open_files=3), rows)
    assert all(os.path.dirname(os.path.dirname(path)) == str(tmp_path) for path in paths)
    expected = [(number, value or None) for number, value in enumerate(VALUES)]
    reader = {"parquet": "read_parquet", "json": "read_json_auto", "csv": "read_csv_auto"}[format]
    query = f"select n, part from {reader}('{tmp_path}/*/part-*', hive_partitioning=true) order by n"
    assert duckdb.sql(query).fetchall() == expected
    if format == "parquet":
        dataset = pyarrow.dataset.dataset(tmp_path, partitioning="hive", exclude_invalid_files=False)
        table = dataset.to_table().sort_by("n")
        assert list(zip(table["n"].to_pylist(), table["part"].to_pylist(), strict=True)) == expected


def test_typed_batches_are_divided_like_python_values(tmp_path):
    rows = [{"n": n, "day": datetime.date(2026, 11, 1 + n % 3), "c": [None, True, False][n % 3]} for n in range(9)]
    written(sinks.parquet(tmp_path / "typed", partition_by=["day", "c"]), pa.RecordBatch.from_pylist(rows))
    written(sinks.json_lines(tmp_path / "values", partition_by=["day", "c"]), rows)
    folders = [sorted({os.path.dirname(path) for path in published(tmp_path / kind)}) for kind in ("typed", "values")]
    expected = [
        f"day=2026-11-0{day}/c={c}" for day, c in [(1, "__HIVE_DEFAULT_PARTITION__"), (2, "true"), (3, "false")]
    ]
    assert folders == [expected, expected]


HOUR_MS = 3_600_000


def test_folders_by_event_time(tmp_path):
    sink = sinks.text(tmp_path, partition_by=[cw.partitions.day(), cw.partitions.hour()])
    written(sink, ObjectBatch(["a", "b"], np.array([0, 25 * HOUR_MS], np.int64)))
    folders = [os.path.dirname(path) for path in published(tmp_path)]
    assert folders == ["day=1970-01-01/hour=00", "day=1970-01-02/hour=01"]


def test_folders_by_event_time_that_no_column_holds(tmp_path):
    times = pa.array([0, 25 * HOUR_MS], pa.int64())
    schema = pa.schema([("n", pa.int64()), ("__time", pa.int64())], metadata={"cutwater.time": "__time"})
    batch = pa.RecordBatch.from_arrays([pa.array([1, 2]), times], schema=schema)
    written(sinks.parquet(tmp_path, partition_by=cw.partitions.day()), batch)
    found = duckdb.sql(f"select * from read_parquet('{tmp_path}/*/*', hive_partitioning=true) order by n").fetchall()
    assert found == [(1, datetime.date(1970, 1, 1)), (2, datetime.date(1970, 1, 2))]


def test_folders_by_processing_time(tmp_path):
    writer = open_writer(
        sinks.text(tmp_path, partition_by=cw.partitions.hour(time="processing")), wall_ms=lambda: HOUR_MS
    )
    writer.write(ObjectBatch(["a"]))
    writer.commit(writer.prepare(CHECKPOINT))
    assert os.path.dirname(published(tmp_path)[0]) == "hour=01"


def test_folders_by_a_column_with_times_leave_it_in_the_files(tmp_path):
    sink = sinks.json_lines(tmp_path, partition_by=cw.partitions.day("at"))
    (path,) = written(sink, [{"at": datetime.datetime(2026, 11, 17, 23, tzinfo=datetime.UTC)}])
    assert "/day=2026-11-17/" in path
    assert "2026-11-17T23" in open(path).read()  # noqa: SIM115


def test_event_time_that_nobody_assigned_is_a_clear_error(tmp_path):
    with pytest.raises(ConfigurationError, match="no event time"):
        written(sinks.text(tmp_path, partition_by=cw.partitions.day()), ["a"])


def test_a_writer_has_only_so_many_files_open(tmp_path):
    writer = open_writer(sinks.json_lines(tmp_path, partition_by="p", open_files=2))
    writer.write(ObjectBatch([{"p": number, "n": number} for number in range(50)]))
    assert len(writer._open) == 2
    writer.commit(writer.prepare(CHECKPOINT))
    assert len(published(tmp_path)) == 50


@pytest.mark.parametrize("value", [b"x", [1], {"a": 1}, "x" * 300, "\ud800"])
def test_what_can_name_no_folder_is_refused(value):
    with pytest.raises(SerializationError, match="folder"):
        folder_name("p", value)


@pytest.mark.parametrize("partition", ["..", "a=1/..", "/a=1", "a=1/", ".a=1", "a", "a=\x00", "a=1//b=2", "=1", "a="])
def test_a_committable_never_leads_out_of_its_partitions(tmp_path, partition):
    committable = {"pending": "x", "final": "part-x", "size_bytes": 0, "partition": partition}
    assert not is_inside(partition)
    with pytest.raises(SnapshotDamagedError):
        sinks.text(tmp_path).commit([msgspec.msgpack.encode(committable)])


@pytest.mark.parametrize(
    "options",
    [
        {"partition_by": "a"},
        {"format": "json", "partition_by": ["a", "a"]},
        {"format": "json", "partition_by": [1]},
        {"format": "json", "partition_by": "_a"},
        {"compression": "rar"},
        {"roll_every": 10},
        {"open_files": 0},
    ],
)
def test_impossible_layouts_are_refused(options):
    with pytest.raises(ConfigurationError):
        sinks.files("out", **options)


def test_output_in_folders_is_found_by_a_fresh_start(tmp_path):
    sink = sinks.json_lines(tmp_path, partition_by="p")
    written(sink, [{"p": 1, "n": 1}])
    with pytest.raises(ConfigurationError, match="another run"):
        sink.check()


# Files that span checkpoints.


class Rolled:
    """A writer whose files are due after ten seconds; a checkpoint takes four."""

    def __init__(self, folder, attempt=1, **options):
        self.clock = Clock()
        self.sink = sinks.files(folder, roll_every="10s", **options)
        self.writer = open_writer(self.sink, attempt=attempt, clock=self.clock, run="r")

    def prepared(self, *values):
        self.writer.write(ObjectBatch(list(values)))
        committables = self.writer.prepare(CHECKPOINT)
        self.clock.now_seconds += 4
        return committables

    def checkpoint(self, *values):
        committables = self.prepared(*values)
        self.writer.commit(committables)
        return committables


def recover(sink, committables, *, attempt=2, run="r", attached=None):
    sink.recover(
        job_id="job", uid="out", committables=committables, attempt=AttemptNumber(attempt), run=run, attached=attached
    )


def copies_of(sink, committables):
    copies = {copy.name: b"".join(copy.pieces()) for copy in sink.attachments(committables)}
    return {name: lambda content=content: iter([content]) for name, content in copies.items()}


def test_a_file_appears_when_it_is_due_and_holds_several_checkpoints(tmp_path):
    job = Rolled(tmp_path)
    for number in range(3):
        job.checkpoint(number)
        assert published(tmp_path) == []
    job.checkpoint(3)
    assert published(tmp_path) == ["part-job-out-00000-rr-a1-000000-000003.txt"]
    assert (tmp_path / published(tmp_path)[0]).read_text() == "0\n1\n2\n3\n"


def test_a_file_appears_early_when_it_is_large_enough(tmp_path):
    job = Rolled(tmp_path, roll_bytes=4)
    job.checkpoint("a")
    job.checkpoint("b")
    assert [(tmp_path / name).read_text() for name in published(tmp_path)] == ["a\nb\n"]


def test_a_release_holds_nothing_back(tmp_path):
    job = Rolled(tmp_path)
    job.checkpoint("a")
    job.writer.release()
    job.checkpoint("b")
    job.writer.close()
    assert (len(published(tmp_path)), pending(tmp_path)) == (1, [])


@pytest.mark.parametrize("compression", ["none", "gzip"])
@pytest.mark.parametrize("format", ["json", "csv", "parquet", "avro"])
def test_joined_files_are_files_of_their_format(tmp_path, format, compression):  # noqa: A002
    job = Rolled(tmp_path, format=format, compression=compression)
    for number in range(4):
        job.checkpoint({"n": number, "s": "x"})
    (name,) = published(tmp_path)
    assert read_all(sources.files(tmp_path / name, format=format)) == [{"n": n, "s": "x"} for n in range(4)]


def test_what_is_held_appears_after_a_failure(tmp_path):
    job = Rolled(tmp_path)
    job.checkpoint("a")
    latest = job.checkpoint("b")
    job.prepared("of a checkpoint that never completes")
    recover(job.sink, latest)
    assert [(tmp_path / name).read_text() for name in published(tmp_path)] == ["a\n", "b\n"]
    assert pending(tmp_path) == []


def test_what_is_held_in_one_checkpoint_and_rolled_in_the_next_appears_once(tmp_path):
    job = Rolled(tmp_path)
    uncommitted = [*job.prepared("a"), *job.prepared("b"), *job.prepared("c"), *job.prepared("d")]
    recover(job.sink, uncommitted)
    assert [(tmp_path / name).read_text() for name in published(tmp_path)] == ["a\nb\nc\nd\n"]


def test_an_older_snapshot_restored_where_its_files_were_rolled_since_adds_nothing(tmp_path):
    job = Rolled(tmp_path)
    older = job.checkpoint("a")
    copies = copies_of(job.sink, older)
    for value in "bcd":
        job.checkpoint(value)
    recover(job.sink, older, run="other", attached=copies)
    assert [(tmp_path / name).read_text() for name in published(tmp_path)] == ["a\nb\nc\nd\n"]


def test_what_another_run_published_by_itself_is_not_joined_again(tmp_path):
    job = Rolled(tmp_path)
    recover(job.sink, job.checkpoint("a"), run="other")
    for value in "bcd":
        job.checkpoint(value)
    assert sorted((tmp_path / name).read_text() for name in published(tmp_path)) == ["a\n", "b\nc\nd\n"]


@pytest.mark.parametrize("is_savepoint", [True, False])
def test_a_rolled_file_is_restored_into_another_folder(tmp_path, is_savepoint):
    job = Rolled(tmp_path / "old", format="csv", partition_by="p")
    for number in range(3):
        job.checkpoint({"p": 1, "n": number})
    committables = job.prepared({"p": 1, "n": 3})
    copies = copies_of(job.sink, committables) if is_savepoint else None
    job.writer.commit(committables)
    job.writer.close()
    new = sinks.csv(tmp_path / "new", partition_by="p")
    recover(new, committables, run="other", attached=copies)
    (name,) = published(tmp_path / "new")
    assert (tmp_path / "new" / name).read_text() == '"n"\n0\n1\n2\n3\n'


def test_pieces_are_there_for_a_savepoint_when_they_have_just_been_joined(tmp_path):
    job = Rolled(tmp_path)
    committables = [job.prepared(value) for value in "abcd"][-1]
    attachments = job.sink.attachments(committables)
    job.writer.commit(committables)
    assert [b"".join(attachment.pieces()) for attachment in attachments] == [b"a\n", b"b\n", b"c\n", b"d\n"]


def test_a_join_that_is_killed_leaves_a_file_that_recovery_deletes(tmp_path):
    job = Rolled(tmp_path)
    committables = [job.prepared(value) for value in "abcd"][-1]
    (tmp_path / ".pending" / "job-out-rr-0-a1-0.txt.copy-0123").write_bytes(b"a\nb")
    recover(job.sink, committables)
    assert ([(tmp_path / name).read_text() for name in published(tmp_path)], pending(tmp_path)) == (
        ["a\nb\nc\nd\n"],
        [],
    )


def test_names_tell_which_files_were_joined():
    whole = "part-j-o-00000-rr-a1-000003-000007.txt.gz"
    names = [f"part-j-o-00000-rr-a{attempt}-{number:06d}.txt.gz" for attempt in (1, 2) for number in (2, 3, 7, 8)]
    assert [is_piece_of(name, whole) for name in names] == [False, True, True, False] + [False] * 4


def test_a_committable_without_a_known_format_is_refused(tmp_path):
    job = Rolled(tmp_path)
    rolled = [job.prepared(value) for value in "abcd"][-1][0]
    known = msgspec.msgpack.decode(rolled)
    with pytest.raises(SnapshotDamagedError):
        decode_prepared(msgspec.msgpack.encode({**known, "format": "pickle"}))
