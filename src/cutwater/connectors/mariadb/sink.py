"""How do records become rows of a table of MariaDB, as often as was promised?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, BinaryIO, Literal

from cutwater.batches import Batch
from cutwater.connectors.bases.records import columns_of, tuples_of
from cutwater.connectors.bases.sending import Sender, SendingWriter
from cutwater.connectors.bases.two_phase import EPOCHS_TABLE, Database, Transaction, TwoPhaseSender, TwoPhaseSink
from cutwater.connectors.contract import Delivery, Sink, SinkWriter, WriterContext
from cutwater.connectors.mariadb.client import Target, connect, execute, pymysql, settings_of
from cutwater.connectors.mariadb.inserting import insert_rows, kept
from cutwater.connectors.mariadb.prepared import MariaDatabase, create_epochs_table, record, xid_of
from cutwater.connectors.mariadb.target import check_target
from cutwater.connectors.settings import check_choice, check_names, check_text

How = Literal["exactly_once", "upsert", "at_least_once"]


def mariadb(
    url: str,
    table: str,
    *,
    delivery: How = "exactly_once",
    key: Sequence[str] = (),
    columns: Sequence[str] | None = None,
    epochs_table: str = EPOCHS_TABLE,
    options: Mapping[str, Any] | None = None,
) -> Sink:
    """A sink of rows in a table of MariaDB 10.5 or newer (extra `mariadb`).

    Records are dicts, named tuples, dataclasses, or rows of typed batches; plain tuples if `columns` are named. A dict
    or list as a value is written as JSON, a moment with a time zone in UTC.

    `url`: `mysql://user:password@host:3306/database`. `options` go to PyMySQL as they are, e.g.
    `{"ssl_ca": "ca.pem", "ssl_verify_cert": True}`.
    `table`: `orders` or `shop.orders`; it must be there.
    `columns`: those to write; left out, those of the first record.

    `delivery`:
    `"exactly_once"`: rows are inserted into an XA transaction that is prepared at each checkpoint and committed when
    the checkpoint is complete. The table must be one of InnoDB. What is done is recorded in `epochs_table`, which is
    created if it isn't there; a row per task and attempt stays.
    `"upsert"`: rows with the same `key` are replaced (INSERT … ON DUPLICATE KEY UPDATE), so that writing them again
    does no harm: exactly once in effect. Rows are visible before their checkpoint is complete. Records of one key
    must come from one task (`key_by`), else the last one isn't defined.
    `"at_least_once"`: rows are inserted, and again after a failure.
    """
    pymysql()
    check_text("url", url)
    check_text("table", table)
    check_text("epochs_table", epochs_table)
    check_choice("delivery", delivery, ("exactly_once", "upsert", "at_least_once"))
    target = Target(
        settings_of(url, options or {}),
        table,
        key=check_names("key", key, required=delivery == "upsert", allowed=delivery == "upsert"),
        columns=None if columns is None else check_names("columns", columns),
        epochs_table=epochs_table,
    )
    return MariaTransactionalSink(target) if delivery == "exactly_once" else MariaPlainSink(target)


class MariaTransactionalSink(TwoPhaseSink):
    """Exactly once, by XA transactions."""

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
        return MariaDatabase(self._target)


class MariaPlainSink(Sink):
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
        return SendingWriter(self, _InsertingSender(self._target), context)


class _PreparingSender(TwoPhaseSender):
    """Inserts in an XA transaction. Others can commit it when its connection has ended: the next one gets a new one."""

    def __init__(self, sink: TwoPhaseSink, target: Target, context: WriterContext) -> None:
        super().__init__(sink, context)
        self._target = target
        self._connection: Any = None
        self._columns: tuple[str, ...] = ()

    @property
    def layout(self) -> tuple[str, tuple[str, ...]]:
        return "rows", self._columns

    def connect(self) -> None:
        self._connection = connect(self._target)
        with self._target.clear_errors("create the table of epochs"):
            create_epochs_table(self._connection, self._target.epochs_table)

    def begin(self, name: str) -> None:
        if self._connection is None:
            self._connection = connect(self._target)
        self._columns = ()
        with self._target.clear_errors():
            execute(self._connection, f"XA START {xid_of(name)}")

    def write(self, batch: Batch, rows: BinaryIO) -> None:
        with self._target.clear_errors():
            self._columns = self._columns or self._target.columns or columns_of(batch)
            values = tuples_of(batch, self._columns)
            rows.write(kept(values, owner=self._target.name))
            insert_rows(self._connection, self._target.table, self._columns, values)

    def prepare_transaction(self, transaction: Transaction) -> None:
        xid = xid_of(transaction.name)
        with self._target.clear_errors("prepare a transaction"):
            record(self._connection, self._target.epochs_table, transaction)
            execute(self._connection, f"XA END {xid}")
            execute(self._connection, f"XA PREPARE {xid}")
        self._disconnect()

    def close(self) -> None:
        super().close()
        self._disconnect()

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None and connection.open:
            connection.close()


class _InsertingSender(Sender):
    """Inserts in a transaction that is committed whenever the writer settles."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._connection: Any = None
        self._began = False

    def connect(self) -> None:
        self._connection = connect(self._target)

    def send(self, batch: Batch) -> None:
        with self._target.clear_errors():
            if not self._began:
                self._connection.begin()
                self._began = True
            columns = self._target.columns or columns_of(batch)
            insert_rows(self._connection, self._target.table, columns, tuples_of(batch, columns), key=self._target.key)

    def settle(self) -> None:
        if self._began:
            with self._target.clear_errors():
                self._connection.commit()
            self._began = False

    def close(self) -> None:
        connection, self._connection, self._began = self._connection, None, False
        if connection is not None and connection.open:
            connection.close()
