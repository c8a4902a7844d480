"""A job is watched and steered from another process, by the command line alone."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

DRIVER = """
    import itertools, time
    import cutwater as cw
    from cutwater.deploy.session import embedded_session

    def slow(number):
        time.sleep(0.001)
        return number

    env = cw.Environment(
        parallelism=2,
        spark=embedded_session(4),
        checkpoints=cw.Checkpoints(every="200ms", storage={storage!r}),
        restart=cw.restart.fixed_delay(attempts=5, delay="100ms"),
    )
    numbers = env.from_source(cw.sources.generator(lambda index: index, splits=2), uid="numbers")
    numbers.map(slow, uid="slow").key_by(lambda number: number % 10).count(uid="count").sink_to(
        cw.sinks.discard(), uid="end"
    )
    env.submit("watched").wait()
"""


class Driver:
    """A process that runs the job, and shells beside it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        script = folder / "driver.py"
        script.write_text(textwrap.dedent(DRIVER).format(storage=str(folder / "storage")))
        self.environment = {**os.environ, "CUTWATER_JOBS_FOLDER": str(folder / "jobs")}
        self.process = subprocess.Popen(
            [sys.executable, script], cwd=folder, env=self.environment, start_new_session=True
        )

    def cutwater(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        program = "from cutwater.cli.main import app; app()"
        return subprocess.run(
            [sys.executable, "-c", program, *arguments],
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    def told(self, *arguments: str) -> str:
        done = self.cutwater(*arguments)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def status(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.told("status", "watched", "--json"))
        return found

    def wait_until(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + 120
        while not condition():
            assert time.monotonic() < deadline
            assert self.process.poll() is None, "the driver ended too soon"
            time.sleep(0.2)

    def wait_until_it_runs(self) -> None:
        self.wait_until(lambda: '"running"' in self.told("list", "--json"))
        self.wait_until(lambda: self.status()["checkpoints_completed"] > 1)


@pytest.fixture
def driver(tmp_path: Path) -> Iterator[Driver]:
    made = Driver(tmp_path)
    yield made
    if made.process.poll() is None:
        os.killpg(made.process.pid, signal.SIGKILL)
        made.process.wait()


def test_a_job_is_steered_from_a_second_shell(driver: Driver, tmp_path: Path) -> None:
    driver.wait_until_it_runs()
    status = driver.status()
    assert [chain["parallelism"] for chain in status["graph"]["chains"]] == [2, 2]
    assert "watched" in driver.told("list")
    assert "completed" in driver.told("checkpoints", "watched")
    assert "no attempt has failed" in driver.told("exceptions", "watched")

    driver.told("checkpoint", "watched")
    savepoint = driver.told("savepoint", "watched", str(tmp_path / "savepoints")).strip()
    assert (Path(savepoint.removeprefix("file://"))).is_dir()

    os.kill(status["slots"][0]["pid"], signal.SIGKILL)
    driver.wait_until(lambda: driver.status()["restarts"] == 1)  # it answers while it restarts, too
    driver.wait_until(lambda: driver.status()["state"] == "running")
    assert "was lost" in driver.told("exceptions", "watched")

    driver.told("rescale", "watched", "1")
    assert [chain["parallelism"] for chain in driver.status()["graph"]["chains"]] == [1, 1]

    last = driver.told("stop", "watched", "--savepoint", str(tmp_path / "savepoints")).strip()
    assert last != savepoint
    assert (Path(last.removeprefix("file://"))).is_dir()
    assert driver.process.wait(60) == 0
    assert json.loads(driver.told("list", "--json")) == []
    assert 'there is no job "watched"' in driver.cutwater("status", "watched").stderr


def test_a_killed_driver_is_told_of(driver: Driver) -> None:
    driver.wait_until_it_runs()
    os.killpg(driver.process.pid, signal.SIGKILL)
    driver.process.wait()
    assert "driver gone" in driver.told("list")
    for command in (("status",), ("savepoint", "/tmp"), ("rescale", "3"), ("cancel",)):
        name, *rest = command
        done = driver.cutwater(name, "watched", *rest)
        assert done.returncode == 1
        assert done.stderr.splitlines()[0] == 'the driver of job "watched" is gone'
        assert "Traceback" not in done.stderr
