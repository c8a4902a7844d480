"""What can be asked of a job over HTTP?

One table: the routes of the service, and its description (`openapi`), are both made from it. The paths are those of
Flink where Flink has the same notion.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from cutwater.api.launching import RunningJob
from cutwater.serving import words
from cutwater.serving.answering import Refusal
from cutwater.serving.operations import RunningOperations
from cutwater.status import CheckpointStatus, GraphStatus, JobStatus


@dataclass(frozen=True, slots=True)
class Served:
    """A job, and what was asked of it here."""

    job: RunningJob
    operations: RunningOperations


@dataclass(frozen=True, slots=True)
class Endpoint:
    method: Literal["GET", "POST"]
    #: Below `/jobs/{job_id}`.
    path: str
    summary: str
    answer: Any
    #: Of the job, the names in the path, and the body. Quick: it is called on the service's only thread.
    handle: Callable[[Served, dict[str, str], Any], Any]
    body: Any = None
    status: int = 200

    @property
    def changes(self) -> bool:
        """A token that is for reading doesn't do."""
        return self.method != "GET"


def summary_of(status: JobStatus) -> words.JobSummary:
    return words.JobSummary(
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


def _status(served: Served, names: dict[str, str], body: None) -> JobStatus:
    return served.job.status()


def _graph(served: Served, names: dict[str, str], body: None) -> GraphStatus:
    return served.job.status().graph


def _checkpoints(served: Served, names: dict[str, str], body: None) -> list[CheckpointStatus]:
    return list(served.job.status().checkpoints)


def _checkpoint(served: Served, names: dict[str, str], body: None) -> CheckpointStatus:
    found = [each for each in served.job.status().checkpoints if str(each.checkpoint) == names["checkpoint"]]
    if not found:
        raise Refusal(404, f"there is no checkpoint {names['checkpoint']!r}", hint="only the newest are remembered")
    return found[-1]


def _exceptions(served: Served, names: dict[str, str], body: None) -> words.Exceptions:
    status = served.job.status()
    return words.Exceptions(status.restarts, list(reversed(status.recoveries)), status.failure)


def _operations(served: Served, names: dict[str, str], body: None) -> words.Operations:
    return words.Operations(served.operations.all())


def _operation(served: Served, names: dict[str, str], body: None) -> words.Operation:
    found = served.operations.find(names["operation"])
    if found is None:
        raise Refusal(404, f"there is no operation {names['operation']!r}")
    return found


def _take_checkpoint(served: Served, names: dict[str, str], body: None) -> words.Operation:
    return _living(served).operations.start("checkpoint", partial(served.job.checkpoint, None))


def _take_savepoint(served: Served, names: dict[str, str], body: words.TakeSavepoint) -> words.Operation:
    return _living(served).operations.start("savepoint", partial(served.job.savepoint, body.folder, None))


def _stop(served: Served, names: dict[str, str], body: words.Stop) -> words.Operation:
    stop = partial(served.job.stop, savepoint=body.savepoint, drain=body.drain, timeout_seconds=None)
    return _living(served).operations.start("stop", stop)


def _rescale(served: Served, names: dict[str, str], body: words.Rescale) -> words.Operation:
    return _living(served).operations.start("rescale", partial(served.job.rescale, body.parallelism, None))


def _cancel(served: Served, names: dict[str, str], body: None) -> words.Done:
    _living(served).job.cancel()
    return words.Done()


def _living(served: Served) -> Served:
    status = served.job.status()
    if status.state.terminal:
        raise Refusal(409, f"job {status.name!r} has ended: {status.state}")
    return served


ENDPOINTS: tuple[Endpoint, ...] = (
    Endpoint("GET", "", "How the job is doing.", JobStatus, _status),
    Endpoint("GET", "/plan", "The chains of the job, and what flows between them.", GraphStatus, _graph),
    Endpoint("GET", "/exceptions", "Why attempts failed, the newest first.", words.Exceptions, _exceptions),
    Endpoint("GET", "/checkpoints", "The newest checkpoints, oldest first.", list[CheckpointStatus], _checkpoints),
    Endpoint("GET", "/checkpoints/{checkpoint}", "One of the newest checkpoints.", CheckpointStatus, _checkpoint),
    Endpoint("GET", "/operations", "What was asked of the job.", words.Operations, _operations),
    Endpoint("GET", "/operations/{operation}", "How far an operation is.", words.Operation, _operation),
    Endpoint("POST", "/checkpoints", "Takes a checkpoint now.", words.Operation, _take_checkpoint, status=202),
    Endpoint(
        "POST",
        "/savepoints",
        "Takes a savepoint while the job goes on.",
        words.Operation,
        _take_savepoint,
        body=words.TakeSavepoint,
        status=202,
    ),
    Endpoint("POST", "/stop", "Ends the job when all is done.", words.Operation, _stop, body=words.Stop, status=202),
    Endpoint(
        "POST", "/rescale", "Changes the number of tasks.", words.Operation, _rescale, body=words.Rescale, status=202
    ),
    Endpoint("POST", "/cancel", "Ends the job as it is.", words.Done, _cancel, status=202),
)
