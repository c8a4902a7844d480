"""What do sinks of SQL databases do, whatever the database? Here it is SQLite, which is taught to prepare."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, BinaryIO

import pytest

from cutwater.batches import Batch, ObjectBatch
from cutwater.connectors.bases.records import tuples_of
from cutwater.connectors.bases.sql_database import Refusal, RowLoader, SqlConnection, SqlServer, SqlTable
from cutwater.connectors.bases.sql_sink import sql_sink
from cutwater.connectors.bases.two_phase import EPOCHS_TABLE, Transaction, decode_transaction
from cutwater.connectors.contract import Sink, WriterContext
from cutwater.errors import ConfigurationError, SchemaError
from cutwater.protocol.ids import AttemptNumber, CheckpointId

pytestmark = pytest.mark.threads

WAIT_SECONDS = 10.0
Statements = list[tuple[str, Sequence[Any]]]


class Shop(SqlServer):
    """A database with a table `orders (id, item)`. Transactions are lists of statements until they are committed."""

    kind = "shop"
    product = "Shop"
    no_table_hint = "open one"
    title = "corner"

    def __init__(self, *, key: str = "", holds_prepared: bool = False) -> None:
        self.database = sqlite3.connect(":memory:", check_same_thread=False)
        self.database.execute(f"CREATE TABLE orders (id integer {key}, item text)")
        self.holds_prepared = holds_prepared
        self.prepared: dict[str, Statements] = {}
        self.checked: list[str] = []
        self.open = 0

    def rows(self, table: str = "orders") -> list[tuple[Any, ...]]:
        return self.database.execute(f"SELECT * FROM {table} ORDER BY 1").fetchall()

    def connect(self, table: SqlTable) -> SqlConnection:
        return ShopConnection(self, table)

    @contextmanager
    def clear_errors(self, what: str) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise SchemaError(f"{self} can't {what}") from error

    def columns(self, connection: SqlConnection, table: SqlTable) -> Sequence[str] | None:
        return [row[1] for row in connection.execute(f"PRAGMA table_info({table.name})")] or None

    def check_key(self, connection: SqlConnection, table: SqlTable) -> None:
        self.checked.append("key")

    def check_prepares(self, connection: SqlConnection, table: SqlTable) -> None:
        self.checked.append("prepares")


class ShopConnection(SqlConnection):
    def __init__(self, shop: Shop, table: SqlTable) -> None:
        super().__init__(table, ShopLoader(self, table))
        self.holds_prepared = shop.holds_prepared
        self._shop = shop
        self._begun: Statements | None = None
        shop.open += 1

    def execute(self, statement: str, values: Sequence[Any] | None = None) -> Sequence[Sequence[Any]]:
        match statement:
            case "BEGIN":
                self._begun = []
            case "ROLLBACK":
                self._begun = None
            case "COMMIT":
                begun, self._begun = self._begun or [], None
                self._apply(begun)
            case _ if self._begun is not None:
                self._begun.append((statement, values or ()))
            case _:
                return self._shop.database.execute(statement.replace("%s", "?"), values or ()).fetchall()
        return ()

    def _apply(self, statements: Statements) -> None:
        with self._shop.database as database:
            for statement, values in statements:
                database.execute(statement.replace("%s", "?"), values)

    def quoted(self, name: str) -> str:
        return f'"{name}"'

    def create_epochs_table(self) -> None:
        epochs = self.quoted(self.table.epochs_table)
        self.execute(f"CREATE TABLE IF NOT EXISTS {epochs} (writer text, number integer, PRIMARY KEY (writer, number))")

    def begin_to_prepare(self, name: str) -> None:
        self.execute("BEGIN")

    def prepare(self, name: str) -> None:
        assert self._begun is not None
        self._shop.prepared[name], self._begun = self._begun, None

    def commit(self, name: str) -> bool:
        statements = self._shop.prepared.pop(name, None)
        self._apply(statements or [])
        return statements is not None

    def roll_back(self, name: str) -> bool:
        return self._shop.prepared.pop(name, None) is not None

    def names_of_prepared(self) -> Sequence[str]:
        return list(self._shop.prepared)

    def refusal(self, error: Exception) -> Refusal | None:
        if isinstance(error, sqlite3.IntegrityError):
            return Refusal.TAKEN
        return Refusal.NO_SUCH_TABLE if "no such table" in str(error) else None

    def close(self) -> None:
        self._shop.open -= 1


class ShopLoader(RowLoader):
    """Rows wait until `finish`."""

    def __init__(self, connection: SqlConnection, table: SqlTable) -> None:
        self._connection = connection
        self._table = table
        self._waiting: list[tuple[Any, ...]] = []

    @property
    def layout(self) -> tuple[str, tuple[str, ...]]:
        return "json", ("id", "item")

    def write(self, batch: Batch, rows: BinaryIO | None) -> None:
        values = tuples_of(batch, self._table.columns_for(batch))
        self._waiting += values
        if rows is not None:
            rows.write(json.dumps(values).encode())

    def finish(self) -> None:
        verb = "REPLACE" if self._table.key else "INSERT"
        for row in self._waiting:
            self._connection.execute(f"{verb} INTO orders VALUES (%s, %s)", row)
        self._waiting = []

    def write_kept(self, transaction: Transaction, pieces: Iterable[bytes]) -> None:
        self._waiting = json.loads(b"".join(pieces))
        self.finish()


def sink_of(shop: Shop, table: str = "orders", **options: Any) -> Sink:
    settings = {"delivery": "exactly_once", "key": (), "columns": None, "epochs_table": EPOCHS_TABLE}
    return sql_sink(shop, table, **{**settings, **options})


def written(sink: Sink, *rows: dict[str, Any]) -> list[bytes]:
    """What the writer prepares at a barrier behind these rows."""
    writer = sink.writer(WriterContext("job", "sink", 0, 1, AttemptNumber(1)))
    try:
        writer.write(ObjectBatch(list(rows)))
        return list(writer.prepare(CheckpointId(1)).result(WAIT_SECONDS))
    finally:
        writer.close()


ONE = {"id": 1, "item": "one"}
TWO = {"id": 2, "item": "two"}


def restore(sink: Sink, prepared: list[bytes]) -> None:
    """From a savepoint with a copy of the rows of `ONE`."""
    (name,) = [decode_transaction(each).name for each in prepared]
    copies = {name: lambda: iter([b'[[1, "one"]]'])}
    sink.recover(job_id="job", uid="sink", committables=prepared, attempt=AttemptNumber(2), attached=copies)


def test_what_is_prepared_is_seen_when_it_is_committed() -> None:
    shop = Shop()
    sink = sink_of(shop)
    prepared = written(sink, ONE, TWO)
    before = shop.rows()
    sink.commit(prepared)
    assert (before, shop.rows(), shop.open) == ([], [(1, "one"), (2, "two")], 0)


def test_a_commit_may_be_repeated_because_it_is_recorded() -> None:
    shop = Shop()
    sink = sink_of(shop)
    prepared = written(sink, ONE)
    for _ in range(2):
        sink.commit(prepared)
    assert (shop.rows(), len(shop.rows(EPOCHS_TABLE))) == ([(1, "one")], 1)


@pytest.mark.parametrize(("holds", "left_open"), [(False, 1), (True, 0)])
def test_a_connection_that_holds_what_it_prepared_is_closed(holds: bool, left_open: int) -> None:
    shop = Shop(holds_prepared=holds)
    writer = sink_of(shop).writer(WriterContext("job", "sink", 0, 1, AttemptNumber(1)))
    found = []
    for checkpoint, row in ((1, ONE), (2, TWO)):
        writer.write(ObjectBatch([row]))
        writer.prepare(CheckpointId(checkpoint)).result(WAIT_SECONDS)
        found.append((shop.open, len(shop.prepared)))
    writer.close()
    assert found == [(left_open, 1), (left_open, 2)]


def test_a_transaction_that_is_gone_is_written_anew_once() -> None:
    shop = Shop()
    prepared = written(sink_of(shop), ONE)
    shop.prepared.clear()
    for _ in range(2):
        restore(sink_of(shop), prepared)
    assert shop.rows() == [(1, "one")]


def test_one_who_was_faster_is_no_failure() -> None:
    shop = Shop()
    transaction = decode_transaction(written(sink_of(shop), ONE)[0])
    connection = shop.connect(SqlTable(shop, "orders", (), None, EPOCHS_TABLE))
    for _ in range(2):
        connection.write_anew(transaction, lambda: iter([b'[[1, "one"]]']))
    assert shop.rows() == [(1, "one")]


def test_a_row_of_the_users_own_that_is_in_the_way_is_a_failure() -> None:
    shop = Shop(key="PRIMARY KEY")
    prepared = written(sink_of(shop), ONE)
    shop.prepared.clear()
    shop.database.execute("INSERT INTO orders VALUES (1, 'there')")
    with pytest.raises(SchemaError, match='Shop at corner can\'t write to table "orders"'):
        restore(sink_of(shop), prepared)


def test_without_a_table_of_epochs_nothing_is_recorded() -> None:
    shop = Shop()
    assert shop.connect(SqlTable(shop, "orders", (), None, "epochs")).recorded("writer") is None


@pytest.mark.parametrize(
    ("shop", "options", "rows"),
    [
        (Shop(), {"delivery": "at_least_once"}, [(1, "one"), (1, "other")]),
        (Shop(key="PRIMARY KEY"), {"delivery": "upsert", "key": ("id",)}, [(1, "other")]),
    ],
)
def test_other_deliveries_commit_at_the_barrier(shop: Shop, options: dict[str, Any], rows: list[Any]) -> None:
    assert (written(sink_of(shop, **options), ONE, {"id": 1, "item": "other"}), shop.rows()) == ([], rows)


@pytest.mark.parametrize(
    ("table", "options", "problem"),
    [
        ("missing", {}, 'Shop at corner has no table "missing"\n  hint:   open one'),
        ("orders", {"columns": ("id", "price")}, "table \"orders\" of Shop at corner has no column 'price'"),
        ("orders", {"delivery": "upsert", "key": ("name",)}, "table \"orders\" of Shop at corner has no column 'name'"),
    ],
)
def test_a_table_that_does_not_fit_is_refused(table: str, options: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        sink_of(Shop(), table, **options).check()
    assert str(raised.value).startswith(problem)


@pytest.mark.parametrize(
    ("options", "checked", "tables"),
    [
        ({}, ["prepares"], [("cutwater_epochs",), ("orders",)]),
        ({"delivery": "upsert", "key": ("id",)}, ["key"], [("orders",)]),
        ({"delivery": "at_least_once"}, [], [("orders",)]),
    ],
)
def test_a_server_is_asked_for_what_the_delivery_needs(
    options: dict[str, Any], checked: list[str], tables: list[tuple[str]]
) -> None:
    shop = Shop()
    sink_of(shop, **options).check()
    found = shop.database.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY 1").fetchall()
    assert (shop.checked, found, shop.open) == (checked, tables, 0)
