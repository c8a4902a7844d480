"""How do rows get into a table of PostgreSQL: by COPY, straight or through a table in which they wait?"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, BinaryIO

from cutwater.batches import Batch
from cutwater.connectors.bases.extras import client
from cutwater.connectors.bases.sql_database import RowLoader, SqlTable
from cutwater.connectors.bases.two_phase import Transaction
from cutwater.connectors.postgres.client import table_name
from cutwater.connectors.postgres.copying import Copying, copy_encoded, encoding_of


class CopyingLoader(RowLoader):
    """COPY into the table: one for a transaction, open from its first rows to `finish`."""

    def __init__(self, connection: Any, table: SqlTable) -> None:
        self._connection = connection
        self._table = table
        self._copying: Copying | None = None
        self._layout: tuple[str, tuple[str, ...]] = ("", ())

    @property
    def layout(self) -> tuple[str, tuple[str, ...]]:
        return self._layout

    def write(self, batch: Batch, rows: BinaryIO | None) -> None:
        if self._copying is None:
            columns = self._table.columns_for(batch)
            encoding = encoding_of(batch, columns)
            self._layout = (encoding, columns)
            self._copying = Copying(self._connection, self._copied_into(columns), columns, encoding, rows)
        self._copying.write(batch)

    def _copied_into(self, columns: Sequence[str]) -> Any:
        return table_name(self._table.name)

    def finish(self) -> None:
        copying, self._copying = self._copying, None
        if copying is not None:
            copying.finish()
            self._copied()

    def _copied(self) -> None:
        """Before the transaction ends."""

    def write_kept(self, transaction: Transaction, pieces: Iterable[bytes]) -> None:
        table = table_name(self._table.name)
        copy_encoded(self._connection, table, transaction.columns, transaction.encoding, pieces)

    def abandon(self) -> None:
        """When the connection is closed."""
        copying, self._copying = self._copying, None
        if copying is not None:
            copying.abandon()


class UpsertingLoader(CopyingLoader):
    """COPY into a temporary table, from which the last row of each key replaces that in the table.

    The rows are taken in the order of their keys: two tasks that lock the same rows can't wait for each other.
    """

    _ROWS = "cutwater_rows"
    _ORDER = "cutwater_order"

    def __init__(self, connection: Any, table: SqlTable) -> None:
        super().__init__(connection, table)
        self._columns: tuple[str, ...] = ()

    def _copied_into(self, columns: Sequence[str]) -> Any:
        sql = client("psycopg.sql", extra="postgres")
        rows = sql.Identifier("pg_temp", self._ROWS)
        if not self._columns:
            self._columns = tuple(columns)
            self._connection.execute(
                sql.SQL("CREATE TEMPORARY TABLE {} ON COMMIT DELETE ROWS AS SELECT {} FROM {} WITH NO DATA").format(
                    sql.Identifier(self._ROWS), _names(columns), table_name(self._table.name)
                )
            )
            self._connection.execute(
                sql.SQL("ALTER TABLE {} ADD COLUMN {} bigserial").format(rows, sql.Identifier(self._ORDER))
            )
        return rows

    def _copied(self) -> None:
        sql = client("psycopg.sql", extra="postgres")
        key = self._table.key
        others = [name for name in self._columns if name not in key]
        replaced = sql.SQL(", ").join(
            sql.SQL("{} = EXCLUDED.{}").format(sql.Identifier(name), sql.Identifier(name)) for name in others
        )
        action = sql.SQL("DO UPDATE SET {}").format(replaced) if others else sql.SQL("DO NOTHING")
        names, keys = _names(self._columns), _names(key)
        statement = "INSERT INTO {} ({}) SELECT DISTINCT ON ({}) {} FROM {} ORDER BY {}, {} DESC ON CONFLICT ({}) {}"
        order = sql.Identifier(self._ORDER)
        rows = sql.Identifier("pg_temp", self._ROWS)
        self._connection.execute(
            sql.SQL(statement).format(table_name(self._table.name), names, keys, names, rows, keys, order, keys, action)
        )


def _names(columns: Sequence[str]) -> Any:
    sql = client("psycopg.sql", extra="postgres")
    return sql.SQL(", ").join(map(sql.Identifier, columns))
