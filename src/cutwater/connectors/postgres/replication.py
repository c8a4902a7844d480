"""How do we talk to PostgreSQL as a replica does?

psycopg has no replication protocol, but the libpq functions below it are all that is needed: COPY in both directions.
https://www.postgresql.org/docs/current/protocol-replication.html
"""

from __future__ import annotations

import select
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from cutwater.connectors.bases.extras import client
from cutwater.connectors.failures import PeerError
from cutwater.connectors.postgres.client import CONNECT_TIMEOUT_SECONDS, not_connected, psycopg
from cutwater.errors import StorageError

_WAL_DATA = struct.Struct(">cQQq")
_KEEPALIVE = struct.Struct(">cQqB")
_STATUS = struct.Struct(">cQQQqB")
_POSTGRES_EPOCH_SECONDS = 946_684_800
#: Values as our loaders expect them; and the server doesn't miss a client that has no room for more.
_SESSION = "-c datestyle=ISO -c timezone=UTC -c intervalstyle=postgres -c wal_sender_timeout=0"


@dataclass(frozen=True, slots=True)
class Keepalive:
    """Everything that was committed before this position has been sent."""

    lsn: int


class ReplicationConnection:
    """Used by one thread. `PeerError` when the server is gone."""

    def __init__(self, dsn: str, title: str) -> None:
        self._title = title
        info = client("psycopg.conninfo", extra="postgres")
        pq = client("psycopg.pq", extra="postgres")
        self._statuses = pq.ExecStatus
        given = info.conninfo_to_dict(dsn)
        settings = {"connect_timeout": CONNECT_TIMEOUT_SECONDS, "client_encoding": "utf8", **given}
        settings |= {"replication": "database", "options": f"{given.get('options') or ''} {_SESSION}".strip()}
        self._connection = pq.PGconn.connect(info.make_conninfo("", **settings).encode())
        if self._connection.status != pq.ConnStatus.OK:
            message = self._connection.get_error_message()
            self.close()
            raise not_connected(title, message.strip())

    def kept_from(self, slot: str) -> int:
        """Changes of transactions that were committed before this position are gone for good."""
        with self._clear_errors("read its replication slots"):
            result = self._connection.exec_(
                f"SELECT confirmed_flush_lsn FROM pg_replication_slots WHERE slot_name = '{slot}'".encode()
            )
            if result.status != self._statuses.TUPLES_OK:
                raise psycopg().OperationalError(result.get_error_message())
        if result.ntuples == 0:
            raise StorageError(
                f'PostgreSQL at {self._title} has no replication slot "{slot}"',
                detail="it was there when the job started; someone dropped it, and the changes since then are lost",
                hint="start the job anew, from a copy of the tables",
            )
        return lsn_of(result.get_value(0, 0).decode())

    def start(self, slot: str, publication: str, lsn: int) -> None:
        options = f"proto_version '1', publication_names '{publication}'"
        statement = f'START_REPLICATION SLOT "{slot}" LOGICAL {text_of(lsn)} ({options})'
        with self._clear_errors(f'replicate from slot "{slot}"'):
            result = self._connection.exec_(statement.encode())
            if result.status != self._statuses.COPY_BOTH:
                raise psycopg().OperationalError(result.get_error_message())

    def receive(self, wait_seconds: float) -> memoryview | Keepalive | None:
        """The next message of the output plugin; None: nothing came."""
        with self._clear_errors("send changes"):
            length, data = self._connection.get_copy_data(1)
            if length == 0 and wait_seconds > 0:
                select.select([self._connection.socket], [], [], wait_seconds)
                self._connection.consume_input()
                length, data = self._connection.get_copy_data(1)
            if length == 0:
                return None
            if length < 0:
                result = self._connection.get_result()
                reason = "it ended the replication" if result is None else result.get_error_message()
                raise psycopg().OperationalError(reason or "it ended the replication")
        view = memoryview(data)
        if bytes(view[:1]) == b"w":
            return view[_WAL_DATA.size :]
        return Keepalive(_KEEPALIVE.unpack_from(view)[1])

    def confirm(self, lsn: int, *, asks_back: bool = False) -> None:
        """The server need not keep what was committed before. `asks_back`: it says how far it is."""
        now_us = int((time.time() - _POSTGRES_EPOCH_SECONDS) * 1_000_000)
        with self._clear_errors("take a confirmation"):
            self._connection.put_copy_data(_STATUS.pack(b"r", lsn, lsn, lsn, now_us, asks_back))
            self._connection.flush()

    def close(self) -> None:
        self._connection.finish()

    @contextmanager
    def _clear_errors(self, what: str) -> Iterator[None]:
        try:
            yield
        except (psycopg().Error, OSError, ValueError) as error:  # ValueError: of a socket that is closed
            detail = " ".join(str(error).split())
            raise PeerError(f"PostgreSQL at {self._title} can't {what}", detail=detail) from error


#: In a SELECT: all that is committed now was committed before `end_of_log` of these columns.
END_OF_LOG = """pg_current_wal_insert_lsn()::text, current_setting('wal_block_size')::int,
(SELECT setting::int FROM pg_settings WHERE name = 'wal_segment_size')"""
_PAGE_HEADER_BYTES = 24
_SEGMENT_HEADER_BYTES = 40


def end_of_log(insert_lsn: str, page_bytes: int, segment_bytes: int) -> int:
    """Where the next record will begin is behind the header of its page; what has been sent ends in front of it."""
    lsn = lsn_of(insert_lsn)
    if lsn % segment_bytes == _SEGMENT_HEADER_BYTES:
        return lsn - _SEGMENT_HEADER_BYTES
    return lsn - _PAGE_HEADER_BYTES if lsn % page_bytes == _PAGE_HEADER_BYTES else lsn


def lsn_of(text: str) -> int:
    high, _, low = text.partition("/")
    return int(high, 16) << 32 | int(low, 16)


def text_of(lsn: int) -> str:
    return f"{lsn >> 32:X}/{lsn & 0xFFFFFFFF:X}"


def loader_of(oid: int) -> Any:
    """What psycopg makes of a value of this type."""
    module = psycopg()
    loader = module.adapters.get_loader(oid, client("psycopg.pq", extra="postgres").Format.TEXT)
    return loader(oid).load if loader is not None else bytes.decode
