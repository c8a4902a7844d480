"""What of a record is an object in JSON?

Dicts, dataclasses and structs, as the encoder knows, and named tuples, which it would write as arrays: wherever they
stand in a record.
"""

from __future__ import annotations

from datetime import date, datetime, time, timedelta
from decimal import Decimal
from itertools import chain
from typing import Any
from uuid import UUID

from cutwater.batches import field_names

#: Exact types in which no named tuple can hide.
_PLAIN = frozenset((int, str, float, bool, type(None), bytes, Decimal, UUID, datetime, date, time, timedelta))


def json_values(values: list[Any]) -> list[Any]:
    """`json_value` of each; of a batch of plain dicts and the like, the list itself, without a loop in Python."""
    kinds = set(map(type, values))
    if kinds <= _PLAIN:
        return values
    if kinds == {dict} and _PLAIN.issuperset(map(type, chain.from_iterable(map(dict.values, values)))):
        return values
    return list(map(json_value, values))


def json_value(value: Any) -> Any:
    """The same with a dict in place of each named tuple."""
    kind = type(value)
    if kind in _PLAIN:
        return value
    if isinstance(value, tuple):
        names = field_names(value)
        if names is not None:
            return {
                name: part if type(part) in _PLAIN else json_value(part)
                for name, part in zip(names, value, strict=True)
            }
        return [json_value(part) for part in value]
    if kind is list:
        return [json_value(part) for part in value]
    if kind is dict:
        return {key: json_value(part) for key, part in value.items()}
    return value
