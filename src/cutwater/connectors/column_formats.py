"""How do records become the columns of a Parquet or CSV file?"""

from __future__ import annotations

import dataclasses
import io
from contextlib import suppress
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from cutwater.batches import Batch, ObjectBatch
from cutwater.connectors.file_compression import Compression, Frame, OutputFile
from cutwater.connectors.file_formats import Encoder
from cutwater.errors import SerializationError


class Columns:
    """Typed batches as they are; Python values as columns, whose types the first batch fixes.

    Lives as long as its writer, over many files: the columns stay the same in all of them.
    """

    def __init__(self, schema: pa.Schema | None) -> None:
        self._schema = schema

    def of(self, batch: Batch) -> pa.RecordBatch:
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


class ParquetEncoder(Encoder):
    """Takes what `Columns` gives.

    Rows are gathered into row groups: streams come in small batches, which would make files that are slow to read.
    """

    _GROUP_BYTES = 32 << 20
    _GROUP_ROWS = 1 << 20

    def __init__(self, compression: Compression | None = None, *, group_bytes: int = _GROUP_BYTES) -> None:
        self._compression = {None: "snappy", "none": "none"}.get(compression, compression)
        self._group_bytes = group_bytes

    def start(self, file: OutputFile) -> None:
        self._file = file
        self._writer: Any = None
        self._batches: list[pa.RecordBatch] = []
        self._bytes = self._rows = 0

    def write(self, batch: Batch) -> int:
        assert not isinstance(batch, ObjectBatch), "columns were made of it before"
        if self._writer is None:
            self._writer = pq.ParquetWriter(self._file, batch.schema, compression=self._compression)
        self._batches.append(batch)
        self._bytes += batch.nbytes
        self._rows += batch.num_rows
        if self._bytes >= self._group_bytes or self._rows >= self._GROUP_ROWS:
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


class CsvEncoder(Encoder):
    """Takes what `Columns` gives. A header if wanted, then a line for each row: texts in quotes, nothing for null.

    The header is a frame of its own, so that files can be joined without it.
    """

    def __init__(self, compression: Compression = "none", *, header: bool = True, delimiter: str = ",") -> None:
        self._compression = compression
        self._header = header
        self._delimiter = delimiter

    def start(self, file: OutputFile) -> None:
        self._file = file
        self._frame: Frame | None = None

    def write(self, batch: Batch) -> int:
        assert not isinstance(batch, ObjectBatch), "columns were made of it before"
        if self._frame is None:
            if self._header:
                header = Frame(self._file, self._compression)
                header.write(_as_csv(batch.slice(0, 0), has_header=True, delimiter=self._delimiter))
                header.end()
            self.header_bytes = self._file.tell()
            self._frame = Frame(self._file, self._compression)
        self._frame.write(_as_csv(batch, has_header=False, delimiter=self._delimiter))
        return self._file.tell()

    def finish(self) -> None:
        if self._frame is not None:
            self._frame.end()

    def abandon(self) -> None:
        with suppress(OSError):
            self.finish()


def _as_csv(batch: pa.RecordBatch, *, has_header: bool, delimiter: str) -> bytes:
    written = io.BytesIO()
    options = pyarrow.csv.WriteOptions(include_header=has_header, delimiter=delimiter)
    try:
        pyarrow.csv.write_csv(batch, written, options)
    except pa.ArrowException as error:
        raise SerializationError(
            "records can't be written as CSV",
            detail=str(error),
            hint="CSV has no lists and no structs: map() them to texts, or choose another format",
        ) from error
    return written.getvalue()


def as_columns(value: Any) -> dict[str, Any]:
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
    rows = [as_columns(value) for value in values]
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
            "records can't be written as columns",
            detail=str(error),
            hint="all records of a column must have one type; or declare them: files(…, schema=pa.schema([…]))",
        ) from error


def _schema_changed(schema: pa.Schema, found: str) -> SerializationError:
    return SerializationError(
        "records don't fit the columns of this sink",
        detail=f"{found}; the columns are " + ", ".join(f"{field.name} {field.type}" for field in schema),
        hint="the first records fix the columns and their types; declare them: files(…, schema=pa.schema([…]))",
    )
