"""What does the API need of whoever runs jobs?

`Environment` hands a `JobPlan` to a `Launcher` and gets a `RunningJob` back. Spark's is in `cutwater.deploy.launcher`;
tests bring their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from cutwater.connectors.contract import Source
from cutwater.graph.plan import JobPlan
from cutwater.status import CheckpointDetails, JobResult, JobStatus, LogLine


@dataclass(frozen=True, slots=True)
class LaunchOptions:
    """What belongs to this start of the job, not to the job."""

    #: "latest": the newest snapshot of this job id; a path: that snapshot; None: start empty.
    restore: str | None = None
    #: Drop the state of operators that the job does not have.
    allow_non_restored_state: bool = False
    #: The snapshot at the path becomes the job's: it is deleted when the job has newer ones.
    claim: bool = False
    #: The one who launches wants no more, and will cancel the job. May be asked at any time; None: wants all.
    enough: Callable[[], bool] | None = None


class RunningJob(Protocol):
    """A job that was launched. May be used by any thread."""

    @property
    def job_id(self) -> str: ...

    def status(self) -> JobStatus:
        """Now. Never blocks for long."""
        ...

    def checkpoint_details(self, checkpoint: int) -> CheckpointDetails | None:
        """Task by task; None: it is not among the newest. Never blocks for long."""
        ...

    def logs(self, after: int) -> tuple[LogLine, ...]:
        """What was written behind the line of this number, as far as it is remembered. Never blocks for long."""
        ...

    def configuration(self) -> Mapping[str, Any]:
        """The options of the job as plain data, without secrets. Never blocks for long."""
        ...

    def wait(self, timeout_seconds: float | None) -> JobResult:
        """Blocks until the job has ended; None: for ever.

        Raises what made it fail, a `CutwaterError`, when it failed, and `TimeoutError` when it still runs.
        """
        ...

    def cancel(self) -> None:
        """Ends the job without a last checkpoint. Returns at once; `wait` tells when it is over."""
        ...

    def stop(self, *, savepoint: str | None, drain: bool, timeout_seconds: float | None) -> str:
        """Ends the sources, lets what was read reach the sinks, and takes a last checkpoint.

        Blocks until the savepoint is complete, and returns its path; without one it returns at once.
        """
        ...

    def checkpoint(self, timeout_seconds: float | None) -> None:
        """Blocks until a checkpoint, besides the periodic ones, is complete."""
        ...

    def savepoint(self, target: str, timeout_seconds: float | None) -> str:
        """Blocks until a savepoint below this folder is complete; its path."""
        ...

    def rescale(self, parallelism: int, timeout_seconds: float | None) -> None:
        """Blocks until the job runs with so many tasks; raises if it can't, and then it goes on as it was."""
        ...


class Launcher(Protocol):
    """Whoever runs jobs."""

    def launch(self, job: JobPlan, options: LaunchOptions) -> RunningJob:
        """Starts the job and returns without waiting for its slots. The plan's builds are already portable bytes."""
        ...


_instead: list[Launcher] = []


@contextmanager
def launched_by(launcher: Launcher) -> Iterator[None]:
    """Every job that is started inside is run by this launcher, whatever its environment says. For one thread."""
    _instead.append(launcher)
    try:
        yield
    finally:
        _instead.pop()


def launcher_instead() -> Launcher | None:
    """The one that runs every job here, if there is one."""
    return _instead[-1] if _instead else None


_listeners: list[Callable[[RunningJob], None]] = []


@contextmanager
def launches_told_to(listener: Callable[[RunningJob], None]) -> Iterator[None]:
    """The listener is called with every job that is started inside, when it was launched. For one thread."""
    _listeners.append(listener)
    try:
        yield
    finally:
        _listeners.remove(listener)


def tell_launched(job: RunningJob) -> None:
    for listener in tuple(_listeners):
        listener(job)


@runtime_checkable
class HasSession(Protocol):
    """A launcher that runs jobs on Spark."""

    def session(self) -> Any:
        """The SparkSession, when a job was launched. May block for seconds."""
        ...


@runtime_checkable
class StagesDataFrames(Protocol):
    """A launcher that can read a Spark DataFrame."""

    def stage_dataframe(self, dataframe: Any, staging: str | None) -> Source:
        """A source over the rows of a batch DataFrame; Spark begins to write them at the latest when it is read."""
        ...


@runtime_checkable
class StagesStreams(Protocol):
    """A launcher that can read a streaming DataFrame."""

    def stage_streaming_dataframe(self, dataframe: Any, staging: str | None, trigger: dict[str, Any]) -> Source:
        """A source over the rows of its micro-batches; `trigger` is what Spark's `trigger(…)` is given, if anything."""
        ...
