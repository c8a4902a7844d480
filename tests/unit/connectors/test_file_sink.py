from __future__ import annotations

import dataclasses
import errno
import os
import pickle
import struct
from typing import NamedTuple

import msgspec
import numpy
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cutwater.batches import ObjectBatch
from cutwater.connectors import sinks
from cutwater.connectors.contract import WriterContext
from cutwater.connectors.file_system import OperatingSystemFiles
from cutwater.errors import ConfigurationError, SerializationError, SnapshotDamagedError, StorageError
from cutwater.protocol.ids import AttemptNumber, CheckpointId

CHECKPOINT = CheckpointId(1)


class Word(NamedTuple):
    word: str
    n: int


@dataclasses.dataclass
class Point:
    x: int
    y: float


def open_writer(sink, *, job="job", uid="out", subtask=0, attempt=0, run="0"):
    context = WriterContext(job, uid, subtask, 2, AttemptNumber(attempt), run=run)
    return pickle.loads(pickle.dumps(sink)).writer(context)


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
    assert visible(tmp_path) == {"part-job-out-00000-r0-a0-000000.txt": "a\n"}


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
    os.link(tmp_path / ".pending" / pending(tmp_path)[0], tmp_path / "part-job-out-00000-r0-a0-000000.txt")
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
    with pytest.raises(StorageError, match=r"part-job-out-00000-r0-a0-000000\.txt"):
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
    (tmp_path / "part-job-out-00000-r0-a0-000000.txt").write_text("theirs")
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
        {"uid": uid, "subtask": subtask, "attempt": attempt, "job": job, "run": run}
        for uid in ("a", "a-1", "a/1", "a%2F1", "ä", "x" * 300, "x" * 301)
        for subtask in (0, 1, 11)
        for attempt in (0, 1, 11)
        for job in ("j", "j-a")
        for run in ("7", "07")
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


def attached_copies(sink, committables):
    """As a savepoint would hold them."""
    copies = {attachment.name: b"".join(attachment.pieces()) for attachment in sink.attachments(committables)}
    return {name: lambda content=content: iter([content]) for name, content in copies.items()}


def recover(sink, committables=(), *, run="0", attempt=1, **rest):
    sink.recover(job_id="job", uid="out", committables=committables, attempt=AttemptNumber(attempt), run=run, **rest)


def test_two_runs_of_a_job_whose_attempts_begin_at_one_again_never_use_one_name(tmp_path):
    sink = sinks.text(tmp_path)
    for run in ("first", "second"):
        sink.commit(prepared(sink, [run], run=run, attempt=1))
    assert sorted(visible(tmp_path).values()) == ["first\n", "second\n"]


def test_recovery_deletes_no_pending_file_of_another_run_of_the_same_job(tmp_path):
    sink = sinks.text(tmp_path)
    committables = prepared(sink, ["theirs"], run="first", attempt=1)
    recover(sink, run="second", attempt=2)
    sink.commit(committables)
    assert list(visible(tmp_path).values()) == ["theirs\n"]


def test_a_checkpoint_restored_into_another_folder_brings_the_files_that_it_had_prepared(tmp_path):
    old, new = sinks.text(tmp_path / "old"), sinks.text(tmp_path / "new")
    committables = prepared(old, ["a"], run="first")
    recover(new, committables, run="second")
    assert list(visible(tmp_path / "new").values()) == ["a\n"]
    assert len(pending(tmp_path / "old")) == 1
    assert pending(tmp_path / "new") == []


def test_a_checkpoint_restored_into_another_folder_brings_files_that_were_published_meanwhile(tmp_path):
    old, new = sinks.text(tmp_path / "old"), sinks.text(tmp_path / "new")
    committables = prepared(old, ["a"], run="first")
    old.commit(committables)
    for _ in range(2):
        recover(new, committables, run="second")
    assert visible(tmp_path / "new") == visible(tmp_path / "old") != {}


def test_a_checkpoint_restored_into_another_folder_says_so_when_the_files_are_gone(tmp_path):
    committables = prepared(sinks.text(tmp_path / "old"), ["a"])
    os.unlink(tmp_path / "old" / ".pending" / pending(tmp_path / "old")[0])
    with pytest.raises(StorageError, match="lost"):
        recover(sinks.text(tmp_path / "new"), committables)
    assert visible(tmp_path / "new") == {}


def test_a_file_that_is_not_the_one_that_was_prepared_is_not_brought_to_another_folder(tmp_path):
    committables = prepared(sinks.text(tmp_path / "old"), ["abc"])
    (tmp_path / "old" / ".pending" / pending(tmp_path / "old")[0]).write_text("xyz\n")
    with pytest.raises(StorageError, match="damaged"):
        recover(sinks.text(tmp_path / "new"), committables)
    assert (visible(tmp_path / "new"), pending(tmp_path / "new")) == ({}, [])


