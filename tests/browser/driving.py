"""A real job on local Spark in a process of its own, and a real browser that looks at it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, Page, sync_playwright
from servers.chromium import Chromium

from cutwater.serving.client import JobClient, find_job
from cutwater.serving.registry import FOLDER_VARIABLE

JOB = "card payments"
SCRIPT = Path(__file__).with_name("payments_job.py")
#: A loaded machine is slow; nothing waits so long unless it is broken.
PATIENCE_MS = 90_000


class Driver:
    """Runs the job of `payments_job.py`."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.folder = folder
        os.environ[FOLDER_VARIABLE] = str(folder / "jobs")
        command = [sys.executable, str(SCRIPT), str(folder / "storage"), *options]
        self.process = subprocess.Popen(command, cwd=folder, start_new_session=True)
        self.wait_until(lambda: self._registered())
        self.wait_until(lambda: self.client.status().checkpoints_completed > 1)

    @property
    def client(self) -> JobClient:
        return find_job(JOB)

    def _registered(self) -> bool:
        return any((self.folder / "jobs").glob("*.json"))

    def wait_until(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE_MS / 1000
        while not condition():
            assert time.monotonic() < deadline, "it takes too long"
            assert self.process.poll() is None, "the driver ended too soon"
            time.sleep(0.2)

    def address_that_signs_in(self) -> str:
        """As a person gets it."""
        program = "from cutwater.cli.main import app; app()"
        command = [sys.executable, "-c", program, "dashboard", JOB, "--no-open"]
        return subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout.splitlines()[0]

    def kill_a_slot(self) -> None:
        os.kill(self.client.status().slots[0].pid, signal.SIGKILL)

    def end(self) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()


@contextmanager
def chromium() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=Chromium.path(), args=list(Chromium.options))
        yield browser
        browser.close()


@contextmanager
def page_of(
    browser: Browser, *, width: int = 1440, scheme: str = "light", motion: str = "no-preference"
) -> Iterator[Page]:
    """A window of its own. What goes wrong on the page is raised when it closes."""
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme, reduced_motion=motion)
    context.set_default_timeout(PATIENCE_MS)
    page = context.new_page()
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("console", lambda said: errors.append(said.text) if "Content Security Policy" in said.text else None)
    yield page
    context.close()
    assert errors == []
