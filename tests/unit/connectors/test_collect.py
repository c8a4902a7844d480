from __future__ import annotations

import pickle

import cloudpickle
import pyarrow as pa
import pytest

from cutwater.batches import ObjectBatch
from cutwater.connectors import sinks
from cutwater.connectors.contract import WriterContext
from cutwater.protocol.ids import AttemptNumber, CheckpointId

CHECKPOINT = CheckpointId(1)


def open_writer(sink, *, job="job", subtask=0, attempt=0, run="0"):
    in_slot = pickle.loads(cloudpickle.dumps(sink))
    return in_slot.writer(WriterContext(job, "out", subtask, 2, AttemptNumber(attempt), sink.receive, run))


def epoch(writer, *values):
    writer.write(ObjectBatch(list(values)))
    return writer.prepare(CHECKPOINT)


def test_records_arrive_when_they_are_committed():
    sink = sinks.collect()
    writer = open_writer(sink)
    committables = epoch(writer, 1, 2)
    assert sink.collected.take() == []
    writer.commit(committables)
    assert sink.collected.take() == [1, 2]


def test_a_repeated_commit_brings_nothing_new():
    sink = sinks.collect()
    writer = open_writer(sink)
    first, second = epoch(writer, 1), epoch(writer, 2)
    writer.commit(second)
    writer.commit(first)
    writer.commit(second)
    sink.recover(job_id="job", uid="out", committables=[*first, *second])
    assert sink.collected.take() == [2, 1]


def test_recovery_commits_in_the_driver():
    sink = sinks.collect()
    sink.recover(job_id="job", uid="out", committables=epoch(open_writer(sink), 1))
    assert sink.collected.take() == [1]


def test_epochs_of_other_tasks_attempts_jobs_and_runs_are_different_epochs():
    sink = sinks.collect()
    whos = [{}, {"subtask": 1}, {"attempt": 1}, {"job": "other"}, {"run": "second"}]
    for who in whos:
        writer = open_writer(sink, **who)
        writer.commit(epoch(writer, who))
    assert sink.collected.take() == whos


def test_typed_records_arrive_as_rows():
    sink = sinks.collect()
    writer = open_writer(sink)
    writer.write(pa.RecordBatch.from_pydict({"n": [1, 2]}))
    writer.write(pa.RecordBatch.from_pydict({"n": [3]}))
    writer.commit(writer.prepare(CHECKPOINT))
    assert [row.n for row in sink.collected.take()] == [1, 2, 3]


def test_an_iteration_ends_with_the_job():
    sink = sinks.collect()
    writer = open_writer(sink)
    writer.commit(epoch(writer, 1, 2))
    sink.collected.end()
    assert list(sink.collected) == [1, 2]


def test_an_iteration_raises_the_failure_after_the_results():
    sink = sinks.collect()
    writer = open_writer(sink)
    writer.commit(epoch(writer, 1))
    sink.collected.end(ValueError("job failed"))
    results = iter(sink.collected)
    assert next(results) == 1
    with pytest.raises(ValueError, match="job failed"):
        next(results)


def test_an_empty_epoch_has_no_committable():
    assert open_writer(sinks.collect()).prepare(CHECKPOINT) == []
