"""How do records become the bytes of a text, JSON lines or Parquet file?

An encoder lives as long as its writer, over many files: the Parquet schema stays the same in all of them.
"""

from __future__ import annotations

import dataclasses
import math
import re
from abc import ABC, abstractmethod
from contextlib import suppress
from typing import Any, Literal, Protocol

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from cutwater.batches import Batch, ObjectBatch, rows_of
from cutwater.errors import SerializationError

NonFinite = Literal["refuse", "null", "string"]
"""What becomes of NaN and infinity, which JSON can't say."""


class OutputFile(Protocol):
    """As much of a file as an encoder needs."""

    def write(self, data: bytes) -> int: ...
    def tell(self) -> int: ...


class Encoder(ABC):
    """Writes batches into one open file at a time. Used by one thread."""

    @abstractmethod
    def start(self, file: OutputFile) -> None:
        """A new, empty file."""

    @abstractmethod
    def write(self, batch: Batch) -> int:
        """Adds the records. About how large the file is now, in bytes."""

    def finish(self) -> None:
        """Writes what is left; the caller closes the file."""

    def abandon(self) -> None:
        """The file won't be used: lets go of it. The caller closes it."""


class _LineEncoder(Encoder):
    def start(self, file: OutputFile) -> None:
        self._file = file
        self._bytes = 0

    def write(self, batch: Batch) -> int:
        self._bytes += self._file.write(self.encode(batch))
        return self._bytes

    @abstractmethod
    def encode(self, batch: Batch) -> bytes: ...


class TextEncoder(_LineEncoder):
    """str(value) a line, in UTF-8."""

    def encode(self, batch: Batch) -> bytes:
        lines = [str(value) for value in rows_of(batch)]
        lines.append("")
        return "\n".join(lines).encode(errors="backslashreplace")


class JsonLinesEncoder(_LineEncoder):
    """A JSON value a line: rows, dicts, dataclasses and named tuples become objects."""

    def __init__(self, non_finite: NonFinite = "refuse") -> None:
        self._non_finite = non_finite

    def encode(self, batch: Batch) -> bytes:
        values = [_as_json(value) for value in batch.values] if isinstance(batch, ObjectBatch) else batch.to_pylist()
        try:
            lines = _JSON.encode_lines(values)
            # The encoder writes NaN and infinity as null: only where one stands, they may be.
            if self._non_finite == "null" or b"null" not in lines or not _may_be_non_finite(values):
                return lines
            return self._without_non_finite(values, lines)
        except (TypeError, ValueError, OverflowError, RecursionError) as error:
            raise SerializationError(
                "a record can't be written as JSON",
                detail=str(error),
                hint="map() it to dicts, lists, strings and numbers first",
            ) from error

    def _without_non_finite(self, values: list[Any], lines: bytes) -> bytes:
        checked = lines.splitlines(keepends=True)
        for number, line in enumerate(checked):
            if b"null" not in line:
                continue
            plain = msgspec.to_builtins(values[number], enc_hook=_json_hook, str_keys=True)
            found = _non_finite_in(plain)
            if found is None:
                continue
            if self._non_finite == "refuse":
                raise SerializationError(
                    f"JSON has no {found}",
                    detail=f"in record {str(values[number])[:200]}",
                    hint='map() it to a number or None first, or choose: json_lines(…, non_finite="null" or "string")',
                )
            checked[number] = _JSON.encode(_spelled_out(plain)) + b"\n"
        return b"".join(checked)


