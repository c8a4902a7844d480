"""How do records get into a Cassandra table exactly once, in effect?

An insert replaces the row of the same primary key, so that a record that is written again does no harm. Inserts are
under way side by side; each has the timestamp of the moment when it was given to the driver, and Cassandra keeps the
newest: so the last record of a key wins, whatever arrives first.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any

from cutwater.batches import Batch, without_time_column
from cutwater.connectors.bases.records import columns_of, tuples_of
from cutwater.connectors.bases.sending import Sender, SendingWriter
from cutwater.connectors.cassandra.cluster import Table
from cutwater.connectors.contract import Delivery, Sink, SinkWriter, WriterContext
from cutwater.connectors.settings import check_address, check_name, check_positive
from cutwater.errors import ConfigurationError

PORT = 9042
CONCURRENCY = 256


def cassandra(
    hosts: str | Sequence[str],
    keyspace: str,
    table: str,
    *,
    columns: Sequence[str] | None = None,
    port: int = PORT,
    user: str | None = None,
    password: str | None = None,
    concurrency: int = CONCURRENCY,
    options: Mapping[str, Any] | None = None,
) -> CassandraSink:
    """Writes each record as a row: dicts, named tuples, dataclasses, or rows of a typed stream.

    Idempotent, so exactly once in effect: a row replaces the one with the same primary key, and a checkpoint completes
    when Cassandra has acknowledged what came before it. If several records of a job have the same key, the last one
    wins, provided that the clocks of the machines agree. None is written as null. Tables with counters are refused.

    `columns`: which to write, the primary key among them; left out, those of the first record.
    `concurrency`: how many inserts of one task are under way at the same time.
    `user`, `password`: for password authentication. `options`: of the driver's `Cluster`, such as `ssl_options`,
    `protocol_version` or `execution_profiles` (the consistency level; LOCAL_ONE by default).
    """
    named = (hosts,) if isinstance(hosts, str) else tuple(hosts)
    if not named:
        raise ConfigurationError("hosts must name a host at least")
    for host in named:
        check_address(host, port)
    check_name("keyspace", keyspace)
    check_name("table", table)
    check_positive("concurrency", concurrency)
    where = Table(named, port, keyspace, table, user, password, dict(options or {}))
    return CassandraSink(where, None if columns is None else tuple(columns), concurrency)


class CassandraSink(Sink):
    delivery = Delivery.IDEMPOTENT

    def __init__(self, table: Table, columns: tuple[str, ...] | None, concurrency: int) -> None:
        self._table = table
        self._columns = columns
        self._concurrency = concurrency

    @property
    def name(self) -> str:
        return f"cassandra({self._table})"

    def check(self, *, restores: bool = False) -> None:
        self._table.check(self._columns)

    def writer(self, context: WriterContext) -> SinkWriter:
        return SendingWriter(self, CassandraSender(self._table, self._columns, self._concurrency), context)


class CassandraSender(Sender):
    """Inserts are under way until `settle`; the driver's own thread hears how they end."""

    def __init__(self, table: Table, columns: tuple[str, ...] | None, concurrency: int) -> None:
        self._table = table
        self._columns = columns
        self._concurrency = concurrency
        self._cluster: Any = None
        self._session: Any = None
        self._statements: dict[tuple[str, ...], Any] = {}
        self._under_way = UnderWay(concurrency)

    def connect(self) -> None:
        # Of the connection before, inserts may still end.
        self._under_way = UnderWay(self._concurrency)
        self._statements.clear()
        self._cluster, self._session = self._table.open()

    def send(self, batch: Batch) -> None:
        batch = batch if not hasattr(batch, "schema") else without_time_column(batch)
        columns = self._columns or columns_of(batch)
        under_way = self._under_way
        with self._table.telling():
            statement = self._statement(columns)
            execute = self._session.execute_async
            for row in tuples_of(batch, columns):
                under_way.begin()
                try:
                    future = execute(statement, row)
                except BaseException:
                    under_way.ended()
                    raise
                future.add_callbacks(under_way.ended, under_way.failed)

    def settle(self) -> None:
        with self._table.telling():
            self._under_way.wait()

    def close(self) -> None:
        if self._cluster is not None:
            self._cluster.shutdown()
            self._cluster = self._session = None

    def _statement(self, columns: tuple[str, ...]) -> Any:
        if columns not in self._statements:
            names = ", ".join(map(_quoted, columns))
            marks = ", ".join("?" * len(columns))
            text = f"INSERT INTO {_quoted(self._table.name)} ({names}) VALUES ({marks})"
            statement = self._session.prepare(text)
            statement.is_idempotent = True
            self._statements[columns] = statement
        return self._statements[columns]


class UnderWay:
    """Counts what has begun and not ended; at most so many."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._count = 0
        self._failure: Exception | None = None
        self._changed = threading.Condition()

    def begin(self) -> None:
        """Waits for room; raises what failed before."""
        with self._changed:
            self._changed.wait_for(lambda: self._count < self._most or self._failure is not None)
            self._raise_failure()
            self._count += 1

    def ended(self, _: Any = None) -> None:
        with self._changed:
            self._count -= 1
            self._changed.notify()

    def failed(self, error: Exception) -> None:
        with self._changed:
            self._count -= 1
            self._failure = self._failure or error
            self._changed.notify()

    def wait(self) -> None:
        """Until nothing is under way; raises what failed."""
        with self._changed:
            self._changed.wait_for(lambda: self._count == 0 or self._failure is not None)
            self._raise_failure()

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise self._failure


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
