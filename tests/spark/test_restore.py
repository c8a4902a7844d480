"""A job that ended, or whose driver died, goes on from what it left on the storage."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from cutwater.errors import RecoveryRefusedError
from cutwater.status import JobStatus

from .ledger_job import KEYS, LedgerJob, kill, wait_for


@pytest.fixture
def ledger(tmp_path: Path) -> LedgerJob:
    return LedgerJob(tmp_path, records=9_000, per_second=3_000)


def run_for_some_checkpoints(spark: Any, ledger: LedgerJob, count: int = 4) -> JobStatus:
    job = ledger.submit(spark)
    wait_for(job, lambda status: status.checkpoints_completed >= count)
    job.cancel()
    return job.wait("1min").status


def newest_data_file(ledger: LedgerJob) -> Path:
    return max((ledger.root / "checkpoints").rglob("*.state"), key=lambda path: path.stat().st_mtime)


def flip_a_byte(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0xFF
    path.write_bytes(data)


def test_a_cancelled_job_goes_on_from_its_newest_snapshot(spark: Any, ledger: LedgerJob) -> None:
    run_for_some_checkpoints(spark, ledger)
    ledger.submit(spark, restore="latest").wait("2min")
    ledger.assert_output_is_exact()


def test_a_stopped_job_ends_with_all_it_read_and_goes_on_behind_it(spark: Any, ledger: LedgerJob) -> None:
    job = ledger.submit(spark)
    wait_for(job, lambda status: status.checkpoints_completed >= 2)
    job.stop()
    assert job.wait("1min").state == "finished"
    written = sum(len(rows) for rows in ledger.rows_per_key().values())
    assert 0 < written < ledger.records
    ledger.submit(spark, restore="latest").wait("2min")
    ledger.assert_output_is_exact()


def test_a_job_goes_on_at_another_parallelism(spark: Any, ledger: LedgerJob) -> None:
    run_for_some_checkpoints(spark, ledger)
    ledger.submit(spark, restore="latest", parallelism=3).wait("2min")
    rows = ledger.rows_per_key()
    assert {key: sorted(row["number"] for row in found) for key, found in rows.items()} == {
        key: list(range((ledger.records - key + KEYS - 1) // KEYS)) for key in range(KEYS)
    }


def test_a_damaged_snapshot_is_named_and_passed_over(spark: Any, ledger: LedgerJob) -> None:
    run_for_some_checkpoints(spark, ledger)
    damaged = newest_data_file(ledger)
    flip_a_byte(damaged)
    status = ledger.submit(spark, restore="latest").wait("2min").status
    assert any(damaged.name in warning and "checksum" in warning for warning in status.warnings), status.warnings
    counts: Counter[tuple[int, int]] = Counter(
        (key, row["number"]) for key, rows in ledger.rows_per_key().items() for row in rows
    )
    assert len(counts) == ledger.records, "nothing is missing; what was committed after the older snapshot is repeated"


def test_a_job_without_any_good_snapshot_is_refused(spark: Any, ledger: LedgerJob) -> None:
    run_for_some_checkpoints(spark, ledger)
    for path in (ledger.root / "checkpoints").rglob("*.state"):
        flip_a_byte(path)
    with pytest.raises(RecoveryRefusedError, match="none of them verifies"):
        ledger.submit(spark, restore="latest").wait("1min")


def test_a_snapshot_can_be_restored_by_its_path(spark: Any, ledger: LedgerJob) -> None:
    status = run_for_some_checkpoints(spark, ledger)
    newest = max(checkpoint.checkpoint for checkpoint in status.checkpoints if checkpoint.completed)
    ledger.submit(spark, restore=f"{ledger.root}/checkpoints/ledger/chk-{newest}").wait("2min")
    ledger.assert_output_is_exact()


def test_without_a_storage_snapshots_live_in_the_driver(spark: Any, ledger: LedgerJob) -> None:
    job = ledger.submit(spark, checkpoints={"storage": None})
    status = wait_for(job, lambda status: status.checkpoints_completed >= 2)
    kill(next(slot.pid for slot in status.slots if slot.tasks))
    assert job.wait("2min").restarts == 1
    ledger.assert_output_is_exact()


def test_a_savepoint_outlives_a_failover_of_its_job_and_goes_on_in_another_folder(
    spark: Any, ledger: LedgerJob, tmp_path: Path
) -> None:
    job = ledger.submit(spark, checkpoints={"every": "1h"})
    wait_for(job, lambda status: sum(task.records_in for task in status.tasks) > 1_000)
    path = job.savepoint(str(tmp_path / "savepoints"))
    kill(next(slot.pid for slot in job.status().slots if slot.tasks))
    wait_for(job, lambda status: len(status.recoveries) == 1 and status.state == "running")
    job.cancel()
    job.wait("1min")
    assert ledger.rows_per_key() == {}, "nothing of it was committed"
    elsewhere = LedgerJob(tmp_path / "elsewhere", records=ledger.records, per_second=ledger.per_second)
    elsewhere.submit(spark, restore=path).wait("2min")
    found = Counter(row["key"] + KEYS * row["number"] for rows in elsewhere.rows_per_key().values() for row in rows)
    assert found == Counter(range(ledger.records))
