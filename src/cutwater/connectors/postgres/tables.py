"""How are the rows of a published table read, part by part, and where in that order is a row?

The server compares keys: it alone knows how its types and languages sort.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from cutwater.connectors.bases.extras import client
from cutwater.connectors.postgres.client import clear_errors, connect
from cutwater.connectors.postgres.progress import Key, Moment, Place, Progress, title
from cutwater.connectors.postgres.replication import END_OF_LOG, end_of_log
from cutwater.errors import ConfigurationError

#: Values as the log has them.
_SESSION = "-c datestyle=ISO -c timezone=UTC -c intervalstyle=postgres"

_PUBLISHED = """
SELECT schemaname, tablename FROM pg_publication_tables WHERE pubname = %s ORDER BY 1, 2
"""
# What a publication says of columns and rows, it says since version 15.
_DESCRIPTION = """
SELECT c.oid, c.relkind = 'p', to_jsonb(p) ->> 'rowfilter', ARRAY(
    SELECT a.attname::text FROM pg_attribute a
    WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = ''
    AND (to_jsonb(p) -> 'attnames' IS NULL OR to_jsonb(p) -> 'attnames' ? a.attname)
    ORDER BY a.attnum)
FROM pg_publication_tables p JOIN pg_namespace n ON n.nspname = p.schemaname
JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = p.tablename
WHERE p.pubname = %s AND p.schemaname = %s AND p.tablename = %s
"""
# The key that the log has of rows that are gone.
_KEY = """
SELECT a.attname, format_type(a.atttypid, a.atttypmod), (
    SELECT format(' COLLATE %%I.%%I', n.nspname, l.collname) FROM pg_collation l
    JOIN pg_namespace n ON n.oid = l.collnamespace WHERE l.oid = a.attcollation)
