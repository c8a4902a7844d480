"""What does the API need of whoever runs jobs?

`Environment` hands a `JobPlan` to a `Launcher` and gets a `RunningJob` back. Spark's is in `cutwater.deploy.spark`;
tests bring their own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from cutwater.connectors.contract import Source
from cutwater.graph.plan import JobPlan
from cutwater.protocol.lifecycle import JobState


@dataclass(frozen=True, slots=True)
class LaunchOptions:
    """What belongs to this start of the job, not to the job."""

    #: "latest": the newest snapshot of this job id; a path: that snapshot; None: start empty.
    restore: str | None = None


@dataclass(frozen=True, slots=True)
class JobStatus:
    """A running job at one moment."""

    state: JobState
    #: The number of the current attempt; 0 before the first.
    attempt: int = 0
    checkpoints_completed: int = 0
    #: For people: what it waits for, why it failed.
    message: str = ""


@dataclass(frozen=True, slots=True)
class JobResult:
    """A job that ended."""

    job_id: str
    name: str
    #: FINISHED or CANCELLED; a failure is raised, not returned.
    state: JobState
    duration_seconds: float
    #: 1 when nothing failed.
    attempts: int
    checkpoints_completed: int
    #: The metrics at the end, by name.
    metrics: Mapping[str, Any] = field(default_factory=dict)


class RunningJob(Protocol):
    """A job that was launched. May be used by any thread."""

    @property
    def job_id(self) -> str: ...

    def status(self) -> JobStatus:
        """Now. Never blocks for long."""
        ...

    def wait(self, timeout_seconds: float | None) -> JobResult:
        """Blocks until the job has ended; None: for ever.

        Raises `JobFailedError` with the cause chained when it failed, `TimeoutError` when it still runs.
        """
        ...

    def cancel(self) -> None:
        """Ends the job without a last checkpoint. Returns at once; `wait` tells when it is over."""
        ...

    def stop(self) -> None:
        """Ends the sources, lets the rest drain, and takes a last checkpoint. Returns at once."""
        ...

    def metrics(self) -> Mapping[str, Any]:
        """The newest known metrics, by name."""
        ...


class Launcher(Protocol):
    """Whoever runs jobs."""

    def launch(self, job: JobPlan, options: LaunchOptions) -> RunningJob:
        """Starts the job and returns without waiting for its slots. The plan's builds are already portable bytes."""
        ...


@runtime_checkable
class StagesDataFrames(Protocol):
    """A launcher that can read a Spark DataFrame."""

    def stage_dataframe(self, dataframe: Any) -> Source:
        """A source over the rows of a batch DataFrame; Spark begins to write them at the latest when it is read."""
        ...
