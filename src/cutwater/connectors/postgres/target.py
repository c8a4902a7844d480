"""Is there a table in PostgreSQL that can take what the sink is going to write, and how is it reached?"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field

from cutwater.connectors.bases.sql_database import SqlConnection, SqlServer, SqlTable, no_unique_index
from cutwater.connectors.postgres.client import MORE_PREPARED, clear_errors, connect
from cutwater.connectors.postgres.prepared import PostgresConnection
from cutwater.errors import ConfigurationError


@dataclass(frozen=True, slots=True)
class PostgresServer(SqlServer):
    #: May hold a password: never shown.
    dsn: str = field(repr=False)
    title: str

    kind = "postgres"
    product = "PostgreSQL"
    no_table_hint = "create it first; a table outside the search path is named with its schema"

    def connect(self, table: SqlTable) -> SqlConnection:
        return PostgresConnection(connect(self.dsn, self.title), table)

    def clear_errors(self, what: str) -> AbstractContextManager[None]:
        return clear_errors(what, self.title)

    def columns(self, connection: SqlConnection, table: SqlTable) -> Sequence[str] | None:
        ((there,),) = connection.execute("SELECT to_regclass(%s)::oid", (connection.quoted(table.name),))
        if there is None:
            return None
        ((may_write,),) = connection.execute("SELECT has_table_privilege(%s::oid, 'INSERT')", (there,))
        if not may_write:
            raise ConfigurationError(f"the user may not write to {table}", hint=f"GRANT INSERT ON {table.name} TO …")
        found = connection.execute(
            "SELECT attname FROM pg_attribute WHERE attrelid = %s AND attnum > 0 AND NOT attisdropped ORDER BY attnum",
            (there,),
        )
        return [name for (name,) in found]

    def check_key(self, connection: SqlConnection, table: SqlTable) -> None:
        found = connection.execute(
            "SELECT array_agg(a.attname::text) FROM pg_index i JOIN pg_attribute a "
            "ON a.attrelid = i.indrelid AND a.attnum = ANY (i.indkey) "
            "WHERE i.indrelid = to_regclass(%s) AND i.indisunique AND i.indpred IS NULL GROUP BY i.indexrelid",
            (connection.quoted(table.name),),
        )
        if set(table.key) not in [set(columns) for (columns,) in found]:
            unique = ", ".join(str(sorted(columns)) for (columns,) in found)
            raise no_unique_index(table, unique=unique, statement="CREATE UNIQUE INDEX ON")

    def check_prepares(self, connection: SqlConnection, table: SqlTable) -> None:
        ((prepared_max,),) = connection.execute("SHOW max_prepared_transactions")
        if int(prepared_max) == 0:
            raise ConfigurationError(
                f"{self} can't prepare transactions",
                detail="max_prepared_transactions is 0, which is its default",
                hint=f'{MORE_PREPARED}; or use delivery="upsert"',
            )
