"""How do many rows go to MariaDB at once, and how are they kept until they are committed?"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, BinaryIO

from cutwater.batches import Batch
from cutwater.connectors.bases.records import tuples_of
from cutwater.connectors.bases.sql_database import RowLoader, SqlTable
from cutwater.connectors.bases.two_phase import Transaction
from cutwater.connectors.mariadb.client import quoted
from cutwater.connectors.pickling import pickle_values, unpickle_values

_LENGTH = struct.Struct("<Q")


class InsertingLoader(RowLoader):
    """Each batch is inserted at once."""

    def __init__(self, connection: Any, table: SqlTable) -> None:
        self._connection = connection
        self._table = table
        self._columns: tuple[str, ...] = ()

    @property
    def layout(self) -> tuple[str, tuple[str, ...]]:
        return "rows", self._columns

    def write(self, batch: Batch, rows: BinaryIO | None) -> None:
        columns = self._columns or self._table.columns_for(batch)
        values = tuples_of(batch, columns)
        if rows is not None:
            # A transaction that is prepared has the connection to itself, and all its rows have the same columns.
            self._columns = columns
            rows.write(kept(values, owner=self._table.sink_name))
        insert_rows(self._connection, self._table.name, columns, values, key=self._table.key)

    def write_kept(self, transaction: Transaction, pieces: Iterable[bytes]) -> None:
        for rows in rows_in(pieces):
            insert_rows(self._connection, self._table.name, transaction.columns, rows)


def insert_rows(
    connection: Any, table: str, columns: Sequence[str], rows: Sequence[tuple[Any, ...]], *, key: Sequence[str] = ()
) -> None:
    """The client makes statements of many rows from it, as large as the server takes. With a key rows are replaced."""
    names = ", ".join(map(quoted, columns))
    places = ", ".join(["%s"] * len(columns))
    statement = f"INSERT INTO {quoted(table)} ({names}) VALUES ({places})"
    if key:
        replaced = [name for name in columns if name not in key] or key
        changes = ", ".join(f"{quoted(name)} = VALUES({quoted(name)})" for name in replaced)
        statement += f" ON DUPLICATE KEY UPDATE {changes}"
    with connection.cursor() as cursor:
        cursor.executemany(statement, rows)


def kept(rows: list[tuple[Any, ...]], *, owner: str) -> bytes:
    """Rows as they go into a savepoint."""
    data = pickle_values(rows, owner=owner)
    return _LENGTH.pack(len(data)) + data


def rows_in(pieces: Iterable[bytes]) -> Iterator[list[tuple[Any, ...]]]:
    """What `kept` made, one or more after another."""
    buffer = bytearray()
    for piece in pieces:
        buffer += piece
        while len(buffer) >= _LENGTH.size:
            end = _LENGTH.size + _LENGTH.unpack_from(buffer)[0]
            if len(buffer) < end:
                break
            yield unpickle_values(bytes(buffer[_LENGTH.size : end]))
            del buffer[:end]