@pytest.mark.parametrize("folder", ["old", "new"])
def test_a_savepoint_is_restored_though_its_pending_files_were_rolled_back(tmp_path, folder):
    old = sinks.text(tmp_path / "old")
    committables = prepared(old, ["a"], run="first", attempt=1)
    copies = attached_copies(old, committables)
    recover(old, run="first", attempt=2)
    recover(sinks.text(tmp_path / folder), committables, run="second", attached=copies)
    assert list(visible(tmp_path / folder).values()) == ["a\n"]


def test_a_savepoint_restored_after_its_job_went_on_and_committed_adds_nothing(tmp_path):
    sink = sinks.text(tmp_path)
    committables = prepared(sink, ["a"], run="first")
    copies = attached_copies(sink, committables)
    sink.commit(committables)
    recover(sink, committables, run="second", attached=copies)
    assert list(visible(tmp_path).values()) == ["a\n"]


def test_the_copy_for_a_savepoint_is_whole_also_when_the_file_is_published_meanwhile(tmp_path):
    sink = sinks.text(tmp_path)
    committables = prepared(sink, ["a"])
    (attachment,) = sink.attachments(committables)
    sink.commit(committables)
    assert b"".join(attachment.pieces()) == b"a\n"


def test_a_pending_file_that_is_back_after_a_crash_does_not_stand_in_the_way_of_its_copy(tmp_path):
    sink = sinks.text(tmp_path)
    committables = prepared(sink, ["a"], run="first", attempt=1)
    copies = attached_copies(sink, committables)
    (name,) = pending(tmp_path)
    recover(sink, run="first", attempt=2)
    recover(sink, committables, run="second", attempt=1, attached=copies)
    (tmp_path / ".pending" / name).write_text("a\n")
    recover(sink, committables, run="second", attempt=2, attached=copies)
    assert (list(visible(tmp_path).values()), pending(tmp_path)) == (["a\n"], [])


def test_a_savepoint_heals_a_pending_file_that_was_damaged_since(tmp_path):
    sink = sinks.text(tmp_path)
    committables = prepared(sink, ["abc"])
    copies = attached_copies(sink, committables)
    os.truncate(tmp_path / ".pending" / pending(tmp_path)[0], 1)
    recover(sink, committables, attached=copies)
    assert list(visible(tmp_path).values()) == ["abc\n"]


def test_a_copy_that_a_crash_left_half_done_is_deleted_by_the_next_attempt(tmp_path):
    committables = prepared(sinks.text(tmp_path / "old"), ["a"], run="first")
    new = sinks.text(tmp_path / "new")
    named = []

    def killed():
        yield b"a"
        named.extend(pending(tmp_path / "new"))
        os.link(tmp_path / "new" / ".pending" / named[0], tmp_path / "half")
        raise OSError("no more")

    (name,) = attached_copies(sinks.text(tmp_path / "old"), committables)
    with pytest.raises(StorageError, match="no more"):
        recover(new, committables, run="second", attempt=1, attached={name: killed})
    (left,) = named
    os.link(tmp_path / "half", tmp_path / "new" / ".pending" / left)
    recover(new, run="second", attempt=2)
    assert (visible(tmp_path / "new"), pending(tmp_path / "new")) == ({}, [])


@pytest.mark.parametrize("name", ["../part-x", "/etc/part-x", "part-../x", "part-x/../../y", "", "..", "other.txt"])
def test_a_committable_never_leads_out_of_its_folder(tmp_path, name):
    for pending_name, final in (("x", name), (name, "part-x")):
        if (pending_name, final) == ("other.txt", "part-x"):
            continue
        committable = msgspec.msgpack.encode({"pending": pending_name, "final": final, "size_bytes": 0})
        with pytest.raises(SnapshotDamagedError):
            sinks.text(tmp_path).commit([committable])


def test_what_is_no_committable_of_a_file_sink_is_an_error_of_ours(tmp_path):
    with pytest.raises(SnapshotDamagedError):
        sinks.text(tmp_path).commit([b"\xc1"])


def test_a_committable_of_an_earlier_version_is_published(tmp_path):
    sink = sinks.text(tmp_path)
    (committable,) = prepared(sink, ["a"])
    known = msgspec.msgpack.decode(committable)
    sink.commit([msgspec.msgpack.encode({name: known[name] for name in ("pending", "final", "size_bytes")})])
    assert list(visible(tmp_path).values()) == ["a\n"]


