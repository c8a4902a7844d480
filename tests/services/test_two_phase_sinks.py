"""What a prepared transaction goes through: kills of writer and server, failovers, savepoints, rivals, zombies."""

from __future__ import annotations

import pickle
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pytest

from cutwater.batches import Batch, ObjectBatch
from cutwater.connectors.contract import Sink, SinkWriter, WriterContext
from cutwater.connectors.failures import PeerError
from cutwater.errors import ConfigurationError, SchemaError, StorageError
from cutwater.protocol.ids import AttemptNumber, CheckpointId

from .two_phase import MariaSubject, PostgresSubject, Subject

WAIT_SECONDS = 60.0


@pytest.fixture(params=["postgres", "mariadb"])
def subject(request: pytest.FixtureRequest) -> Iterator[Subject]:
    server = request.getfixturevalue(request.param)
    kind = PostgresSubject if request.param == "postgres" else MariaSubject
    found = kind(server)
    found.reset()
    yield found
    assert found.prepared() == 0, "a prepared transaction was left hanging"


def numbers(*ids: int) -> ObjectBatch:
    return ObjectBatch([{"id": each, "name": f"number {each}"} for each in ids])


def context(**changes: Any) -> WriterContext:
    settings = {"job_id": "job", "uid": "sink", "subtask": 0, "parallelism": 1, "attempt": 1, "run": "one"}
    return WriterContext(**{**settings, **changes})


@contextmanager
def writing(sink: Sink, **changes: Any) -> Iterator[SinkWriter]:
    writer = sink.writer(context(**changes))
    try:
        yield writer
    finally:
        writer.close()


def prepare(writer: SinkWriter, checkpoint: int, *batches: Batch) -> Sequence[bytes]:
    for batch in batches:
        writer.write(batch)
    prepared = writer.prepare(CheckpointId(checkpoint))
    return prepared if isinstance(prepared, Sequence) else prepared.result(WAIT_SECONDS)


def recover(sink: Sink, committables: Sequence[bytes], *, attempt: int, **changes: Any) -> None:
    settings = {"job_id": "job", "uid": "sink", "run": "one"}
    sink.recover(**{**settings, **changes}, committables=committables, attempt=AttemptNumber(attempt))


def attached(sink: Sink, committables: Sequence[bytes]) -> dict[str, Any]:
    """As a savepoint holds them."""
    copies = {each.name: b"".join(each.pieces()) for each in sink.attachments(committables)}
    return {name: lambda data=data: iter([data]) for name, data in copies.items()}


def test_what_is_prepared_is_invisible_until_it_is_committed(subject: Subject) -> None:
    sink = subject.sink()
    with writing(sink) as writer:
        prepared = prepare(writer, 1, numbers(1, 2))
        before = subject.ids()
        writer.commit(prepared)
    assert (before, subject.ids()) == ([], [1, 2])


def test_nothing_written_is_nothing_prepared(subject: Subject) -> None:
    with writing(subject.sink()) as writer:
        assert list(prepare(writer, 1)) == []


def test_typed_batches_are_written_like_records(subject: Subject) -> None:
    rows = [{"id": 1, "name": 'tab\t, "quote"\nline \\N'}, {"id": None, "name": ""}, {"id": 3, "name": None}]
    with writing(subject.sink()) as writer:
        writer.commit(prepare(writer, 1, pa.RecordBatch.from_pylist(rows)))
    with writing(subject.sink(), attempt=2) as writer:
        writer.commit(prepare(writer, 2, ObjectBatch(rows)))
    found = subject.query("SELECT id, name FROM numbers")
    assert found == [tuple(row.values()) for row in rows] * 2


def test_a_commit_may_be_repeated(subject: Subject) -> None:
    sink = subject.sink()
    with writing(sink) as writer:
        first = prepare(writer, 1, numbers(1))
        second = prepare(writer, 2, numbers(2))
        for committables in (first, first, second, first, second):
            writer.commit(committables)
    assert subject.ids() == [1, 2]


def test_checkpoints_that_fail_hold_nothing_up(subject: Subject) -> None:
    """Two transactions of one writer are prepared at the same time; the later checkpoint commits both."""
    with writing(subject.sink()) as writer:
        first = prepare(writer, 1, numbers(1))
        second = prepare(writer, 2, numbers(2))
        writer.commit([*first, *second])
    assert subject.ids() == [1, 2]


def test_an_attempt_commits_what_the_snapshot_names_and_rolls_back_the_rest(subject: Subject) -> None:
    sink = subject.sink()
    with writing(sink) as writer:
        named = prepare(writer, 1, numbers(1))
        prepare(writer, 2, numbers(2))
        writer.write(numbers(3))
    recover(pickle.loads(pickle.dumps(sink)), named, attempt=2)
    assert (subject.ids(), subject.prepared()) == ([1], 0)


