"""Changes begin with the rows that are there: each once, whoever writes meanwhile and whatever is killed."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from typing import Any

import psycopg
import pytest
from servers.postgres import Postgres

import cutwater as cw
from cutwater.batches import rows_of
from cutwater.connectors.contract import ReaderContext, Source, SplitReader
from cutwater.connectors.postgres.log_reader import ChangeFetcher, ChangeLog
from cutwater.errors import ConfigurationError

from .rehearsals import Rehearsal

WAIT_SECONDS = 60.0


@pytest.fixture
def sql(postgres: Postgres) -> Iterator[Any]:
    """Empty tables `orders`, whose key is sorted as people do, and `items`; no slot and no publication."""
    with psycopg.connect(postgres.url, autocommit=True) as connection:
        connection.execute("DROP TABLE IF EXISTS orders, items")
        connection.execute(
            'CREATE TABLE orders (name text COLLATE "en-x-icu", id bigint, price numeric, PRIMARY KEY (name, id))'
        )
        connection.execute("CREATE TABLE items (id bigint PRIMARY KEY, name text)")
        yield connection
    with psycopg.connect(postgres.url, autocommit=True) as connection:
        connection.execute("DROP PUBLICATION IF EXISTS cutwater_test")
        connection.execute("SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE active")
        for _ in range(100):
            with suppress(psycopg.errors.ObjectInUse):
                connection.execute("SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots")
                return
            time.sleep(0.05)


def changes(postgres: Postgres, *tables: str, **options: Any) -> Source:
    source = cw.sources.postgres_changes(postgres.url, tables=tables or ("items",), slot="cutwater_test", **options)
    source.check()
    return source


@contextmanager
def reading(source: Source, position: Any = None) -> Iterator[SplitReader]:
    (split,) = source.discover(1).splits
    reader = source.reader(split, position, ReaderContext())
    reader.read(5, 0.0)  # nothing is there yet: parts have five rows
    try:
        yield reader
    finally:
        reader.close()


def read(reader: SplitReader, enough: Callable[[list[Any]], bool]) -> list[Any]:
    found: list[Any] = []
    deadline = time.monotonic() + WAIT_SECONDS
    while not enough(found) and not reader.finished:
        batch = reader.read(5, time.monotonic())
        if batch is None:
            assert time.monotonic() < deadline, f"only {len(found)} came"
            time.sleep(0.001)
        else:
            found.extend(rows_of(batch))
    return found


def fill(sql: Any, rows: int) -> None:
    sql.execute("INSERT INTO items SELECT n, n FROM generate_series(1, %s::int) n", (rows,))


class Replica:
    """Tables as the changes tell them. Refuses a row that comes twice, and changes of one that never came."""

    KEYS = {"orders": ("name", "id"), "items": ("id",)}  # noqa: RUF012

    def __init__(self, found: Iterable[Any]) -> None:
        self.rows: dict[str, dict[Any, Any]] = {table: {} for table in self.KEYS}
        for change in found:
            rows, key = self.rows[change.table], self.KEYS[change.table]
            old, new = (None if row is None else tuple(row[name] for name in key) for row in change[2:4])
            match change.op:
                case "read" | "insert":
                    assert new not in rows, f"a row is there already: {change}"
                case "update":
                    del rows[old or new]
                case "delete":
                    del rows[old]
                case "truncate":
                    rows.clear()
            if new is not None:
                rows[new] = change.after

    @classmethod
    def of(cls, sql: Any) -> dict[str, dict[Any, Any]]:
        """As they are."""
        tables: dict[str, dict[Any, Any]] = {}
        for table, key in cls.KEYS.items():
            cursor = sql.execute(f"SELECT * FROM {table}")
            names = [column.name for column in cursor.description]
            rows = [dict(zip(names, row, strict=True)) for row in cursor]
            tables[table] = {tuple(row[name] for name in key): row for row in rows}
        return tables


def test_rows_that_are_there_come_before_the_changes(postgres: Postgres, sql: Any) -> None:
    fill(sql, 12)
    source = changes(postgres)
    with reading(source) as reader:
        found = read(reader, lambda found: len(found) >= 12)
        sql.execute("UPDATE items SET name = 'new' WHERE id = 3")
        found += read(reader, bool)
    rows = [("read", {"id": n, "name": str(n)}) for n in range(1, 13)]
    assert [(change.op, change.after) for change in found] == [*rows, ("update", {"id": 3, "name": "new"})]
    places = [(change.lsn, change.number) for change in found]
    assert places == sorted(set(places))


def test_a_bounded_job_ends_behind_the_rows(postgres: Postgres, sql: Any) -> None:
    fill(sql, 12)
    with reading(changes(postgres, "orders", "items", bounded=True)) as reader:
        assert [change.after["id"] for change in read(reader, lambda _: False)] == list(range(1, 13))


def test_without_a_snapshot_only_changes_come(postgres: Postgres, sql: Any) -> None:
    fill(sql, 12)
    source = changes(postgres, snapshot=False)
    sql.execute("DELETE FROM items WHERE id = 1")
    with reading(source) as reader:
        assert [change.op for change in read(reader, bool)] == ["delete"]


@pytest.mark.parametrize("is_reopened", [False, True])
def test_a_commit_that_the_log_tells_before_it_can_be_seen_is_not_lost(
    postgres: Postgres, sql: Any, *, is_reopened: bool
) -> None:
    """A transaction that waits for a standby is in the log, and nobody can see it yet."""
    fill(sql, 12)
    changes(postgres)
    fetcher = ChangeFetcher(ChangeLog(postgres.url, "", "cutwater_test", "cutwater_test"), None, reads_tables=True)
    with closing(fetcher), waiting_for_a_standby(sql) as (insert, go_on):
        fetcher.connect(None)
        found, position = fetch(fetcher, rows=5)
        insert("INSERT INTO items VALUES (99, 'late')")
        more, position = fetch(fetcher, rows=8)
        found += more
        if is_reopened:
            fetcher.close()
            fetcher.connect(position)
            found += fetch(fetcher, rows=8 - len(more))[0]
        go_on()
        found += fetch(fetcher, rows=13 - len(found))[0]
    assert Replica(found).rows["items"] == Replica.of(sql)["items"]


def fetch(fetcher: ChangeFetcher, rows: int) -> tuple[list[Any], Any]:
    """In parts of five, until there are so many, or no more for a second; and the position behind them."""
    found: list[Any] = []
    position: Any = None
    until = time.monotonic() + 1.0
    while len(found) < rows and time.monotonic() < until:
        fetched = fetcher.fetch(5)
        if fetched is not None:
            position = fetched.position
        if fetched is not None and fetched.batch is not None:
            found += rows_of(fetched.batch)
            until = time.monotonic() + 1.0
    return found, position


@contextmanager
def waiting_for_a_standby(sql: Any) -> Iterator[tuple[Callable[[str], None], Callable[[], None]]]:
    threads: list[threading.Thread] = []

    def insert(statement: str) -> None:
        sql.execute("ALTER SYSTEM SET synchronous_standby_names = 'nobody'")
        sql.execute("SELECT pg_reload_conf()")

        def run() -> None:
            with psycopg.connect(sql.info.dsn, password=sql.info.password, autocommit=True) as connection:
                connection.execute(statement)

        threads.append(threading.Thread(target=run))
        threads[-1].start()
        waits = "SELECT 1 FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
        wait_until(lambda: sql.execute(waits).fetchone() is not None)

    def go_on() -> None:
        sql.execute("ALTER SYSTEM RESET synchronous_standby_names")
        sql.execute("SELECT pg_reload_conf()")
        for thread in threads:
            thread.join()

    try:
        yield insert, go_on
    finally:
        go_on()


def test_a_table_that_is_truncated_meanwhile_is_read_anew(postgres: Postgres, sql: Any) -> None:
    fill(sql, 100)
    source = changes(postgres)
    with reading(source) as reader:
        found = read(reader, lambda found: len(found) >= 5)
        with sql.transaction():
            sql.execute("TRUNCATE items")
            fill(sql, 20)
        sql.execute("INSERT INTO items VALUES (1000, 'last')")
        # It is read behind the truncation, in parts that may see the last row or not.
        found += read(reader, lambda more: len(Replica([*found, *more]).rows["items"]) == 21)
    assert Replica(found).rows["items"] == Replica.of(sql)["items"]


def test_columns_and_rows_are_those_of_the_publication(postgres: Postgres, sql: Any) -> None:
    fill(sql, 12)
    sql.execute("CREATE PUBLICATION cutwater_test FOR TABLE items (id) WHERE (id % 2 = 0)")
    with reading(changes(postgres, bounded=True)) as reader:
        found = read(reader, lambda _: False)
    assert [change.after for change in found] == [{"id": n} for n in range(2, 13, 2)]


def test_a_table_without_a_key_is_refused_before_the_job_starts(postgres: Postgres, sql: Any) -> None:
    sql.execute("ALTER TABLE items DROP CONSTRAINT items_pkey")
    with pytest.raises(ConfigurationError, match=r'table "items" .* can\'t be read in the order of a key'):
        changes(postgres)


class Writers:
    """Change the tables at random, several at the same time, until they are told to stop."""

    def __init__(self, url: str, draw: random.Random) -> None:
        self._url = url
        self._stopped = threading.Event()
        seeds = [draw.random() for _ in range(3)]
        self._threads = [threading.Thread(target=self._run, args=(random.Random(seed),)) for seed in seeds]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._stopped.set()
        for thread in self._threads:
            thread.join()

    def _run(self, draw: random.Random) -> None:
        while not self._stopped.is_set():
            # Those that are killed with the server, and those that meet each other, do something else.
            with suppress(psycopg.Error), psycopg.connect(self._url) as connection:
                while not self._stopped.is_set():
                    with (
                        suppress(psycopg.errors.UniqueViolation, psycopg.errors.DeadlockDetected),
                        connection.transaction(),
                    ):
                        for _ in range(draw.choice((1, 1, 2, 20))):
                            self._change(connection, draw)
                            time.sleep(draw.choice((0, 0, 0.001, 0.01)))

    def _change(self, connection: Any, draw: random.Random) -> None:
        name, number = draw.choice(("a", "B", "ä", "z", "Z", "é")) + str(draw.randrange(10)), draw.randrange(50)
        match draw.randrange(8):
            case 0 | 1:
                insert = "INSERT INTO orders VALUES (%s, %s, 0) ON CONFLICT DO NOTHING"
                connection.execute(insert, (name, number))
            case 2 | 3:
                connection.execute(
                    "UPDATE orders SET price = price + 1 WHERE name = %s AND id < %s", (name, number % 5)
                )
            case 4:
                connection.execute("UPDATE orders SET id = id + 1000 WHERE (name, id) = (%s, %s)", (name, number))
            case 5:
                connection.execute("DELETE FROM orders WHERE (name, id) = (%s, %s)", (name, number))
            case 6:
                connection.execute(
                    "UPDATE items SET id = (id * 7919) %% 100000, name = %s WHERE id = %s", (name, number)
                )
            case 7:
                connection.execute("DELETE FROM items WHERE id = %s", (number,))


@pytest.mark.parametrize("server_dies", [False, True])
def test_rows_and_changes_come_once_each_while_others_write(postgres: Postgres, sql: Any, *, server_dies: bool) -> None:
    draw = random.Random(17)
    names = [letter + str(digit) for letter in ("a", "B", "ä", "z", "Z", "é") for digit in range(10)]
    for name in names:
        sql.execute("INSERT INTO orders SELECT %s, n, 0 FROM generate_series(1, 20) n", (name,))
    fill(sql, 500)
    source = changes(postgres, "orders", "items")
    writers = Writers(postgres.url, draw)
    (split,) = source.discover(1).splits
    rehearsal = Rehearsal(source, split, draw, limit=50)
    try:
        between = postgres.restart if server_dies else lambda: None
        rehearsal.read(lambda found: len(found) >= 3000, failures=2 if server_dies else 20, between=between)
    finally:
        writers.stop()
    with psycopg.connect(postgres.url, autocommit=True) as connection:
        connection.execute("INSERT INTO items VALUES (-1, 'the end')")
        rehearsal.read(lambda found: found[-1].after is not None and found[-1].after["id"] == -1, failures=0)
        assert Replica(rehearsal.records).rows == Replica.of(connection)


def wait_until(done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while not done():
        assert time.monotonic() < deadline
        time.sleep(0.01)
