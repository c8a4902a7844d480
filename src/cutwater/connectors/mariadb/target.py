"""Is there a table that can take what the sink is going to write?"""

from __future__ import annotations

from typing import Any

from cutwater.connectors.mariadb.client import Target, connect, execute
from cutwater.connectors.mariadb.prepared import create_epochs_table
from cutwater.errors import ConfigurationError


def check_target(target: Target, *, prepares: bool) -> None:
    connection = connect(target)
    try:
        with target.clear_errors("be checked"):
            engine = _check_columns(connection, target)
            if target.key:
                _check_key(connection, target)
            if prepares:
                _check_prepares(connection, target, engine)
                create_epochs_table(connection, target.epochs_table)
    finally:
        connection.close()


def _where(target: Target) -> tuple[str, tuple[str, ...]]:
    schema, _, table = target.table.rpartition(".")
    return "table_schema = %s AND table_name = %s", (schema or target.settings["database"], table)


def _check_columns(connection: Any, target: Target) -> str:
    where, values = _where(target)
    tables = execute(connection, f"SELECT engine FROM information_schema.tables WHERE {where}", values)
    if not tables:
        raise ConfigurationError(
            f'MariaDB at {target.title} has no table "{target.table}"',
            hint="create it first; a table of another database is named with it",
        )
    found = execute(
        connection,
        f"SELECT column_name FROM information_schema.columns WHERE {where} ORDER BY ordinal_position",
        values,
    )
    names = [row[0] for row in found]
    missing = [name for name in (*(target.columns or ()), *target.key) if name not in names]
    if missing:
        raise ConfigurationError(
            f'table "{target.table}" of MariaDB at {target.title} has no column {missing[0]!r}',
            detail=f"its columns are {', '.join(names)}",
        )
    return str(tables[0][0])


def _check_key(connection: Any, target: Target) -> None:
    where, values = _where(target)
    found = execute(
        connection,
        f"SELECT GROUP_CONCAT(column_name) FROM information_schema.statistics WHERE {where} AND non_unique = 0 "
        "GROUP BY index_name",
        values,
    )
    if set(target.key) not in [set(row[0].split(",")) for row in found]:
        raise ConfigurationError(
            f'table "{target.table}" of MariaDB at {target.title} has no unique index on the key '
            f"({', '.join(target.key)})",
            detail=f"unique: {'; '.join(row[0] for row in found) or 'nothing'}",
            hint=f"CREATE UNIQUE INDEX … ON {target.table} ({', '.join(target.key)})",
        )


def _check_prepares(connection: Any, target: Target, engine: str) -> None:
    if engine != "InnoDB":
        raise ConfigurationError(
            f'table "{target.table}" of MariaDB at {target.title} has no transactions',
            detail=f"its engine is {engine}",
            hint=f"ALTER TABLE {target.table} ENGINE=InnoDB",
        )
    version = str(execute(connection, "SELECT VERSION()")[0][0])
    number = tuple(int(part) for part in version.split("-")[0].split(".")[:2])
    if "MariaDB" in version and number < (10, 5):
        raise ConfigurationError(
            f"MariaDB at {target.title} is too old for exactly once",
            detail=f"version {version} rolls a prepared transaction back when its connection ends",
            hint='use 10.5 or newer, or delivery="upsert"',
        )