FROM pg_class c
JOIN pg_index i ON i.indrelid = c.oid AND CASE c.relreplident WHEN 'i' THEN i.indisreplident ELSE i.indisprimary END
CROSS JOIN LATERAL unnest(i.indkey) WITH ORDINALITY AS k(number, place)
JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = k.number
WHERE c.oid = %s AND k.place <= i.indnkeyatts ORDER BY k.place
"""
# Those that have a number and have not ended; also some that no snapshot lists, because none after them has ended.
_RUNNING = "SELECT transactionid::text FROM pg_locks WHERE locktype = 'transactionid' AND mode = 'ExclusiveLock'"


@dataclass(frozen=True, slots=True)
class KeyColumn:
    name: str
    type: str
    collation: str


@dataclass(frozen=True, slots=True)
class Table:
    schema: str
    name: str
    columns: tuple[str, ...]
    key: tuple[KeyColumn, ...]
    #: The publication's condition, in SQL.
    condition: str | None
    has_partitions: bool


@dataclass(frozen=True, slots=True)
class RowsRead:
    rows: list[dict[str, Any]]
    #: Of the last one; None: there are no more behind them.
    up_to: Key | None
    moment: str
    lsn: int
    time: datetime


class PublishedTables:
    """A connection to read tables with. Used by one thread."""

    def __init__(self, dsn: str, server: str, publication: str) -> None:
        self._server = server
        self._publication = publication
        self._connection = connect(dsn, server, options=_SESSION)
        self._tables: dict[tuple[str, str], Table] = {}

    def all(self) -> list[tuple[str, str]]:
        with clear_errors("list published tables", self._server):
            return [tuple(row) for row in self._connection.execute(_PUBLISHED, (self._publication,))]

    def check(self) -> None:
        """Raises a clear error for a table that can't be read in the order of a key."""
        for table in self.all():
            self.described(table)
            with clear_errors(f'read table "{title(table)}"', self._server):
                sql = client("psycopg.sql", extra="postgres")
                self._connection.execute(sql.SQL("SELECT FROM {} LIMIT 0").format(sql.Identifier(*table)))

    def running(self) -> set[int]:
        """The numbers, to 32 bits, of transactions that write now."""
        with clear_errors("list transactions", self._server):
            return {int(number) for (number,) in self._connection.execute(_RUNNING)}

    def described(self, table: tuple[str, str]) -> Table:
        if table not in self._tables:
            with clear_errors(f'describe table "{title(table)}"', self._server):
                found = self._connection.execute(_DESCRIPTION, (self._publication, *table)).fetchone()
                key = () if found is None else self._connection.execute(_KEY, (found[0],)).fetchall()
            if not key:
                raise ConfigurationError(
                    f'table "{title(table)}" of PostgreSQL at {self._server} can\'t be read in the order of a key',
                    detail="it has no primary key, or was dropped",
                    hint="add one; or begin with the changes: snapshot=False",
                )
            columns = tuple(KeyColumn(name, type_, collation or "") for name, type_, collation in key)
            self._tables[table] = Table(*table, tuple(found[3]), columns, found[2], found[1])
        return self._tables[table]

    def read(self, progress: Progress, limit: int, allows: Any) -> RowsRead | None:
        """The next rows; None: `allows` does not allow the moment."""
        table = self.described(progress.tables[0])
        with clear_errors(f'read table "{title(progress.tables[0])}"', self._server):
            execute = self._connection.execute
            execute("BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            try:
                # Before the moment is taken: a table that is rewritten afterwards would look empty.
                execute(self._sql("LOCK TABLE {from_} IN ACCESS SHARE MODE", table))
                moment, time, *end = execute(
                    f"SELECT pg_current_snapshot()::text, clock_timestamp(), {END_OF_LOG}"
                ).fetchone()
                if not allows(Moment.of(moment)):
                    return None
                rows = execute(self._statement(table, progress), (*(progress.behind or ()), limit)).fetchall()
            finally:
                execute("ROLLBACK")
        width = len(table.columns)
        up_to = tuple(rows[-1][width:]) if len(rows) == limit else None
        records = [dict(zip(table.columns, row, strict=False)) for row in rows]
        return RowsRead(records, up_to, moment, end_of_log(*end), time)

    def places(self, progress: Progress, keys: Sequence[Key]) -> list[Place]:
        """Where these keys of the table that is being read are."""
        table = self.described(progress.tables[0])
        part = progress.part
        bounds = [progress.behind, *([] if part is None or part.up_to is None else [part.up_to])]
        names = [f"k{index}" for index in range(len(table.key))]
        types = [f"{column.type}{column.collation}" for column in table.key]
        values = ", ".join(f"({name})::{type_}" for name, type_ in zip(names, types, strict=True))
        limit = ", ".join(f"(%s)::{type_}" for type_ in types)
        below = [f"({values}) <= ({limit})" if bound is not None else "false" for bound in bounds]
        arrays = ", ".join(["%s::text[]"] * len(names))
        query = (
            f"SELECT {', '.join(below)} FROM unnest({arrays}) WITH ORDINALITY AS keys({', '.join(names)}, place) "
            "ORDER BY place"
        )
        arguments = [value for bound in bounds for value in bound or ()] + [
            list(each) for each in zip(*keys, strict=True)
        ]
        with clear_errors("compare keys", self._server):
            answers = self._connection.execute(query, arguments).fetchall()
        beyond = Place.AHEAD if part is None or part.up_to is not None else Place.IN_PART
        return [Place.READ if is_read else Place.IN_PART if any(rest) else beyond for is_read, *rest in answers]

    def close(self) -> None:
        self._connection.close()

    def _statement(self, table: Table, progress: Progress) -> Any:
        """The columns, and the key as text."""
        sql = client("psycopg.sql", extra="postgres")
        keys = [sql.Identifier("t", column.name) for column in table.key]
        conditions = [] if table.condition is None else [sql.SQL("({})").format(sql.SQL(_escaped(table.condition)))]
        if progress.behind is not None:
            marks = sql.SQL(", ").join([sql.Placeholder()] * len(keys))
            conditions.append(sql.SQL("({}) > ({})").format(sql.SQL(", ").join(keys), marks))
        return self._sql(
            "SELECT {columns} FROM {from_} AS t WHERE {conditions} ORDER BY {keys} LIMIT %s",
            table,
            columns=sql.SQL(", ").join(
                [
                    *(sql.Identifier("t", name) for name in table.columns),
                    *(sql.SQL("{}::text").format(key) for key in keys),
                ]
            ),
            conditions=sql.SQL(" AND ").join(conditions or [sql.SQL("true")]),
            keys=sql.SQL(", ").join(keys),
        )

    def _sql(self, text: str, table: Table, **parts: Any) -> Any:
        sql = client("psycopg.sql", extra="postgres")
        # Children of a table are published by themselves; partitions with it, if it is listed.
        only = "" if table.has_partitions else "ONLY "
        return sql.SQL(text).format(
            from_=sql.SQL("{}{}").format(sql.SQL(only), sql.Identifier(table.schema, table.name)), **parts
        )


def _escaped(text: str) -> str:
    return text.replace("%", "%%")
