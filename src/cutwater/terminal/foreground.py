"""How does a person see the jobs of a program that runs in the foreground?

A few lines at the bottom of the terminal, while a job runs; what the program prints and logs appears above them.
"""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Protocol, TextIO

from rich.console import Console, Group, RenderableType
from rich.live import Live

from cutwater.status import JobStatus
from cutwater.terminal.view import small_view

REFRESHES_PER_SECOND = 4
_LOOK_SECONDS = 0.1


class Watched(Protocol):
    def status(self) -> JobStatus: ...


class ForegroundView:
    """Shows the jobs that it is told of until they end. `show` is for any thread."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._lock = threading.Lock()
        self._jobs: list[Watched] = []
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    def show(self, job: Watched) -> None:
        with self._lock:
            self._jobs.append(job)
            if self._thread is None and not self._over.is_set():
                self._thread = threading.Thread(target=self._run, name="cutwater-view", daemon=True)
                self._thread.start()

    def close(self) -> None:
        self._over.set()
        with self._lock:
            thread = self._thread
        if thread is not None:
            thread.join()

    def __enter__(self) -> ForegroundView:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def render(self) -> RenderableType:
        with self._lock:
            jobs = tuple(self._jobs)
        return Group(*(small_view(status) for job in jobs if not (status := job.status()).state.terminal))

    def _run(self) -> None:
        live = Live(
            console=self._console,
            get_renderable=self.render,
            refresh_per_second=REFRESHES_PER_SECOND,
            transient=True,
            redirect_stdout=sys.stdout.isatty(),
        )
        while True:
            with live, _handlers_redirected():
                while not self._over.wait(_LOOK_SECONDS) and self._some_run():
                    pass
            with self._lock:
                if self._over.is_set() or not self._forget_ended():
                    self._thread = None
                    return

    def _some_run(self) -> bool:
        with self._lock:
            return any(not job.status().state.terminal for job in self._jobs)

    def _forget_ended(self) -> bool:
        """Whether some are left."""
        self._jobs = [job for job in self._jobs if not job.status().state.terminal]
        return bool(self._jobs)


@contextmanager
def _handlers_redirected() -> Iterator[None]:
    """Handlers of `logging` keep the stream that they began with; meanwhile they write above the view, too."""
    moved: list[tuple[logging.StreamHandler[TextIO], TextIO]] = []
    for handler in _handlers():
        for before, now in ((sys.__stderr__, sys.stderr), (sys.__stdout__, sys.stdout)):
            if handler.stream is before and before is not now and before is not None:
                moved.append((handler, before))
                handler.setStream(now)
                break
    try:
        yield
    finally:
        for handler, stream in moved:
            handler.setStream(stream)


def _handlers() -> Iterator[logging.StreamHandler[TextIO]]:
    known = [logging.getLogger(), *logging.Logger.manager.loggerDict.values()]
    for logger in known:
        for handler in getattr(logger, "handlers", ()):
            if isinstance(handler, logging.StreamHandler) and not isinstance(handler, logging.FileHandler):
                yield handler
