"""Is there a table in MariaDB that can take what the sink is going to write, and how is it reached?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

from cutwater.connectors.bases.sql_database import SqlConnection, SqlServer, SqlTable, no_unique_index
from cutwater.connectors.mariadb.client import clear_errors, connect
from cutwater.connectors.mariadb.prepared import MariaConnection
from cutwater.errors import ConfigurationError


@dataclass(frozen=True, slots=True)
class MariaServer(SqlServer):
    #: May hold passwords: never shown.
    settings: Mapping[str, Any] = field(repr=False)
    title: str

    kind = "mariadb"
    product = "MariaDB"
    no_table_hint = "create it first; a table of another database is named with it"

    def connect(self, table: SqlTable) -> SqlConnection:
        return MariaConnection(connect(self.settings), table)

    def clear_errors(self, what: str) -> AbstractContextManager[None]:
        return clear_errors(what, self.title)

    def columns(self, connection: SqlConnection, table: SqlTable) -> Sequence[str] | None:
        if not self._described(connection, table, "table_name", "tables"):
            return None
        found = self._described(connection, table, "column_name", "columns", "ORDER BY ordinal_position")
        return [name for (name,) in found]

    def check_key(self, connection: SqlConnection, table: SqlTable) -> None:
        found = self._described(
            connection, table, "GROUP_CONCAT(column_name)", "statistics", "AND non_unique = 0 GROUP BY index_name"
        )
        if set(table.key) not in [set(columns.split(",")) for (columns,) in found]:
            unique = "; ".join(columns for (columns,) in found)
            raise no_unique_index(table, unique=unique, statement="CREATE UNIQUE INDEX … ON")

    def check_prepares(self, connection: SqlConnection, table: SqlTable) -> None:
        ((engine,),) = self._described(connection, table, "engine", "tables")
        if engine != "InnoDB":
            raise ConfigurationError(
                f"{table} has no transactions",
                detail=f"its engine is {engine}",
                hint=f"ALTER TABLE {table.name} ENGINE=InnoDB",
            )
        ((version,),) = connection.execute("SELECT VERSION()")
        number = tuple(int(part) for part in version.split("-")[0].split(".")[:2])
        if "MariaDB" in version and number < (10, 5):
            raise ConfigurationError(
                f"{self} is too old for exactly once",
                detail=f"version {version} rolls a prepared transaction back when its connection ends",
                hint='use 10.5 or newer, or delivery="upsert"',
            )

    def _described(
        self, connection: SqlConnection, table: SqlTable, what: str, where: str, rest: str = ""
    ) -> Sequence[Sequence[Any]]:
        """What MariaDB says about the table."""
        schema, _, name = table.name.rpartition(".")
        return connection.execute(
            f"SELECT {what} FROM information_schema.{where} WHERE table_schema = %s AND table_name = %s {rest}",
            (schema or self.settings["database"], name),
        )