def test_a_late_driver_leaves_newer_attempts_and_other_runs_alone(subject: Subject) -> None:
    sink = subject.sink()
    with writing(sink, attempt=3) as newer, writing(sink, run="other") as other:
        prepared = [*prepare(newer, 1, numbers(1)), *prepare(other, 1, numbers(2))]
    recover(sink, [], attempt=3)
    still_there = subject.prepared()
    sink.commit(prepared)
    assert (still_there, subject.ids()) == (2, [1, 2])


def test_what_a_zombie_prepares_late_is_rolled_back_when_the_job_ends(subject: Subject) -> None:
    sink = subject.sink()
    with writing(sink, attempt=1) as zombie:
        recover(sink, [], attempt=2)
        prepare(zombie, 1, numbers(1))
    sink.job_ended(None)
    assert (subject.ids(), subject.prepared()) == ([], 0)


def test_a_killed_writer_leaves_nothing_but_what_it_prepared(subject: Subject) -> None:
    program = f"""
import os, pickle, sys
sys.path[:0] = {sys.path!r}
from tests.services.test_two_phase_sinks import context, numbers, prepare
sink = pickle.loads({pickle.dumps(subject.sink())!r})
writer = sink.writer(context())
sys.stdout.write(prepare(writer, 1, numbers(1))[0].hex())
sys.stdout.flush()
writer.write(numbers(2))
os.kill(os.getpid(), {signal.SIGKILL.value})
"""
    killed = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    recover(subject.sink(), [bytes.fromhex(killed.stdout)], attempt=2)
    assert (subject.ids(), subject.prepared()) == ([1], 0)


def test_the_server_is_killed_between_prepare_and_commit(subject: Subject) -> None:
    sink = subject.sink()
    with writing(sink) as writer:
        prepared = prepare(writer, 1, numbers(1))
        prepare(writer, 2, numbers(2))
        subject.server.restart()
        recover(sink, prepared, attempt=2)
    assert (subject.ids(), subject.prepared()) == ([1], 0)


def test_a_commit_waits_for_a_server_that_is_gone(subject: Subject) -> None:
    sink = subject.sink()
    with writing(sink) as writer:
        prepared = prepare(writer, 1, numbers(1))
    subject.server.kill()
    committing = threading.Thread(target=sink.commit, args=(prepared,))
    committing.start()
    subject.server.start()
    committing.join(WAIT_SECONDS)
    assert subject.ids() == [1]


def test_a_server_that_is_gone_while_nothing_is_open_is_waited_for(subject: Subject) -> None:
    sink = subject.sink()
    with writing(sink) as writer:
        writer.commit(prepare(writer, 1, numbers(1)))
        subject.server.restart()
        writer.commit(prepare(writer, 2, numbers(2)))
    assert subject.ids() == [1, 2]


def test_a_server_that_is_killed_in_mid_transaction_fails_the_attempt(subject: Subject) -> None:
    sink = subject.sink()
    with writing(sink) as writer:
        prepare(writer, 1, numbers(1))
        writer.write(numbers(2))
        wait_until(lambda: writer._queued_rows == 0 and writer._sent_since_barrier)  # type: ignore[attr-defined]
        subject.server.restart()
        with pytest.raises(PeerError):
            prepare(writer, 2, numbers(3))
    recover(sink, [], attempt=2)
    assert subject.ids() == []


def test_two_who_commit_the_same_at_the_same_time_do_no_harm(subject: Subject) -> None:
    sink = subject.sink()
    with writing(sink) as writer:
        prepared = [each for number in range(20) for each in prepare(writer, number, numbers(number))]
    failures: list[BaseException] = []
    together = threading.Barrier(4)

    def commit() -> None:
        together.wait()
        try:
            sink.commit(prepared)
        except BaseException as error:
            failures.append(error)

    rivals = [threading.Thread(target=commit) for _ in range(4)]
    for rival in rivals:
        rival.start()
    for rival in rivals:
        rival.join(WAIT_SECONDS)
    assert (failures, subject.ids()) == ([], list(range(20)))


def test_a_savepoint_is_restored_after_a_failover_rolled_its_transaction_back(subject: Subject) -> None:
    sink = subject.sink()
    with writing(sink) as writer:
        savepoint = prepare(writer, 1, numbers(1, 2))
        copies = attached(sink, savepoint)
    recover(sink, [], attempt=2)
    with writing(sink, attempt=2) as writer:
        writer.commit(prepare(writer, 2, numbers(7)))
    for _ in range(2):
        recover(sink, savepoint, attempt=1, run="restored", attached=copies)
    assert subject.ids() == [1, 2, 7]