def test_the_names_of_prepared_files_are_durable_before_the_snapshot_may_hold_them(tmp_path, monkeypatch):
    synced = []
    monkeypatch.setattr(OperatingSystemFiles, "sync_folder", lambda self, folder: synced.append(folder))
    sink = sinks.text(tmp_path)
    writer = open_writer(sink)
    writer.write(ObjectBatch(["a"]))
    synced.clear()
    writer.prepare(CHECKPOINT)
    assert synced == [str(tmp_path / ".pending")]


def test_a_fresh_start_into_a_folder_with_output_is_refused_with_a_way_out(tmp_path):
    sink = sinks.text(tmp_path)
    sink.commit(prepared(sink, ["a"]))
    with pytest.raises(ConfigurationError, match="if_exists") as refused:
        sink.check()
    assert str(tmp_path) in refused.value.fact


@pytest.mark.parametrize(("if_exists", "restores"), [("append", False), ("refuse", True), ("append", True)])
def test_a_restore_and_a_job_that_appends_are_not_hindered_by_output(tmp_path, if_exists, restores):
    sink = sinks.text(tmp_path, if_exists=if_exists)
    sink.commit(prepared(sink, ["a"]))
    sink.check(restores=restores)


def test_files_of_others_and_pending_ones_are_no_output(tmp_path):
    sink = sinks.text(tmp_path)
    prepared(sink, ["a"])
    (tmp_path / "_SUCCESS").write_text("")
    (tmp_path / "notes.txt").write_text("")
    sink.check()


NAN, INFINITY = float("nan"), float("inf")
NOT_FINITE = [
    ObjectBatch([{"a": 1}, {"a": NAN}]),
    ObjectBatch([{"deep": [{"in": (1, INFINITY)}]}]),
    ObjectBatch([-INFINITY]),
    ObjectBatch([Point(1, NAN)]),
    ObjectBatch([numpy.float64("nan")]),
    ObjectBatch([1 << 70, NAN]),
    ObjectBatch([-NAN, struct.unpack(">d", bytes.fromhex("fff0000000000001"))[0]]),
    pa.RecordBatch.from_pydict({"a": [1.0, NAN]}),
    pa.RecordBatch.from_pydict({"a": [[1.0], [INFINITY]]}),
]


@pytest.mark.parametrize("batch", NOT_FINITE)
def test_what_json_has_no_number_for_is_refused(tmp_path, batch):
    with pytest.raises(SerializationError, match=r"JSON has no -?(NaN|Infinity)") as refused:
        open_writer(sinks.json_lines(tmp_path)).write(batch)
    assert "record" in refused.value.detail


@pytest.mark.parametrize(
    ("choice", "expected"),
    [("null", [None, None, [None, 2], None, "null"]), ("string", ["NaN", "-Infinity", ["Infinity", 2], None, "null"])],
)
def test_what_json_has_no_number_for_is_written_as_chosen(tmp_path, choice, expected):
    writer = open_writer(sinks.json_lines(tmp_path, non_finite=choice))
    writer.write(ObjectBatch([NAN, -INFINITY, [INFINITY, 2], None, "null"]))
    writer.commit(writer.prepare(CHECKPOINT))
    (content,) = visible(tmp_path).values()
    assert [msgspec.json.decode(line) for line in content.splitlines()] == expected


def test_nulls_and_texts_that_look_like_them_are_no_reason_to_refuse(tmp_path):
    writer = open_writer(sinks.json_lines(tmp_path))
    writer.write(ObjectBatch([{"a": None, "b": [None, 1.5]}, "null", "line\nnull", 1 << 70]))
    writer.write(pa.RecordBatch.from_pydict({"a": [None, 1.0]}))
    writer.commit(writer.prepare(CHECKPOINT))
    (content,) = visible(tmp_path).values()
    found = [msgspec.json.decode(line) for line in content.splitlines()]
    assert found == [{"a": None, "b": [None, 1.5]}, "null", "line\nnull", 1 << 70, {"a": None}, {"a": 1.0}]


def test_check_makes_the_folder_and_leaves_nothing_in_it(tmp_path):
    sinks.text(tmp_path / "a" / "b").check()
    assert pending(tmp_path / "a" / "b") == []


def test_check_says_clearly_that_a_folder_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="can't be written"):
        sinks.text(tmp_path / "file").check()


@pytest.mark.parametrize("options", [{"format": "xml"}, {"roll_bytes": 0}, {"format": "text", "schema": pa.schema([])}])
def test_impossible_settings_are_refused(options):
    with pytest.raises(ConfigurationError):
        sinks.files("out", **options)
