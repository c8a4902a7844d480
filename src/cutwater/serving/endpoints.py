"""What can be asked of a job over HTTP?

One table: the routes of the service, and its description (`openapi`), are both made from it. The paths are those of
Flink where Flink has the same notion.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from cutwater.api.launching import RunningJob
from cutwater.diagnosis.doctor import diagnose
from cutwater.serving import words
from cutwater.serving.answering import Refusal
from cutwater.serving.listening import Listeners
from cutwater.serving.operations import RunningOperations
from cutwater.serving.pacing import Pace
from cutwater.serving.remembering import StatusMemory
from cutwater.status import CheckpointDetails, CheckpointStatus, GraphStatus, JobStatus, LogLine

_NUMBER = re.compile("[0-9]{1,18}")


@dataclass(frozen=True, slots=True)
class Served:
    """A job, and what was asked of it here."""

    job: RunningJob
    operations: RunningOperations
    memory: StatusMemory = field(default_factory=StatusMemory)
    pace: Pace = field(default_factory=Pace)
    listeners: Listeners = field(default_factory=Listeners)


@dataclass(frozen=True, slots=True)
class Query:
    """A parameter behind the question mark of an address. It can be left out."""

    name: str
    #: As `msgspec` understands it, with limits.
    kind: Any
    default: Any
    summary: str


@dataclass(frozen=True, slots=True)
class Endpoint:
    method: Literal["GET", "POST"]
    #: Below `/jobs/{job_id}`.
    path: str
    summary: str
    answer: Any
    #: Of the job, the names in the path and in `query`, and the body. Quick: it is called on the service's only thread.
    handle: Callable[[Served, dict[str, Any], Any], Any]
    body: Any = None
    status: int = 200
    query: tuple[Query, ...] = ()

    @property
    def changes(self) -> bool:
        """A token that is for reading doesn't do."""
        return self.method != "GET"


def _status(served: Served, names: dict[str, str], body: None) -> msgspec.Raw:
    return msgspec.Raw(served.memory.encoded(served.job.status()))


def _graph(served: Served, names: dict[str, str], body: None) -> GraphStatus:
    return served.job.status().graph


def _checkpoints(served: Served, names: dict[str, str], body: None) -> list[CheckpointStatus]:
    return list(served.job.status().checkpoints)


def _checkpoint(served: Served, names: dict[str, str], body: None) -> CheckpointDetails:
    number = names["checkpoint"]
    found = served.job.checkpoint_details(int(number)) if _NUMBER.fullmatch(number) else None
    if found is None:
        raise Refusal(404, f"there is no checkpoint {number!r}", hint="only the newest are remembered")
    return found


def _exceptions(served: Served, names: dict[str, str], body: None) -> words.Exceptions:
    status = served.job.status()
    return words.Exceptions(status.restarts, list(reversed(status.recoveries)), status.failure)


def _logs(served: Served, names: dict[str, Any], body: None) -> list[LogLine]:
    return list(served.job.logs(names["after"]))


def _configuration(served: Served, names: dict[str, str], body: None) -> dict[str, Any]:
    return dict(served.job.configuration())


def _diagnosis(served: Served, names: dict[str, str], body: None) -> words.Diagnosis:
    return words.Diagnosis(diagnose(served.job.status(), served.memory.earlier))


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
    Endpoint("GET", "/checkpoints/{checkpoint}", "A checkpoint, task by task.", CheckpointDetails, _checkpoint),
    Endpoint(
        "GET",
        "/logs",
        "The newest lines that the driver and the slots have written, oldest first.",
        list[LogLine],
        _logs,
        query=(Query("after", Annotated[int, Meta(ge=0, le=2**63 - 1)], 0, "Only lines behind this number."),),
    ),
    Endpoint("GET", "/config", "The options of the job, without secrets.", dict[str, Any], _configuration),
    Endpoint("GET", "/diagnosis", "What is wrong with the job, the worst first.", words.Diagnosis, _diagnosis),
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
