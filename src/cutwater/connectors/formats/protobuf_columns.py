"""Which Arrow columns does a Protobuf message have, and what is in them?"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from cutwater.errors import ConfigurationError

Get = Callable[[Any], Any]
"""From a message to the value of a column."""

_TIMESTAMP = "google.protobuf.Timestamp"
#: By the numbers of `FieldDescriptor.TYPE_…`, which are part of the format.
_SCALARS: dict[int, pa.DataType] = {
    1: pa.float64(),
    2: pa.float32(),
    3: pa.int64(),
    4: pa.uint64(),
    5: pa.int32(),
    6: pa.uint64(),
    7: pa.uint32(),
    8: pa.bool_(),
    9: pa.string(),
    12: pa.binary(),
    13: pa.uint32(),
    14: pa.string(),  # the name of the enum's value
    15: pa.int32(),
    16: pa.int64(),
    17: pa.int32(),
    18: pa.int64(),
}
_ENUM = 14


def columns_of(descriptor: Any, inside: tuple[str, ...] = ()) -> list[tuple[pa.Field, Get]]:
    """A column for each field; one that the message doesn't set, and can say so, is null."""
    if descriptor.full_name in inside:
        raise ConfigurationError(
            f"Protobuf message {descriptor.full_name} has no columns",
            detail="it holds itself",
            hint="leave out typed=True",
        )
    return [_column(field, (*inside, descriptor.full_name)) for field in descriptor.fields]


def row_maker(columns: list[tuple[pa.Field, Get]]) -> Callable[[Any], dict[str, Any]]:
    getters = [(field.name, get) for field, get in columns]
    return lambda message: {name: get(message) for name, get in getters}


def _column(field: Any, inside: tuple[str, ...]) -> tuple[pa.Field, Get]:
    name = field.name
    if _is_map(field):
        entry = {each.name: each for each in field.message_type.fields}
        kind, plain = _single(entry["value"], inside)
        key, _ = _single(entry["key"], inside)
        return pa.field(name, pa.map_(key, kind), nullable=False), lambda message: [
            (each, plain(value)) for each, value in getattr(message, name).items()
        ]
    kind, plain = _single(field, inside)
    if field.is_repeated:
        return pa.field(name, pa.list_(kind), nullable=False), lambda message: [
            plain(each) for each in getattr(message, name)
        ]
    if field.has_presence:
        return pa.field(name, kind), lambda message: plain(getattr(message, name)) if message.HasField(name) else None
    return pa.field(name, kind, nullable=False), lambda message: plain(getattr(message, name))


def _single(field: Any, inside: tuple[str, ...]) -> tuple[pa.DataType, Get]:
    """Type and value of one such field."""
    if field.message_type is None:
        return _SCALARS[field.type], _enum_name(field.enum_type) if field.type == _ENUM else _as_is
    if field.message_type.full_name == _TIMESTAMP:
        return pa.timestamp("us", "UTC"), lambda moment: moment.seconds * 1_000_000 + moment.nanos // 1000
    columns = columns_of(field.message_type, inside)
    return pa.struct([column for column, _ in columns]), row_maker(columns)


def _is_map(field: Any) -> bool:
    return field.message_type is not None and bool(field.message_type.GetOptions().map_entry)


def _enum_name(enum: Any) -> Get:
    """A number that this program doesn't know yet stays a number."""
    names = {number: value.name for number, value in enum.values_by_number.items()}
    return lambda number: names.get(number, str(number))


def _as_is(value: Any) -> Any:
    return value
