"""Which values may two owners share, how is one copied, and how does it become bytes?

State values are the user's own objects. Those that can't change are shared freely; of any other, a frozen view and the
running stream each need their own.
"""

from __future__ import annotations

import dataclasses
import pickle
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from functools import lru_cache
from itertools import islice
from typing import Any, Literal
from uuid import UUID

import cloudpickle

from cutwater.batches import Row
from cutwater.errors import SerializationError
from cutwater.pickles import Loads

_ARROW_STREAM = b"\xff\xff\xff\xff"
PICKLE_PROTOCOL = 5
_STILL_IMPORTABLE = "are the classes of the stored values still importable under their old names?"

_TIMES = (datetime, date, time, timedelta, timezone)
#: Exact types whose instances never change; a subtype may carry attributes that do.
ATOMS = frozenset((int, str, float, bool, bytes, type(None), complex, Decimal, Fraction, UUID, *_TIMES))

Pair = tuple[Any, Any]


def is_immutable(value: Any) -> bool:
    """True: nobody can change it in place. Decided by type, so that an unknown type counts as changeable."""
    kind: Any = type(value)
    if kind in ATOMS:
        return True
    rule = "items" if kind is tuple else immutable_kind(kind)
    if rule is None or rule == "always":
        return rule is not None
    parts = value if rule == "items" else [getattr(value, field.name, None) for field in dataclasses.fields(value)]
    for part in parts:  # noqa: SIM110 (`all` takes three times as long for a pair)
        if type(part) not in ATOMS and not is_immutable(part):
            return False
    return True


@lru_cache(maxsize=4096)
def immutable_kind(kind: Any) -> Literal["always", "items", "fields"] | None:
    """When nobody can change an object of this type: always, or if that is true of its items or fields; None: never."""
    if issubclass(kind, Enum) or kind in (range, slice, type(Ellipsis)):
        return "always"
    # A named tuple has no __dict__ to hide changeable attributes in; another subtype of tuple may have.
    if kind is frozenset or (issubclass(kind, tuple) and kind.__dictoffset__ == 0):
        return "items"
    frozen = getattr(kind, "__dataclass_params__", None)
    return "fields" if frozen is not None and frozen.frozen and kind.__base__ is object else None


def class_in(value: Any) -> str | None:
    """The class that pickle has to find again to read this value, or the first item in it; None: plain data."""
    kind = type(value)
    if kind in ATOMS:
        return None
    if kind is tuple or issubclass(kind, Row):
        return next((found for found in map(class_in, value) if found), None)
    if kind in (list, set, frozenset):
        return class_in(tuple(islice(value, 1)))
    if kind is dict:
        return class_in(tuple(islice(value.items(), 1)))
    return None if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def copy_value(value: Any, *, state: str, key: Any) -> Any:
    """A copy that shares nothing changeable with the original."""
    kind = type(value)
    if kind is list and all(map(is_immutable, value)):
        return value.copy()
    if kind is dict and all(map(is_immutable, value.values())):
        return value.copy()  # its keys are hashable, as good as immutable
    return pickle.loads(dump_pairs([(key, value)], state=state))[0][1]


def dump_value(value: Any, *, state: str, key: Any) -> bytes:
    """One value as bytes; raises `SerializationError` naming state and key."""
    try:
        return pickle.dumps(value, PICKLE_PROTOCOL)
    except Exception:
        return _dump_by_value(value, [(key, value)], state=state)


def load_value(data: bytes, *, state: str, loads: Loads = pickle.loads) -> Any:
    """The value that `dump_value` was given; raises `SerializationError` naming the state."""
    try:
        return loads(data)
    except Exception as error:
        raise _unreadable(state, f"{type(error).__name__}: {error}", _STILL_IMPORTABLE) from error


def dump_pairs(pairs: list[Pair], *, state: str) -> bytes:
    """The (key, value) pairs as bytes; raises `SerializationError` naming the state and the key that can't be."""
    try:
        return pickle.dumps(pairs, PICKLE_PROTOCOL)
    except Exception:
        # pickle finds classes by name; those of a user's script or notebook have none here, and go by value.
        return _dump_by_value(pairs, pairs, state=state)


def load_pairs(data: bytes, *, state: str, group: int, loads: Loads = pickle.loads) -> list[Pair]:
    """The pairs of one chunk; raises `SerializationError` naming state and group."""
    try:
        pairs: list[Pair] = loads(data)
    except Exception as error:
        hint = _STILL_IMPORTABLE
        if data.startswith(_ARROW_STREAM):
            hint = "it was written as columns: the stream was typed then, or its key and values were plain columns"
        raise _unreadable(state, f"key group {group}: {type(error).__name__}: {error}", hint) from error
    return pairs


def _unreadable(state: str, detail: str, hint: str) -> SerializationError:
    return SerializationError(f'state "{state}" can\'t be read back from the snapshot', detail=detail, hint=hint)


def _dump_by_value(whole: Any, pairs: list[Pair], *, state: str) -> bytes:
    try:
        return bytes(cloudpickle.dumps(whole, PICKLE_PROTOCOL))
    except Exception as error:
        key, value, cause = _culprit(pairs, error)
        raise SerializationError(
            f'a value of state "{state}" can\'t be written to a snapshot',
            detail=f"key {_shown(key)}, a {type(value).__qualname__}: {type(cause).__name__}: {cause}",
            hint="keep data in state, not open files, connections, locks or generators",
        ) from error


def _culprit(pairs: list[Pair], error: Exception) -> tuple[Any, Any, Exception]:
    for key, value in pairs:
        try:
            cloudpickle.dumps((key, value), PICKLE_PROTOCOL)
        except Exception as cause:
            return key, value, cause
    key, value = pairs[0]
    return key, value, error


def _shown(key: Any) -> str:
    text = repr(key)
    return text if len(text) <= 80 else text[:77] + "..."
