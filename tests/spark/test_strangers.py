"""Does a process with the job's token, but none of its tasks, get anywhere? And where could it find the token?"""

from __future__ import annotations

import os
import pickle
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import psutil
import pyarrow.flight as flight
import pytest

import cutwater as cw
from cutwater.protocol.ids import AttemptNumber, CheckpointId, SlotId, TaskId
from cutwater.runtime.flight.control_frames import MESSAGE
from cutwater.runtime.flight.security import call_options, connect
from cutwater.runtime.messages import ConnectorReport, SlotRegistered, TaskCommitted, TaskFinished, encode

from .ledger_job import LedgerJob, wait_for


class Payload:
    """Leaves a file behind where it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return Path.touch, (self.path,)


class Failure(msgspec.Struct, tag="TaskFailed"):
    """A failure as one would smuggle it in: its error is a pickle."""

    attempt: int
    task: TaskId
    error: bytes
    peer_lost: bool = False


def _intrude(address: str, token: str, messages: list[Any]) -> None:
    client = connect(address, None)
    writer, reader = client.do_exchange(flight.FlightDescriptor.for_command(b"control"), options=call_options(token))
    for message in [SlotRegistered(SlotId("evil.1"), "127.0.0.1:1", "evil", 1), *messages]:
        writer.write_metadata(MESSAGE + encode(message))
    writer.done_writing()
    with suppress(StopIteration):
        while True:
            reader.read_chunk()
    client.close()


def test_a_slot_that_nobody_gave_tasks_can_neither_fail_nor_finish_the_job(spark: Any, tmp_path: Path) -> None:
    ledger = LedgerJob(tmp_path, records=8_000)
    job = ledger.submit(spark)
    status = wait_for(job, lambda status: status.checkpoints_completed >= 1)
    running: Any = job._running
    tasks = list(running._coordinator._attempt.tasks)
    number = AttemptNumber(status.attempt)
    payload = pickle.dumps(Payload(tmp_path / "run by the driver"))
    intrusion: list[Any] = [Failure(number, task, payload) for task in tasks]
    intrusion += [TaskFinished(number, task) for task in tasks]
    intrusion += [TaskCommitted(number, task, CheckpointId(10**6)) for task in tasks]
    intrusion += [ConnectorReport(number, tasks[-1].vertex, payload)]
    for message in intrusion:
        _intrude(running._control.address, running._pool._order.token, [message])
    assert job.wait("2min").restarts == 0
    assert not (tmp_path / "run by the driver").exists()
    ledger.assert_output_is_exact()


def test_no_byte_of_the_token_is_where_others_look(spark: Any, tmp_path: Path) -> None:
    job = LedgerJob(tmp_path, records=8_000).submit(spark)
    status = wait_for(job, lambda status: status.checkpoints_completed >= 1)
    running: Any = job._running
    token = running._pool._order.token
    pieces = {token[start : start + 6] for start in range(len(token) - 5)}
    places = [running._pool._jobs._group, *(str(spark.sparkContext.getConf().getAll()),)]
    for pid in [os.getpid(), *(slot.pid for slot in status.slots)]:
        process = psutil.Process(pid)
        places += [" ".join(process.cmdline()), str(process.environ())]
    job.cancel()
    assert [piece for piece in pieces for place in places if piece in place] == []


def test_a_job_makes_its_own_certificates(spark: Any, tmp_path: Path) -> None:
    ledger = LedgerJob(tmp_path, records=4_000)
    job = ledger.submit(spark, tls="auto")
    wait_for(job, lambda status: status.checkpoints_completed >= 1)
    running: Any = job._running
    with pytest.raises(flight.FlightUnavailableError):
        _intrude(running._control.address, running._pool._order.token, [])
    assert job.wait("2min").state is cw.JobState.FINISHED
    ledger.assert_output_is_exact()
