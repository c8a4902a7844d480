"""What is said to the control service, and what does it answer? Besides the values of `cutwater.status`."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from cutwater.diagnosis.finding import Finding
from cutwater.status import FailureStatus, JobStatus, RecoveryStatus


class JobSummary(msgspec.Struct, frozen=True):
    """A job in one line."""

    job_id: str
    name: str
    state: str
    attempt: int
    parallelism: int
    running_seconds: float
    checkpoints_completed: int
    checkpoints_failed: int
    restarts: int
    warnings_total: int


def summary_of(status: JobStatus) -> JobSummary:
    return JobSummary(
        job_id=status.job_id,
        name=status.name,
        state=status.state.value,
        attempt=status.attempt,
        parallelism=max((chain.parallelism for chain in status.graph.chains), default=0),
        running_seconds=status.running_seconds,
        checkpoints_completed=status.checkpoints_completed,
        checkpoints_failed=status.checkpoints_failed,
        restarts=status.restarts,
        warnings_total=status.warnings_total,
    )


class Jobs(msgspec.Struct, frozen=True):
    """The jobs of this driver."""

    jobs: list[JobSummary]


class Exceptions(msgspec.Struct, frozen=True):
    """Why attempts failed, the newest first, and the job if it did."""

    restarts: int
    recoveries: list[RecoveryStatus]
    failure: FailureStatus | None


class Diagnosis(msgspec.Struct, frozen=True):
    """What was found, the worst first; at least one."""

    findings: list[Finding]


class TakeSavepoint(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`folder`: the savepoint gets a folder of its own below it."""

    folder: Annotated[str, msgspec.Meta(min_length=1, max_length=4096)]


class Stop(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Ends the sources, and lets everything that was read reach the sinks.

    `savepoint`: a folder below which a last savepoint is taken. `drain`: event time ends, too.
    """

    savepoint: Annotated[str, msgspec.Meta(min_length=1, max_length=4096)] | None = None
    drain: bool = False


class Rescale(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Another number of tasks."""

    parallelism: Annotated[int, msgspec.Meta(ge=1, le=32_768)]


class Operation(msgspec.Struct, frozen=True):
    """Something that was asked of the job and takes its time."""

    operation: str
    what: Literal["checkpoint", "savepoint", "stop", "rescale"]
    state: Literal["in_progress", "completed", "failed"]
    begun_at_ms: int
    #: The path of a savepoint.
    path: str | None = None
    failure: FailureStatus | None = None


class Operations(msgspec.Struct, frozen=True):
    """What was asked of the job, the newest last."""

    operations: list[Operation]


class Done(msgspec.Struct, frozen=True):
    """It was told to the job."""

    told: bool = True


class Session(msgspec.Struct, frozen=True):
    """What a browser that has signed in may do."""

    access: Literal["read", "change"]


class SessionCode(msgspec.Struct, frozen=True):
    """Good for one sign-in, and so long."""

    code: str
    seconds: float
