"""How does another process talk to the control service of a job?"""

from __future__ import annotations

import http.client
import time
from collections.abc import Callable
from typing import Any, TypeVar
from urllib.parse import quote, urlsplit

import msgspec

from cutwater.errors import OperationsError, UserError
from cutwater.serving import words
from cutwater.serving.certificates import PinnedConnection
from cutwater.serving.registry import Registration, registrations
from cutwater.status import CheckpointStatus, FailureStatus, JobStatus, LogLine

T = TypeVar("T")

ANSWER_SECONDS = 10.0
#: Of a service that starts, or is busy: a connection that is refused is tried again.
CONNECT_AGAIN_SECONDS = 2.0
_PAUSE_SECONDS = 0.1


class JobUnreachableError(OperationsError):
    """The driver of the job is gone, or doesn't answer."""


class DriverGoneError(JobUnreachableError):
    """The driver was killed: it has not withdrawn its registration."""


class JobEndedError(JobUnreachableError):
    """The driver has said good-bye."""


class RequestRefusedError(OperationsError):
    """The service answers that it can't be done."""

    retryable = False


class JobClient:
    """One job. Blocks."""

    def __init__(self, registration: Registration) -> None:
        self.registration = registration
        self._path = f"/jobs/{quote(registration.job_id, safe='')}"

    def status(self) -> JobStatus:
        return self._get("", JobStatus)

    def checkpoints(self) -> list[CheckpointStatus]:
        return self._get("/checkpoints", list[CheckpointStatus])

    def exceptions(self) -> words.Exceptions:
        return self._get("/exceptions", words.Exceptions)

    def logs(self, after: int = 0) -> list[LogLine]:
        """What was written behind the line of this number, as far as the driver remembers it."""
        return self._get(f"/logs?after={after}", list[LogLine])

    def configuration(self) -> dict[str, Any]:
        return self._get("/config", dict[str, Any])

    def diagnosis(self) -> words.Diagnosis:
        return self._get("/diagnosis", words.Diagnosis)

    def checkpoint(self) -> words.Operation:
        return self._post("/checkpoints", None)

    def savepoint(self, folder: str) -> words.Operation:
        return self._post("/savepoints", words.TakeSavepoint(folder))

    def stop(self, savepoint: str | None, *, drain: bool) -> words.Operation:
        return self._post("/stop", words.Stop(savepoint, drain))

    def rescale(self, parallelism: int) -> words.Operation:
        return self._post("/rescale", words.Rescale(parallelism))

    def cancel(self) -> None:
        self._ask("POST", "/cancel", b"", words.Done)

    def session_code(self) -> words.SessionCode:
        """Signs a browser in, once."""
        return self._ask("POST", "/session/codes", b"", words.SessionCode, below="")

    def wait_for(self, operation: words.Operation, meanwhile: Callable[[], None] = lambda: None) -> words.Operation:
        """Returns when it is done; raises why it could not be. `meanwhile` is called now and then."""
        while operation.state == "in_progress":
            time.sleep(_PAUSE_SECONDS)
            meanwhile()
            operation = self._get(f"/operations/{operation.operation}", words.Operation)
        if operation.failure is not None:
            raise refused(operation.failure)
        return operation

    def _get(self, path: str, kind: type[T]) -> T:
        return self._ask("GET", path, b"", kind)

    def _post(self, path: str, body: Any) -> words.Operation:
        return self._ask("POST", path, b"" if body is None else msgspec.json.encode(body), words.Operation)

    def _ask(self, method: str, path: str, body: bytes, kind: type[T], *, below: str | None = None) -> T:
        status, answer = self._sent(method, (self._path if below is None else below) + path, body)
        try:
            if status >= 400:
                raise refused(msgspec.json.decode(answer, type=FailureStatus))
            return msgspec.json.decode(answer, type=kind)
        except msgspec.DecodeError as error:
            raise RequestRefusedError(
                f"{self.registration.address} is not the control service of a job that this version knows",
                detail=f"HTTP {status}: {error}",
            ) from None

    def _sent(self, method: str, path: str, body: bytes) -> tuple[int, bytes]:
        deadline = time.monotonic() + CONNECT_AGAIN_SECONDS
        while True:
            connection = self._connection()
            try:
                headers = {"authorization": f"Bearer {self.registration.token}", "content-type": "application/json"}
                connection.request(method, path, body or None, headers)
                response = connection.getresponse()
                return response.status, response.read()
            except ConnectionRefusedError as error:
                if time.monotonic() > deadline:
                    raise self._unreachable(error) from None
                time.sleep(_PAUSE_SECONDS)
            except (OSError, http.client.HTTPException) as error:
                raise self._unreachable(error) from None
            finally:
                connection.close()

    def _connection(self) -> http.client.HTTPConnection:
        """Straight to the service: a proxy of the environment would see the token."""
        parts, fingerprint = urlsplit(self.registration.address), self.registration.fingerprint
        assert parts.hostname is not None
        if fingerprint is None:
            return http.client.HTTPConnection(parts.hostname, parts.port, timeout=ANSWER_SECONDS)
        return PinnedConnection(parts.hostname, parts.port, timeout=ANSWER_SECONDS, fingerprint=fingerprint)

    def _unreachable(self, error: BaseException) -> JobUnreachableError:
        known = self.registration
        still = [lives for each, lives in registrations() if each == known]
        if not still:
            return JobEndedError(f'job "{known.name}" has ended')
        if not still[0]:
            return driver_gone(known)
        return JobUnreachableError(
            f'job "{known.name}" does not answer',
            detail=f"{known.address}, process {known.pid} on {known.host}: {str(error) or type(error).__name__}",
            hint="look whether its driver still runs, and on this machine",
        )


def find_job(name: str) -> JobClient:
    """By its id or its name; the newest, if there are several of the same id."""
    found, lives = find_registration(name)
    if not lives:
        raise driver_gone(found)
    return JobClient(found)


def find_registration(name: str) -> tuple[Registration, bool]:
    """As `find_job`, and whether the driver lives."""
    known = list(registrations())
    found = [(each, lives) for each, lives in known if name in (each.job_id, each.name)]
    living = [each for each, lives in found if lives]
    if len({each.job_id for each in living}) > 1:
        ids = ", ".join(sorted({each.job_id for each in living}))
        raise UserError(f'there are several jobs of the name "{name}"', detail=ids, hint="give the id")
    if living:
        return living[0], True
    if found:
        return found[0]
    names = ", ".join(sorted(each.job_id for each, lives in known if lives))
    raise UserError(
        f'there is no job "{name}"', detail=f"there are {names}" if names else "no job of yours runs on this machine"
    )


def driver_gone(known: Registration) -> DriverGoneError:
    return DriverGoneError(
        f'the driver of job "{known.name}" is gone',
        detail=f"process {known.pid} on {known.host} has ended without a word",
        hint='start the job again with restore="latest": it goes on from its last checkpoint',
    )


def refused(failure: FailureStatus) -> RequestRefusedError:
    return RequestRefusedError(failure.fact, detail=failure.detail, hint=failure.hint)
