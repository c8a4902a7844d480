"""How do records become messages in Avro, and back?

A message holds no names and no types: it can be read only with the schema it was written with. With a registry, each
message says which one that is; the reader's own schema says what it should look like now.
"""

from __future__ import annotations

import dataclasses
import io
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any
from uuid import UUID

import pyarrow as pa

from cutwater.batches import Batch, ObjectBatch, rows_of, without_time_column
from cutwater.connectors.bases.extras import client
from cutwater.connectors.bases.message_formats import Encode, MessageFormat
from cutwater.connectors.formats.avro_columns import arrow_schema
from cutwater.connectors.formats.framing import HEADER_BYTES, header, schema_id_of
from cutwater.connectors.formats.registry import Reference, RegisteredSchema, Registry, RegistryClient, registry_of
from cutwater.errors import ConfigurationError, SerializationError

Parsed = Any
"""A schema as fastavro wants it."""


def avro(
    schema: str | Mapping[str, Any] | None = None,
    *,
    registry: str | Registry | None = None,
    subject: str | None = None,
    typed: bool = False,
    register: bool = True,
) -> AvroFormat:
    """Messages in Avro, for `value=`. Needs the extra `avro`.

    With `registry` (an address, or `cw.formats.registry(…)`), messages begin with the id of the schema that they were
    written with, as Confluent's serializers write them. `schema`, JSON text or a dict, is the one to read them as: it
    may differ as Avro allows it (defaults, wider types, fields that are gone). Left out, each message is read as it
    was written; typed, as the newest schema of the subject says. Without `registry`, messages are bare values, written
    with exactly this schema.

    A sink writes with `schema`, and registers it before the job starts, if the subject doesn't have it; with
    `register=False` it must be there. Left out, it writes with the newest schema of the subject. Records are dicts,
    named tuples, dataclasses or typed rows, with all fields that have no default, and no others.

    `subject`: `<topic>-value`, if left out. `typed`: a source gives typed batches with the columns of the schema.
    """
    text = None if schema is None else schema if isinstance(schema, str) else json.dumps(schema)
    if text is None and registry is None:
        raise ConfigurationError("avro() needs a schema or a registry", hint='avro(registry="http://…:8081")')
    made = AvroFormat(text, registry_of(registry), subject, typed, register)
    if text is not None:
        _parsed(text)
        _ = made.schema
    return made


@dataclass(frozen=True)
class AvroFormat(MessageFormat):
    """Settings of a source's or sink's messages."""

    text: str | None
    registry: Registry | None
    subject: str | None
    typed: bool
    registers: bool
    #: Other schemas that `text` uses, if it came from the registry.
    references: tuple[Reference, ...] = ()

    @cached_property
    def schema(self) -> pa.Schema | None:
        if not self.typed or self.text is None:
            return None
        return arrow_schema(self._parsed_text(patient=False))

    def of_topic(self, topic: str | None) -> AvroFormat:
        if self.registry is None:
            return self
        subject = self.subject or (None if topic is None else f"{topic}-value")
        bound = replace(self, subject=subject)
        if self.typed and self.text is None:
            newest = RegistryClient(self.registry, patient=False).version(bound._named_subject())
            return replace(bound, text=_avro_text(newest), references=newest.references)
        return bound

    def check(self, *, writes: bool) -> None:
        if self.registry is None:
            return
        asked = RegistryClient(self.registry, patient=False)
        if writes:
            self._writing(asked)
        else:
            asked.ping()

    def decode_one(self) -> Callable[[bytes], Any]:
        own = None if self.text is None else self._parsed_text(patient=True)
        if self.registry is None:
            return _BareReader(own)
        return _FramedReader(RegistryClient(self.registry, patient=True), own)

    def decode_rows(self, columns: pa.Schema) -> Callable[[Sequence[bytes | None]], pa.RecordBatch]:
        one = self.decode_one()
        may_have_ids = "uuid" in (self.text or "") or bool(self.references)

        def rows(messages: Sequence[bytes | None]) -> pa.RecordBatch:
            values = [{} if message is None else one(message) for message in messages]
            if may_have_ids:
                values = _with_plain_ids(values)
            return pa.RecordBatch.from_pylist(values, schema=columns)

        return rows

    def encode(self) -> Encode:
        start, schema = b"", None
        if self.registry is not None:
            schema_id, schema = self._writing(RegistryClient(self.registry, patient=True))
            start = header(schema_id)
        else:
            assert self.text is not None, "without a registry there is a schema"
            schema = _parsed(self.text)
        return _Writer(start, schema)

    def _writing(self, asked: RegistryClient) -> tuple[int, Parsed]:
        """The id of the schema to write with, and the schema."""
        subject = self._named_subject()
        if self.text is None:
            newest = asked.version(subject)
            assert newest.id is not None, "versions have ids"
            return newest.id, _parsed_with_references(asked, newest)
        schema = self._parsed_text(patient=True)
        return asked.register(subject, self.text, "AVRO", self.references, adds=self.registers), schema

    def _parsed_text(self, *, patient: bool) -> Parsed:
        assert self.text is not None
        if not self.references or self.registry is None:
            return _parsed(self.text)
        registered = RegisteredSchema(self.text, "AVRO", self.references)
        return _parsed_with_references(RegistryClient(self.registry, patient=patient), registered)

    def _named_subject(self) -> str:
        if self.subject is None:
            raise ConfigurationError(
                "the subject of the Avro schema is unknown",
                detail="there is not just one topic whose name it could have",
                hint='avro(…, subject="orders-value")',
            )
        return self.subject


