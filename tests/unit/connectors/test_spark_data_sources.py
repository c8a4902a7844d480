"""Python data sources without Spark: offsets planned, committed and read; messages of epochs."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from cutwater.batches import ObjectBatch, rows_of
from cutwater.connectors.contract import DriverContext, ReaderContext, WriterContext
from cutwater.connectors.spark.messages import MessageSink
from cutwater.connectors.spark.offsets import OffsetSource
from cutwater.errors import UserFunctionError
from cutwater.protocol.ids import AttemptNumber, CheckpointId
from cutwater.protocol.known_origins import KnownOrigins

SCHEMA = pa.schema([("number", pa.int64())])


class Numbers:
    """An `OffsetReader` of the numbers below `latest`, in two partitions a range."""

    def __init__(self) -> None:
        self.latest = 0
        self.committed: list[int] = []

    def initial_offset(self) -> dict[str, Any]:
        return {"number": 0}

    def latest_offset(self, start: dict[str, Any]) -> dict[str, Any]:
        return {"number": self.latest}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[range]:
        middle = (start["number"] + end["number"]) // 2
        return [range(start["number"], middle), range(middle, end["number"])]

    def read(self, partition: range) -> Iterator[pa.RecordBatch]:
        for start in range(partition.start, partition.stop, 3):
            numbers = list(range(start, min(start + 3, partition.stop)))
            yield pa.RecordBatch.from_pydict({"number": numbers}, schema=SCHEMA)

    def commit(self, end: dict[str, Any]) -> None:
        self.committed.append(end["number"])

    def stop(self) -> None:
        self.committed.append(-1)


def source_of(reader: Numbers) -> OffsetSource:
    return OffsetSource("Numbers", reader, SCHEMA)


def look(source: OffsetSource, state: bytes = b"") -> Any:
    return source.discover_new(2, KnownOrigins(), state)


def read(source: OffsetSource, split: Any, position: Any = None, *, batches: int = 1_000) -> tuple[list[int], Any]:
    reader = source.reader(split, position, ReaderContext())
    found: list[int] = []
    deadline = time.monotonic() + 30
    while not reader.finished and batches and time.monotonic() < deadline:
        if (batch := reader.read(100, 0.0)) is not None:
            found += [row.number for row in rows_of(batch)]
            batches -= 1
    reader.close()
    return found, reader.position


def test_a_range_is_planned_once():
    reader = Numbers()
    source = source_of(reader)
    reader.latest = 10
    first = look(source)
    again = look(source, first.state)
    reader.latest = 12
    third = look(source, again.state)
    assert [[split.id for split in found.splits] for found in (first, again, third)] == [
        ["0.0", "0.1"],
        [],
        ["1.0", "1.1"],
    ]


@pytest.mark.threads
def test_the_partitions_hold_every_row():
    reader = Numbers()
    reader.latest = 20
    source = source_of(reader)
    assert [row for split in look(source).splits for row in read(source, split)[0]] == list(range(20))


@pytest.mark.threads
def test_a_partition_goes_on_behind_the_rows_that_were_read():
    reader = Numbers()
    reader.latest = 20
    source = source_of(reader)
    split = look(source).splits[0]
    before, position = read(source, split, batches=2)
    assert before + read(source, split, position)[0] == list(range(10))


def test_a_range_is_committed_when_it_and_all_before_were_read():
    reader = Numbers()
    source = source_of(reader)
    state = b""
    for latest in (10, 20, 30):
        reader.latest = latest
        state = look(source, state).state
    source.checkpoint_completed({"0.1", "2.0"}, state)
    source.checkpoint_completed({"2.0"}, state)
    source.checkpoint_completed(set(), state)
    source.checkpoint_completed(set(), state)
    assert reader.committed == [20, 30]


def test_the_reader_is_stopped_with_the_job():
    reader = Numbers()
    source_of(reader).job_ended()
    assert reader.committed == [-1]


class Archive:
    """An `EpochMessages` whose message is the rows."""

    def __init__(self) -> None:
        self.committed: list[tuple[int, list[int]]] = []

    def write(self, batches: Iterator[pa.RecordBatch]) -> list[int]:
        rows = [row.number for batch in batches for row in rows_of(batch)]
        if 13 in rows:
            raise ValueError("13 is unlucky")
        return rows

    def commit(self, messages: list[Any], epoch: int) -> None:
        self.committed.append((epoch, sorted(row for message in messages for row in message)))


def sink_into(archive: Archive, folder: Any) -> Any:
    context = DriverContext("job", "archive", f"file://{folder}", lambda: None)
    return MessageSink("Archive", archive, SCHEMA, staging=None).introduced(context)


def prepared(sink: Any, checkpoint: int, *batches: list[int], subtask: int = 0) -> Any:
    writer = sink.writer(WriterContext("job", "archive", subtask, 2, AttemptNumber(1)))
    for numbers in batches:
        writer.write(ObjectBatch([{"number": number} for number in numbers]))
    return writer.prepare(CheckpointId(checkpoint))


@pytest.mark.threads
def test_the_messages_of_all_tasks_are_committed_together_once(tmp_path):
    archive = Archive()
    sink = sink_into(archive, tmp_path)
    committables = prepared(sink, 7, [1], [2]).result(30) + prepared(sink, 7, [3], subtask=1).result(30)
    sink.commit(committables)
    sink.commit(committables)
    assert archive.committed == [(7, [1, 2, 3])]


def test_an_epoch_without_rows_has_no_message(tmp_path):
    assert prepared(sink_into(Archive(), tmp_path), 7) == []


@pytest.mark.threads
def test_a_write_that_fails_fails_what_was_promised(tmp_path):
    with pytest.raises(UserFunctionError, match="13 is unlucky"):
        prepared(sink_into(Archive(), tmp_path), 7, [13]).result(30)
