"""What does a record become on its way to Kafka: which topic, which key, which bytes?"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any, Literal, TypeAlias

import pyarrow as pa

from cutwater.batches import Batch, ObjectBatch, rows_of, without_time_column
from cutwater.canonical import to_stream
from cutwater.connectors.bases.json_columns import json_objects
from cutwater.connectors.bases.message_formats import Encode, MessageFormat
from cutwater.connectors.failures import user_function_failed
from cutwater.connectors.file_formats import JsonLinesEncoder
from cutwater.errors import ConfigurationError, SerializationError

Outgoing: TypeAlias = tuple[str, pa.Array | None, pa.Array]
"""Messages in their order: the topic of all, the key of each (None: none has one), the value of each.

Columns of bytes: Python objects for each message are made only when the client needs them, off the loop's thread.
"""

Topic: TypeAlias = str | Callable[[Any], str]
Key: TypeAlias = str | Callable[[Any], "bytes | str | int | None"] | None
Value: TypeAlias = Literal["bytes", "text", "json"] | Callable[[Any], "bytes | str | None"] | MessageFormat

_BYTES = pa.large_binary()
_KEY, _VALUE = "key", "value"


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

    def _keys(self, batch: Batch) -> pa.Array | None:
        if self._key is None:
            return None
        if callable(self._key):
            return _column(_as_keys(_applied("key", self._key, batch)))
        if isinstance(batch, ObjectBatch) or self._key not in batch.schema.names:
            raise ConfigurationError(
                f"key={self._key!r} names no column of this stream", hint="give a function: key=lambda record: …"
            )
        column = batch.column(self._key)
        if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
            return column.cast(_BYTES)
        return _column(_as_keys(column.to_pylist()))

    def _values(self, batch: Batch) -> pa.Array:
        if self._encode is not None:
            return _column(self._encode(batch))
        if callable(self._value):
            return _column([_as_bytes(value, "value=") for value in _applied("value", self._value, batch)])
        if self._value == "json":
            return _json(batch)
        values = batch.values if isinstance(batch, ObjectBatch) else _only_column(batch)
        kind: type = bytes if self._value == "bytes" else str
        if not {kind, type(None)}.issuperset(map(type, values)) and not all(map(_is_a(kind), values)):
            wrong = next(value for value in values if value is not None and not isinstance(value, kind))
            raise SerializationError(
                f'value="{self._value}" takes {kind.__name__}, not {type(wrong).__name__}',
                detail=f"the record is {wrong!r:.200}",
                hint='map() it first, or choose value="json" or a function',
            )
        return _column(values)


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


def _json(batch: Batch) -> pa.Array:
    if not isinstance(batch, ObjectBatch):
        batch = without_time_column(batch)
        if (objects := json_objects(batch)) is not None:
            return objects.cast(_BYTES)
    # JSON has no bare newline.
    return _column(JsonLinesEncoder().encode(batch).split(b"\n")[:-1])


def _by_topic(topics: Sequence[str], keys: pa.Array | None, values: pa.Array) -> Iterator[Outgoing]:
    begin = 0
    for topic, run in groupby(topics):
        length = sum(1 for _ in run)
        yield topic, None if keys is None else keys.slice(begin, length), values.slice(begin, length)
        begin += length


def packed(messages: Sequence[Outgoing]) -> list[tuple[str, bytes]]:
    """For a snapshot: neighbours of one topic together, each as an Arrow stream."""
    found = []
    for topic, run in groupby(messages, key=itemgetter(0)):
        keys, values = zip(*((keys, values) for _, keys, values in run), strict=True)
        columns = {_VALUE: pa.concat_arrays(values)}
        if keys[0] is not None:
            columns[_KEY] = pa.concat_arrays(keys)
        found.append((topic, to_stream(pa.RecordBatch.from_pydict(columns))))
    return found


def unpacked(found: Sequence[Sequence[Any]]) -> list[Outgoing]:
    return [_unpacked(*each) for each in found]


def _unpacked(topic: str, *columns: Any) -> Outgoing:
    if len(columns) == 2:  # lists of keys and values: a snapshot of an earlier version
        keys, values = columns
        return topic, None if keys is None else _column(keys), _column(values)
    with pa.ipc.open_stream(columns[0]) as reader:
        batch = reader.read_next_batch()
    return topic, batch[_KEY] if _KEY in batch.schema.names else None, batch[_VALUE]


def _column(values: Sequence[bytes | str | None]) -> pa.Array:
    """Text becomes UTF-8."""
    return pa.array(values, _BYTES)


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