def test_a_savepoint_with_typed_rows_is_restored(subject: Subject) -> None:
    sink = subject.sink()
    rows = pa.RecordBatch.from_pylist([{"id": 1, "name": None}, {"id": 2, "name": ""}])
    with writing(sink) as writer:
        savepoint = prepare(writer, 1, rows)
        copies = attached(sink, savepoint)
    recover(sink, [], attempt=2)
    recover(sink, savepoint, attempt=1, run="restored", attached=copies)
    assert subject.query("SELECT id, name FROM numbers") == [(1, None), (2, "")]


def test_a_savepoint_whose_transaction_was_committed_is_not_written_again(subject: Subject) -> None:
    sink = subject.sink()
    with writing(sink) as writer:
        savepoint = prepare(writer, 1, numbers(1))
        copies = attached(sink, savepoint)
        writer.commit(savepoint)
        for number in range(2, 5):
            writer.commit(prepare(writer, number, numbers(number)))
    recover(sink, savepoint, attempt=1, run="restored", attached=copies)
    assert subject.ids() == [1, 2, 3, 4]


def test_a_checkpoint_whose_transaction_is_gone_is_an_error(subject: Subject) -> None:
    sink = subject.sink()
    with writing(sink) as writer:
        checkpoint = prepare(writer, 1, numbers(1))
    recover(sink, [], attempt=2)
    with pytest.raises(StorageError, match="is lost"):
        recover(sink, checkpoint, attempt=1, run="restored")


def test_rows_are_kept_no_longer_than_needed(subject: Subject) -> None:
    sink = subject.sink()
    with writing(sink) as writer:
        prepared = [prepare(writer, number, numbers(number)) for number in range(5)]
        kept_before = [len(sink.attachments(each)) for each in prepared]
        for each in prepared:
            writer.commit(each)
        kept_after = [len(sink.attachments(each)) for each in prepared]
    assert (kept_before, kept_after) == ([1] * 5, [0, 0, 0, 0, 1])


def test_the_table_of_epochs_has_one_row_per_writer(subject: Subject) -> None:
    with writing(subject.sink()) as writer:
        for number in range(5):
            writer.commit(prepare(writer, number, numbers(number)))
    assert len(subject.query("SELECT * FROM cutwater_epochs")) == 1


def test_upserts_replace_the_row_of_the_same_key(subject: Subject) -> None:
    subject.query("CREATE UNIQUE INDEX numbers_id ON numbers (id)")
    sink = subject.sink(delivery="upsert", key=("id",))
    sink.check()
    newer = ObjectBatch([{"id": 2, "name": "two"}, {"id": 3, "name": "drei"}, {"id": 3, "name": "three"}])
    with writing(sink) as writer:
        for number in range(2):
            prepare(writer, number, numbers(1, 2), newer)
    found = subject.query("SELECT id, name FROM numbers ORDER BY id")
    assert found == [(1, "number 1"), (2, "two"), (3, "three")]


@pytest.mark.parametrize("delivery", ["upsert", "at_least_once"])
def test_rows_that_were_not_settled_are_sent_again(subject: Subject, delivery: str) -> None:
    subject.query("CREATE UNIQUE INDEX numbers_id ON numbers (id)")
    options: dict[str, Any] = {"key": ("id",)} if delivery == "upsert" else {}
    with writing(subject.sink(delivery=delivery, **options)) as writer:
        writer.write(numbers(1, 2))
        wait_until(lambda: writer._queued_rows == 0 and bool(writer._sent))  # type: ignore[attr-defined]
        subject.server.restart()
        prepare(writer, 1, numbers(3))
    assert subject.ids() == [1, 2, 3]


def test_a_record_that_the_table_refuses_names_the_reason(subject: Subject) -> None:
    with writing(subject.sink()) as writer, pytest.raises(SchemaError, match='write to table "numbers"') as raised:
        prepare(writer, 1, ObjectBatch([{"id": "x", "name": None}]))
    assert "'x'" in raised.value.detail or '"x"' in raised.value.detail


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"table": "nothing"}, 'no table "nothing"'),
        ({"columns": ("id", "nothing")}, "no column 'nothing'"),
        ({"delivery": "upsert", "key": ("id",)}, "no unique index on the key"),
    ],
)
def test_a_table_that_does_not_fit_is_refused_before_the_job_starts(
    subject: Subject, options: dict[str, Any], problem: str
) -> None:
    with pytest.raises(ConfigurationError, match=problem):
        subject.sink(**options).check()


def wait_until(done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while not done():
        assert time.monotonic() < deadline
        time.sleep(0.01)
