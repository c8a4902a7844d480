"""How does an error travel from a slot to the driver? As plain data: reading it runs no code of the sender's."""

from __future__ import annotations

import msgspec

from cutwater import errors
from cutwater.errors import CutwaterError, InternalError
from cutwater.protocol.ids import TaskId


class FailureReport(msgspec.Struct, frozen=True):
    """What a `CutwaterError` says, and the name of its class in `cutwater.errors`."""

    kind: str
    fact: str
    detail: str = ""
    hint: str = ""

    def to_error(self) -> CutwaterError:
        """The error; of a class that `cutwater.errors` doesn't have, a general one."""
        kind = getattr(errors, self.kind, None)
        if not (isinstance(kind, type) and issubclass(kind, CutwaterError)):
            kind = InternalError
        return kind(self.fact, detail=self.detail, hint=self.hint)


def report_of(error: BaseException, task: TaskId) -> FailureReport:
    """Any failure of a task, as the driver should hear of it."""
    if not isinstance(error, CutwaterError):
        error = InternalError(f"task {task} failed", detail=f"{type(error).__name__}: {error}")
    known = next(kind for kind in type(error).__mro__ if kind.__module__ == errors.__name__)
    return FailureReport(known.__name__, error.fact, error.detail, error.hint)
