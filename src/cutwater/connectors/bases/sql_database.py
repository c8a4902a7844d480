"""What must a SQL database be asked, so that a table gets every record as often as was promised?

How it is reached, and whether the table fits (`SqlServer`); how transactions are prepared and ended (`SqlConnection`);
how rows get into the table (`RowLoader`). A connector writes these three, `sql_sink.py` makes sinks of them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, BinaryIO, ClassVar

from cutwater.batches import Batch
from cutwater.connectors.bases.records import columns_of
from cutwater.connectors.bases.two_phase import Database, Transaction
from cutwater.connectors.contract import Pieces
from cutwater.errors import ConfigurationError


class SqlServer(ABC):
    """How a server is reached, and what it says about a table. Settings only: it is pickled, and travels."""

    #: What users call the sink, e.g. "postgres".
    kind: ClassVar[str]
    #: What people call the database, e.g. "PostgreSQL".
    product: ClassVar[str]
    #: What to do about a table that isn't there.
    no_table_hint: ClassVar[str]
    #: Host, port and database; never a password.
    title: str

    def __str__(self) -> str:
        return f"{self.product} at {self.title}"

    @abstractmethod
    def connect(self, table: SqlTable) -> SqlConnection:
        """May block. `PeerError`: the server may come back. `ConfigurationError`: it refuses."""

    @abstractmethod
    def clear_errors(self, what: str) -> AbstractContextManager[None]:
        """Translates errors of the client; `what` the server should have done, e.g. `write to table "orders"`.

        `PeerError`: the server is gone, and may come back.
        """

    # Before the job starts, in the driver.

    @abstractmethod
    def columns(self, connection: SqlConnection, table: SqlTable) -> Sequence[str] | None:
        """Those that the table has; None: there is no such table. Refuses a table that the user may not write to."""

    @abstractmethod
    def check_key(self, connection: SqlConnection, table: SqlTable) -> None:
        """Raises `no_unique_index` unless rows can be replaced by the table's key."""

    @abstractmethod
    def check_prepares(self, connection: SqlConnection, table: SqlTable) -> None:
        """Refuses a server, or a table, whose transactions can't be prepared."""


@dataclass(frozen=True, slots=True)
class SqlTable:
    """A table as the user asked for it."""

    server: SqlServer
    #: As the user wrote it: `orders` or `shop.orders`.
    name: str
    #: Rows with the same one are replaced; empty: none are.
    key: tuple[str, ...]
    #: None: those of the first record.
    columns: tuple[str, ...] | None
    epochs_table: str

    def __str__(self) -> str:
        return f'table "{self.name}" of {self.server}'

    @property
    def sink_name(self) -> str:
        return f"{self.server.kind}({self.server.title}/{self.name})"

    def connect(self) -> SqlConnection:
        return self.server.connect(self)

    def clear_errors(self, what: str = "") -> AbstractContextManager[None]:
        return self.server.clear_errors(what or f'write to table "{self.name}"')

    def columns_for(self, batch: Batch) -> tuple[str, ...]:
        """Those to write."""
        return self.columns or columns_of(batch)


class RowLoader(ABC):
    """Brings rows into the table, in the open transaction of its connection; replaces those with the table's key.

    May block, and raise what the client raises.
    """

    @property
    @abstractmethod
    def layout(self) -> tuple[str, tuple[str, ...]]:
        """Encoding and columns of the rows of the transaction that ends, for `write_kept`."""

    @abstractmethod
    def write(self, batch: Batch, rows: BinaryIO | None) -> None:
        """Writes the records, and their encoded rows into the file as well, if there is one."""

    def finish(self) -> None:
        """Returns when all that was written is part of the transaction. Called before it ends."""

    @abstractmethod
    def write_kept(self, transaction: Transaction, pieces: Iterable[bytes]) -> None:
        """Writes the rows that were kept, in the transaction's encoding."""


class Refusal(Enum):
    """What errors of the client say that are no failures."""

    NO_SUCH_TABLE = auto()
    #: A row with this key is there.
    TAKEN = auto()
    #: No such transaction is prepared, or not yet, or not any more, or it is in someone else's hands.
    NOT_PREPARED = auto()


