"""What does a message become in the stream?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import pyarrow as pa

from cutwater.batches import Batch, ObjectBatch, rows_of
from cutwater.connectors.bases.decoding import Decoded, Place, Value, decoder_of
from cutwater.errors import ConfigurationError

#: What `with_metadata` adds to the columns of a typed source.
METADATA_FIELDS = (
    pa.field("kafka_key", pa.binary()),
    pa.field("kafka_topic", pa.string()),
    pa.field("kafka_partition", pa.int32()),
    pa.field("kafka_offset", pa.int64()),
    pa.field("kafka_timestamp", pa.timestamp("ms", "UTC")),
)
_METADATA: dict[str, Callable[[Any], Any]] = {
    "kafka_key": lambda message: message.key(),
    "kafka_topic": lambda message: message.topic(),
    "kafka_partition": lambda message: message.partition(),
    "kafka_offset": lambda message: message.offset(),
    "kafka_timestamp": lambda message: message.timestamp()[1],
}


class KafkaRecord(msgspec.Struct, frozen=True, gc=False):
    """A message with all that Kafka knows of it."""

    value: Any
    key: bytes | None
    topic: str
    partition: int
    offset: int
    #: As the topic is configured: when it was produced, or appended.
    timestamp_ms: int
    headers: list[tuple[str, bytes | None]]


class MessageDecoder:
    """Turns messages of one partition into batches. A message without a value stays None; typed, a row of nulls."""

    def __init__(self, value: Value, schema: pa.Schema | None, *, with_metadata: bool, tolerant: bool = False) -> None:
        self._with_metadata = with_metadata
        self._schema = schema
        own = {field.name for field in METADATA_FIELDS} if with_metadata else set()
        columns = None if schema is None else pa.schema([field for field in schema if field.name not in own])
        if columns is not None and not columns.names:  # only metadata is read
            value, columns = "bytes", None
        self._decoder = decoder_of(value, columns, tolerant=tolerant)

    def decode(self, messages: Sequence[Any], values: Sequence[bytes | None]) -> Decoded:
        """Of one partition, in order. The values are those of the messages."""
        decoded = self._decoder.decode(values, _place(messages))
        if not self._with_metadata or decoded.batch is None:
            return decoded
        kept = messages if decoded.kept is None else [messages[index] for index in decoded.kept]
        return decoded._replace(batch=self._with_columns(decoded.batch, kept))

    def _with_columns(self, batch: Batch, messages: Sequence[Any]) -> Batch:
        if self._schema is None:
            return ObjectBatch([*map(_record, rows_of(batch), messages)])
        found = {} if isinstance(batch, ObjectBatch) else dict(zip(batch.schema.names, batch.columns, strict=True))
        columns = [
            pa.array([*map(_METADATA[field.name], messages)], field.type)
            if field.name in _METADATA
            else found[field.name]
            for field in self._schema
        ]
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)


def typed_schema(schema: pa.Schema, *, with_metadata: bool) -> pa.Schema:
    """Of the source's batches."""
    if not with_metadata:
        return schema
    for field in METADATA_FIELDS:
        if field.name in schema.names:
            raise ConfigurationError(f"with_metadata would add a second column {field.name!r}")
        schema = schema.append(field)
    return schema


def _record(value: Any, message: Any) -> KafkaRecord:
    return KafkaRecord(
        value,
        message.key(),
        message.topic(),
        message.partition(),
        message.offset(),
        message.timestamp()[1],
        message.headers() or [],
    )


def _place(messages: Sequence[Any]) -> Place:
    partition = f"{messages[0].topic()}/{messages[0].partition()}"
    return Place(lambda offset: f"message {offset} of {partition}", lambda index: messages[index].offset())
