"""Rows and changes come out of a real PostgreSQL once each, wherever reading stops and whatever is killed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import psycopg
import pyarrow as pa
import pytest
from servers.postgres import Postgres

import cutwater as cw
from cutwater.batches import rows_of
from cutwater.connectors.contract import ReaderContext, Source, SplitReader
from cutwater.errors import ConfigurationError, SchemaError, StorageError

WAIT_SECONDS = 60.0


@pytest.fixture
def sql(postgres: Postgres) -> Iterator[Any]:
    """An empty table `orders`; no slot and no publication."""
    with psycopg.connect(postgres.url, autocommit=True) as connection:
        connection.execute("DROP TABLE IF EXISTS orders")
        connection.execute("CREATE TABLE orders (id bigint PRIMARY KEY, name text)")
        yield connection
    with psycopg.connect(postgres.url, autocommit=True) as connection:
        connection.execute("DROP PUBLICATION IF EXISTS cutwater_test")
        connection.execute("SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE active")
        for _ in range(100):
            with suppress(psycopg.errors.ObjectInUse):
                connection.execute("SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots")
                return
            time.sleep(0.05)


def changes(postgres: Postgres, **options: Any) -> Source:
    return cw.sources.postgres_changes(
        postgres.url, tables=("orders",), slot="cutwater_test", snapshot=False, **options
    )


@contextmanager
def reading(source: Source, position: Any = None) -> Iterator[SplitReader]:
    (split,) = source.discover(1).splits
    reader = source.reader(split, position, ReaderContext())
    try:
        yield reader
    finally:
        reader.close()


def read_until(reader: SplitReader, enough: Callable[[list[Any]], bool], limit: int = 1000) -> list[Any]:
    found: list[Any] = []
    deadline = time.monotonic() + WAIT_SECONDS
    while not enough(found) and not reader.finished:
        batch = reader.read(limit, time.monotonic())
        if batch is None:
            assert time.monotonic() < deadline, f"only {len(found)} came"
            time.sleep(0.001)
        else:
            found.extend(rows_of(batch))
    return found


def read(reader: SplitReader, count: int, limit: int = 1000) -> list[Any]:
    return read_until(reader, lambda found: len(found) >= count, limit)


def test_a_change_says_what_was_and_what_is(postgres: Postgres, sql: Any) -> None:
    source = changes(postgres)
    source.check()
    sql.execute("ALTER TABLE orders REPLICA IDENTITY FULL")
    sql.execute("INSERT INTO orders VALUES (1, 'one')")
    sql.execute("UPDATE orders SET name = NULL WHERE id = 1")
    sql.execute("DELETE FROM orders")
    sql.execute("TRUNCATE orders")
    with reading(source) as reader:
        found = read(reader, 4)
    assert [(change.op, change.table, change.before, change.after) for change in found] == [
        ("insert", "orders", None, {"id": 1, "name": "one"}),
        ("update", "orders", {"id": 1, "name": "one"}, {"id": 1, "name": None}),
        ("delete", "orders", {"id": 1, "name": None}, None),
        ("truncate", "orders", None, None),
    ]


def test_without_replica_identity_a_deleted_row_has_its_key_only(postgres: Postgres, sql: Any) -> None:
    source = changes(postgres)
    source.check()
    sql.execute("INSERT INTO orders VALUES (1, 'one')")
    sql.execute("DELETE FROM orders")
    with reading(source) as reader:
        assert read(reader, 2)[1].before == {"id": 1}


def test_values_have_the_types_of_their_columns(postgres: Postgres, sql: Any) -> None:
    sql.execute("ALTER TABLE orders ADD COLUMN at timestamptz, ADD COLUMN price numeric, ADD COLUMN items jsonb")
    source = changes(postgres)
    source.check()
    sql.execute("""INSERT INTO orders VALUES (1, 'ü', '2026-01-02 03:04:05.6+01', 1.50, '{"a": [1]}')""")
    stored = sql.execute("SELECT * FROM orders").fetchone()
    with reading(source) as reader:
        assert tuple(read(reader, 1)[0].after.values()) == stored


def test_reading_goes_on_in_the_middle_of_a_transaction(postgres: Postgres, sql: Any) -> None:
    source = changes(postgres, bounded=True)
    source.check()
    for first in (0, 1000, 2000):
        sql.execute("INSERT INTO orders SELECT n, n FROM generate_series(%s::int, %s::int) n", (first, first + 999))
    found: list[Any] = []
    position = None
    while len(found) < 3000:
        with reading(source, position) as reader:
            found += read(reader, 1, limit=700)
            position = reader.position
    assert [change.after["id"] for change in found] == list(range(3000))
    assert len({(change.lsn, change.number) for change in found}) == 3000


def test_what_a_checkpoint_does_not_hold_is_kept_by_the_server(postgres: Postgres, sql: Any) -> None:
    source = changes(postgres)
    source.check()
    sql.execute("INSERT INTO orders VALUES (1, 'one')")
    with reading(source) as reader:
        first = read(reader, 1)
    with reading(source) as reader:
        assert read(reader, 1) == first


def test_what_a_checkpoint_holds_is_let_go(postgres: Postgres, sql: Any) -> None:
    source = changes(postgres)
    source.check()
    sql.execute("INSERT INTO orders VALUES (1, 'one')")
    with reading(source) as reader:
        read(reader, 1)
        reader.checkpoint_completed(reader.position)
        wait_until(lambda: confirmed(sql) >= reader.position[0])
    with reading(source, [0, 0]) as reader, pytest.raises(StorageError, match="doesn't keep the changes"):
        read(reader, 1)


def test_a_slot_that_is_gone_is_an_error(postgres: Postgres, sql: Any) -> None:
    with reading(changes(postgres), [1, 0]) as reader, pytest.raises(StorageError, match="no replication slot"):
        read(reader, 1)


def test_where_nothing_changes_the_position_moves_on(postgres: Postgres, sql: Any) -> None:
    """Otherwise the server would keep the log of all other tables."""
    source = changes(postgres)
    source.check()
    sql.execute("CREATE TABLE IF NOT EXISTS other (id int)")
    sql.execute("INSERT INTO other VALUES (1)")
    (end,) = sql.execute("SELECT (pg_current_wal_insert_lsn() - '0/0')::bigint").fetchone()
    with reading(source) as reader:
        wait_until(lambda: reader.read(10, 0.0) is None and (reader.position or [0])[0] >= end)


def test_changes_come_once_each_through_kills_of_the_server(postgres: Postgres, sql: Any) -> None:
    source = changes(postgres)
    source.check()
    found: list[Any] = []
    with reading(source) as reader:
        for first in range(0, 30_000, 10_000):
            with psycopg.connect(postgres.url) as connection:
                connection.execute(
                    "INSERT INTO orders SELECT n, n FROM generate_series(%s::int, %s::int) n", (first, first + 9_999)
                )
            found += read(reader, 2_000)
            reader.checkpoint_completed(reader.position)
            postgres.restart()
        found += read(reader, 30_000 - len(found))
    assert [change.after["id"] for change in found] == list(range(30_000))


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"tables": ("nothing",)}, 'no table "nothing"'),
        ({"publication": "nothing"}, 'no publication "nothing"'),
    ],
)
def test_what_is_missing_is_named_before_the_job_starts(
    postgres: Postgres, sql: Any, options: dict[str, Any], problem: str
) -> None:
    with pytest.raises(ConfigurationError, match=problem):
        cw.sources.postgres_changes(postgres.url, slot="cutwater_test", **options).check()


def test_rows_come_in_the_order_of_the_key_and_go_on_behind_it(postgres: Postgres, sql: Any) -> None:
    sql.execute("INSERT INTO orders SELECT n, n FROM generate_series(1, 5000) n")
    source = cw.sources.postgres(postgres.url, "orders", order_by="id", poll="10ms")
    source.check()
    with reading(source) as reader:
        found = read(reader, 1, limit=1500)
        position = reader.position
    with reading(source, position) as reader:
        found += read(reader, 5000 - len(found))
        sql.execute("INSERT INTO orders VALUES (5001, '5001')")
        found += read(reader, 1)
    assert found == [{"id": n, "name": str(n)} for n in range(1, 5002)]


def test_rows_of_a_query_with_ties_end_when_none_is_left(postgres: Postgres, sql: Any) -> None:
    sql.execute("INSERT INTO orders SELECT n, n / 3 FROM generate_series(1, 2500) n")
    schema = pa.schema([("id", pa.int64())])
    query = "SELECT id, name::int AS third FROM orders WHERE id % 2 = 0 -- even ones"
    source = cw.sources.postgres(postgres.url, query=query, order_by=("third", "id"), bounded=True, schema=schema)
    with reading(source) as reader:
        assert [row.id for row in read(reader, 10**9, limit=100)] == list(range(2, 2501, 2))


def test_a_column_that_is_missing_is_named_before_the_job_starts(postgres: Postgres, sql: Any) -> None:
    with pytest.raises(SchemaError, match="can't read orders") as raised:
        cw.sources.postgres(postgres.url, "orders", order_by="nothing").check()
    assert "nothing" in raised.value.detail


def test_rows_come_once_each_through_kills_of_the_server(postgres: Postgres, sql: Any) -> None:
    sql.execute("INSERT INTO orders SELECT n, n FROM generate_series(1, 20000) n")
    source = cw.sources.postgres(postgres.url, "orders", order_by="id", bounded=True)
    with reading(source) as reader:
        found = read(reader, 1)
        postgres.restart()
        found += read(reader, 10**9)
    assert [row["id"] for row in found] == list(range(1, 20_001))


def confirmed(sql: Any) -> int:
    return int(sql.execute("SELECT (confirmed_flush_lsn - '0/0')::bigint FROM pg_replication_slots").fetchone()[0])


def wait_until(done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while not done():
        assert time.monotonic() < deadline
        time.sleep(0.01)
