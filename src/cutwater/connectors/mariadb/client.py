"""How do we reach MariaDB, and what do its errors mean?

Whether a server that is gone may come back decides: `PeerError` is retried, everything else fails the attempt at once.
Messages name host and database, never the password.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any
from urllib.parse import unquote, urlsplit
from uuid import UUID

from cutwater.connectors.bases.extras import client
from cutwater.connectors.failures import PeerError
from cutwater.errors import ConfigurationError, CutwaterError, OperationsError, SchemaError

CONNECT_TIMEOUT_SECONDS = 10
#: Access denied for user, to database; no such database.
_REFUSED = frozenset({1044, 1045, 1049, 1698})
#: Too many connections, deadlock, lock wait timeout, shutdown, killed, and what the client finds out by itself.
_MAY_HELP_TO_RETRY = frozenset({0, 1040, 1053, 1205, 1213, 1226, 1317, 1927, 2002, 2003, 2006, 2013, 2055})
_HINT = 'e.g. "mysql://user:password@host:3306/database"'


def pymysql() -> Any:
    return client("pymysql", extra="mariadb")


def settings_of(url: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """What the client is given; refuses what is no address of a database."""
    try:
        parts = urlsplit(url)
        port = parts.port or 3306
    except (ValueError, AttributeError, TypeError):
        raise ConfigurationError("url is no address of a database", hint=_HINT) from None
    if parts.scheme not in ("mysql", "mariadb") or not parts.hostname or len(parts.path) < 2:
        raise ConfigurationError("url is no address of a database", hint=_HINT)
    settings = {"host": parts.hostname, "port": port, "database": unquote(parts.path[1:])}
    if parts.username:
        settings["user"] = unquote(parts.username)
    if parts.password:
        settings["password"] = unquote(parts.password)
    return {**settings, "connect_timeout": CONNECT_TIMEOUT_SECONDS, **options}


def title_of(settings: Mapping[str, Any]) -> str:
    """Host and database, for people."""
    return f"{settings['host']}:{settings['port']}/{settings['database']}"


def connect(settings: Mapping[str, Any]) -> Any:
    """A connection in autocommit: transactions are begun by name. Moments are in UTC."""
    module = pymysql()
    try:
        connection = module.connect(
            **settings,
            autocommit=True,
            charset="utf8mb4",
            conv={**client("pymysql.converters", extra="mariadb").conversions, **_encoders()},
            init_command="SET SESSION time_zone = '+00:00'",
        )
        # Without locks on gaps: transactions of other writers, prepared ones as well, don't make each other wait.
        execute(connection, "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")
    except module.Error as error:
        number, detail, title = _number_of(error), _message_of(error), title_of(settings)
        if number in _REFUSED:
            fact = f"MariaDB at {title} refused the connection"
            raise ConfigurationError(fact, detail=detail, hint="check user, password and database") from None
        fact = f"MariaDB at {title} can't be reached"
        raise PeerError(fact, detail=detail, hint="check host and port, and whether the server runs") from None
    return connection


@contextmanager
def clear_errors(what: str, title: str) -> Iterator[None]:
    """`what` MariaDB should have done, e.g. `write to table "orders"`."""
    module = pymysql()
    try:
        yield
    except module.Error as error:
        raise _translated(error, what, title) from error


def _translated(error: Any, what: str, title: str) -> CutwaterError:
    module = pymysql()
    number, detail = _number_of(error), _message_of(error)
    fact = f"MariaDB at {title} can't {what}"
    if number in _MAY_HELP_TO_RETRY:
        return PeerError(fact, detail=detail)
    if isinstance(error, module.IntegrityError):
        return SchemaError(fact, detail=detail, hint='delivery="upsert" replaces the row with the same key')
    if isinstance(error, module.ProgrammingError | module.DataError):
        return SchemaError(
            fact, detail=detail, hint="names and types of the records must be those of the table's columns"
        )
    return OperationsError(fact, detail=detail)


def execute(connection: Any, statement: str, values: Sequence[Any] | None = None) -> Sequence[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(statement, values)
        rows: Sequence[tuple[Any, ...]] = cursor.fetchall()
        return rows


def quoted(name: str) -> str:
    """`orders` or `shop.orders`; for statements that take values with %, too."""
    return ".".join("`" + part.replace("`", "``").replace("%", "%%") + "`" for part in name.split("."))


def _number_of(error: Any) -> int:
    return error.args[0] if error.args and isinstance(error.args[0], int) else 0


def _message_of(error: Any) -> str:
    return " ".join(str(error.args[-1]).split()) if error.args else type(error).__name__


def _encoders() -> dict[type, Callable[[Any, Any], str]]:
    """What the client gets wrong: moments lose their time zone, dicts and lists are no JSON."""
    converters = client("pymysql.converters", extra="mariadb")

    def escape_moment(value: datetime, mapping: Any = None) -> str:
        moment: str = converters.escape_datetime(value if value.tzinfo is None else value.astimezone(UTC))
        return moment

    def escape_json(value: Any, mapping: Any = None) -> str:
        text: str = converters.escape_str(json.dumps(value, ensure_ascii=False))
        return text

    def escape_uuid(value: UUID, mapping: Any = None) -> str:
        return f"'{value}'"

    return {datetime: escape_moment, dict: escape_json, list: escape_json, UUID: escape_uuid}
