"""A long chain of incremental checkpoints, of which three are kept: no file too many, none too few.

RocksDB's files are shared by the snapshots that name them. Workers and drivers are killed in between, at any moment.
"""

from __future__ import annotations

import random
import subprocess
import time
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from cutwater.cli.main import app
from cutwater.inspection.storages import snapshots_below

from .ledger_job import LedgerJob, kill, wait_for
from .test_driver_death import start_driver

RETAINED = 3
QUIET_KEYS = 4_800
CHAIN = {"every": "40ms", "retain": RETAINED}


def named_files(storage: Path) -> set[str]:
    """What the manifests that are there name, each file verified to be as it was written."""
    named: set[str] = set()
    for found in snapshots_below(str(storage)):
        assert found.snapshot is not None, found.problem
        for task in found.snapshot.manifest.tasks:
            named |= {f"{found.folder}/{task.file.path}"} if task.file is not None else set()
        job = found.folder.rpartition("/")[0]
        named |= {f"{job}/{file.path.removeprefix('../')}" for file in found.snapshot.manifest.shared_files}
    return named


def data_files(storage: Path) -> set[str]:
    files = (path.relative_to(storage).as_posix() for path in storage.rglob("*") if path.is_file())
    return {name for name in files if not name.endswith(".json")}


def assert_whole(storage: Path) -> None:
    result = CliRunner().invoke(app, ["state", "verify", str(storage)])
    assert result.exit_code == 0, result.output
    lost = named_files(storage) - data_files(storage)
    assert not lost


def assert_nothing_left_over(storage: Path) -> None:
    assert_whole(storage)
    assert data_files(storage) == named_files(storage)
    assert len(list(storage.rglob("manifest-*.json"))) <= RETAINED
    assert any("/shared/" in name for name in data_files(storage)), "incremental snapshots share files"


def test_two_hundred_checkpoints_and_killed_workers_leave_what_three_snapshots_name(spark: Any, tmp_path: Path) -> None:
    ledger = LedgerJob(tmp_path, records=10**9, per_second=4_000, quiet_keys=QUIET_KEYS)
    dice = random.Random(200)
    job = ledger.submit(spark, state_backend="rocksdb", checkpoints=CHAIN, padding_bytes=200)
    for _ in range(5):
        so_far = job.status().checkpoints_completed
        due = so_far + dice.randrange(10, 30)
        status = wait_for(job, lambda status, due=due: status.checkpoints_completed >= due)  # type: ignore[misc]
        time.sleep(dice.random() * 0.05)
        kill(dice.choice([slot.pid for slot in status.slots if slot.tasks]))
    wait_for(job, lambda status: status.checkpoints_completed >= 200)
    job.stop()
    assert job.wait("1min").restarts == 5
    assert_nothing_left_over(tmp_path / "checkpoints")


def test_drivers_killed_at_any_moment_lose_no_file_and_the_next_one_cleans_up(tmp_path: Path) -> None:
    ledger = LedgerJob(tmp_path, records=50_000, quiet_keys=QUIET_KEYS)
    dice = random.Random(7)
    options = {"state_backend": "rocksdb", "checkpoints": CHAIN, "padding_bytes": 200}
    driver = start_driver(ledger, **options)
    for _ in range(2):
        wait_for_more_entries(ledger, driver, dice.randrange(20, 40))
        time.sleep(dice.random() * 0.05)
        driver.kill()
        driver.wait()
        assert_whole(tmp_path / "checkpoints")
        driver = start_driver(ledger, restore="latest", **options)
    assert driver.wait(150) == 0
    ledger.assert_output_is_exact()
    assert_nothing_left_over(tmp_path / "checkpoints")


def wait_for_more_entries(ledger: LedgerJob, driver: subprocess.Popen[bytes], count: int) -> None:
    """Until the journal has so many entries more: attempts and checkpoints."""
    journal = ledger.root / "checkpoints" / "ledger" / "journal"

    def entries() -> int:
        return len(list(journal.glob("*.json")))

    target = entries() + count
    deadline = time.monotonic() + 100
    while entries() < target:
        assert driver.poll() is None, "the driver ended too soon"
        assert time.monotonic() < deadline
        time.sleep(0.01)
