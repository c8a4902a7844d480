"""A process that writes files dies before each single operation on them, one after the other.

Whoever lists the folder meanwhile never sees a record twice, and never sees one vanish: also when files are joined. In
the end each record is there once, and nothing is pending.
"""

from __future__ import annotations

import io
from typing import Any

import fastavro
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from tests.property.connectors.memory_files import MemoryFiles

from cutwater.batches import ObjectBatch
from cutwater.connectors import file_system, sinks
from cutwater.connectors.contract import WriterContext
from cutwater.connectors.file_sink import FileSink
from cutwater.protocol.ids import AttemptNumber, CheckpointId

FOLDER = "steps://out"
RECORDS = 12
PER_CHECKPOINT = 3
LAYOUTS: list[dict[str, Any]] = [
    {"format": "text"},
    {"format": "text", "roll_every": "10s"},
    {"format": "csv", "roll_every": "10s", "partition_by": "rest", "open_files": 1},
    {"format": "parquet", "roll_every": "10s", "partition_by": "rest"},
    {"format": "avro", "roll_every": "10s"},
]


class Killed(BaseException):
    pass


class MortalFiles(MemoryFiles):
    """Its process dies before an operation; then it does nothing any more, until another process begins."""

    def __init__(self, dies_at: int, *, has_links: bool) -> None:
        super().__init__(has_links=has_links)
        self.dies_at = dies_at
        self.operations = 0
        self.is_dead = False
        self.seen: set[int] = set()
        self._read: dict[str, list[int]] = {}

    def __getattribute__(self, name: str) -> Any:
        if name in ("create", "sync", "sync_folder", "open", "link", "delete", "facts", "names"):
            self._step()
        return super().__getattribute__(name)

    def _step(self) -> None:
        self.operations += 1
        self.is_dead = self.is_dead or self.operations == self.dies_at
        if self.is_dead:
            raise Killed
        self.look()

    def look(self) -> None:
        visible = [number for path in self.paths(FOLDER) if "/." not in path for number in self._numbers(path)]
        assert len(visible) == len(set(visible)), "seen twice"
        assert self.seen <= set(visible), "vanished"
        self.seen = set(visible)

    def _numbers(self, path: str) -> list[int]:
        if path not in self._read:
            self._read[path] = self._decoded(path)
        return self._read[path]

    def _decoded(self, path: str) -> list[int]:
        content = io.BytesIO(self.read(path))
        match path.rpartition(".")[2]:
            case "txt":
                return [int(line) for line in content]
            case "csv":
                return pyarrow.csv.read_csv(content)["number"].to_pylist()
            case "parquet":
                return pq.ParquetFile(content).read()["number"].to_pylist()
        return [record["number"] for record in fastavro.reader(content)]


class Job:
    """A snapshot after each few records; a file is due after ten seconds, of which each snapshot takes four."""

    def __init__(self, files: MortalFiles, layout: dict[str, Any]) -> None:
        self.files = files
        self.layout = layout
        self.latest: tuple[int, list[bytes]] = (0, [])
        self.attempt = 0
        self.now_seconds = 0.0

    @property
    def sink(self) -> FileSink:
        return sinks.files(FOLDER, roll_bytes=10_000, **self.layout)

    def run(self) -> None:
        self.attempt += 1
        attempt = AttemptNumber(self.attempt)
        position, committables = self.latest
        self.sink.recover(job_id="job", uid="out", committables=committables, attempt=attempt, run="r")
        context = WriterContext("job", "out", 0, 1, attempt, run="r", now_seconds=lambda: self.now_seconds)
        writer = self.sink.writer(context)
        while position < RECORDS:
            numbers = range(position, position + PER_CHECKPOINT)
            writer.write(ObjectBatch([self._record(number) for number in numbers]))
            position = numbers.stop
            if position == RECORDS:
                writer.release()
            prepared = list(writer.prepare(CheckpointId(1)))
            self.latest = position, prepared
            self.now_seconds += 4
            writer.commit(prepared)
        writer.close()

    def _record(self, number: int) -> Any:
        return number if self.layout["format"] == "text" else {"number": number, "rest": number % 2}


@pytest.mark.parametrize(("machine_crashes", "has_links"), [(False, True), (True, True), (False, False)])
@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_whatever_step_is_the_last_one_each_record_is_seen_once(
    layout: dict[str, Any], machine_crashes: bool, has_links: bool
) -> None:
    dies_at = 0
    while True:
        dies_at += 1
        files = MortalFiles(dies_at, has_links=has_links)
        file_system.register("steps", lambda files=files: files)
        job = Job(files, layout)
        try:
            job.run()
            break
        except Killed:
            files.is_dead = False
        if machine_crashes:
            files.crash()
            files.seen = set()  # a name that was not durable yet is gone with the machine
        job.run()
        files.look()
        assert (files.seen, [path for path in files.paths(FOLDER) if "/." in path]) == (set(range(RECORDS)), [])
    assert files.seen == set(range(RECORDS))
    assert dies_at > 20
