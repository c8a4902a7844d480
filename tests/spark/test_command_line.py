"""The command line on real jobs: detached, just restarting, with a killed driver; restored, elsewhere, submitted."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import stat
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from cutwater.deploy.java import find_java_home
from cutwater.protocol.lifecycle import JobState
from cutwater.serving.client import find_job
from cutwater.serving.registry import FOLDER_VARIABLE
from cutwater.status import JobStatus

ENDLESS = """
    import time
    import cutwater as cw

    def slow(number):
        time.sleep(0.0002)
        return number

    env = cw.Environment(parallelism=1, checkpoints=cw.Checkpoints(every="5min", storage="storage"))
    numbers = env.from_source(cw.sources.generator(lambda index: index, splits=2), uid="numbers")
    numbers.map(slow, uid="slow").key_by(lambda number: number % 10).count(uid="count").sink_to(
        cw.sinks.discard(), uid="end"
    )
    print("the script begins")
    env.submit("watched").wait()
"""

BOUNDED = """
    import cutwater as cw

    env = cw.Environment(parallelism=2)
    env.from_collection(list(range(100)), uid="numbers").map(lambda number: str(number), uid="twice").sink_to(
        cw.sinks.text("out"), uid="out"
    )
    print(env.execute("doubled"))
"""

OPTIONS = [
    *("--parallelism", "2", "--master", "local[5]"),
    *("--set", "checkpoints.every=200ms", "--set", "restart=fixed_delay"),
    *("--set", "restart.attempts=20", "--set", "restart.delay=12s"),
]


class Shell:
    """Runs commands in a folder of its own, with a folder of its own for registered jobs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment = {
            **os.environ,
            FOLDER_VARIABLE: str(folder / "jobs"),
            "PYTHONPATH": os.pathsep.join(sys.path),
        }

    def cutwater(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return self.runs(sys.executable, "-m", "cutwater", *arguments)

    def runs(self, *command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command, cwd=self.folder, env=self.environment, capture_output=True, text=True, timeout=200, check=False
        )

    def told(self, *arguments: str) -> str:
        done = self.cutwater(*arguments)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def status(self) -> JobStatus:
        """Without a process of its own, which takes a second."""
        return find_job("watched").status()

    def wait_until(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + 120
        while not condition():
            assert time.monotonic() < deadline
            time.sleep(0.2)

    def script(self, text: str) -> str:
        (self.folder / "job.py").write_text(textwrap.dedent(text))
        return "job.py"

    def detach(self, *options: str) -> dict[str, Any]:
        """Starts the endless job, and returns when it has completed a checkpoint."""
        started: dict[str, Any] = json.loads(
            self.told("run", self.script(ENDLESS), "--detach", "--json", *OPTIONS, *options)
        )
        self.wait_until(lambda: self.status().checkpoints_completed > 0)
        return started


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shell]:
    made = Shell(tmp_path)
    monkeypatch.setenv(FOLDER_VARIABLE, made.environment[FOLDER_VARIABLE])
    yield made
    for registration in (tmp_path / "jobs").glob("*.json"):
        kill_with_children(json.loads(registration.read_text())["pid"])


def kill_with_children(pid: int) -> None:
    with contextlib.suppress(psutil.NoSuchProcess):
        process = psutil.Process(pid)
        for each in (process, *process.children(recursive=True)):
            with contextlib.suppress(psutil.NoSuchProcess):
                each.kill()


LOOKING = (
    ("list",),
    ("status", "watched"),
    ("checkpoints", "watched"),
    ("exceptions", "watched"),
    ("top", "watched"),
    ("top",),
    ("logs", "watched"),
)


@pytest.mark.timeout(600)  # three restarts, and thirty processes
def test_every_command_works_on_a_detached_job_also_while_it_restarts(shell: Shell, tmp_path: Path) -> None:
    started = shell.detach()
    log = Path(started["log"])
    assert started["job_id"] == "watched"
    assert os.getsid(started["pid"]) == started["pid"] != os.getsid(0)
    assert stat.S_IMODE(log.stat().st_mode) == 0o600
    assert "the command line sets parallelism=2, checkpoints.every=200ms" in log.read_text()

    # It runs.
    for command in LOOKING:
        assert shell.told(*command)
    assert json.loads(shell.told("logs", "watched", "--json").splitlines()[0])["number"] > 0
    shown = shell.told("status", "watched")
    assert "RUNNING" in shown
    assert "└ map(slow)" in shown
    shell.told("checkpoint", "watched")
    savepoints = str(tmp_path / "savepoints")
    first = shell.told("savepoint", "watched", savepoints).strip()
    assert Path(first.removeprefix("file://")).is_dir()

    # It restarts: twelve seconds from the kill to the next attempt.
    kill_a_slot(shell)
    assert "RESTARTING" in shell.told("status", "watched")
    for command in LOOKING:
        assert shell.told(*command)
    second = shell.told("savepoint", "watched", savepoints).strip()  # taken as soon as it runs again
    assert second != first
    assert "was lost" in shell.told("exceptions", "watched")
    kill_a_slot(shell)
    shell.told("rescale", "watched", "1")
    assert [chain.parallelism for chain in shell.status().graph.chains] == [1, 1]
    kill_a_slot(shell)
    assert shell.told("stop", "watched", "--savepoint", savepoints).strip() not in (first, second)
    shell.wait_until(lambda: not psutil.pid_exists(started["pid"]))
    assert "finished after" in log.read_text()


def test_every_command_says_that_the_driver_is_gone(shell: Shell) -> None:
    started = shell.detach()
    kill_with_children(started["pid"])
    assert "driver gone" in shell.told("list")
    acting = (("checkpoint",), ("savepoint", "/tmp"), ("rescale", "3"), ("stop",), ("cancel",))
    looking = tuple((name,) for name, *job in LOOKING if job)
    for name, *rest in (*acting, *looking):
        done = shell.cutwater(name, "watched", *rest)
        assert done.returncode == 1
        assert done.stderr.splitlines()[0] == 'the driver of job "watched" is gone'
        assert "Traceback" not in done.stderr
    assert "the script begins" in shell.cutwater("logs", "watched").stdout
    assert shell.told("top") == "no job of yours runs on this machine\n"


def kill_a_slot(shell: Shell) -> None:
    """Returns while the job restarts."""
    shell.wait_until(lambda: shell.status().state is JobState.RUNNING)
    os.kill(shell.status().slots[0].pid, signal.SIGKILL)
    shell.wait_until(lambda: shell.status().state is JobState.RESTARTING)


def test_a_detached_job_is_restored_by_the_command_line_and_cancelled(shell: Shell, tmp_path: Path) -> None:
    shell.detach()
    savepoint = shell.told("stop", "watched", "--savepoint", str(tmp_path / "savepoints")).strip()
    shell.wait_until(lambda: shell.cutwater("status", "watched").returncode == 2)  # it has ended, and is forgotten

    started = shell.detach("--restore", savepoint)
    assert f"restore={savepoint}" in Path(started["log"]).read_text()
    assert shell.status().checkpoints[0].checkpoint > 1  # it goes on counting where the savepoint is
    assert shell.told("cancel", "watched") == "the job was told to end\n"
    shell.wait_until(lambda: not psutil.pid_exists(started["pid"]))
    assert "cancelled after" in Path(started["log"]).read_text()
    assert json.loads(shell.told("list", "--json")) == []


def test_a_detached_script_that_fails_says_why_and_with_its_code(shell: Shell) -> None:
    done = shell.cutwater("run", shell.script("import sys; print('no luck'); sys.exit(7)"), "--detach")
    assert done.returncode == 7
    assert done.stdout == ""
    assert "no luck" in done.stderr
    assert "the script has ended with 7 before a job ran" in done.stderr

    done = shell.cutwater("run", shell.script(BOUNDED), "--detach", "--set", "parallelism=0")
    assert done.returncode == 2
    assert "parallelism must be a whole number of 1 or more" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_job_in_the_foreground_ends_with_a_summary(shell: Shell) -> None:
    done = shell.cutwater("run", shell.script(BOUNDED), "--master", "local[3]")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith('job "doubled": finished after ')
    assert ": 100 records read, 100 written; 1 checkpoint" in done.stdout
    assert 'cutwater: job "doubled": finished after ' in done.stderr
    assert f'cutwater: job "doubled": its output is in {shell.folder / "out"}\n' in done.stderr


def test_a_script_with_a_session_of_its_own_runs_there_and_it_is_said(shell: Shell) -> None:
    own = "from pyspark.sql import SparkSession\nSparkSession.builder.master('local[4]').getOrCreate()\n"
    shell.environment["JAVA_HOME"] = str(find_java_home(os.environ))
    done = shell.cutwater("run", shell.script(own + textwrap.dedent(BOUNDED)), "--master", "local[3]")
    assert done.returncode == 0, done.stderr
    assert "the program has made a session at local[4] of its own: the job runs there, not at local[3]" in done.stderr

    silent = own.replace(".master('local[4]')", "")  # takes what it is given
    done = shell.cutwater("run", shell.script(silent + textwrap.dedent(BOUNDED)), "--master", "local[3]", "--", "--x")
    assert "out" in done.stderr
    assert "of its own" not in done.stderr


def test_spark_submit_runs_a_script_on_its_own_master(shell: Shell) -> None:
    shell.environment["JAVA_HOME"] = str(find_java_home(os.environ))
    shell.environment["PYSPARK_PYTHON"] = sys.executable
    shell.environment["SPARK_LOCAL_IP"] = "127.0.0.1"
    told = textwrap.dedent(BOUNDED) + "from pyspark import SparkContext\nprint(SparkContext.getOrCreate().master)\n"
    submit = str(Path(sys.executable).parent / "spark-submit")
    done = shell.runs(submit, "--master", "local[3]", "--conf", "spark.ui.enabled=false", shell.script(told))
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "local[3]"
    assert ": 100 records read, 100 written" in done.stdout


def test_a_job_runs_on_a_spark_connect_server(shell: Shell) -> None:
    shell.environment["PYSPARK_PYTHON"] = sys.executable
    done = shell.cutwater("run", shell.script(BOUNDED), "--remote", "local[4]")
    assert done.returncode == 0, done.stderr
    assert ": 100 records read, 100 written" in done.stdout
