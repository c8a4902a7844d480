"""How does each owner of an object get one of its own?

A function may change what it is given, and state may be changed in place. So where one object would have two owners
(state and what was emitted, two receivers of a batch, two windows of a record), one of them gets a copy. What can't
change is never copied. A whole batch of plain values is looked at without a loop in Python.
"""

from __future__ import annotations

import pickle
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable
from itertools import chain
from typing import Any

import cloudpickle
import numpy as np

from cutwater.batches import Batch, ObjectBatch
from cutwater.state.values import ATOMS, PICKLE_PROTOCOL, immutable_kind, is_immutable

_Copy = Callable[[Any], Any]


def copied(value: Any) -> Any:
    """The same value for another owner: itself if nobody can change it.

    What can't be pickled (an open file, a connection, a generator) has no copy, and stays shared.
    """
    kind = type(value)
    if kind in ATOMS:
        return value
    return _COPIES[kind](value)


def copied_values(values: list[Any]) -> list[Any]:
    """Each of them for another owner; the list itself if nobody can change any of them."""
    kinds = set(map(type, values))
    if kinds <= ATOMS:
        return values
    if len(kinds) == 1 and _are_tuples(*kinds) and ATOMS.issuperset(map(type, chain.from_iterable(values))):
        return values
    if kinds == {dict} and ATOMS.issuperset(map(type, chain.from_iterable(map(dict.values, values)))):
        return list(map(dict.copy, values))
    return list(map(copied, values))


def _are_tuples(kind: type) -> bool:
    return kind is tuple or (issubclass(kind, tuple) and immutable_kind(kind) == "items")


def copied_batch(batch: Batch) -> Batch:
    """The same records for another receiver. Arrow's never change."""
    return ObjectBatch(copied_values(batch.values), batch.times) if isinstance(batch, ObjectBatch) else batch


def _itself(value: Any) -> Any:
    return value


def _by_pickle(value: Any) -> Any:
    for dumps in (pickle.dumps, cloudpickle.dumps):  # a class of a script or notebook goes by value
        try:
            return pickle.loads(dumps(value, PICKLE_PROTOCOL))
        except Exception:  # whatever its class raises
            continue
    return value


def _if_mutable(value: Any) -> Any:
    return value if is_immutable(value) else _by_pickle(value)


def _items(value: Any) -> Any:
    return value.copy() if ATOMS.issuperset(map(type, value)) else _by_pickle(value)


def _entries(value: Any) -> Any:
    """Keys are hashable, as good as immutable."""
    return value.copy() if ATOMS.issuperset(map(type, value.values())) else _by_pickle(value)


def _fields(value: Any) -> Any:
    fields = value.__dict__
    if not ATOMS.issuperset(map(type, fields.values())):
        return _by_pickle(value)
    made = object.__new__(type(value))
    made.__dict__.update(fields)
    return made


def _array(value: Any) -> Any:
    return _by_pickle(value) if value.dtype.hasobject else value.copy()


class _Copies(dict[type, _Copy]):
    """By exact type; what is unknown is looked at once."""

    def __missing__(self, kind: type) -> _Copy:
        copy = self[kind] = _copy_of(kind)
        return copy


_COPIES = _Copies(
    {
        tuple: _if_mutable,
        frozenset: _if_mutable,
        list: _items,
        deque: _items,
        set: _items,
        bytearray: bytearray.copy,
        dict: _entries,
        defaultdict: _entries,
        OrderedDict: _entries,
        Counter: _entries,
        np.ndarray: _array,
    }
)


def _copy_of(kind: type) -> _Copy:
    match immutable_kind(kind):
        case "always":
            return _itself
        case "items" | "fields":
            return _if_mutable
    return _fields if _is_plain_class(kind) else _by_pickle


def _is_plain_class(kind: type) -> bool:
    """Its objects are their `__dict__`, and nothing of the class says how they are made or copied."""
    has_only_dict = kind.__base__ is object and kind.__dictoffset__ != 0 and "__slots__" not in kind.__dict__
    return has_only_dict and all(getattr(kind, name, None) is getattr(object, name, None) for name in _SAYS_HOW)


_SAYS_HOW = (
    "__new__",
    "__reduce__",
    "__reduce_ex__",
    "__getstate__",
    "__setstate__",
    "__getnewargs__",
    "__getnewargs_ex__",
    "__copy__",
    "__deepcopy__",
    "__del__",
)