class _BareReader:
    def __init__(self, schema: Parsed) -> None:
        self._schema = schema
        self._read = fastavro().schemaless_reader

    def __call__(self, message: bytes) -> Any:
        return _read_all(self._read, message, 0, self._schema, None)


class _FramedReader:
    """Asks for each schema once."""

    def __init__(self, asked: RegistryClient, own: Parsed | None) -> None:
        self._asked = asked
        self._own = own
        self._writers: dict[int, Parsed] = {}
        self._read = fastavro().schemaless_reader

    def __call__(self, message: bytes) -> Any:
        schema_id = schema_id_of(message)
        writer = self._writers.get(schema_id)
        if writer is None:
            registered = self._asked.by_id(schema_id)
            if registered.kind != "AVRO":
                raise ValueError(f"schema {schema_id} is not Avro, but {registered.kind}")
            writer = self._writers[schema_id] = _parsed_with_references(self._asked, registered)
        return _read_all(self._read, message, HEADER_BYTES, writer, self._own)


class _Writer:
    def __init__(self, start: bytes, schema: Parsed) -> None:
        self._start = start
        self._schema = schema
        self._write = fastavro().schemaless_writer

    def __call__(self, batch: Batch) -> list[bytes | None]:
        return [None if record is None else self._message(record) for record in _records_of(batch)]

    def _message(self, record: Any) -> bytes:
        message = io.BytesIO()
        message.write(self._start)
        try:
            self._write(message, self._schema, record, strict_allow_default=True)
        except Exception as error:
            raise SerializationError(
                "a record doesn't fit the Avro schema",
                detail=f"{type(error).__name__}: {error}; it is {record!r:.200}",
                hint="map() it to the fields and types of the schema",
            ) from error
        return message.getvalue()


def fastavro() -> Any:
    return client("fastavro", extra="avro")


def _read_all(read: Any, message: bytes, start: int, writer: Parsed, own: Parsed | None) -> Any:
    stream = io.BytesIO(message)
    stream.seek(start)
    try:
        value = read(stream, writer, own)
    except EOFError as error:
        raise ValueError("the message breaks off") from error
    if stream.tell() != len(message):
        raise ValueError(f"{len(message) - stream.tell()} bytes are left behind the value")
    return value


def _parsed(text: str, named: dict[str, Any] | None = None) -> Parsed:
    try:
        return fastavro().parse_schema(json.loads(text), named_schemas={} if named is None else named)
    except Exception as error:
        raise ConfigurationError(
            "this is no Avro schema", detail=f"{type(error).__name__}: {error}; it is {text:.200}"
        ) from error


def _parsed_with_references(asked: RegistryClient, registered: RegisteredSchema) -> Parsed:
    named: dict[str, Any] = {}

    def parse(schema: RegisteredSchema) -> Parsed:
        for reference in schema.references:
            if reference.name not in named:
                parse(asked.version(reference.subject, reference.version))
        return _parsed(schema.text, named)

    return parse(registered)


def _avro_text(registered: RegisteredSchema) -> str:
    if registered.kind != "AVRO":
        raise ConfigurationError("the newest schema of the subject is not Avro", detail=f"it is {registered.kind}")
    return registered.text


def _records_of(batch: Batch) -> list[Any]:
    """As fastavro takes them: dicts, with dicts for maps."""
    if isinstance(batch, ObjectBatch):
        return [_as_dict(record) for record in rows_of(batch)]
    rows: list[Any] = without_time_column(batch).to_pylist(maps_as_pydicts="strict")
    return rows


def _as_dict(record: Any) -> Any:
    if isinstance(record, tuple) and hasattr(record, "_asdict"):
        return record._asdict()
    if dataclasses.is_dataclass(record) and not isinstance(record, type):
        return dataclasses.asdict(record)
    names = getattr(record, "__struct_fields__", None)
    return record if names is None else {name: getattr(record, name) for name in names}


def _with_plain_ids(value: Any) -> Any:
    """Arrow has no type for UUIDs that every version knows: they are texts in columns."""
    if isinstance(value, UUID):
        return str(value)
    if isinstance(value, dict):
        return {name: _with_plain_ids(each) for name, each in value.items()}
    return [_with_plain_ids(each) for each in value] if isinstance(value, list) else value