class SqlConnection(Database):
    """A connection in autocommit, for both phases. Used by one thread.

    What is abstract here raises what the client raises, except for `commit` and `roll_back`.
    """

    #: True: a prepared transaction can't be committed elsewhere until the connection that prepared it is closed.
    holds_prepared: bool = False

    def __init__(self, table: SqlTable, loader: RowLoader) -> None:
        self.table = table
        self.loader = loader

    @abstractmethod
    def execute(self, statement: str, values: Sequence[Any] | None = None) -> Sequence[Sequence[Any]]:
        """The rows that the statement gives, if any. Values stand where it has `%s`."""

    @abstractmethod
    def quoted(self, name: str) -> str:
        """`orders` or `shop.orders`, as it stands in a statement."""

    @abstractmethod
    def create_epochs_table(self) -> None:
        """With columns `writer` and `number`, its primary key; nothing if it is there, or is made at the same time."""

    @abstractmethod
    def begin_to_prepare(self, name: str) -> None:
        """Begins a transaction that will be prepared under this name."""

    @abstractmethod
    def prepare(self, name: str) -> None:
        """Prepares the open transaction: it must survive this connection, and the server."""

    @abstractmethod
    def names_of_prepared(self) -> Sequence[str]:
        """Of all prepared transactions that may be ours."""

    @abstractmethod
    def refusal(self, error: Exception) -> Refusal | None:
        """What an error of the client means; None: a failure."""

    def end_prepared(self, statement: str, *, what: str) -> bool:
        """For `commit` and `roll_back`. False: the transaction isn't prepared."""
        with self.table.clear_errors(what):
            try:
                self.execute(statement)
            except Exception as error:
                if self.refusal(error) is not Refusal.NOT_PREPARED:
                    raise
                return False
        return True

    def prepared(self) -> Sequence[str]:
        with self.table.clear_errors("list prepared transactions"):
            return self.names_of_prepared()

    def record(self, transaction: Transaction) -> None:
        """In the open transaction: where this row is visible, the transaction's rows are, too."""
        statement = f"INSERT INTO {self._epochs} (writer, number) VALUES (%s, %s)"
        self.execute(statement, (transaction.writer, transaction.number))

    def recorded(self, writer: str) -> int | None:
        with self.table.clear_errors(f'read table "{self.table.epochs_table}"'):
            try:
                found = self.execute(f"SELECT max(number) FROM {self._epochs} WHERE writer = %s", (writer,))
            except Exception as error:
                if self.refusal(error) is not Refusal.NO_SUCH_TABLE:
                    raise
                return None
        number: int | None = found[0][0]
        return number

    def forget(self, writer: str, *, below: int) -> None:
        with self.table.clear_errors(f'delete from table "{self.table.epochs_table}"'):
            self.execute(f"DELETE FROM {self._epochs} WHERE writer = %s AND number < %s", (writer, below))

    def write_anew(self, transaction: Transaction, pieces: Pieces) -> None:
        with self.table.clear_errors():
            self.create_epochs_table()
            self.execute("BEGIN")
            try:
                self.record(transaction)
                self.loader.write_kept(transaction, pieces())
                self.execute("COMMIT")
            except Exception as error:
                if self.refusal(error) is not Refusal.TAKEN:
                    raise
                self.execute("ROLLBACK")
                # Another process was faster; or it is the user's own key that is taken.
                if (number := self.recorded(transaction.writer)) is None or number < transaction.number:
                    raise

    @property
    def _epochs(self) -> str:
        return self.quoted(self.table.epochs_table)


def no_unique_index(table: SqlTable, *, unique: str, statement: str) -> ConfigurationError:
    """`unique`: the keys that there are; `statement`: how another is made, up to the table's name."""
    key = ", ".join(table.key)
    return ConfigurationError(
        f"{table} has no unique index on the key ({key})",
        detail=f"unique: {unique or 'nothing'}",
        hint=f"{statement} {table.name} ({key})",
    )
