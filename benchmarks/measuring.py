"""How is a running job observed from outside, without slowing it down?"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterable

from cutwater.api.jobs import JobHandle
from cutwater.status import JobStatus

POLL_SECONDS = 0.005


def wait_for(job: JobHandle, holds: Callable[[JobStatus], bool], seconds: float = 180.0) -> JobStatus:
    """The first status seen for which this holds. Raises the job's failure if it ends before."""
    deadline = time.monotonic() + seconds
    while not holds(status := job.status()):
        if status.state.terminal:
            job.wait("30s")
            raise RuntimeError(f"the job is {status.state}")
        if time.monotonic() > deadline:
            raise TimeoutError(f"not seen in {seconds} s")
        time.sleep(POLL_SECONDS)
    return status


def median(values: Iterable[float]) -> float:
    return statistics.median(values)
