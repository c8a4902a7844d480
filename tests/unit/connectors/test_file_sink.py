from __future__ import annotations

import dataclasses
import errno
import os
import pickle
from typing import NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cutwater.batches import ObjectBatch
from cutwater.connectors import sinks
from cutwater.connectors.contract import WriterContext
from cutwater.errors import ConfigurationError, SerializationError, StorageError
from cutwater.protocol.ids import AttemptNumber, CheckpointId

CHECKPOINT = CheckpointId(1)


class Word(NamedTuple):
    word: str
    n: int


@dataclasses.dataclass
class Point:
    x: int
    y: float


def open_writer(sink, *, job="job", uid="out", subtask=0, attempt=0):
    return pickle.loads(pickle.dumps(sink)).writer(WriterContext(job, uid, subtask, 2, AttemptNumber(attempt)))


def prepared(sink, values, **who):
    writer = open_writer(sink, **who)
    writer.write(ObjectBatch(values))
    return writer.prepare(CHECKPOINT)


def visible(folder):
    return {name: (folder / name).read_text() for name in sorted(os.listdir(folder)) if not name.startswith(".")}


def pending(folder):
    return sorted(os.listdir(folder / ".pending"))


def write_table(folder, *batches):
    sink = sinks.parquet(folder)
    writer = open_writer(sink)
    for batch in batches:
        writer.write(batch)
    writer.commit(writer.prepare(CHECKPOINT))
    (name,) = [name for name in os.listdir(folder) if name.endswith(".parquet")]
    return pq.read_table(folder / name)


def test_nothing_is_visible_before_the_commit(tmp_path):
    sink = sinks.text(tmp_path)
    committables = prepared(sink, ["a"])
    assert visible(tmp_path) == {}
    sink.commit(committables)
    assert visible(tmp_path) == {"part-job-out-00000-a0-000000.txt": "a\n"}


def test_a_commit_may_be_repeated(tmp_path):
    sink = sinks.text(tmp_path)
    committables = prepared(sink, ["a"])
    sink.commit(committables)
    once = visible(tmp_path)
    sink.commit(committables)
    sink.recover(job_id="job", uid="out", committables=committables)
    assert (visible(tmp_path), pending(tmp_path)) == (once, [])


def test_a_crash_between_link_and_unlink_leaves_no_second_copy(tmp_path):
    sink = sinks.text(tmp_path)
    committables = prepared(sink, ["a"])
    os.link(tmp_path / ".pending" / pending(tmp_path)[0], tmp_path / "part-job-out-00000-a0-000000.txt")
    sink.commit(committables)
    assert (len(visible(tmp_path)), pending(tmp_path)) == (1, [])


def test_recovery_after_a_partial_commit_publishes_the_rest_and_drops_what_no_snapshot_names(tmp_path):
    sink = sinks.text(tmp_path)
    first, second = prepared(sink, ["a"], subtask=0), prepared(sink, ["b"], subtask=1)
    prepared(sink, ["lost"], subtask=0, attempt=1)
    open_writer(sink, attempt=2).write(ObjectBatch(["unfinished"]))
    sink.commit(first)
    sink.recover(job_id="job", uid="out", committables=[*first, *second])
    assert (list(visible(tmp_path).values()), pending(tmp_path)) == (["a\n", "b\n"], [])


def test_recovery_leaves_the_pending_files_of_others_alone(tmp_path):
    sink = sinks.text(tmp_path)
    others = [
        prepared(sink, ["x"], job="job-2"),
        prepared(sink, ["x"], uid="out-0"),
        prepared(sink, ["x"], job="job-out", uid="x"),
    ]
    sink.recover(job_id="job", uid="out", committables=[])
    assert len(pending(tmp_path)) == len(others)


def test_recovery_leaves_a_sink_alone_whose_name_only_begins_like_ours(tmp_path):
    sink = sinks.text(tmp_path)
    prepared(sink, ["theirs"], uid="out-2")
    sink.recover(job_id="job", uid="out", committables=[], attempt=AttemptNumber(9))
    assert len(pending(tmp_path)) == 1


