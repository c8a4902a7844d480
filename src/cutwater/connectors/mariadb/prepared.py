"""How are XA transactions of MariaDB prepared, committed, rolled back, and known to be done?

A prepared transaction belongs to its connection until that ends: nobody else can commit it before. So a writer closes
its connection when it has prepared, and whoever commits a moment too early tries again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cutwater.connectors.bases.sql_database import Refusal, SqlConnection, SqlTable
from cutwater.connectors.mariadb.client import execute, pymysql, quoted
from cutwater.connectors.mariadb.inserting import InsertingLoader

_UNKNOWN_XID = 1397
_NO_SUCH_TABLE = 1146


class MariaConnection(SqlConnection):
    holds_prepared = True

    def __init__(self, connection: Any, table: SqlTable) -> None:
        super().__init__(table, InsertingLoader(connection, table))
        self._connection = connection

    def execute(self, statement: str, values: Sequence[Any] | None = None) -> Sequence[Sequence[Any]]:
        return execute(self._connection, statement, values)

    def quoted(self, name: str) -> str:
        return quoted(name)

    def create_epochs_table(self) -> None:
        self.execute(
            f"CREATE TABLE IF NOT EXISTS {quoted(self.table.epochs_table)} "
            "(writer VARCHAR(100) CHARACTER SET ascii NOT NULL, number BIGINT NOT NULL, "
            "written_at TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP, PRIMARY KEY (writer, number)) ENGINE=InnoDB"
        )

    def begin_to_prepare(self, name: str) -> None:
        self.execute(f"XA START {xid_of(name)}")

    def prepare(self, name: str) -> None:
        self.execute(f"XA END {xid_of(name)}")
        self.execute(f"XA PREPARE {xid_of(name)}")

    def commit(self, name: str) -> bool:
        return self.end_prepared(f"XA COMMIT {xid_of(name)}", what=f"commit transaction {name}")

    def roll_back(self, name: str) -> bool:
        return self.end_prepared(f"XA ROLLBACK {xid_of(name)}", what=f"rollback transaction {name}")

    def names_of_prepared(self) -> Sequence[str]:
        found = [_name_of(first_bytes, both) for _, first_bytes, _, both in self.execute("XA RECOVER")]
        return [name for name in found if name.startswith("cutwater-")]

    def refusal(self, error: Exception) -> Refusal | None:
        module = pymysql()
        if isinstance(error, module.IntegrityError):
            return Refusal.TAKEN
        if isinstance(error, module.ProgrammingError) and error.args[0] == _NO_SUCH_TABLE:
            return Refusal.NO_SUCH_TABLE
        if isinstance(error, module.OperationalError) and error.args[0] == _UNKNOWN_XID:
            return Refusal.NOT_PREPARED
        return None

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
