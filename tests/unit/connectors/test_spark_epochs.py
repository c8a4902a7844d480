"""for_each_epoch without Spark: a session that only knows which files it was asked to read."""

from __future__ import annotations

import os
import pickle
from typing import Any

import pyarrow.parquet as pq
import pytest

from cutwater.batches import ObjectBatch
from cutwater.connectors import sinks
from cutwater.connectors.contract import DriverContext, WriterContext
from cutwater.connectors.spark.applied import AppliedEpochs, Epoch
from cutwater.errors import ConfigurationError, UserFunctionError
from cutwater.protocol.ids import AttemptNumber, CheckpointId


class Session:
    """Reads Parquet files as a list of values."""

    @property
    def read(self) -> Session:
        return self

    def option(self, name: str, value: str) -> Session:
        return self

    def parquet(self, *paths: str) -> list[int]:
        return sorted(value for path in paths for value in pq.ParquetFile(path).read()["value"].to_pylist())


class Table:
    """What the function was called with; it fails as often as it is told to."""

    def __init__(self, *, failures: int = 0) -> None:
        self.calls: list[tuple[int, list[int]]] = []
        self._failures = failures

    def write(self, rows: list[int], epoch: int) -> None:
        self.calls.append((epoch, rows))
        if self._failures:
            self._failures -= 1
            raise ConnectionError("the table is locked")


def sink_into(table: Table, folder: Any, *, job: str = "job") -> Any:
    context = DriverContext(job, "table", f"file://{folder}", Session)
    return sinks.for_each_epoch(table.write).introduced(context)


def prepared(sink: Any, epochs: dict[int, list[int]], *, subtask: int = 0, attempt: int = 1) -> list[bytes]:
    context = WriterContext("job", "table", subtask, 2, AttemptNumber(attempt), run="run")
    writer = pickle.loads(pickle.dumps(sink)).writer(context)
    committables = []
    for checkpoint, values in epochs.items():
        writer.write(ObjectBatch(values))
        committables += writer.prepare(CheckpointId(checkpoint))
    return committables


def recover(sink: Any, committables: list[bytes], *, attempt: int = 2, **more: Any) -> None:
    sink.recover(
        job_id="job", uid="table", committables=committables, attempt=AttemptNumber(attempt), run="run", **more
    )


def staged(sink: Any) -> list[str]:
    return [name for _, _, names in os.walk(sink.folder) for name in names if name.endswith(".parquet")]


def test_the_function_gets_the_rows_of_all_tasks_at_once(tmp_path):
    table = Table()
    sink = sink_into(table, tmp_path)
    sink.commit(prepared(sink, {7: [1, 2]}, subtask=0) + prepared(sink, {7: [3]}, subtask=1))
    assert table.calls == [(7, [1, 2, 3])]


def test_several_epochs_come_one_by_one_in_order(tmp_path):
    table = Table()
    sink = sink_into(table, tmp_path)
    committables = prepared(sink, {7: [1], 8: [2]}, subtask=0) + prepared(sink, {7: [3], 8: [4]}, subtask=1)
    sink.commit(list(reversed(committables)))
    assert table.calls == [(7, [1, 3]), (8, [2, 4])]


def test_an_epoch_that_is_done_is_not_given_again(tmp_path):
    table = Table()
    sink = sink_into(table, tmp_path)
    committables = prepared(sink, {7: [1]})
    sink.commit(committables)
    recover(sink, committables)
    assert table.calls == [(7, [1])]


def test_the_rows_of_an_epoch_that_is_done_are_deleted(tmp_path):
    sink = sink_into(Table(), tmp_path)
    sink.commit(prepared(sink, {7: [1]}))
    assert staged(sink) == []


def test_a_recovery_gives_an_epoch_that_failed_again_under_its_number(tmp_path):
    table = Table(failures=1)
    sink = sink_into(table, tmp_path)
    committables = prepared(sink, {7: [1]})
    with pytest.raises(UserFunctionError, match="the table is locked"):
        sink.commit(committables)
    recover(sink, committables)
    assert table.calls == [(7, [1]), (7, [1])]


def test_a_recovery_deletes_what_no_snapshot_knows(tmp_path):
    table = Table()
    sink = sink_into(table, tmp_path)
    prepared(sink, {7: [1]})
    recover(sink, [])
    assert (table.calls, staged(sink)) == ([], [])


def test_a_savepoint_brings_its_rows_to_another_job(tmp_path):
    table = Table()
    before = sink_into(Table(), tmp_path / "before")
    committables = prepared(before, {7: [1]})
    copies = {made.name: list(made.pieces()) for made in before.attachments(committables)}
    os.rename(tmp_path / "before", tmp_path / "gone")
    sink = sink_into(table, tmp_path / "after", job="other")
    recover(sink, committables, attached={name: lambda pieces=pieces: pieces for name, pieces in copies.items()})
    assert table.calls == [(7, [1])]


def test_the_function_stays_in_the_driver(tmp_path):
    def unpicklable(rows: Any, epoch: int) -> None:
        """A local function: pickle refuses it."""

    sink = sinks.for_each_epoch(unpicklable)
    assert pickle.loads(pickle.dumps(sink)).name == "for_each_epoch(unpicklable)"


def test_without_spark_it_says_so_before_the_job_starts():
    with pytest.raises(ConfigurationError, match="needs Spark"):
        sinks.for_each_epoch(print).check()


def test_a_storage_that_is_no_folder_asks_for_one_that_is():
    context = DriverContext("job", "table", "s3://bucket/checkpoints", Session)
    with pytest.raises(ConfigurationError, match="staging="):
        sinks.for_each_epoch(print).introduced(context)


def test_marks_of_other_attempts_and_runs_say_nothing(tmp_path):
    applied = AppliedEpochs(str(tmp_path))
    applied.add(Epoch("run", 1, 7))
    asked = [Epoch("run", 1, 6), Epoch("run", 1, 7), Epoch("run", 1, 8), Epoch("run", 2, 7), Epoch("other", 1, 7)]
    assert [epoch in applied for epoch in asked] == [True, True, False, False, False]


def test_an_attempt_keeps_one_mark(tmp_path):
    applied = AppliedEpochs(str(tmp_path))
    for number in (7, 9, 12):
        applied.add(Epoch("run", 1, number))
    assert os.listdir(tmp_path / ".applied") == ["rrun-a1-12"]
