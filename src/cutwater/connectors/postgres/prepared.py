"""How are transactions of PostgreSQL prepared, committed, rolled back, and known to be done?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cutwater.connectors.bases.extras import client
from cutwater.connectors.bases.sql_database import Refusal, SqlConnection, SqlTable
from cutwater.connectors.postgres.client import psycopg, table_name
from cutwater.connectors.postgres.loading import CopyingLoader, UpsertingLoader


class PostgresConnection(SqlConnection):
    loader: CopyingLoader

    def __init__(self, connection: Any, table: SqlTable) -> None:
        super().__init__(table, (UpsertingLoader if table.key else CopyingLoader)(connection, table))
        self._connection = connection

    def execute(self, statement: str, values: Sequence[Any] | None = None) -> Sequence[Sequence[Any]]:
        cursor = self._connection.execute(statement, values)
        return cursor.fetchall() if cursor.description else ()

    def quoted(self, name: str) -> str:
        text: str = table_name(name).as_string(self._connection)
        return text

    def create_epochs_table(self) -> None:
        errors = psycopg().errors
        try:
            self.execute(
                f"CREATE TABLE IF NOT EXISTS {self.quoted(self.table.epochs_table)} (writer text NOT NULL, "
                "number bigint NOT NULL, written_at timestamptz NOT NULL DEFAULT now(), PRIMARY KEY (writer, number))"
            )
        except (errors.UniqueViolation, errors.DuplicateTable):
            return  # another job made it at the same moment

    def begin_to_prepare(self, name: str) -> None:
        self.execute("BEGIN")

    def prepare(self, name: str) -> None:
        self.execute(f"PREPARE TRANSACTION {self._literal(name)}")

    def commit(self, name: str) -> bool:
        return self.end_prepared(f"COMMIT PREPARED {self._literal(name)}", what=f"commit prepared transaction {name}")

    def roll_back(self, name: str) -> bool:
        return self.end_prepared(
            f"ROLLBACK PREPARED {self._literal(name)}", what=f"rollback prepared transaction {name}"
        )

    def names_of_prepared(self) -> Sequence[str]:
        found = self.execute(
            "SELECT gid FROM pg_prepared_xacts WHERE database = current_database() AND gid LIKE 'cutwater-%'"
        )
        return [row[0] for row in found]

    def refusal(self, error: Exception) -> Refusal | None:
        errors = psycopg().errors
        if isinstance(error, errors.UndefinedTable):
            return Refusal.NO_SUCH_TABLE
        if isinstance(error, errors.UniqueViolation):
            return Refusal.TAKEN
        if isinstance(error, errors.UndefinedObject | errors.ObjectNotInPrerequisiteState):  # the latter: it is busy
            return Refusal.NOT_PREPARED
        return None

    def close(self) -> None:
        self._connection.close()
        self.loader.abandon()

    def _literal(self, text: str) -> str:
        literal: str = client("psycopg.sql", extra="postgres").Literal(text).as_string(self._connection)
        return literal
