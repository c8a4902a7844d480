"""How are prepared transactions of PostgreSQL committed, rolled back, and known to be done?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cutwater.connectors.bases.extras import client
from cutwater.connectors.bases.two_phase import Database, Transaction
from cutwater.connectors.contract import Pieces
from cutwater.connectors.postgres.client import clear_errors, connect, psycopg, table_name
from cutwater.connectors.postgres.copying import copy_encoded


class PostgresDatabase(Database):
    """One connection, in autocommit."""

    def __init__(self, dsn: str, title: str, table: str, epochs_table: str) -> None:
        self._title = title
        self._table = table
        self._epochs_table = epochs_table
        self._connection = connect(dsn, title)

    def commit(self, name: str) -> bool:
        return self._end("COMMIT PREPARED", name)

    def roll_back(self, name: str) -> bool:
        return self._end("ROLLBACK PREPARED", name)

    def _end(self, verb: str, name: str) -> bool:
        errors = psycopg().errors
        with clear_errors(f"{verb.lower()} transaction {name}", self._title):
            try:
                self._execute(f"{verb} {{}}", client("psycopg.sql", extra="postgres").Literal(name))
            except (errors.UndefinedObject, errors.ObjectNotInPrerequisiteState):  # the latter: it is busy
                return False
        return True

    def prepared(self) -> Sequence[str]:
        with clear_errors("list prepared transactions", self._title):
            found = self._connection.execute(
                "SELECT gid FROM pg_prepared_xacts WHERE database = current_database() AND gid LIKE 'cutwater-%'"
            )
            return [row[0] for row in found]

    def recorded(self, writer: str) -> int | None:
        with clear_errors(f'read table "{self._epochs_table}"', self._title):
            try:
                found = self._execute("SELECT max(number) FROM {} WHERE writer = %s", self._epochs, values=(writer,))
            except psycopg().errors.UndefinedTable:
                return None
            number: int | None = found.fetchone()[0]
            return number

    def forget(self, writer: str, *, below: int) -> None:
        with clear_errors(f'delete from table "{self._epochs_table}"', self._title):
            self._execute("DELETE FROM {} WHERE writer = %s AND number < %s", self._epochs, values=(writer, below))

    def write_anew(self, transaction: Transaction, pieces: Pieces) -> None:
        with clear_errors(f'write to table "{self._table}"', self._title):
            create_epochs_table(self._connection, self._epochs_table)
            try:
                with self._connection.transaction():
                    record(self._connection, self._epochs_table, transaction)
                    table = table_name(self._table)
                    copy_encoded(self._connection, table, transaction.columns, transaction.encoding, pieces())
            except psycopg().errors.UniqueViolation:
                # Another process was faster; or it is the user's own key that is taken.
                if (number := self.recorded(transaction.writer)) is None or number < transaction.number:
                    raise

    def close(self) -> None:
        self._connection.close()

    @property
    def _epochs(self) -> Any:
        return table_name(self._epochs_table)

    def _execute(self, statement: str, *names: Any, values: Sequence[Any] | None = None) -> Any:
        sql = client("psycopg.sql", extra="postgres")
        return self._connection.execute(sql.SQL(statement).format(*names), values)


def create_epochs_table(connection: Any, epochs_table: str) -> None:
    errors = psycopg().errors
    sql = client("psycopg.sql", extra="postgres")
    statement = sql.SQL(
        "CREATE TABLE IF NOT EXISTS {} (writer text NOT NULL, number bigint NOT NULL, "
        "written_at timestamptz NOT NULL DEFAULT now(), PRIMARY KEY (writer, number))"
    )
    try:
        connection.execute(statement.format(table_name(epochs_table)))
    except (errors.UniqueViolation, errors.DuplicateTable):
        return  # another job made it at the same moment


def record(connection: Any, epochs_table: str, transaction: Transaction) -> None:
    """In the open transaction: whoever sees this row sees the transaction's rows."""
    sql = client("psycopg.sql", extra="postgres")
    statement = sql.SQL("INSERT INTO {} (writer, number) VALUES (%s, %s)").format(table_name(epochs_table))
    connection.execute(statement, (transaction.writer, transaction.number))
