"""How are XA transactions of MariaDB committed, rolled back, and known to be done?

A prepared transaction belongs to its connection until that ends: nobody else can commit it before. So a writer closes
its connection when it has prepared, and whoever commits a moment too early tries again.
"""

from __future__ import annotations

from collections.abc import Sequence

from cutwater.connectors.bases.two_phase import Database, Transaction
from cutwater.connectors.contract import Pieces
from cutwater.connectors.mariadb.client import Target, connect, execute, pymysql, quoted
from cutwater.connectors.mariadb.inserting import insert_rows, rows_in

_UNKNOWN_XID = 1397
_NO_SUCH_TABLE = 1146


class MariaDatabase(Database):
    """One connection, in autocommit."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._connection = connect(target)

    def commit(self, name: str) -> bool:
        return self._end("COMMIT", name)

    def roll_back(self, name: str) -> bool:
        return self._end("ROLLBACK", name)

    def _end(self, verb: str, name: str) -> bool:
        with self._target.clear_errors(f"{verb.lower()} transaction {name}"):
            try:
                execute(self._connection, f"XA {verb} {xid_of(name)}")
            except pymysql().OperationalError as error:
                if error.args[0] != _UNKNOWN_XID:
                    raise
                return False
        return True

    def prepared(self) -> Sequence[str]:
        with self._target.clear_errors("list prepared transactions"):
            found = execute(self._connection, "XA RECOVER")
        return [name for row in found if (name := _name_of(row[1], row[3])).startswith("cutwater-")]

    def recorded(self, writer: str) -> int | None:
        statement = f"SELECT MAX(number) FROM {quoted(self._target.epochs_table)} WHERE writer = %s"
        with self._target.clear_errors(f'read table "{self._target.epochs_table}"'):
            try:
                number: int | None = execute(self._connection, statement, (writer,))[0][0]
            except pymysql().ProgrammingError as error:
                if error.args[0] != _NO_SUCH_TABLE:
                    raise
                return None
        return number

    def forget(self, writer: str, *, below: int) -> None:
        statement = f"DELETE FROM {quoted(self._target.epochs_table)} WHERE writer = %s AND number < %s"
        with self._target.clear_errors(f'delete from table "{self._target.epochs_table}"'):
            execute(self._connection, statement, (writer, below))

    def write_anew(self, transaction: Transaction, pieces: Pieces) -> None:
        with self._target.clear_errors():
            create_epochs_table(self._connection, self._target.epochs_table)
            self._connection.begin()
            try:
                record(self._connection, self._target.epochs_table, transaction)
                for rows in rows_in(pieces()):
                    insert_rows(self._connection, self._target.table, transaction.columns, rows)
                self._connection.commit()
            except pymysql().IntegrityError:
                self._connection.rollback()
                # Another process was faster; or it is the user's own key that is taken.
                if (number := self.recorded(transaction.writer)) is None or number < transaction.number:
                    raise

    def close(self) -> None:
        if self._connection.open:
            self._connection.close()


def xid_of(name: str) -> str:
    """In two parts, of at most 64 bytes each."""
    whose, *numbers = name.rsplit("-", 3)
    return f"'{whose}','{'-'.join(numbers)}'"


def _name_of(first_bytes: int, both: bytes | str) -> str:
    text = both.decode(errors="replace") if isinstance(both, bytes) else both
    return f"{text[:first_bytes]}-{text[first_bytes:]}"


def create_epochs_table(connection: object, epochs_table: str) -> None:
    execute(
        connection,
        f"CREATE TABLE IF NOT EXISTS {quoted(epochs_table)} (writer VARCHAR(100) CHARACTER SET ascii NOT NULL, "
        "number BIGINT NOT NULL, written_at TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP, "
        "PRIMARY KEY (writer, number)) ENGINE=InnoDB",
    )


def record(connection: object, epochs_table: str, transaction: Transaction) -> None:
    """In the open transaction: whoever sees this row sees the transaction's rows."""
    statement = f"INSERT INTO {quoted(epochs_table)} (writer, number) VALUES (%s, %s)"
    execute(connection, statement, (transaction.writer, transaction.number))
