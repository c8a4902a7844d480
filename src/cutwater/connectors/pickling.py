"""How do a user's own values become bytes?

Only values are pickled, never our own structure. cloudpickle also takes values of classes that were defined in a
notebook or a main program, and hands them back as the same class in the process that defined it.
"""

from __future__ import annotations

import pickle
from typing import Any

import cloudpickle

from cutwater.batches import packed
from cutwater.errors import SerializationError


def pickle_values(values: list[Any], *, owner: str) -> bytes:
    """The values as bytes; `owner` names the connector in the error."""
    try:
        data: bytes = cloudpickle.dumps(packed(values), protocol=pickle.HIGHEST_PROTOCOL)
    except Exception as error:  # a value's own __reduce__ may raise anything
        culprit = next((value for value in values if not _can_be_pickled(value)), values)
        raise SerializationError(
            f"a value for {owner} can't be pickled",
            detail=f"{type(culprit).__name__}: {error}",
            hint="give values that hold data only: no open files, sockets, locks or sessions",
        ) from error
    return data


def unpickle_values(data: bytes) -> list[Any]:
    values: list[Any] = pickle.loads(data)  # the user's own values, written by this job
    return values


def _can_be_pickled(value: Any) -> bool:
    try:
        cloudpickle.dumps(value)
    except Exception:  # any reason is the answer
        return False
    return True
