"""How do records become rows of a table of PostgreSQL, as often as was promised?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, BinaryIO, Literal

from cutwater.batches import Batch
from cutwater.connectors.bases.extras import client
from cutwater.connectors.bases.records import columns_of
from cutwater.connectors.bases.sending import Sender, SendingWriter
from cutwater.connectors.bases.two_phase import EPOCHS_TABLE, Database, Transaction, TwoPhaseSender, TwoPhaseSink
from cutwater.connectors.contract import Delivery, Sink, SinkWriter, WriterContext
from cutwater.connectors.postgres.client import clear_errors, connect, table_name, title_of
from cutwater.connectors.postgres.copying import Copying, encoding_of
from cutwater.connectors.postgres.prepared import PostgresDatabase, create_epochs_table, record
from cutwater.connectors.postgres.target import Target, check_target
from cutwater.connectors.settings import check_choice, check_names, check_text

How = Literal["exactly_once", "upsert", "at_least_once"]


def postgres(
    dsn: str,
    table: str,
    *,
    delivery: How = "exactly_once",
    key: Sequence[str] = (),
    columns: Sequence[str] | None = None,
    epochs_table: str = EPOCHS_TABLE,
) -> Sink:
    """A sink of rows in a table of PostgreSQL (extra `postgres`).

    Records are dicts, named tuples, dataclasses, or rows of typed batches; plain tuples if `columns` are named. A dict
    or list as a value becomes `jsonb` or an array.

    `dsn`: what libpq takes, e.g. `postgresql://user:password@host/database?sslmode=verify-full&sslrootcert=ca.pem`.
    `table`: `orders` or `shop.orders`; it must be there.
    `columns`: those to write; left out, those of the first record.

    `delivery`:
    `"exactly_once"`: rows are written with COPY into a transaction that is prepared at each checkpoint (PREPARE
    TRANSACTION) and committed when the checkpoint is complete. The server needs `max_prepared_transactions` > 0. What
    is done is recorded in `epochs_table`, which is created if it isn't there; a row per task and attempt stays.
    `"upsert"`: rows with the same `key` are replaced (INSERT … ON CONFLICT), so that writing them again does no harm:
    exactly once in effect. Rows are visible before their checkpoint is complete. Records of one key must come from one
    task (`key_by`), else the last one isn't defined.
    `"at_least_once"`: rows are inserted, and again after a failure.
    """
    check_text("table", table)
    check_text("epochs_table", epochs_table)
    check_choice("delivery", delivery, ("exactly_once", "upsert", "at_least_once"))
    target = Target(
        dsn,
        title_of(dsn),
        table,
        key=check_names("key", key, required=delivery == "upsert", allowed=delivery == "upsert"),
        columns=None if columns is None else check_names("columns", columns),
        epochs_table=epochs_table,
    )
    return PostgresTransactionalSink(target) if delivery == "exactly_once" else PostgresPlainSink(target)


class PostgresTransactionalSink(TwoPhaseSink):
    """Exactly once, by prepared transactions."""

    def __init__(self, target: Target) -> None:
        super().__init__()
        self._target = target

    @property
    def name(self) -> str:
        return self._target.name

    def check(self, *, restores: bool = False) -> None:
        check_target(self._target, prepares=True)

    def writer(self, context: WriterContext) -> SinkWriter:
        return SendingWriter(self, _PreparingSender(self, self._target, context), context)

    def database(self) -> Database:
        target = self._target
        return PostgresDatabase(target.dsn, target.title, target.table, target.epochs_table)


class PostgresPlainSink(Sink):
    """Upserts, or plain inserts."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self.delivery = Delivery.IDEMPOTENT if target.key else Delivery.PLAIN

    @property
    def name(self) -> str:
        return self._target.name

    def check(self, *, restores: bool = False) -> None:
        check_target(self._target, prepares=False)

    def writer(self, context: WriterContext) -> SinkWriter:
        sender = _UpsertingSender(self._target) if self._target.key else _InsertingSender(self._target)
        return SendingWriter(self, sender, context)


