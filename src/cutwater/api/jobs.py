"""What can be done with a job that runs?"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from cutwater.api.cards import Rates, card, show_live
from cutwater.api.launching import RunningJob
from cutwater.api.plots import checkpoint_chart
from cutwater.durations import Duration, parse_duration
from cutwater.status import JobResult, JobStatus, LogLine, TaskStatus

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class JobHandle:
    """A submitted job. May be used by any thread."""

    def __init__(self, running: RunningJob, *, name: str) -> None:
        self._running = running
        self.name = name

    @property
    def job_id(self) -> str:
        """Names the job's folder on the storage."""
        return self._running.job_id

    def status(self) -> JobStatus:
        """Where the job is now."""
        return self._running.status()

    def wait(self, timeout: Duration | None = None) -> JobResult:
        """Blocks until the job has ended; raises what made it fail, or `TimeoutError` if it still runs."""
        return self._running.wait(_seconds(timeout))

    def cancel(self) -> None:
        """Ends the job as it is, without a last checkpoint; `wait` tells when it is over."""
        self._running.cancel()

    def stop(self, *, savepoint: str | None = None, drain: bool = False, timeout: Duration | None = None) -> str | None:
        """Ends the sources and lets everything that was read reach the sinks; `wait` tells when it is over.

        With `savepoint`, a folder: takes a savepoint below it when everything has arrived, and returns its path; if
        that fails the job goes on. `drain`: event time ends too, and open windows give what they have; leave it out
        if the job is to be continued.
        """
        return self._running.stop(savepoint=savepoint, drain=drain, timeout_seconds=_seconds(timeout)) or None

    def savepoint(self, folder: str, *, timeout: Duration | None = None) -> str:
        """Takes a savepoint below this folder while the job goes on, and returns its path.

        It is yours: the job never deletes it. `submit(restore=path)` starts from it, at any parallelism, with any
        state backend, also in a changed program.
        """
        return self._running.savepoint(folder, _seconds(timeout))

    def checkpoint(self, timeout: Duration | None = None) -> None:
        """Takes a checkpoint now, besides the periodic ones, and returns when it is complete."""
        self._running.checkpoint(_seconds(timeout))

    def rescale(self, parallelism: int, timeout: Duration | None = None) -> None:
        """Changes the number of tasks of the running job: it takes a checkpoint and goes on from it.

        Returns when the tasks run. Operators whose parallelism was given keep it. If there are not enough slots, or
        the checkpoint fails, this raises and the job goes on as it was.
        """
        self._running.rescale(parallelism, _seconds(timeout))

    def metrics(self) -> tuple[TaskStatus, ...]:
        """What each task has counted since its attempt started, as last heard."""
        return self._running.status().tasks

    def logs(self, after: int = 0) -> tuple[LogLine, ...]:
        """The newest lines that the driver logged and that code in the slots logged or printed, oldest first.

        `after`: only those behind the line of this number.
        """
        return self._running.logs(after)

    def configuration(self) -> Mapping[str, Any]:
        """The options that the job runs with, as plain data, without secrets."""
        return self._running.configuration()

    def plot_checkpoints(self) -> Figure:
        """A chart of the newest checkpoints: how long they took, and how large they are. Needs Matplotlib (extra
        "plots"); a notebook shows it, `savefig(path)` writes it."""
        return checkpoint_chart(self.status().checkpoints, title=f"Checkpoints of {self.name}")

    def _repr_html_(self) -> str:
        """The job at this moment, where nothing can be shown live."""
        status = self.status()
        return card(status, Rates().look(status))

    def _ipython_display_(self) -> None:
        """In a notebook: a card that follows the job."""
        if not show_live(self.status):
            sys.stdout.write(f"{self!r}\n")

    def __repr__(self) -> str:
        return f"JobHandle({self.name!r}, job_id={self.job_id!r})"


def _seconds(timeout: Duration | None) -> float | None:
    return None if timeout is None else parse_duration(timeout, option="timeout")
