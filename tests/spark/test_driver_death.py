"""The driver is killed; a new one goes on from what the old one left on the storage."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import psutil

from .ledger_job import LedgerJob

REPOSITORY = Path(__file__).parents[2]
DRIVER = """
    import sys
    sys.path.insert(0, {repository!r})
    from pathlib import Path
    from cutwater.deploy.session import embedded_session
    from tests.spark.ledger_job import LedgerJob
    ledger = LedgerJob(Path({root!r}), records={records}, quiet_keys={quiet_keys})
    ledger.submit(embedded_session(3), **{options!r}).wait("2min")
"""


def start_driver(ledger: LedgerJob, **options: Any) -> subprocess.Popen[bytes]:
    """A process of its own that runs the job to its end."""
    script = ledger.root / "driver.py"
    amounts = {"records": ledger.records, "quiet_keys": ledger.quiet_keys}
    values = {"repository": str(REPOSITORY), "root": str(ledger.root), "options": options, **amounts}
    script.write_text(textwrap.dedent(DRIVER).format(**values))
    return subprocess.Popen([sys.executable, script], cwd=ledger.root, start_new_session=True)


def test_a_killed_driver_takes_its_slots_with_it_and_the_next_one_goes_on(tmp_path: Path) -> None:
    ledger = LedgerJob(tmp_path)
    driver = start_driver(ledger)
    wait_for_committed_files(ledger, driver)
    family = psutil.Process(driver.pid).children(recursive=True)
    driver.kill()
    driver.wait()
    assert psutil.wait_procs(family, timeout=20)[1] == [], "orphaned slots end themselves"
    before = len(list((tmp_path / "out").glob("*.jsonl")))
    assert start_driver(ledger, restore="latest").wait(150) == 0
    ledger.assert_output_is_exact()
    assert len(list((tmp_path / "out").glob("*.jsonl"))) > before


def wait_for_committed_files(ledger: LedgerJob, driver: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 100
    while len(list((ledger.root / "out").glob("*.jsonl"))) < 6:
        assert driver.poll() is None, "the driver ended too soon"
        assert time.monotonic() < deadline
        time.sleep(0.02)
