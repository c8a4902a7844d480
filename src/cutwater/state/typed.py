"""How does state of a declared type outlive changes of the type?

A value is stored as plain data: the fields of a dataclass, named tuple, msgspec struct or pydantic model by their
names. So a field with a default may be added, a field may be removed, a number may widen; any other change is refused
when the state is opened, before the first record, and the field is named.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from itertools import islice
from typing import Any, get_type_hints
from uuid import UUID

import msgspec
import pyarrow as pa

from cutwater.errors import ConfigurationError, SerializationError
from cutwater.state.contract import Aggregate, ListState, MapState, ValueState

#: Values that are looked at when a state is opened that was restored.
CHECKED_VALUES = 100
_KEPT_AS_THEY_ARE = (bytes, bytearray, datetime, date, time, timedelta, Decimal, UUID)
_ABSENT: Any = None


@dataclasses.dataclass(frozen=True, slots=True)
class Codec:
    """Between values of one type and plain data."""

    encode: Callable[[Any], Any]
    decode: Callable[[Any], Any]
    name: str


def codec_of(kind: Any, *, state: str) -> Codec:
    """Raises `ConfigurationError` for what is not a type that we know how to store."""
    if isinstance(kind, pa.Schema):
        return Codec(dict, lambda stored: _row(stored, kind), f"rows of {', '.join(kind.names)}")
    name = getattr(kind, "__qualname__", str(kind))
    if hasattr(kind, "model_validate") and hasattr(kind, "model_dump"):  # pydantic, which we need not import
        return Codec(lambda value: value.model_dump(), kind.model_validate, name)
    if isinstance(kind, type) and issubclass(kind, tuple) and hasattr(kind, "_fields"):
        return _named_tuple(kind, name)
    try:
        msgspec.json.schema(kind)
    except TypeError as error:
        raise ConfigurationError(
            f'state "{state}" can\'t have the type {name}',
            detail=str(error),
            hint="use plain types, dataclasses, named tuples, msgspec structs, pydantic models, or an Arrow schema",
        ) from error
    return Codec(_plain, lambda stored: msgspec.convert(stored, kind, builtin_types=_KEPT_AS_THEY_ARE), name)


def _plain(value: Any) -> Any:
    return msgspec.to_builtins(value, builtin_types=_KEPT_AS_THEY_ARE)


def _named_tuple(kind: Any, name: str) -> Codec:
    """By name and not by place, so that fields may come and go."""
    hints = get_type_hints(kind)
    fields = [(field, hints.get(field, Any), field in kind._field_defaults) for field in kind._fields]
    twin = msgspec.defstruct(
        f"{kind.__name__}Fields",
        [
            (field, hint, msgspec.field(default=kind._field_defaults[field])) if has_default else (field, hint)
            for field, hint, has_default in fields
        ],
        kw_only=True,
    )

    def decode(stored: Any) -> Any:
        return kind(*msgspec.structs.astuple(msgspec.convert(stored, twin, builtin_types=_KEPT_AS_THEY_ARE)))

    return Codec(lambda value: _plain(value._asdict()), decode, name)


def _row(stored: dict[str, Any], schema: pa.Schema) -> dict[str, Any]:
    missing = [field.name for field in schema if field.name not in stored and not field.nullable]
    if missing:
        raise ValueError(f"field `{missing[0]}` is missing and may not be null")
    values = {field.name: stored.get(field.name) for field in schema}
    row: dict[str, Any] = pa.RecordBatch.from_pylist([values], schema=schema).to_pylist()[0]
    return row


def check_restored(codec: Codec, stored: Iterable[Any], *, state: str, operator: str) -> None:
    """Raises `SerializationError` if the first of the restored values don't fit the type."""
    for value in islice(stored, CHECKED_VALUES):
        try:
            codec.decode(value)
        except (msgspec.ValidationError, ValueError, TypeError, pa.ArrowException) as error:
            raise SerializationError(
                f'the restored state "{state}" of operator "{operator}" is not a {codec.name}',
                detail=str(error),
                hint="a new field needs a default; to change more, rewrite the state in a savepoint",
            ) from error


class TypedValueState:
    __slots__ = ("_codec", "_default", "_inner")

    def __init__(self, inner: ValueState, codec: Codec, default: Any = None) -> None:
        self._inner = inner
        self._codec = codec
        self._default = default

    def value(self) -> Any:
        stored = self._inner.value()
        if stored is not _ABSENT:
            return self._codec.decode(stored)
        default = self._default
        return default if default is None else self._codec.decode(self._codec.encode(default))

    def update(self, value: Any) -> None:
        self._inner.update(self._codec.encode(value))

    def clear(self) -> None:
        self._inner.clear()


class TypedListState:
    __slots__ = ("_codec", "_inner")

    def __init__(self, inner: ListState, codec: Codec) -> None:
        self._inner = inner
        self._codec = codec

    def get(self) -> list[Any]:
        return [self._codec.decode(stored) for stored in self._inner.get()]

    def add(self, value: Any) -> None:
        self._inner.add(self._codec.encode(value))

    def update(self, values: Iterable[Any]) -> None:
        self._inner.update([self._codec.encode(value) for value in values])

    def clear(self) -> None:
        self._inner.clear()


class TypedMapState:
    """The values of the map are of the type."""

    __slots__ = ("_codec", "_inner")

    def __init__(self, inner: MapState, codec: Codec) -> None:
        self._inner = inner
        self._codec = codec

    def get(self, key: Any, default: Any = None) -> Any:
        stored = self._inner.get(key)
        return default if stored is _ABSENT else self._codec.decode(stored)

    def put(self, key: Any, value: Any) -> None:
        self._inner.put(key, self._codec.encode(value))

    def remove(self, key: Any) -> None:
        self._inner.remove(key)

    def items(self) -> list[tuple[Any, Any]]:
        return [(key, self._codec.decode(stored)) for key, stored in self._inner.items()]

    def __contains__(self, key: Any) -> bool:
        return key in self._inner

    def clear(self) -> None:
        self._inner.clear()


class TypedReducingState:
    __slots__ = ("_reduce", "_value")

    def __init__(self, value: TypedValueState, reduce: Callable[[Any, Any], Any]) -> None:
        self._value = value
        self._reduce = reduce

    def get(self) -> Any:
        return self._value.value()

    def add(self, value: Any) -> None:
        current = self._value.value()
        self._value.update(value if current is None else self._reduce(current, value))

    def clear(self) -> None:
        self._value.clear()


class TypedAggregatingState:
    """The accumulator is of the type."""

    __slots__ = ("_aggregate", "_value")

    def __init__(self, value: TypedValueState, aggregate: Aggregate) -> None:
        self._value = value
        self._aggregate = aggregate

    def get(self) -> Any:
        accumulator = self._value.value()
        return None if accumulator is None else self._aggregate.get_result(accumulator)

    def add(self, value: Any) -> None:
        accumulator = self._value.value()
        if accumulator is None:
            accumulator = self._aggregate.create_accumulator()
        self._value.update(self._aggregate.add(value, accumulator))

    def clear(self) -> None:
        self._value.clear()
