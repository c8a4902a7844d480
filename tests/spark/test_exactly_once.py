"""Whatever is killed or fails, on a real Spark: the output is exact, complete and in order per key."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from cutwater.api.jobs import JobHandle
from cutwater.protocol.lifecycle import JobState
from cutwater.status import JobStatus

from . import ledger_job
from .ledger_job import LedgerJob, fail, kill, limit_file_size, once, stall, wait_for


@pytest.fixture(scope="module", params=["local[4]", "local-cluster[2,2,1024]"])
def master(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def spark(master: str) -> Iterator[Any]:
    from cutwater.deploy.session import embedded_session

    session = embedded_session(4, settings={"spark.master": master})
    yield session
    session.stop()


@pytest.fixture
def ledger(tmp_path: Path) -> LedgerJob:
    return LedgerJob(tmp_path)


def running_with_checkpoints(count: int, *, restarts: int = 0) -> Callable[[JobStatus], bool]:
    return lambda status: (
        status.state is JobState.RUNNING
        and status.restarts >= restarts
        and sum(checkpoint.completed and checkpoint.attempt == status.attempt for checkpoint in status.checkpoints)
        >= count
    )


def working_pids(status: JobStatus) -> list[int]:
    return [slot.pid for slot in status.slots if slot.tasks]


def finish(job: JobHandle, ledger: LedgerJob, *, restarts: int) -> JobStatus:
    status = job.wait("4min").status
    ledger.assert_output_is_exact()
    assert status.restarts >= restarts
    assert not list((ledger.root / "out" / ".pending").glob("*")), "uncommitted files were left behind"
    return status


def test_a_job_that_nothing_happens_to(spark: Any, ledger: LedgerJob) -> None:
    status = finish(ledger.submit(spark), ledger, restarts=0)
    assert status.restarts == 0
    assert status.checkpoints_completed > 3


def test_a_killed_python_worker(spark: Any, ledger: LedgerJob) -> None:
    job = ledger.submit(spark)
    kill(working_pids(wait_for(job, running_with_checkpoints(2)))[0])
    status = finish(job, ledger, restarts=1)
    assert status.recoveries[0].restored_checkpoint is not None


def test_a_killed_executor(spark: Any, master: str, ledger: LedgerJob) -> None:
    if not master.startswith("local-cluster"):
        pytest.skip("in local mode the executor is the driver")
    job = ledger.submit(spark)
    pid = working_pids(wait_for(job, running_with_checkpoints(2)))[0]
    executor = next(parent for parent in psutil.Process(pid).parents() if parent.name() == "java")
    kill(executor.pid)
    finish(job, ledger, restarts=1)


def test_an_exception_in_a_user_function(spark: Any, ledger: LedgerJob) -> None:
    job = ledger.submit(spark, mischief=once(ledger.root / "failed", fail, after=100))
    pids = working_pids(wait_for(job, running_with_checkpoints(1)))
    status = finish(job, ledger, restarts=1)
    assert "did not think of this record" in status.recoveries[0].cause
    assert ledger_job.__name__.rpartition(".")[2] in status.recoveries[0].cause, "the user's own line is named"
    assert working_pids(status) in ([], pids), "no process was replaced"


def test_a_snapshot_write_that_fails(spark: Any, ledger: LedgerJob) -> None:
    folder = ledger.root / "checkpoints" / "ledger"
    folder.mkdir(parents=True)
    (folder / "chk-3").write_text("a file where a folder should be: nothing can be written below it")
    job = ledger.submit(spark, checkpoints={"tolerable_failures": 100})
    status = finish(job, ledger, restarts=0)
    failed = [checkpoint for checkpoint in status.checkpoints if not checkpoint.completed]
    assert [checkpoint.checkpoint for checkpoint in failed] == [3]


def test_a_snapshot_write_that_stops_half_way(spark: Any, ledger: LedgerJob) -> None:
    """The state is larger than the limit, and all output is smaller."""
    mischief = once(ledger.root / "limited", limit_file_size, after=60)
    job = ledger.submit(spark, mischief=mischief, padding_bytes=80_000)
    status = finish(job, ledger, restarts=0)
    failed = [each.checkpoint for each in status.checkpoints if not each.completed]
    assert failed
    assert any(each.checkpoint > failed[0] for each in status.checkpoints if each.completed)


def test_a_checkpoint_that_times_out(spark: Any, ledger: LedgerJob) -> None:
    job = ledger.submit(
        spark, mischief=once(ledger.root / "stalled", stall, after=60), checkpoints={"timeout": "500ms"}
    )
    status = finish(job, ledger, restarts=0)
    assert any("timed out" in checkpoint.outcome for checkpoint in status.checkpoints)


def test_a_kill_during_recovery(spark: Any, ledger: LedgerJob) -> None:
    job = ledger.submit(spark)
    first, second = working_pids(wait_for(job, running_with_checkpoints(2)))
    kill(first)
    wait_for(job, lambda status: status.state is not JobState.RUNNING)
    kill(second)
    finish(job, ledger, restarts=1)


def test_ten_kills_in_a_row(spark: Any, tmp_path: Path) -> None:
    ledger = LedgerJob(tmp_path, records=24_000, per_second=2_000)
    job = ledger.submit(spark)
    for kills in range(10):
        status = wait_for(job, running_with_checkpoints(1, restarts=kills))
        pids = working_pids(status)
        kill(pids[kills % len(pids)])
        wait_for(job, lambda status, kills=kills: status.restarts > kills)
    finish(job, ledger, restarts=10)


def test_a_hung_worker_that_wakes_up_later_changes_nothing(spark: Any, tmp_path: Path) -> None:
    """It is found by its silence; a zombie of an older attempt may neither publish nor commit."""
    ledger = LedgerJob(tmp_path, records=36_000)
    job = ledger.submit(spark, spare_slots=1, heartbeat_interval="200ms", heartbeat_timeout="2s")
    ready = running_with_checkpoints(2)
    hung = psutil.Process(working_pids(wait_for(job, lambda status: ready(status) and len(status.slots) == 3))[0])

    def goes_on_without_it(status: JobStatus) -> bool:
        given_up = hung.pid not in [slot.pid for slot in status.slots]
        return status.restarts == 1 and status.state is JobState.RUNNING and given_up

    hung.suspend()
    try:
        status = wait_for(job, goes_on_without_it)
    finally:
        with suppress(psutil.NoSuchProcess):  # Spark may have been faster
            hung.resume()
    # The driver misses it, or a slot that is connected with it, whichever looks first.
    assert any(words in status.recoveries[0].cause for words in ("no sign of life", "hangs"))
    finish(job, ledger, restarts=1)
    assert psutil.wait_procs([hung], timeout=10)[1] == [], "an orphaned slot ends itself"


def test_a_spare_slot_takes_over(spark: Any, ledger: LedgerJob) -> None:
    job = ledger.submit(spark, spare_slots=1)
    ready = running_with_checkpoints(2)
    status = wait_for(job, lambda status: ready(status) and len(status.slots) == 3)
    kill(working_pids(status)[0])
    finish(job, ledger, restarts=1)
