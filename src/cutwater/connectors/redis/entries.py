"""How does an entry of a stream become a record, and a record the fields of an entry?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import pyarrow as pa

from cutwater.batches import field_names
from cutwater.connectors.bases.decoding import Decoded, Decoder, Place, RowDecoder, ValueDecoder
from cutwater.errors import SerializationError

Value: TypeAlias = "str | Callable[[str, dict[bytes, bytes]], Any] | None"
"""All fields, one field, or a function of id and fields."""
Entry: TypeAlias = "tuple[bytes, dict[bytes, bytes]]"
Field: TypeAlias = "str | bytes | int | float"

#: The field of records that have none: everything but dicts and rows.
ONLY_FIELD = "value"


class EntryDecoder:
    """Makes records of the entries of one stream."""

    def __init__(self, stream: str, value: Value, schema: pa.Schema | None, *, tolerant: bool = False) -> None:
        self._stream = stream
        self._decoder: Decoder
        if schema is not None:
            self._decoder = RowDecoder(_Columns(schema), schema, tolerant=tolerant)
        elif value is None:
            self._decoder = ValueDecoder(_all_fields, tolerant=tolerant)
        elif isinstance(value, str):
            self._decoder = ValueDecoder(_OneField(value), tolerant=tolerant)
        else:
            function = value
            self._decoder = ValueDecoder(
                lambda entry: function(entry[0].decode(), entry[1]), tolerant=tolerant, function=function
            )

    def decode(self, entries: Sequence[Entry]) -> Decoded:
        """In order."""
        place = Place(
            lambda entry_id: f'entry {entry_id} of stream "{self._stream}"',
            lambda index: entries[index][0].decode(),
            lambda index: entries[index][1],
        )
        return self._decoder.decode(entries, place)


class _Columns:
    """A column for each field; Arrow turns the text into its type."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema

    def __call__(self, entries: Sequence[Entry]) -> pa.RecordBatch:
        columns = []
        for field in self._schema:
            name = field.name.encode()
            column = pa.array([fields.get(name) for _, fields in entries], pa.binary())
            columns.append(column if pa.types.is_binary(field.type) else column.cast(pa.string()).cast(field.type))
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)


class _OneField:
    def __init__(self, name: str) -> None:
        self._name = name.encode()

    def __call__(self, entry: Entry) -> str:
        field = entry[1].get(self._name)
        if field is None:
            raise ValueError(f"it has no field {self._name.decode()!r}")
        return field.decode()


def _all_fields(entry: Entry) -> dict[str, str]:
    return {name.decode(): value.decode() for name, value in entry[1].items()}


def fields_of(record: Any) -> list[Field]:
    """Names and values in turn, as XADD takes them."""
    if isinstance(record, dict):
        fields = [word for field in record.items() for word in field]
    elif isinstance(record, tuple) and (names := field_names(record)) is not None:
        fields = [word for field in zip(names, record, strict=True) if field[1] is not None for word in field]
    else:
        fields = [ONLY_FIELD, record]
    if not fields or not all(isinstance(word, str | bytes | int | float) for word in fields):
        raise SerializationError(
            "a record can't become an entry of a stream",
            detail=f"it is {record!r}",
            hint="Redis knows text, bytes and numbers: map it to one of them, or to a dict of them",
        )
    return [int(word) if isinstance(word, bool) else word for word in fields]
