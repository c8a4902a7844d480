"""What becomes of a record that can't be processed?

`on_error=` of an operation says it: the job fails, the record is skipped and counted, or it leaves by the side output
"errors" as a `DeadLetter`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Literal, get_args

from cutwater.errors import ConfigurationError

OnError = Literal["fail", "skip", "dead_letter"]
#: The side output of dead letters.
ERRORS: Final = "errors"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetter:
    """A record that could not be processed, and why."""

    record: Any
    """As it came in; of a typed stream, the row that the function was given. Of a source, what could not be read."""
    position: str | None = None
    """Where a source read it, `split@position`; None: it failed in a function."""
    error: str
    """`ZeroDivisionError: division by zero`."""
    operator: str
    """The uid of the operator."""
    line: str | None = None
    """Where in the job's own code it happened, `/jobs/prices.py:12 in parse`; None: in none of its lines."""


def check_on_error(on_error: object, *, operation: str) -> None:
    """Raises if this is none of the policies."""
    if on_error not in get_args(OnError):
        raise ConfigurationError(
            f"on_error of {operation} can't be {on_error!r}",
            detail="it says what happens to a record that fails",
            hint='choose "fail" (the default), "skip" or "dead_letter"',
        )
