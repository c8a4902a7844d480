"""How does a failure in code that isn't ours name the record and the line?

The happy path costs nothing per record: the loops below keep their place in an iterator, and only a failure asks it
which record it had reached.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from operator import length_hint
from typing import Any, Final, NoReturn

from cutwater.batches import Batch, ObjectBatch, rows_of
from cutwater.errors import CutwaterError, StorageError, UserFunctionError
from cutwater.graph.keys import KeySelector
from cutwater.user_frames import NEXT_LINE, places_of

NO_RECORD: Final = object()
#: What a user's function may leave by. `sys.exit` in it would end the slot, and look like a lost machine.
USER_FAILURES: Final = (Exception, SystemExit)
_RECORD_CHARACTERS_MAX = 200
_EXIT_HINT = "raise an exception instead; to end the job early, end its sources or call job.stop()"


def map_rows(function: Callable[[Any], Any], rows: list[Any], *, operator: str) -> list[Any]:
    """The function's result for every row. Not `map`: that would take a StopIteration of the function for the end."""
    remaining = iter(rows)
    try:
        return [function(row) for row in remaining]
    except USER_FAILURES as error:
        raise_user_error(error, function=function, operator=operator, record=last_taken(rows, remaining))


def keys_of(key: KeySelector, batch: Batch, *, operator: str) -> list[Any]:
    """One key per record, in order; a failure names its record."""
    if key.function is not None:
        return map_rows(key.function, rows_of(batch), operator=operator)
    try:
        return key.keys_of(batch)
    except USER_FAILURES as error:
        record = _first_without_key(key, batch)
        raise_user_error(error, function=f"key_by({key.describe()})", operator=operator, record=record)


def last_taken(rows: list[Any], remaining: Any) -> Any:
    """The row that an iterator over these rows returned last."""
    return rows[len(rows) - length_hint(remaining) - 1]


def raise_user_error(
    error: BaseException,
    *,
    function: object,
    operator: str,
    record: object = NO_RECORD,
    moment: str = "on a record",
) -> NoReturn:
    """Raises the error as the author of the job should read it; an error of ours is already readable."""
    if isinstance(error, CutwaterError):
        raise error
    message, *rest = _message_of(error).split(NEXT_LINE)
    lines = rest
    if record is not NO_RECORD:
        lines.append(f"record: {shown(record)}")
    lines += places_of(error, function)
    raise UserFunctionError(
        f'function "{name_of(function)}" of operator "{operator}" failed {moment}: {message}',
        detail=NEXT_LINE.join(lines),
        hint=_EXIT_HINT
        if isinstance(error, SystemExit)
        else "handle the case in the function, or filter such records out before it",
    ) from error


def exit_error(error: SystemExit, task: object) -> UserFunctionError:
    """What the author should read when something in a task ended the process, or tried to."""
    message, *rest = _message_of(error).split(NEXT_LINE)
    return UserFunctionError(
        f"a function in task {task} called sys.exit(): {message}",
        detail=NEXT_LINE.join([*rest, *places_of(error, None)]),
        hint=_EXIT_HINT,
    )


def raise_connector_error(error: Exception, fact: str) -> NoReturn:
    """Raises a failure of a source or sink; trying again can help, since the outside has its own troubles."""
    if isinstance(error, CutwaterError):
        raise error
    message, *rest = _message_of(error).split(NEXT_LINE)
    raise StorageError(f"{fact}: {message}", detail=NEXT_LINE.join([*rest, *places_of(error, None)])) from error


def name_of(function: object) -> str:
    """What the author would call it: the function's name, or Class.method."""
    if isinstance(function, str):
        return function
    inner = getattr(function, "func", None)  # functools.partial
    if inner is not None:
        return name_of(inner)
    owner = getattr(function, "__self__", None)
    name = getattr(function, "__name__", None)
    if name is None:
        return type(function).__name__
    if owner is None or isinstance(owner, type(os)):
        return str(name)
    return f"{owner.__name__ if isinstance(owner, type) else type(owner).__name__}.{name}"


def shown(record: object) -> str:
    """The record in one line, however large or broken it is."""
    try:
        text = repr(record)
    except Exception:
        text = object.__repr__(record)
    if "\n" in text:
        text = " ".join(text.split())
    return text if len(text) <= _RECORD_CHARACTERS_MAX else text[: _RECORD_CHARACTERS_MAX - 1] + "…"


def _message_of(error: BaseException) -> str:
    text = str(error).replace("\n", NEXT_LINE)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def line_of(error: BaseException, function: object) -> str | None:
    """The first of these places, `file:line in function`."""
    places = places_of(error, function)
    return places[0].removeprefix("at ") if places else None


def _first_without_key(key: KeySelector, batch: Batch) -> object:
    for row in rows_of(batch):
        try:
            key.keys_of(ObjectBatch([row]))
        except Exception:
            return row
    return NO_RECORD
