"""What does a record become on its way to Kafka: which topic, which key, which bytes?"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import groupby
from typing import Any, Literal, TypeAlias

import msgspec
import pyarrow as pa

from cutwater.batches import Batch, ObjectBatch, rows_of, without_time_column
from cutwater.connectors.bases.message_formats import Encode, MessageFormat
from cutwater.connectors.failures import user_function_failed
from cutwater.connectors.file_formats import JsonLinesEncoder
from cutwater.errors import ConfigurationError, SerializationError

Outgoing: TypeAlias = tuple[str, "list[bytes | None] | None", "list[bytes | None]"]
"""Messages in their order: the topic of all, the key of each (None: none has one), the value of each.

Columns, as they are packed into snapshots: a tuple for each message would cost more than all that is done with it.
"""

Topic: TypeAlias = str | Callable[[Any], str]
Key: TypeAlias = str | Callable[[Any], "bytes | str | int | None"] | None
Value: TypeAlias = Literal["bytes", "text", "json"] | Callable[[Any], "bytes | str | None"] | MessageFormat

_encode_lines = msgspec.json.Encoder().encode_lines


class Encoder:
    """Turns batches into messages; pickled with its sink."""

    def __init__(self, topic: Topic, key: Key, value: Value) -> None:
        self._topic = topic
        self._key = key
        self._value = value
        self._encode: Encode | None = None

    def check(self) -> None:
        """In the driver: may block."""
        if isinstance(self._value, MessageFormat):
            self._value.check(writes=True)

    def open(self) -> None:
        """Before the first batch, in a slot: may block."""
        if isinstance(self._value, MessageFormat) and self._encode is None:
            self._encode = self._value.encode()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_encode": None}

    def messages(self, batch: Batch) -> list[Outgoing]:
        keys = self._keys(batch)
        values = self._values(batch)
        if not callable(self._topic):
            return [(self._topic, keys, values)]
        return list(_by_topic(_applied("topic", self._topic, batch), keys, values))

    def _keys(self, batch: Batch) -> list[bytes | None] | None:
        if self._key is None:
            return None
        if callable(self._key):
            return _as_keys(_applied("key", self._key, batch))
        if isinstance(batch, ObjectBatch) or self._key not in batch.schema.names:
            raise ConfigurationError(
                f"key={self._key!r} names no column of this stream", hint="give a function: key=lambda record: …"
            )
        column = batch.column(self._key)
        if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
            texts: list[bytes | None] = column.cast(pa.large_binary()).to_pylist()
            return texts
        return _as_keys(column.to_pylist())

    def _values(self, batch: Batch) -> list[bytes | None]:
        if self._encode is not None:
            return self._encode(batch)
        if callable(self._value):
            return [_as_bytes(value, "value=") for value in _applied("value", self._value, batch)]
        if self._value == "json":
            # JSON has no bare newline.
            lines: list[bytes | None] = list((_json_lines(batch) or JsonLinesEncoder().encode(batch)).split(b"\n")[:-1])
            return lines
        values = batch.values if isinstance(batch, ObjectBatch) else _only_column(batch)
        kind: type = bytes if self._value == "bytes" else str
        if not {kind, type(None)}.issuperset(map(type, values)) and not all(map(_is_a(kind), values)):
            wrong = next(value for value in values if value is not None and not isinstance(value, kind))
            raise SerializationError(
                f'value="{self._value}" takes {kind.__name__}, not {type(wrong).__name__}',
                detail=f"the record is {wrong!r:.200}",
                hint='map() it first, or choose value="json" or a function',
            )
        return list(values) if kind is bytes else [None if value is None else value.encode() for value in values]


def check_encoding(topic: Topic, topics: Sequence[str], key: Key, value: Value) -> None:
    """Refuses settings that can't be meant."""
    if callable(topic) != bool(topics):
        raise ConfigurationError(
            "a sink with a function for topic= lists its topics, one with a name doesn't",
            hint='kafka(servers, "orders"), or kafka(servers, choose, topics=["orders", "returns"])',
        )
    if not callable(topic) and (not isinstance(topic, str) or not topic):
        raise ConfigurationError("topic must be a name or a function", detail=f"it is {topic!r}")
    if key is not None and not callable(key) and not isinstance(key, str):
        raise ConfigurationError("key must be a function or the name of a column", detail=f"it is {key!r}")
    if not callable(value) and not isinstance(value, MessageFormat) and value not in ("bytes", "text", "json"):
        raise ConfigurationError(
            f"value {value!r} is unknown", hint="'bytes', 'text', 'json', a function, or one of cw.formats"
        )


def _applied(option: str, function: Callable[[Any], Any], batch: Batch) -> list[Any]:
    rows = rows_of(batch)
    try:
        return [function(row) for row in rows]
    except Exception as error:
        raise user_function_failed(f"the function of {option}=", error, given=f"one of {len(rows)} records") from error


def _json_lines(batch: Batch) -> bytes | None:
    """Rows of plain columns, by way of structs: a dict for each row takes twice the time. None: not these."""
    if isinstance(batch, ObjectBatch):
        return None
    batch = without_time_column(batch)
    if not all(map(_is_plain, batch.schema.types)):
        return None
    row = _row_of(tuple(batch.schema.names))
    columns = (column.to_pylist() for column in batch.columns)
    return _encode_lines([*map(row, *columns)])


def _is_plain(column: pa.DataType) -> bool:
    """What is in JSON as it is in Python. Floats aren't: there may be NaN."""
    is_text = pa.types.is_string(column) or pa.types.is_large_string(column)
    return bool(is_text or pa.types.is_integer(column) or pa.types.is_boolean(column))


@cache
def _row_of(names: tuple[str, ...]) -> Callable[..., Any]:
    fields = [(f"column{number}", Any) for number in range(len(names))]
    renamed = {f"column{number}": name for number, name in enumerate(names)}
    return msgspec.defstruct("Row", fields, rename=renamed, gc=False)


def _by_topic(
    topics: Sequence[str], keys: Sequence[bytes | None] | None, values: Sequence[bytes | None]
) -> Iterator[Outgoing]:
    begin = 0
    for topic, run in groupby(topics):
        end = begin + sum(1 for _ in run)
        yield topic, None if keys is None else list(keys[begin:end]), list(values[begin:end])
        begin = end


def _is_a(kind: type) -> Callable[[Any], bool]:
    return lambda value: value is None or isinstance(value, kind)


def _as_keys(keys: Sequence[Any]) -> list[bytes | None]:
    if {str}.issuperset(map(type, keys)):
        return [key.encode() for key in keys]
    return [_as_key(key) for key in keys]


def _as_key(key: Any) -> bytes | None:
    return str(key).encode() if isinstance(key, int) and not isinstance(key, bool) else _as_bytes(key, "key=")


def _as_bytes(value: Any, option: str) -> bytes | None:
    if value is None or isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return value.encode()
    raise SerializationError(f"{option} must give bytes, str or None, not {type(value).__name__}")


def _only_column(batch: pa.RecordBatch) -> list[Any]:
    batch = without_time_column(batch)
    if batch.num_columns != 1:
        raise SerializationError(
            "only one column can be the bytes of a message",
            detail=f"there are {batch.num_columns}",
            hint='value="json"',
        )
    values: list[Any] = batch.column(0).to_pylist()
    return values
