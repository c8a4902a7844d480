"""How do records become rows of a table of a SQL database, as often as was promised?

Exactly once by prepared transactions; exactly once in effect by upserts; at least once by plain inserts. What differs
from database to database is asked of `sql_database.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from typing import BinaryIO, Literal

from cutwater.batches import Batch
from cutwater.connectors.bases.sending import Sender, SendingWriter
from cutwater.connectors.bases.sql_database import SqlConnection, SqlServer, SqlTable
from cutwater.connectors.bases.two_phase import Database, Transaction, TwoPhaseSender, TwoPhaseSink
from cutwater.connectors.contract import Delivery, Sink, SinkWriter, WriterContext
from cutwater.connectors.settings import check_choice, check_names, check_text
from cutwater.errors import ConfigurationError

How = Literal["exactly_once", "upsert", "at_least_once"]


def sql_sink(
    server: SqlServer,
    table: str,
    *,
    delivery: How,
    key: Sequence[str],
    columns: Sequence[str] | None,
    epochs_table: str,
) -> Sink:
    """Refuses options that make no sense."""
    check_text("table", table)
    check_text("epochs_table", epochs_table)
    check_choice("delivery", delivery, ("exactly_once", "upsert", "at_least_once"))
    target = SqlTable(
        server,
        table,
        key=check_names("key", key, required=delivery == "upsert", allowed=delivery == "upsert"),
        columns=None if columns is None else check_names("columns", columns),
        epochs_table=epochs_table,
    )
    return TransactionalTableSink(target) if delivery == "exactly_once" else PlainTableSink(target)


class TableSink(Sink):
    def __init__(self, table: SqlTable) -> None:
        super().__init__()
        self._table = table

    @property
    def name(self) -> str:
        return self._table.sink_name


class TransactionalTableSink(TableSink, TwoPhaseSink):
    """Exactly once, by prepared transactions."""

    def check(self, *, restores: bool = False) -> None:
        check_table(self._table, prepares=True)

    def writer(self, context: WriterContext) -> SinkWriter:
        return SendingWriter(self, _PreparingSender(self, self._table, context), context)

    def database(self) -> Database:
        return self._table.connect()


class PlainTableSink(TableSink):
    """Upserts, or plain inserts."""

    def __init__(self, table: SqlTable) -> None:
        super().__init__(table)
        self.delivery = Delivery.IDEMPOTENT if table.key else Delivery.PLAIN

    def check(self, *, restores: bool = False) -> None:
        check_table(self._table, prepares=False)

    def writer(self, context: WriterContext) -> SinkWriter:
        return SendingWriter(self, _CommittingSender(self._table), context)


class _PreparingSender(TwoPhaseSender):
    """Writes in a transaction that is prepared at each barrier."""

    def __init__(self, sink: TwoPhaseSink, table: SqlTable, context: WriterContext) -> None:
        super().__init__(sink, context)
        self._table = table
        self._connection: SqlConnection | None = None

    @property
    def layout(self) -> tuple[str, tuple[str, ...]]:
        assert self._connection is not None, "not connected"
        return self._connection.loader.layout

    def connect(self) -> None:
        self._connection = self._table.connect()
        with self._table.clear_errors("create the table of epochs"):
            self._connection.create_epochs_table()

    def begin(self, name: str) -> None:
        if self._connection is None:
            self._connection = self._table.connect()
        with self._table.clear_errors():
            self._connection.begin_to_prepare(name)

    def write(self, batch: Batch, rows: BinaryIO) -> None:
        assert self._connection is not None, "not connected"
        with self._table.clear_errors():
            self._connection.loader.write(batch, rows)

    def settle(self) -> None:
        if self._connection is not None:
            with self._table.clear_errors():
                self._connection.loader.finish()

    def prepare_transaction(self, transaction: Transaction) -> None:
        assert self._connection is not None, "not connected"
        with self._table.clear_errors("prepare a transaction"):
            self._connection.record(transaction)
            self._connection.prepare(transaction.name)
        if self._connection.holds_prepared:
            self._disconnect()

    def close(self) -> None:
        super().close()
        self._disconnect()

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


class _CommittingSender(Sender):
    """Writes in a transaction that is committed whenever the writer settles."""

    def __init__(self, table: SqlTable) -> None:
        self._table = table
        self._connection: SqlConnection | None = None
        self._began = False

    def connect(self) -> None:
        self._connection = self._table.connect()

    def send(self, batch: Batch) -> None:
        assert self._connection is not None, "not connected"
        with self._table.clear_errors():
            if not self._began:
                self._connection.execute("BEGIN")
                self._began = True
            self._connection.loader.write(batch, None)

    def settle(self) -> None:
        if self._began:
            assert self._connection is not None, "not connected"
            with self._table.clear_errors():
                self._connection.loader.finish()
                self._connection.execute("COMMIT")
            self._began = False

    def close(self) -> None:
        connection, self._connection, self._began = self._connection, None, False
        if connection is not None:
            connection.close()


def check_table(table: SqlTable, *, prepares: bool) -> None:
    """Before the job starts: is there a table that can take what the sink is going to write?"""
    server = table.server
    with closing(table.connect()) as connection, table.clear_errors("be checked"):
        columns = server.columns(connection, table)
        if columns is None:
            raise ConfigurationError(f'{server} has no table "{table.name}"', hint=server.no_table_hint)
        missing = [name for name in (*(table.columns or ()), *table.key) if name not in columns]
        if missing:
            raise ConfigurationError(
                f"{table} has no column {missing[0]!r}", detail=f"its columns are {', '.join(columns)}"
            )
        if table.key:
            server.check_key(connection, table)
        if prepares:
            server.check_prepares(connection, table)
            connection.create_epochs_table()
