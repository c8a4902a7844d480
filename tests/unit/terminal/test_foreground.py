"""A job in the foreground: its view is there while it runs, and what is printed and logged appears above it."""

from __future__ import annotations

import io
import logging
import sys
import threading
from dataclasses import replace

import pytest
from rich.console import Console

from cutwater.protocol.lifecycle import JobState
from cutwater.status import JobStatus
from cutwater.terminal.foreground import ForegroundView

from .statuses import orders

pytestmark = pytest.mark.threads


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Job:
    def __init__(self) -> None:
        self.now = orders()
        self.seen = threading.Event()

    def status(self) -> JobStatus:
        self.seen.set()
        return self.now


def test_jobs_are_shown_while_they_run_and_nothing_is_left_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr(sys, "__stderr__", terminal)
    handler = logging.StreamHandler(terminal)
    logger = logging.getLogger("test_foreground")
    logger.addHandler(handler)
    console = Console(file=terminal, force_terminal=True, width=100)
    first, second = Job(), Job()
    second.now = replace(second.now, name="clicks")
    with ForegroundView(console) as view:
        view.show(first)
        view.show(second)
        wait_for(lambda: "clicks" in terminal.getvalue() and handler.stream is not terminal)
        logger.warning("a line of the log")
        first.now = replace(first.now, state=JobState.FINISHED)
        second.now = replace(second.now, state=JobState.FINISHED)
        wait_for(lambda: view._thread is None)
        assert handler.stream is terminal
        assert sys.stderr is terminal
        third = Job()
        third.now = replace(third.now, name="views")
        view.show(third)
        wait_for(lambda: "views" in terminal.getvalue())
    logger.removeHandler(handler)
    written = terminal.getvalue()
    assert "a line of the log\n" in written
    assert written.endswith("\x1b[2K")  # erased


def wait_for(holds: object) -> None:
    pause = threading.Event()
    for _ in range(1_000):
        if holds():  # type: ignore[operator]
            return
        pause.wait(0.01)
    raise AssertionError("it never was so")
