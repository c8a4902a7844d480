"""How do we reach PostgreSQL, and what do its errors mean?

Whether a server that is gone may come back decides: `PeerError` is retried, everything else fails the attempt at once.
Messages name host and database, never the password.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from cutwater.connectors.bases.extras import client
from cutwater.connectors.failures import PeerError
from cutwater.errors import ConfigurationError, CutwaterError, OperationsError, SchemaError

CONNECT_TIMEOUT_SECONDS = 10
#: What a server says that is there, but not ready; every other refusal is final.
_NOT_READY = (
    "starting up",
    "shutting down",
    "recovery",
    "too many",
    "connection slots",
    "not accepting",
    "terminating",
)


def psycopg() -> Any:
    return client("psycopg", extra="postgres")


def title_of(dsn: str) -> str:
    """Host and database, for people; refuses what is no connection string."""
    if not isinstance(dsn, str):
        raise ConfigurationError("dsn must be a string", detail=f"it is a {type(dsn).__name__}", hint=_DSN_HINT)
    try:
        settings = client("psycopg.conninfo", extra="postgres").conninfo_to_dict(dsn)
    except psycopg().Error:
        # libpq quotes what it can't read, and that may be the password.
        raise ConfigurationError("dsn is no connection string of PostgreSQL", hint=_DSN_HINT) from None
    host, port = settings.get("host") or "localhost", settings.get("port") or 5432
    return f"{host}:{port}/{settings.get('dbname') or settings.get('user') or ''}"


_DSN_HINT = 'e.g. "postgresql://user:password@host:5432/database?sslmode=require"'


def connect(dsn: str, title: str, *, options: str = "") -> Any:
    """A connection in autocommit: transactions are begun by name. `options` of the session, besides the user's."""
    module = psycopg()
    given = client("psycopg.conninfo", extra="postgres").conninfo_to_dict(dsn)
    settings = {"connect_timeout": CONNECT_TIMEOUT_SECONDS, **given}
    if options:
        settings["options"] = f"{given.get('options') or ''} {options}".strip()
    try:
        connection = module.connect(autocommit=True, **settings)
    except module.Error as error:
        raise not_connected(title, str(error).strip()) from None
    connection.adapters.register_dumper(dict, client("psycopg.types.json", extra="postgres").JsonbDumper)
    return connection


def not_connected(title: str, message: str) -> CutwaterError:
    fact = f"PostgreSQL at {title} can't be reached"
    detail = " ".join(message.split())
    if "FATAL" not in message or any(words in message for words in _NOT_READY):
        return PeerError(fact, detail=detail, hint="check host and port, and whether the server runs")
    return ConfigurationError(
        f"PostgreSQL at {title} refused the connection", detail=detail, hint="check user, password and database"
    )


@contextmanager
def clear_errors(what: str, title: str) -> Iterator[None]:
    """`what` PostgreSQL should have done, e.g. `write to table "orders"`."""
    module = psycopg()
    try:
        yield
    except module.Error as error:
        raise _translated(error, what, title) from error


def _translated(error: Any, what: str, title: str) -> CutwaterError:
    module = psycopg()
    detail = " ".join(str(error).split())
    fact = f"PostgreSQL at {title} can't {what}"
    if isinstance(error, module.errors.ConfigurationLimitExceeded):
        return OperationsError(fact, detail=detail, hint=MORE_PREPARED)
    if isinstance(error, module.OperationalError | module.InterfaceError):
        return PeerError(fact, detail=detail)
    if isinstance(error, module.IntegrityError):
        return SchemaError(fact, detail=detail, hint='delivery="upsert" replaces the row with the same key')
    if isinstance(error, module.errors.InsufficientPrivilege):
        return ConfigurationError(fact, detail=detail, hint="grant the right to the user of the dsn")
    return SchemaError(fact, detail=detail, hint="names and types of the records must be those of the table's columns")


MORE_PREPARED = (
    "set max_prepared_transactions to at least twice the parallelism of all sinks that write to this server "
    "(ALTER SYSTEM SET max_prepared_transactions = 64), and restart it"
)


def table_name(table: str) -> Any:
    """`orders` or `shop.orders`, quoted."""
    sql = client("psycopg.sql", extra="postgres")
    return sql.Identifier(*table.split("."))
