"""Pages that tell what to do, step by step: does it work when someone does it?

A code block with a title is a file. Lines that begin with `$` are typed into a shell, one after the other; those of a
block titled "first shell" start something that goes on while the page does.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r'^```(python|console)(?: title="([^"]+)")?\n(.*?)^```$', re.DOTALL | re.MULTILINE)
#: Done before the tests run.
SET_UP = ("pip install", "python3 -m venv", "cutwater warm-up")
#: For a step that goes on in the background to get going, or to end.
PATIENCE_SECONDS = 90.0


@pytest.mark.parametrize("page", ["tutorial", "testing"])
def test_a_reader_who_follows_the_page_gets_to_its_end(page: str, tmp_path: Path) -> None:
    with Reader(tmp_path).reading() as reader:
        for kind, title, text in steps(page):
            if kind == "python" and title:
                (tmp_path / title).write_text(text)
            elif kind == "console":
                for command in re.findall(r"^\$ (.*)$", text, re.MULTILINE):
                    reader.type(command, goes_on=title == "first shell")


def test_the_tutorial_has_what_it_promises() -> None:
    typed = "\n".join(text for kind, _, text in steps("tutorial") if kind == "console")
    for step in (
        "kill -9",
        "cutwater savepoint",
        "cutwater rescale",
        "cutwater stop",
        "cutwater state show",
        "check.py",
    ):
        assert step in typed


def steps(page: str) -> Iterator[tuple[str, str, str]]:
    for match in BLOCK.finditer((ROOT / "docs" / f"{page}.md").read_text()):
        yield match[1], match[2] or "", match[3]


class Reader:
    """Someone with two shells in a folder of their own."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._first_shell: subprocess.Popen[str] | None = None
        self._variables = _variables(folder)

    @contextmanager
    def reading(self) -> Iterator[Reader]:
        try:
            yield self
            self._end_of_first_shell()
        finally:
            if self._first_shell is not None and self._first_shell.poll() is None:
                os.killpg(self._first_shell.pid, signal.SIGKILL)

    def type(self, command: str, *, goes_on: bool) -> None:
        if command.startswith(SET_UP):
            return
        if goes_on:
            self._end_of_first_shell()
            self._first_shell = subprocess.Popen(
                ["bash", "-c", command], cwd=self._folder, env=self._variables, text=True, start_new_session=True
            )
            self._wait_for_checkpoints()
            return
        done = self._run(command)
        assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"

    def _run(self, command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["bash", "-o", "pipefail", "-c", command],
            cwd=self._folder,
            env=self._variables,
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
            check=False,
        )

    def _wait_for_checkpoints(self) -> None:
        """The reader looks whether the job runs before going on."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < deadline:
            assert self._first_shell is not None
            assert self._first_shell.poll() is None, "the job has ended by itself"
            listed = self._run("cutwater list --json")
            jobs = json.loads(listed.stdout) if listed.returncode == 0 and listed.stdout else []
            if any(job["state"] == "running" and job.get("checkpoints_completed", 0) >= 3 for job in jobs):
                return
            time.sleep(0.5)
        pytest.fail("no checkpoint was completed")

    def _end_of_first_shell(self) -> None:
        """What was started before has been stopped, or killed, by now."""
        if self._first_shell is not None:
            assert self._first_shell.wait(PATIENCE_SECONDS) in {0, -signal.SIGKILL, 128 + signal.SIGKILL}


def _variables(folder: Path) -> Mapping[str, str]:
    """`python`, `pytest` and `cutwater` are those that run this test."""
    return {
        **os.environ,
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
        "PYTHONPATH": str(ROOT / "src"),
        "CUTWATER_JOBS_FOLDER": str(folder / ".jobs"),
        "COLUMNS": "120",
    }