def test_a_late_recovery_leaves_the_files_of_newer_attempts_alone(tmp_path):
    sink = sinks.text(tmp_path)
    prepared(sink, ["old"], attempt=1)
    prepared(sink, ["newer"], attempt=3)
    sink.recover(job_id="job", uid="out", committables=[], attempt=AttemptNumber(2))
    assert [name for name in pending(tmp_path) if "-a3-" in name] == pending(tmp_path) != []


def test_recovery_works_before_anything_was_written(tmp_path):
    sinks.text(tmp_path / "new").recover(job_id="job", uid="out", committables=[])


def test_a_committed_file_that_is_nowhere_is_an_error_that_names_it(tmp_path):
    sink = sinks.text(tmp_path)
    committables = prepared(sink, ["a"])
    os.unlink(tmp_path / ".pending" / pending(tmp_path)[0])
    with pytest.raises(StorageError, match=r"part-job-out-00000-a0-000000\.txt"):
        sink.commit(committables)


def test_a_damaged_pending_file_is_not_published(tmp_path):
    sink = sinks.text(tmp_path)
    committables = prepared(sink, ["abc"])
    os.truncate(tmp_path / ".pending" / pending(tmp_path)[0], 1)
    with pytest.raises(StorageError, match="damaged"):
        sink.commit(committables)
    assert visible(tmp_path) == {}


def test_a_file_of_someone_else_is_never_mistaken_for_ours(tmp_path):
    sink = sinks.text(tmp_path)
    committables = prepared(sink, ["a"])
    (tmp_path / "part-job-out-00000-a0-000000.txt").write_text("theirs")
    with pytest.raises(StorageError, match="taken"):
        sink.commit(committables)


def test_file_systems_without_hard_links_work_too(tmp_path, monkeypatch):
    def refuse(source, target):
        raise OSError(errno.EPERM, "no links here")

    monkeypatch.setattr(os, "link", refuse)
    sink = sinks.text(tmp_path)
    committables = prepared(sink, ["a"])
    sink.commit(committables)
    sink.commit(committables)
    assert (list(visible(tmp_path).values()), pending(tmp_path)) == (["a\n"], [])


def test_files_roll_by_size(tmp_path):
    writer = open_writer(sinks.text(tmp_path, roll_bytes=10))
    for value in ("aaaaaa", "bbbbbb", "cccccc"):
        writer.write(ObjectBatch([value]))
    writer.commit(writer.prepare(CHECKPOINT))
    assert list(visible(tmp_path).values()) == ["aaaaaa\nbbbbbb\n", "cccccc\n"]


def test_an_epoch_without_records_makes_no_file(tmp_path):
    assert open_writer(sinks.text(tmp_path)).prepare(CHECKPOINT) == []


def test_closing_drops_what_was_not_prepared_and_keeps_what_was(tmp_path):
    writer = open_writer(sinks.text(tmp_path, roll_bytes=1))
    writer.write(ObjectBatch(["prepared"]))
    committables = writer.prepare(CHECKPOINT)
    writer.write(ObjectBatch(["rolled, not prepared"]))
    writer.close()
    assert len(pending(tmp_path)) == len(committables) == 1


@pytest.mark.parametrize("factory", [sinks.text, sinks.json_lines, sinks.parquet])
def test_closing_in_the_middle_of_a_file_leaves_nothing(tmp_path, factory):
    writer = open_writer(factory(tmp_path))
    writer.write(ObjectBatch([{"a": 1}]))
    writer.close()
    assert pending(tmp_path) == []


