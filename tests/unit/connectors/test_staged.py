from __future__ import annotations

import os
import pickle

import pyarrow as pa
import pytest

from cutwater.connectors.contract import ReaderContext
from cutwater.connectors.staged import StagedFiles, mark_complete, mark_failed, write_partition
from cutwater.errors import OperationsError, StorageError

SCHEMA = pa.schema([("n", pa.int64())])


def batch(*numbers):
    return pa.RecordBatch.from_pydict({"n": list(numbers)}, schema=SCHEMA)


def read_all(source):
    numbers = []
    for split in source.discover(2).splits:
        reader = pickle.loads(pickle.dumps(source)).reader(split, None, ReaderContext())
        while not reader.finished:
            rows = reader.read(2, 0.0)
            numbers += rows.column("n").to_pylist() if rows is not None else []
        reader.close()
    return numbers


def test_parts_are_found_while_others_are_still_being_written(tmp_path):
    source = StagedFiles(str(tmp_path / "stage"), SCHEMA)
    assert source.discover(1).splits == ()
    write_partition([batch(1, 2), batch(3)], str(tmp_path / "stage"), 0, schema=SCHEMA)
    assert (read_all(source), source.discover(1).complete) == ([1, 2, 3], False)
    write_partition([batch(4)], str(tmp_path / "stage"), 1, schema=SCHEMA)
    mark_complete(str(tmp_path / "stage"), 2)
    assert (read_all(source), source.discover(1).complete) == ([1, 2, 3, 4], True)


def test_a_part_appears_whole_or_not_at_all(tmp_path):
    def broken():
        yield batch(1)
        assert [name for name in os.listdir(tmp_path) if not name.startswith(".")] == []
        raise RuntimeError

    with pytest.raises(RuntimeError):
        write_partition(broken(), str(tmp_path), 0, schema=SCHEMA)
    assert os.listdir(tmp_path) == []


def test_of_a_partition_written_twice_the_first_result_stands(tmp_path):
    write_partition([batch(1)], str(tmp_path), 0, schema=SCHEMA)
    write_partition([batch(2)], str(tmp_path), 0, schema=SCHEMA)
    assert read_all(StagedFiles(str(tmp_path), SCHEMA)) == [1]
    assert os.listdir(tmp_path) == ["part-00000.parquet"]


def test_an_empty_partition_counts_as_a_part(tmp_path):
    assert write_partition([], str(tmp_path), 0, schema=SCHEMA) == 0
    mark_complete(str(tmp_path), 1)
    assert read_all(StagedFiles(str(tmp_path), SCHEMA)) == []


def test_batches_are_cast_to_the_schema(tmp_path):
    narrow = pa.RecordBatch.from_pydict({"n": pa.array([1], pa.int32())})
    write_partition([narrow], str(tmp_path), 0, schema=SCHEMA)
    assert read_all(StagedFiles(str(tmp_path), SCHEMA)) == [1]


def test_a_failure_of_spark_is_raised_with_its_message(tmp_path):
    mark_failed(str(tmp_path), "division by zero")
    with pytest.raises(OperationsError, match="division by zero"):
        StagedFiles(str(tmp_path), SCHEMA).discover(1)


def test_missing_parts_are_an_error(tmp_path):
    write_partition([batch(1)], str(tmp_path), 0, schema=SCHEMA)
    mark_complete(str(tmp_path), 2)
    with pytest.raises(StorageError, match="damaged"):
        StagedFiles(str(tmp_path), SCHEMA).discover(1)


def test_the_folder_may_be_moved(tmp_path):
    write_partition([batch(1)], str(tmp_path / "a"), 0, schema=SCHEMA)
    split = StagedFiles(str(tmp_path / "a"), SCHEMA).discover(1).splits[0]
    os.rename(tmp_path / "a", tmp_path / "b")
    assert StagedFiles(str(tmp_path / "b"), SCHEMA).reader(split, None, ReaderContext()).read(1, 0.0) == batch(1)


def test_a_restored_job_waits_for_parts_that_spark_writes_anew(tmp_path):
    write_partition([batch(1, 2)], str(tmp_path / "old"), 0, schema=SCHEMA)
    split = StagedFiles(str(tmp_path / "old"), SCHEMA).discover(1).splits[0]
    reader = StagedFiles(str(tmp_path / "new"), SCHEMA).reader(split, (0, 1), ReaderContext())
    assert (reader.read(9, 0.0), reader.position, reader.finished) == (None, (0, 1), False)
    write_partition([batch(1, 2)], str(tmp_path / "new"), 0, schema=SCHEMA)
    assert (reader.read(9, 0.0), reader.finished) == (batch(2), True)


def test_a_restored_job_waits_neither_for_a_failed_query_nor_for_a_missing_part(tmp_path):
    write_partition([batch(1)], str(tmp_path / "old"), 0, schema=SCHEMA)
    split = StagedFiles(str(tmp_path / "old"), SCHEMA).discover(1).splits[0]
    mark_failed(str(tmp_path / "failed"), "division by zero")
    with pytest.raises(OperationsError, match="division by zero"):
        StagedFiles(str(tmp_path / "failed"), SCHEMA).reader(split, None, ReaderContext())
    mark_complete(str(tmp_path / "complete"), 0)
    with pytest.raises(StorageError, match="vanished"):
        StagedFiles(str(tmp_path / "complete"), SCHEMA).reader(split, None, ReaderContext())
