"""What can be done with a job that runs?"""

from __future__ import annotations

from cutwater.api.launching import RunningJob
from cutwater.durations import Duration, parse_duration
from cutwater.status import JobResult, JobStatus, TaskStatus


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
        return self._running.wait(None if timeout is None else parse_duration(timeout, option="timeout"))

    def cancel(self) -> None:
        """Ends the job as it is, without a last checkpoint; `wait` tells when it is over."""
        self._running.cancel()

    def stop(self) -> None:
        """Ends the sources and lets everything that was read reach the sinks; `wait` tells when it is over."""
        self._running.stop()

    def metrics(self) -> tuple[TaskStatus, ...]:
        """What each task has counted since its attempt started, as last heard."""
        return self._running.status().tasks

    def __repr__(self) -> str:
        return f"JobHandle({self.name!r}, job_id={self.job_id!r})"