def test_names_differ_whenever_the_writer_differs(tmp_path):
    sink = sinks.text(tmp_path)
    whos = [
        {"uid": uid, "subtask": subtask, "attempt": attempt, "job": job}
        for uid in ("a", "a-1", "a/1", "a%2F1", "ä", "x" * 300, "x" * 301)
        for subtask in (0, 1, 11)
        for attempt in (0, 1, 11)
        for job in ("j", "j-a")
    ]
    for who in whos:
        sink.commit(prepared(sink, [str(who)], **who))
    assert sorted(visible(tmp_path).values()) == sorted(f"{who}\n" for who in whos)


def test_json_lines_are_objects_for_everything_with_names(tmp_path):
    sink = sinks.json_lines(tmp_path)
    writer = open_writer(sink)
    writer.write(ObjectBatch([{"a": 1}, Word("x", 2), Point(1, 0.5), [1, None], "é"]))
    writer.write(pa.RecordBatch.from_pydict({"n": [1], "s": ["x"]}))
    writer.commit(writer.prepare(CHECKPOINT))
    (content,) = visible(tmp_path).values()
    expected = [{"a": 1}, {"word": "x", "n": 2}, {"x": 1, "y": 0.5}, [1, None], "é", {"n": 1, "s": "x"}]
    assert [msgspec.json.decode(line) for line in content.splitlines()] == expected


def test_what_json_cannot_say_is_a_clear_error(tmp_path):
    with pytest.raises(SerializationError, match="JSON"):
        prepared(sinks.json_lines(tmp_path), [object()])


def test_parquet_takes_typed_batches_as_they_are(tmp_path):
    batch = pa.RecordBatch.from_pydict({"n": pa.array([1, 2], pa.int16())})
    assert write_table(tmp_path, batch, batch) == pa.Table.from_batches([batch, batch])


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([{"a": 1}, {"a": 2, "b": "x"}], [{"a": 1, "b": None}, {"a": 2, "b": "x"}]),
        ([Word("x", 1)], [{"word": "x", "n": 1}]),
        ([("x", 1)], [{"c0": "x", "c1": 1}]),
        ([Point(1, 0.5)], [{"x": 1, "y": 0.5}]),
        (["x"], [{"value": "x"}]),
    ],
)
def test_parquet_makes_columns_of_python_values(tmp_path, values, expected):
    assert write_table(tmp_path, ObjectBatch(values)).to_pylist() == expected


def test_small_batches_share_a_row_group(tmp_path):
    writer = open_writer(sinks.parquet(tmp_path))
    for number in range(50):
        writer.write(ObjectBatch([{"n": number}]))
    writer.commit(writer.prepare(CHECKPOINT))
    (name,) = [name for name in os.listdir(tmp_path) if name.endswith(".parquet")]
    assert pq.ParquetFile(tmp_path / name).num_row_groups == 1


@pytest.mark.parametrize("second", [{"a": 1, "b": 2}, {"a": "x"}])
def test_a_change_of_columns_is_a_clear_error(tmp_path, second):
    writer = open_writer(sinks.parquet(tmp_path))
    writer.write(ObjectBatch([{"a": 1}]))
    writer.prepare(CHECKPOINT)
    with pytest.raises(SerializationError, match="don't fit"):
        writer.write(ObjectBatch([second]))


def test_a_declared_schema_needs_no_luck_with_the_first_record(tmp_path):
    sink = sinks.parquet(tmp_path, schema=pa.schema([("a", pa.string())]))
    writer = open_writer(sink)
    writer.write(ObjectBatch([{"a": None}]))
    writer.write(ObjectBatch([{"a": "x"}]))


def test_check_makes_the_folder_and_leaves_nothing_in_it(tmp_path):
    sinks.text(tmp_path / "a" / "b").check()
    assert pending(tmp_path / "a" / "b") == []


def test_check_says_clearly_that_a_folder_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="can't be written"):
        sinks.text(tmp_path / "file").check()


@pytest.mark.parametrize("options", [{"format": "csv"}, {"roll_bytes": 0}, {"format": "text", "schema": pa.schema([])}])
def test_impossible_settings_are_refused(options):
    with pytest.raises(ConfigurationError):
        sinks.files("out", **options)