class _PreparingSender(TwoPhaseSender):
    """COPY in a transaction that ends with PREPARE TRANSACTION."""

    def __init__(self, sink: TwoPhaseSink, target: Target, context: WriterContext) -> None:
        super().__init__(sink, context)
        self._target = target
        self._connection: Any = None
        self._copying: Copying | None = None
        self._layout: tuple[str, tuple[str, ...]] = ("", ())

    @property
    def layout(self) -> tuple[str, tuple[str, ...]]:
        return self._layout

    def connect(self) -> None:
        self._connection = connect(self._target.dsn, self._target.title)
        with clear_errors("create the table of epochs", self._target.title):
            create_epochs_table(self._connection, self._target.epochs_table)

    def begin(self, name: str) -> None:
        with self._target.clear_errors():
            self._connection.execute("BEGIN")

    def write(self, batch: Batch, rows: BinaryIO) -> None:
        with self._target.clear_errors():
            if self._copying is None:
                columns = self._target.columns or columns_of(batch)
                self._layout = (encoding_of(batch, columns), columns)
                self._copying = Copying(
                    self._connection, table_name(self._target.table), columns, self._layout[0], rows
                )
            self._copying.write(batch)

    def settle(self) -> None:
        copying, self._copying = self._copying, None
        if copying is not None:
            with self._target.clear_errors():
                copying.finish()

    def prepare_transaction(self, transaction: Transaction) -> None:
        sql = client("psycopg.sql", extra="postgres")
        with clear_errors("prepare a transaction", self._target.title):
            record(self._connection, self._target.epochs_table, transaction)
            self._connection.execute(sql.SQL("PREPARE TRANSACTION {}").format(sql.Literal(transaction.name)))

    def close(self) -> None:
        super().close()
        connection, copying = self._connection, self._copying
        self._connection = self._copying = None
        if connection is not None:
            connection.close()
        if copying is not None:
            copying.abandon()


class _InsertingSender(Sender):
    """COPY in a transaction that is committed whenever the writer settles."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._connection: Any = None
        self._copying: Copying | None = None

    def connect(self) -> None:
        self._connection = connect(self._target.dsn, self._target.title)

    def send(self, batch: Batch) -> None:
        with self._target.clear_errors():
            if self._copying is None:
                columns = self._target.columns or columns_of(batch)
                self._connection.execute("BEGIN")
                self._copying = Copying(
                    self._connection, self._copied_into(columns), columns, encoding_of(batch, columns)
                )
            self._copying.write(batch)

    def _copied_into(self, columns: Sequence[str]) -> Any:
        return table_name(self._target.table)

    def settle(self) -> None:
        copying, self._copying = self._copying, None
        if copying is not None:
            with self._target.clear_errors():
                copying.finish()
                self._finish()
                self._connection.execute("COMMIT")

    def _finish(self) -> None:
        """Before the commit."""

    def close(self) -> None:
        connection, copying = self._connection, self._copying
        self._connection = self._copying = None
        if connection is not None:
            connection.close()
        if copying is not None:
            copying.abandon()


class _UpsertingSender(_InsertingSender):
    """COPY into a temporary table, from which the last row of each key replaces that in the table.

    The rows are taken in the order of their keys: two tasks that lock the same rows can't wait for each other.
    """

    _ROWS = "cutwater_rows"
    _ORDER = "cutwater_order"

    def __init__(self, target: Target) -> None:
        super().__init__(target)
        self._columns: tuple[str, ...] = ()

    def connect(self) -> None:
        super().connect()
        self._columns = ()

    def _copied_into(self, columns: Sequence[str]) -> Any:
        sql = client("psycopg.sql", extra="postgres")
        rows = sql.Identifier("pg_temp", self._ROWS)
        if not self._columns:
            self._columns = tuple(columns)
            self._connection.execute(
                sql.SQL("CREATE TEMPORARY TABLE {} ON COMMIT DELETE ROWS AS SELECT {} FROM {} WITH NO DATA").format(
                    sql.Identifier(self._ROWS), _names(columns), table_name(self._target.table)
                )
            )
            self._connection.execute(
                sql.SQL("ALTER TABLE {} ADD COLUMN {} bigserial").format(rows, sql.Identifier(self._ORDER))
            )
        return rows

    def _finish(self) -> None:
        sql = client("psycopg.sql", extra="postgres")
        key = self._target.key
        others = [name for name in self._columns if name not in key]
        replaced = sql.SQL(", ").join(
            sql.SQL("{} = EXCLUDED.{}").format(sql.Identifier(name), sql.Identifier(name)) for name in others
        )
        action = sql.SQL("DO UPDATE SET {}").format(replaced) if others else sql.SQL("DO NOTHING")
        names, keys = _names(self._columns), _names(key)
        statement = "INSERT INTO {} ({}) SELECT DISTINCT ON ({}) {} FROM {} ORDER BY {}, {} DESC ON CONFLICT ({}) {}"
        order = sql.Identifier(self._ORDER)
        rows = sql.Identifier("pg_temp", self._ROWS)
        self._connection.execute(
            sql.SQL(statement).format(
                table_name(self._target.table), names, keys, names, rows, keys, order, keys, action
            )
        )


def _names(columns: Sequence[str]) -> Any:
    sql = client("psycopg.sql", extra="postgres")
    return sql.SQL(", ").join(map(sql.Identifier, columns))
