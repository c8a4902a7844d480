"""How do batches become rows of a COPY, quickly?

Typed batches of plain columns are written as CSV by Arrow; everything else goes record by record through psycopg's own
formatter, which knows JSON, arrays, UUIDs and what else a column may hold.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.csv

from cutwater.batches import Batch, ObjectBatch
from cutwater.connectors.bases.extras import client
from cutwater.connectors.bases.records import refuse_missing, tuples_of
from cutwater.connectors.postgres.client import psycopg

CSV = "csv"
TEXT = "text"
_CSV_OPTIONS = pyarrow.csv.WriteOptions(include_header=False, quoting_style="needed")


def encoding_of(batch: Batch, columns: Sequence[str]) -> str:
    """All batches of a stream are of one kind and schema, so the first one decides."""
    if isinstance(batch, ObjectBatch):
        return TEXT
    refuse_missing([name for name in columns if name not in batch.schema.names], batch.schema.names)
    return CSV if all(_is_plain(batch.schema.field(name).type) for name in columns) else TEXT


def _is_plain(kind: pa.DataType) -> bool:
    tests = (
        pa.types.is_boolean,
        pa.types.is_integer,
        pa.types.is_floating,
        pa.types.is_decimal,
        pa.types.is_string,
        pa.types.is_large_string,
        pa.types.is_binary,
        pa.types.is_large_binary,
        pa.types.is_date,
        pa.types.is_time,
        pa.types.is_timestamp,
        pa.types.is_null,
    )
    return any(test(kind) for test in tests)


class Copying:
    """An open COPY into a table. A copy of the encoded rows goes into `rows`, if given."""

    def __init__(
        self, connection: Any, table: Any, columns: Sequence[str], encoding: str, rows: BinaryIO | None = None
    ) -> None:
        self._columns = columns
        self._encoding = encoding
        cursor = connection.cursor()
        statement = copy_statement(table, columns, encoding)
        self._open = cursor.copy(statement, writer=None if rows is None else _keeping_writer(cursor, rows))
        self._copy = self._open.__enter__()

    def write(self, batch: Batch) -> None:
        if self._encoding == CSV:
            assert not isinstance(batch, ObjectBatch), "a typed stream stays typed"
            self._copy.write(_as_csv(batch, self._columns))
        else:
            write_row = self._copy.write_row
            for row in tuples_of(batch, self._columns):
                write_row(row)

    def finish(self) -> None:
        self._open.__exit__(None, None, None)

    def abandon(self) -> None:
        """When the connection is closed."""
        with suppress(psycopg().Error):
            self._open.gen.close()


def copy_encoded(connection: Any, table: Any, columns: Sequence[str], encoding: str, pieces: Iterable[bytes]) -> None:
    """Rows that were encoded before."""
    with connection.cursor() as cursor, cursor.copy(copy_statement(table, columns, encoding)) as copy:
        for piece in pieces:
            copy.write(piece)


def copy_statement(table: Any, columns: Sequence[str], encoding: str) -> Any:
    sql = client("psycopg.sql", extra="postgres")
    names = sql.SQL(", ").join(map(sql.Identifier, columns))
    return sql.SQL("COPY {} ({}) FROM STDIN (FORMAT {})").format(
        table, names, sql.SQL(CSV if encoding == CSV else TEXT)
    )


def _as_csv(batch: pa.RecordBatch, columns: Sequence[str]) -> memoryview:
    arrays = [_with_hex(batch.column(name)) for name in columns]
    out = pa.BufferOutputStream()
    pyarrow.csv.write_csv(pa.RecordBatch.from_arrays(arrays, names=list(columns)), out, _CSV_OPTIONS)
    return memoryview(out.getvalue())


def _with_hex(column: pa.Array) -> pa.Array:
    """Bytes as PostgreSQL writes them."""
    if not (pa.types.is_binary(column.type) or pa.types.is_large_binary(column.type)):
        return column
    return pa.array([None if value is None else f"\\x{value.hex()}" for value in column.to_pylist()], pa.string())


def _keeping_writer(cursor: Any, rows: BinaryIO) -> Any:
    base = client("psycopg.copy", extra="postgres").LibpqWriter

    class KeepingWriter(base):  # type: ignore[misc, valid-type]
        def write(self, data: Any) -> None:
            rows.write(data)
            super().write(data)

    return KeepingWriter(cursor)
