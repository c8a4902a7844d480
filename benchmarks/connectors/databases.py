"""PostgreSQL, MariaDB and Cassandra beside psycopg, PyMySQL and cassandra-driver."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, ClassVar
from urllib.parse import urlsplit

import cutwater as cw
from benchmarks.connectors.cases import EPOCH_SECONDS, Case, SinkCase, SourceCase
from benchmarks.connectors.files import record
from benchmarks.connectors.ratios import Run, Stopwatch
from cutwater.connectors.contract import Sink, Source

COLUMNS = ("id", "key", "value", "text")
TABLE = "(id bigint, key text, value bigint, text text)"
ROWS_PER_CALL = 10_000
KEYSPACE = "bench"
CONCURRENCY = 256


def postgres_cases(url: str) -> list[Case]:
    return [PostgresSource(url), PostgresSink(url), PostgresPlainSink(url)]


def mariadb_cases(url: str) -> list[Case]:
    return [MariaDBSink(url)]


def cassandra_cases(port: int) -> list[Case]:
    return [CassandraSink(port)]


class PostgresSource(SourceCase):
    name = "PostgreSQL, rows"
    bare_does = "psycopg, a server-side cursor, fetchmany(10,000), dict rows"
    rows_share = 0.2

    def __init__(self, url: str) -> None:
        self.url = url

    @property
    def _table(self) -> str:
        return f"numbers_{self.rows}"

    def fill(self) -> None:
        with _postgres(self.url) as connection:
            if connection.execute("select to_regclass(%s)", (self._table,)).fetchone()[0] is not None:
                return
            connection.execute(f"create table {self._table} {TABLE}")
            with connection.cursor().copy(f"copy {self._table} from stdin") as copy:
                for index in range(self.rows):
                    copy.write_row(tuple(record(index).values()))
            connection.execute(f"create unique index on {self._table} (id)")
            connection.execute(f"analyze {self._table}")

    def source(self) -> Source:
        return cw.sources.postgres(self.url, self._table, order_by="id", bounded=True)

    def bare(self) -> Run:
        from psycopg.rows import dict_row

        watch = Stopwatch(self.rows)
        with _postgres(self.url) as connection, connection.cursor("all", row_factory=dict_row) as cursor:
            cursor.execute(f"select * from {self._table} order by id")
            while rows := cursor.fetchmany(ROWS_PER_CALL):
                if watch.saw(len(rows)):
                    break
        return watch.end()


class PostgresSink(SinkCase):
    name = "PostgreSQL, exactly once"
    bare_does = "psycopg, COPY, a transaction every second"
    rows_share = 0.2
    record = staticmethod(record)
    delivery: ClassVar[str] = "exactly_once"

    def __init__(self, url: str) -> None:
        self.url = url

    def clear(self) -> None:
        with _postgres(self.url) as connection:
            connection.execute(f"drop table if exists received; create table received {TABLE}")

    def sink(self) -> Sink:
        return cw.sinks.postgres(self.url, "received", delivery=self.delivery)  # type: ignore[arg-type]

    def bare(self) -> Run:
        watch = Stopwatch(self.rows)
        with _postgres(self.url) as connection:
            watch.begin()
            for epoch in _Epochs(self.rows):
                with connection.cursor().copy("copy received from stdin") as copy:
                    for index in epoch:
                        copy.write_row(tuple(self.record(index).values()))
                connection.commit()
            return watch.end()

    def received(self) -> int | None:
        with _postgres(self.url) as connection:
            count: int = connection.execute("select count(*) from received").fetchone()[0]
            return count


class PostgresPlainSink(PostgresSink):
    name = "PostgreSQL, at least once"
    delivery = "at_least_once"


class MariaDBSink(SinkCase):
    name = "MariaDB, exactly once"
    bare_does = "PyMySQL, executemany(10,000), a transaction every second"
    rows_share = 0.1
    record = staticmethod(record)

    def __init__(self, url: str) -> None:
        self.url = url

    def clear(self) -> None:
        with self._connected() as connection, connection.cursor() as cursor:
            cursor.execute("drop table if exists received")
            cursor.execute("create table received (id bigint, `key` text, value bigint, text text) engine=innodb")

    def sink(self) -> Sink:
        return cw.sinks.mariadb(self.url, "received")

    def bare(self) -> Run:
        watch = Stopwatch(self.rows)
        insert = "insert into received (id, `key`, value, text) values (%s, %s, %s, %s)"
        with self._connected() as connection, connection.cursor() as cursor:
            watch.begin()
            for epoch in _Epochs(self.rows):
                rows: list[Any] = []
                for index in epoch:
                    rows.append(tuple(self.record(index).values()))
                    if len(rows) == ROWS_PER_CALL:
                        cursor.executemany(insert, rows)
                        rows.clear()
                if rows:
                    cursor.executemany(insert, rows)
                connection.commit()
            return watch.end()

    def received(self) -> int | None:
        with self._connected() as connection, connection.cursor() as cursor:
            cursor.execute("select count(*) from received")
            count: int = cursor.fetchone()[0]
            return count

    def _connected(self) -> Any:
        import pymysql

        url = urlsplit(self.url)
        return pymysql.connect(
            host=url.hostname,
            port=url.port or 3306,
            user=url.username,
            password=url.password or "",
            database=url.path.strip("/"),
        )


class CassandraSink(SinkCase):
    name = "Cassandra, upserts"
    bare_does = "cassandra-driver, execute_concurrent_with_args(256)"
    rows_share = 0.02
    record = staticmethod(record)

    def __init__(self, port: int) -> None:
        self.port = port

    def clear(self) -> None:
        self._ask(
            f"create keyspace if not exists {KEYSPACE} "
            "with replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
            f"create table if not exists {KEYSPACE}.received"
            " (id bigint primary key, key text, value bigint, text text)",
            f"truncate {KEYSPACE}.received",
        )

    def sink(self) -> Sink:
        return cw.sinks.cassandra("127.0.0.1", KEYSPACE, "received", port=self.port)

    def bare(self) -> Run:
        from cassandra.cluster import Cluster
        from cassandra.concurrent import execute_concurrent_with_args

        with Cluster(["127.0.0.1"], port=self.port) as cluster:
            session = cluster.connect(KEYSPACE)
            insert = session.prepare("insert into received (id, key, value, text) values (?, ?, ?, ?)")
            watch = Stopwatch(self.rows)
            watch.begin()
            for first in range(0, self.rows, ROWS_PER_CALL):
                numbers = range(first, min(first + ROWS_PER_CALL, self.rows))
                rows = [tuple(self.record(index).values()) for index in numbers]
                execute_concurrent_with_args(session, insert, rows, concurrency=CONCURRENCY)
            return watch.end()

    def _ask(self, *questions: str) -> None:
        from cassandra.cluster import Cluster

        with Cluster(["127.0.0.1"], port=self.port) as cluster:
            session = cluster.connect()
            for question in questions:
                session.execute(question, timeout=60)


class _Epochs:
    """Cuts the numbers into epochs of a second: an iterator for each."""

    def __init__(self, rows: int, now_seconds: Callable[[], float] = time.monotonic) -> None:
        self._rows = rows
        self._index = 0
        self._now_seconds = now_seconds

    def __iter__(self) -> Any:
        while self._index < self._rows:
            yield self._epoch()

    def _epoch(self) -> Any:
        due_seconds = self._now_seconds() + EPOCH_SECONDS
        while self._index < self._rows:
            index = self._index
            self._index += 1
            yield index
            if index % 1000 == 999 and self._now_seconds() >= due_seconds:
                return


def _postgres(url: str) -> Any:
    import psycopg

    return psycopg.connect(url)
