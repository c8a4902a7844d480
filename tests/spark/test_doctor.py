"""Three jobs on Spark that are slow for a known reason: `cutwater doctor`, in another process, finds it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from cutwater.errors import CutwaterError
from cutwater.serving.client import find_job
from cutwater.serving.registry import FOLDER_VARIABLE

DRIVER = """
    import time
    import cutwater as cw
    from cutwater.deploy.session import embedded_session

    def slow(number):
        end = time.perf_counter() + 0.0005
        while time.perf_counter() < end:
            pass
        return number

    def hot(number):
        return number if number % 20 == 0 else 1

    def write(number):
        time.sleep(0.005)

    env = cw.Environment(
        parallelism=2,
        slot_timeout="3min",
        spark=embedded_session(4),
        checkpoints=cw.Checkpoints(every="1s", storage={storage!r}),
    )
    numbers = env.from_source(cw.sources.generator(lambda index: index, splits=2), uid="numbers")
    {job}
    env.submit("slow").wait()
"""
JOBS = {
    "function": 'numbers.map(slow, uid="slow").sink_to(cw.sinks.discard(), uid="end")',
    "key": 'numbers.key_by(hot).count(uid="count").sink_to(cw.sinks.discard(), uid="end")',
    "sink": 'numbers.rebalance().sink_to(cw.sinks.function(write), uid="end")',
}


@contextmanager
def running(folder: Path, job: str) -> Iterator[None]:
    """A driver of its own."""
    script = folder / "driver.py"
    script.write_text(textwrap.dedent(DRIVER).format(storage=str(folder / "storage"), job=job))
    process = subprocess.Popen([sys.executable, script], cwd=folder, start_new_session=True)
    try:
        yield
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def doctor(*arguments: str) -> subprocess.CompletedProcess[str]:
    program = "from cutwater.cli.main import app; app()"
    return subprocess.run(
        [sys.executable, "-c", program, "doctor", "slow", *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def wait_until_it_is_found(expected: str) -> None:
    deadline = time.monotonic() + 200
    while True:
        try:
            titles = [found.title for found in find_job("slow").diagnosis().findings]
        except CutwaterError as error:  # it has not started yet
            titles = [str(error)]
        if any(expected in title for title in titles):
            return
        assert time.monotonic() < deadline, titles
        time.sleep(0.5)


@pytest.mark.parametrize(
    ("job", "expected", "task"),
    [
        ("function", 'map(slow) "slow" (driver.py:25) is the bottleneck', "numbers["),
        ("key", "a few keys have most of the records", "count["),
        ("sink", 'function(write) "end" (driver.py:25) is slow: it takes records more slowly than they come', "end["),
    ],
)
def test_what_makes_a_job_slow_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, job: str, expected: str, task: str
) -> None:
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path / "jobs"))
    with running(tmp_path, JOBS[job]):
        wait_until_it_is_found(expected)
        done = doctor("--json")
        assert done.returncode == 3, done.stderr
        (found,) = [found for found in json.loads(done.stdout)["findings"] if expected in found["title"]]
        assert found["task"].startswith(task)
        assert found["severity"] == "warning"
