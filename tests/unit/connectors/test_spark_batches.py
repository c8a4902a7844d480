"""The micro-batches of a streaming query, without Spark: the test stages them by hand."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from cutwater.batches import rows_of
from cutwater.connectors.contract import DriverContext, ReaderContext
from cutwater.connectors.spark.batches import StagedBatches, batch_name
from cutwater.connectors.staged import write_partition
from cutwater.errors import ConfigurationError, StorageError
from cutwater.protocol.known_origins import KnownOrigins

SCHEMA = pa.schema([("number", pa.int64())])


class Query:
    def __init__(self) -> None:
        self.folder: Path | None = None
        self.over = False

    def start(self, folder: str) -> None:
        self.folder = Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)

    def is_over(self) -> bool:
        return self.over

    def stop(self) -> None:
        self.over = True

    def stage(self, batch: int, *parts: list[int]) -> None:
        assert self.folder is not None
        for index, numbers in enumerate(parts):
            rows = pa.RecordBatch.from_pydict({"number": numbers}, schema=SCHEMA)
            write_partition([rows], str(self.folder / batch_name(batch)), index, schema=SCHEMA)


def source_of(query: Query, folder: Path) -> Any:
    context = DriverContext("job", "stream", f"file://{folder}", lambda: None)
    return StagedBatches(query, SCHEMA, staging=None).introduced(context)


def look(source: Any, state: bytes = b"") -> Any:
    return source.discover_new(2, KnownOrigins(), state)


def numbers_of(source: Any, splits: Any) -> list[int]:
    found: list[int] = []
    in_slot = pickle.loads(pickle.dumps(source))
    for split in splits:
        reader = in_slot.reader(split, None, ReaderContext())
        while not reader.finished:
            batch = reader.read(100, 0.0)
            found += [row.number for row in rows_of(batch)] if batch is not None else []
        reader.close()
    return found


def test_each_look_finds_the_batches_that_follow_those_of_its_state(tmp_path):
    query = Query()
    source = source_of(query, tmp_path)
    state = look(source).state
    query.stage(0, [1, 2], [3])
    first = look(source, state)
    query.stage(1, [4])
    second = look(source, first.state)
    assert [numbers_of(source, found.splits) for found in (first, second)] == [[1, 2, 3], [4]]


def test_a_restored_job_goes_on_with_the_query_of_its_state(tmp_path):
    before = Query()
    source = source_of(before, tmp_path)
    state = look(source).state
    before.stage(0, [1])
    state = look(source, state).state
    after = Query()
    look(source_of(after, tmp_path), state)
    assert after.folder == before.folder


def test_a_job_that_starts_anew_starts_a_query_of_its_own(tmp_path):
    queries = [Query(), Query()]
    for query in queries:
        look(source_of(query, tmp_path))
    assert queries[0].folder != queries[1].folder


def test_attempts_without_a_snapshot_read_the_same_query_from_its_start(tmp_path):
    query = Query()
    source = source_of(query, tmp_path)
    look(source)
    query.stage(0, [1])
    assert numbers_of(source, look(source).splits) == numbers_of(source, look(source).splits) == [1]


def test_a_batch_is_deleted_when_all_of_it_was_read(tmp_path):
    query = Query()
    source = source_of(query, tmp_path)
    state = look(source).state
    for batch in range(3):
        query.stage(batch, [batch], [batch])
    found = look(source, state)
    query.stage(3, [3])  # not found yet
    source.checkpoint_completed({found.splits[2].id}, found.state)
    assert sorted(path.name for path in query.folder.glob("batch-*")) == [batch_name(1), batch_name(3)]


def test_a_snapshot_that_needs_deleted_batches_is_refused(tmp_path):
    query = Query()
    source = source_of(query, tmp_path)
    old = look(source).state
    query.stage(0, [0])
    source.checkpoint_completed(set(), look(source, old).state)
    query.stage(1, [1])
    with pytest.raises(StorageError, match="has to read again are gone"):
        look(source, old)


def test_a_query_whose_folder_is_gone_is_not_begun_anew(tmp_path):
    query = Query()
    source = source_of(query, tmp_path)
    state = look(source).state
    query.stage(0, [0])
    state = look(source, state).state
    query.folder.rename(tmp_path / "elsewhere")
    with pytest.raises(StorageError, match="is gone"):
        look(source, state)


def test_the_stream_ends_with_the_query(tmp_path):
    query = Query()
    source = source_of(query, tmp_path)
    assert not look(source).complete
    query.over = True
    assert look(source).complete


def test_the_end_of_the_job_ends_the_query(tmp_path):
    query = Query()
    source_of(query, tmp_path).job_ended()
    assert query.over


def test_without_spark_it_says_so_before_the_job_starts():
    with pytest.raises(ConfigurationError, match="needs Spark"):
        StagedBatches(Query(), SCHEMA, staging=None).check()
