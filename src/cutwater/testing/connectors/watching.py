"""How does the kit wait for a moment in the life of a job under test?

It looks again and again, from outside, until something holds; and gives up when the job is over or the time is.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from cutwater.api.jobs import JobHandle
from cutwater.protocol.lifecycle import JobState
from cutwater.status import JobStatus
from cutwater.testing.connectors.controls import Controls
from cutwater.testing.connectors.driver import DriverProcess

LOOK_SECONDS = 0.01
#: So long that only a job that is stuck takes longer, also on a machine that is busy with other things.
HAPPENS_WITHIN_SECONDS = 180.0
#: A source without an end has given everything when it was silent for this long; the second, if something is missing.
SILENT_SECONDS = 1.0
SILENT_SECONDS_MAX = 60.0
#: How long to wait for something that is often there, but need not be.
SHOWS_WITHIN_SECONDS = 5.0


class TrialFailed(Exception):
    """The trial can't be judged by its output: the reason."""


class Watch:
    """Every method blocks, and raises `TrialFailed` when what it waits for does not come."""

    def __init__(self, controls: Controls, *, records: int) -> None:
        self._controls = controls
        self._records = records
        #: What is expected to run: a job of this process, or one that another process drives.
        self.job: JobHandle | None = None
        self.driver: DriverProcess | None = None

    def until_share(self, share: float) -> None:
        wanted = share * self._records
        self.until(lambda: self._controls.seen >= wanted, f"{share:.0%} of the records to be read")

    def until_checkpoints(self) -> None:
        """Two more barriers have come to the sinks: one checkpoint at least is complete that began after now."""
        before = self._controls.checkpoint_reached
        self.until(lambda: self._controls.checkpoint_reached >= before + 2, "a checkpoint")

    def until_held(self) -> None:
        self.until(lambda: self._controls.checkpoint_is_held, "a checkpoint that the sinks prepare")

    def until_running(self) -> list[int]:
        """The slots that run tasks, by their process."""
        return pids_of(self.until_status(_is_running, "a running job"))

    def until_status(self, holds: Callable[[JobStatus], bool], what: str) -> JobStatus:
        assert self.job is not None
        job = self.job
        self.until(lambda: holds(job.status()), what)
        return job.status()

    def until_silent(self) -> None:
        """Everything has been read; or nothing has come for long, then the judgement will say what is missing."""
        seen, since = -1, time.monotonic()

        def is_silent() -> bool:
            nonlocal seen, since
            if self._controls.seen != seen:
                seen, since = self._controls.seen, time.monotonic()
            patience = SILENT_SECONDS if seen >= self._records else SILENT_SECONDS_MAX
            return time.monotonic() - since >= patience

        self.until(is_silent, "the end of the records")

    def until(self, holds: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + HAPPENS_WITHIN_SECONDS
        while not holds():
            self._refuse_the_end(what)
            if time.monotonic() > deadline:
                raise TrialFailed(f"{what} did not come within {HAPPENS_WITHIN_SECONDS:.0f} s: {self.told()}")
            time.sleep(LOOK_SECONDS)

    def told(self) -> str:
        """How far the job is, for people."""
        told = [f"{self._controls.seen:,} records were read"]
        if self.job is not None:
            status = self.job.status()
            told.append(f"the job is {status.state}, with {status.restarts} restarts")
            told += [f"the last because of: {recovery.cause}" for recovery in status.recoveries[-1:]]
            told += [f"the last checkpoint: {checkpoint.outcome}" for checkpoint in status.checkpoints[-1:]]
        return "; ".join(told)

    def _refuse_the_end(self, what: str) -> None:
        if self.driver is not None:
            if (ended := self.driver.ended) is not None:
                raise TrialFailed(f"the driver was over while the kit waited for {what}: {ended}")
        elif self.job is not None and (status := self.job.status()).state.terminal:
            self.job.wait()  # raises what made it fail
            raise TrialFailed(f"the job was {status.state} while the kit waited for {what}")


def comes_true(holds: Callable[[], Sequence[object]]) -> bool:
    """Whether there is something, within a while: for what is there only for moments."""
    deadline = time.monotonic() + SHOWS_WITHIN_SECONDS
    while not holds():
        if time.monotonic() > deadline:
            return False
    return True


def pids_of(status: JobStatus) -> list[int]:
    return [slot.pid for slot in status.slots if slot.tasks]


def _is_running(status: JobStatus) -> bool:
    return status.state is JobState.RUNNING and bool(pids_of(status))
