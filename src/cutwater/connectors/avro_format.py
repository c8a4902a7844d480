"""How do records become an Avro file?"""

from __future__ import annotations

import re
from typing import Any

import pyarrow as pa

from cutwater.batches import Batch, ObjectBatch
from cutwater.connectors.bases.extras import client
from cutwater.connectors.file_compression import Compression, OutputFile
from cutwater.connectors.file_formats import Encoder
from cutwater.errors import SerializationError

#: As Avro calls them. Avro compresses its own blocks.
_CODECS: dict[str, str] = {"none": "null", "gzip": "deflate", "zstd": "zstandard"}
_NAME = re.compile("[A-Za-z_][A-Za-z0-9_]*")


def fastavro() -> Any:
    return client("fastavro", extra="avro")


class AvroEncoder(Encoder):
    """Takes what `Columns` gives: a record for each row, in blocks of about 64 KiB."""

    _BLOCK_BYTES = 64 << 10

    def __init__(self, compression: Compression = "none") -> None:
        self._codec = _CODECS[compression]

    def start(self, file: OutputFile) -> None:
        self._file = file
        self._writer: Any = None

    def write(self, batch: Batch) -> int:
        assert not isinstance(batch, ObjectBatch), "columns were made of it before"
        if self._writer is None:
            schema = avro_schema(batch.schema)
            self._writer = fastavro().write.Writer(
                self._file, schema, codec=self._codec, sync_interval=self._BLOCK_BYTES
            )
        try:
            for row in batch.to_pylist():
                self._writer.write(row)
        except (TypeError, ValueError, OverflowError) as error:
            raise SerializationError("a record can't be written as Avro", detail=str(error)) from error
        return self._file.tell()

    def finish(self) -> None:
        if self._writer is not None:
            self._writer.flush()


def avro_schema(schema: pa.Schema) -> dict[str, Any]:
    """The schema of records with these columns. Every field may be null, unless its column says that it never is."""
    return _record("row", list(schema))


def _record(name: str, fields: list[pa.Field]) -> dict[str, Any]:
    for field in fields:
        if not _NAME.fullmatch(field.name):
            raise SerializationError(
                f"Avro has no field {field.name!r}",
                detail="names have letters of English, digits and _, and don't begin with a digit",
                hint="map() the records to other names",
            )
    return {"type": "record", "name": name, "fields": [_field(field, name) for field in fields]}


def _field(field: pa.Field, path: str) -> dict[str, Any]:
    return {"name": field.name, "type": _optional(field, f"{path}_{field.name}")}


def _optional(field: pa.Field, path: str) -> Any:
    kind = _kind(field.type, path)
    return ["null", kind] if field.nullable and kind != "null" else kind


def _kind(kind: pa.DataType, path: str) -> Any:
    """Records inside are named after where they are: Avro wants every name once."""
    types = pa.types
    if types.is_dictionary(kind):
        return _kind(kind.value_type, path)
    if types.is_struct(kind):
        return _record(path, [kind.field(index) for index in range(kind.num_fields)])
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        return {"type": "array", "items": _optional(kind.value_field, f"{path}_item")}
    if types.is_map(kind) and types.is_string(kind.key_type):
        return {"type": "map", "values": _optional(kind.item_field, f"{path}_value")}
    if types.is_decimal(kind):
        return {"type": "bytes", "logicalType": "decimal", "precision": kind.precision, "scale": kind.scale}
    if types.is_timestamp(kind):
        return {"type": "long", "logicalType": f"{'' if kind.tz else 'local-'}timestamp-micros"}
    if types.is_time(kind):
        return {"type": "long", "logicalType": "time-micros"}
    for is_such, name in _SIMPLE:
        if is_such(kind):
            return name
    raise SerializationError(
        f"Avro has no type for {kind}", detail=f"the field {path}", hint="map() it to another type"
    )


def _is_int(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) and (kind.bit_width < 32 or kind == pa.int32()))


_SIMPLE: list[tuple[Any, Any]] = [
    (pa.types.is_boolean, "boolean"),
    (_is_int, "int"),
    (pa.types.is_integer, "long"),
    (lambda kind: pa.types.is_float16(kind) or pa.types.is_float32(kind), "float"),
    (pa.types.is_float64, "double"),
    (
        lambda kind: pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind),
        "string",
    ),
    (
        lambda kind: pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind),
        "bytes",
    ),
    (pa.types.is_date32, {"type": "int", "logicalType": "date"}),
    (pa.types.is_null, "null"),
]