class ParquetEncoder(Encoder):
    """Typed batches as they are; Python values as columns, whose types the first batch fixes.

    Rows are gathered into row groups: streams come in small batches, which would make files that are slow to read.
    """

    _GROUP_BYTES = 32 << 20
    _GROUP_ROWS = 1 << 20

    def __init__(self, schema: pa.Schema | None = None) -> None:
        self._schema = schema

    def start(self, file: OutputFile) -> None:
        self._file = file
        self._writer: Any = None
        self._batches: list[pa.RecordBatch] = []
        self._bytes = self._rows = 0

    def write(self, batch: Batch) -> int:
        table = self._columns(batch)
        if self._writer is None:
            self._writer = pq.ParquetWriter(self._file, self._schema)
        self._batches.append(table)
        self._bytes += table.nbytes
        self._rows += table.num_rows
        if self._bytes >= self._GROUP_BYTES or self._rows >= self._GROUP_ROWS:
            self._write_group()
        return self._file.tell() + self._bytes

    def finish(self) -> None:
        if self._writer is not None:
            self._write_group()
            self._writer.close()

    def abandon(self) -> None:
        self._batches = []
        with suppress(OSError, pa.ArrowException):
            self.finish()

    def _write_group(self) -> None:
        if self._batches:
            self._writer.write_table(pa.Table.from_batches(self._batches), row_group_size=self._GROUP_ROWS)
        self._batches = []
        self._bytes = self._rows = 0

    def _columns(self, batch: Batch) -> pa.RecordBatch:
        columns = _to_columns(batch.values, self._schema) if isinstance(batch, ObjectBatch) else batch
        if self._schema is None:
            self._schema = columns.schema
        if columns.schema.equals(self._schema):
            return columns
        if columns.schema.names != self._schema.names:
            raise _schema_changed(self._schema, f"columns {columns.schema.names}")
        try:
            return columns.cast(self._schema)
        except (pa.ArrowException, ValueError) as error:
            raise _schema_changed(self._schema, str(error)) from error


def _as_json(value: Any) -> Any:
    return value._asdict() if isinstance(value, tuple) and hasattr(value, "_asdict") else value


def _may_be_non_finite(values: list[Any]) -> bool:
    """False: there is none for sure. In MessagePack such numbers have a form of their own, and it is quick to write."""
    try:
        return _NON_FINITE.search(_PACKED.encode(values)) is not None
    except OverflowError:  # JSON knows larger integers
        return True


def _non_finite_in(value: Any) -> str | None:
    """NaN or infinity anywhere in builtins, as JavaScript calls it."""
    if isinstance(value, float):
        return None if math.isfinite(value) else _name_of(value)
    if isinstance(value, dict):
        return next((found for item in value.values() if (found := _non_finite_in(item))), None)
    if isinstance(value, list | tuple | set | frozenset):
        return next((found for item in value if (found := _non_finite_in(item))), None)
    return None


def _spelled_out(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return _name_of(value)
    if isinstance(value, dict):
        return {key: _spelled_out(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_spelled_out(item) for item in value]
    return value


def _name_of(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    return "Infinity" if value > 0 else "-Infinity"


def _json_hook(value: Any) -> Any:
    if hasattr(value, "item"):  # a NumPy or Arrow scalar
        return value.item()
    if hasattr(value, "as_py"):
        return value.as_py()
    raise TypeError(f"objects of type {type(value).__name__} are not supported")


_JSON = msgspec.json.Encoder(enc_hook=_json_hook)
_PACKED = msgspec.msgpack.Encoder(enc_hook=_json_hook)
#: A float64 whose exponent has all bits set.
_NON_FINITE = re.compile(rb"\xcb[\x7f\xff][\xf0-\xff]")


def _as_columns(value: Any) -> dict[str, Any]:
    """One record by column: a dict's keys, a named tuple's or dataclass's fields, c0, c1, … of a tuple, or `value`."""
    if isinstance(value, dict):
        return value
    if isinstance(value, tuple):
        named = getattr(value, "_asdict", None)
        return named() if named is not None else {f"c{index}": item for index, item in enumerate(value)}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    return {"value": value}


def _to_columns(values: list[Any], schema: pa.Schema | None) -> pa.RecordBatch:
    rows = [_as_columns(value) for value in values]
    names = dict.fromkeys(name for row in rows for name in row)  # from_pylist looks at the first row only
    if schema is not None:
        unknown = [name for name in names if name not in schema.names]
        if unknown:
            raise _schema_changed(schema, f"new columns {unknown}")
    try:
        if schema is not None:
            return pa.RecordBatch.from_pylist(rows, schema=schema)
        return pa.RecordBatch.from_pydict({str(name): [row.get(name) for row in rows] for name in names})
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        if schema is not None:
            raise _schema_changed(schema, str(error)) from error
        raise SerializationError(
            "records can't be written as Parquet columns",
            detail=str(error),
            hint="all records of a column must have one type; or declare parquet(…, schema=pa.schema([…]))",
        ) from error


def _schema_changed(schema: pa.Schema, found: str) -> SerializationError:
    return SerializationError(
        "records don't fit the columns of this Parquet sink",
        detail=f"{found}; the columns are " + ", ".join(f"{field.name} {field.type}" for field in schema),
        hint="the first records fix the columns and their types; declare them: parquet(…, schema=pa.schema([…]))",
    )
