"""How are keys of Redis kept up to date?"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import attrgetter, itemgetter
from typing import Any, TypeAlias

from cutwater.batches import Batch, ObjectBatch, rows_of
from cutwater.connectors.bases.sending import Sender, SendingWriter
from cutwater.connectors.contract import Delivery, Sink, SinkWriter, WriterContext
from cutwater.connectors.failures import user_function_failed
from cutwater.connectors.redis.connection import Address
from cutwater.connectors.redis.entries import fields_of
from cutwater.connectors.settings import check_choice
from cutwater.errors import ConfigurationError, SerializationError

Part: TypeAlias = "str | Callable[[Any], Any]"
"""Of a record: a column (or an item of a dict) by its name, or what a function makes of it."""

#: Commands that go out together.
PIPELINE_MAX = 5_000


def redis(
    url: str,
    *,
    key: Part,
    value: Part | None = None,
    prefix: str = "",
    delivery: str = "upsert",
    options: Mapping[str, Any] | None = None,
) -> RedisSink:
    """Sets a key of Redis for each record. Needs the extra `redis`.

    Exactly once in effect: a record that is written again replaces itself. It does if the same input gives the same key
    and value; after a failure a key may show an older value for a moment, until the newer one is written again. What
    Redis has acknowledged is as durable as it is set up to be: with `appendfsync everysec`, its default, a server that
    crashes loses the last second; `always` loses nothing.

    url: `redis://user:password@host:6379/0`, `rediss://…` for TLS, or `unix://…`.
    key: the name of a column (or of an item of a dict), or a function of the record.
    value: the same; None: the record itself. A dict or a row becomes a hash (HSET; fields that aren't named stay),
        text, bytes and numbers a plain value (SET); None deletes the key.
    prefix: stands before every key, e.g. "users:".
    delivery: "upsert" is the only one.
    options: of `redis.Redis`, e.g. `{"ssl_ca_certs": "ca.pem", "password": "…"}`.
    """
    check_choice("delivery", delivery, ("upsert",))
    for option, part in (("key", key), ("value", value)):
        if not ((isinstance(part, str) and part) or callable(part) or (part is None and option == "value")):
            raise ConfigurationError(
                f"{option} must be the name of a column, or a function of the record", detail=f"it is {part!r}"
            )
    return RedisSink(Address(url, dict(options or {})), key, value, prefix)


class RedisSink(Sink):
    delivery = Delivery.IDEMPOTENT

    def __init__(self, address: Address, key: Part, value: Part | None, prefix: str) -> None:
        self._address = address
        self._key = key
        self._value = value
        self._prefix = prefix

    @property
    def name(self) -> str:
        return f"redis({self._prefix}…)" if self._prefix else "redis"

    def check(self, *, restores: bool = False) -> None:
        self._address.check()

    def writer(self, context: WriterContext) -> SinkWriter:
        return SendingWriter(self, KeySender(self._address, self._key, self._value, self._prefix), context)


class KeySender(Sender):
    """Sets keys, many in a round trip; all are acknowledged when it returns."""

    def __init__(self, address: Address, key: Part, value: Part | None, prefix: str) -> None:
        self._address = address
        self._key = key
        self._value = value
        self._prefix = prefix.encode()
        self._connection: Any = None

    def connect(self) -> None:
        self._connection = self._address.connect()

    def send(self, batch: Batch) -> None:
        commands = self._commands(batch)
        for begin in range(0, len(commands), PIPELINE_MAX):
            with self._address.telling():
                together = self._connection.pipeline(transaction=False)
                for command in commands[begin : begin + PIPELINE_MAX]:
                    together.execute_command(*command)
                together.execute()

    def _commands(self, batch: Batch) -> list[tuple[Any, ...]]:
        rows = rows_of(batch)
        is_typed = not isinstance(batch, ObjectBatch)
        keys = _parts("key=", self._key, rows, is_typed=is_typed)
        values = rows if self._value is None else _parts("value=", self._value, rows, is_typed=is_typed)
        return [_command(self._prefix + _key_bytes(key), value) for key, value in zip(keys, values, strict=True)]

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _parts(option: str, part: Part, rows: list[Any], *, is_typed: bool) -> list[Any]:
    take: Callable[[Any], Any] = part if callable(part) else attrgetter(part) if is_typed else itemgetter(part)
    try:
        return list(map(take, rows))
    except Exception as error:
        raise user_function_failed(option, error, given=repr(_first_bad(take, rows))) from error


def _first_bad(take: Callable[[Any], Any], rows: list[Any]) -> Any:
    for row in rows:
        try:
            take(row)
        except Exception:
            return row
    return rows


def _key_bytes(key: Any) -> bytes:
    if isinstance(key, bytes):
        return key
    if isinstance(key, str | int):
        return str(key).encode()
    raise SerializationError("a key of Redis is text, bytes or a whole number", detail=f"it is {key!r}")


def _command(key: bytes, value: Any) -> tuple[Any, ...]:
    if value is None:
        return "DEL", key
    fields = fields_of(value)
    return ("HSET", key, *fields) if isinstance(value, dict | tuple) else ("SET", key, fields[1])
