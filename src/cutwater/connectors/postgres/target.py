"""Is there a table that can take what the sink is going to write?"""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

from cutwater.connectors.postgres.client import MORE_PREPARED, clear_errors, connect, table_name
from cutwater.connectors.postgres.prepared import create_epochs_table
from cutwater.errors import ConfigurationError


@dataclass(frozen=True, slots=True)
class Target:
    """A table, and how to reach it."""

    #: May hold a password: never shown.
    dsn: str = field(repr=False)
    title: str
    table: str
    key: tuple[str, ...]
    columns: tuple[str, ...] | None
    epochs_table: str

    @property
    def name(self) -> str:
        return f"postgres({self.title}/{self.table})"

    def clear_errors(self) -> AbstractContextManager[None]:
        return clear_errors(f'write to table "{self.table}"', self.title)


def check_target(target: Target, *, prepares: bool) -> None:
    connection = connect(target.dsn, target.title)
    try:
        with clear_errors("be checked", target.title):
            _check_columns(connection, target)
            if target.key:
                _check_key(connection, target)
            if prepares:
                _check_prepares(connection, target)
                create_epochs_table(connection, target.epochs_table)
    finally:
        connection.close()


def _check_columns(connection: Any, target: Target) -> None:
    quoted = table_name(target.table).as_string(connection)
    there = connection.execute("SELECT to_regclass(%s)::oid", (quoted,)).fetchone()[0]
    if there is None:
        raise ConfigurationError(
            f'PostgreSQL at {target.title} has no table "{target.table}"',
            hint="create it first; a table outside the search path is named with its schema",
        )
    if not connection.execute("SELECT has_table_privilege(%s::oid, 'INSERT')", (there,)).fetchone()[0]:
        raise ConfigurationError(
            f'the user may not write to table "{target.table}" of PostgreSQL at {target.title}',
            hint=f"GRANT INSERT ON {target.table} TO …",
        )
    found = connection.execute(
        "SELECT attname FROM pg_attribute WHERE attrelid = %s AND attnum > 0 AND NOT attisdropped ORDER BY attnum",
        (there,),
    )
    names = [row[0] for row in found]
    missing = [name for name in (*(target.columns or ()), *target.key) if name not in names]
    if missing:
        raise ConfigurationError(
            f'table "{target.table}" of PostgreSQL at {target.title} has no column {missing[0]!r}',
            detail=f"its columns are {', '.join(names)}",
        )


def _check_key(connection: Any, target: Target) -> None:
    quoted = table_name(target.table).as_string(connection)
    found = connection.execute(
        "SELECT array_agg(a.attname::text) FROM pg_index i JOIN pg_attribute a "
        "ON a.attrelid = i.indrelid AND a.attnum = ANY (i.indkey) "
        "WHERE i.indrelid = to_regclass(%s) AND i.indisunique AND i.indpred IS NULL GROUP BY i.indexrelid",
        (quoted,),
    ).fetchall()
    if set(target.key) not in [set(row[0]) for row in found]:
        raise ConfigurationError(
            f'table "{target.table}" of PostgreSQL at {target.title} has no unique index on the key '
            f"({', '.join(target.key)})",
            detail=f"unique: {', '.join(str(sorted(row[0])) for row in found) or 'nothing'}",
            hint=f"CREATE UNIQUE INDEX ON {target.table} ({', '.join(target.key)})",
        )


def _check_prepares(connection: Any, target: Target) -> None:
    if int(connection.execute("SHOW max_prepared_transactions").fetchone()[0]) == 0:
        raise ConfigurationError(
            f"PostgreSQL at {target.title} can't prepare transactions",
            detail="max_prepared_transactions is 0, which is its default",
            hint=f'{MORE_PREPARED}; or use delivery="upsert"',
        )
