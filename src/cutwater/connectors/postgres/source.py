"""How does a table that only grows become a stream, by asking for what is behind the last key?"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from cutwater.batches import Batch, ObjectBatch
from cutwater.connectors.bases.extras import client
from cutwater.connectors.bases.fetching import FETCH_WAIT_SECONDS, Fetched, Fetcher, FetchingReader
from cutwater.connectors.contract import Discovery, ReaderContext, Source, SplitReader
from cutwater.connectors.postgres.client import clear_errors, connect, table_name, title_of
from cutwater.connectors.settings import check_names, check_text
from cutwater.durations import Duration, parse_duration
from cutwater.errors import ConfigurationError, SchemaError
from cutwater.protocol.splits import Split


def postgres(
    dsn: str,
    table: str | None = None,
    *,
    query: str | None = None,
    order_by: str | Sequence[str],
    poll: Duration = "1s",
    bounded: bool = False,
    schema: pa.Schema | None = None,
) -> PostgresRows:
    """A source of the rows of a table or a query of PostgreSQL, in the order of a key (extra `postgres`).

    Records are dicts; with `schema` typed batches of its columns.

    `order_by`: a column, or several, whose values together are unique and grow: add an id where a time alone may come
    twice. A position is the last key. Rows behind it are asked for every `poll`; `bounded`: until none is left.

    Replayable, and exactly once for tables that rows are only added to, in the order of the key. What it can't see:
    updates and deletions of rows that were read; rows without a key (NULL); and rows that become visible after one with
    a higher key was read. That happens where several transactions insert at once: a sequence gives out numbers in
    one order, and the transactions commit in another. Where they do, leave the newest rows out by a query, e.g.
    `SELECT * FROM orders WHERE created_at < now() - interval '1 minute'`, longer than any transaction lasts; or read
    the changes themselves: `postgres_changes`.
    """
    if (table is None) is (query is None):
        raise ConfigurationError("either a table or a query is read", hint='postgres(dsn, "orders", order_by="id")')
    check_text("table" if query is None else "query", table or query or "")
    keys = check_names("order_by", (order_by,) if isinstance(order_by, str) else order_by)
    poll_seconds = parse_duration(poll, option="poll")
    return PostgresRows(dsn, title_of(dsn), table, query, keys, poll_seconds, bounded=bounded, schema=schema)


class PostgresRows(Source):
    """One split: all rows."""

    eager = True

    def __init__(
        self,
        dsn: str,
        title: str,
        table: str | None,
        query: str | None,
        keys: tuple[str, ...],
        poll_seconds: float,
        *,
        bounded: bool,
        schema: pa.Schema | None,
    ) -> None:
        self._dsn = dsn
        self._title = title
        self._table = table
        self._query = query
        self._keys = keys
        self._poll_seconds = poll_seconds
        self.bounded = self._bounded = bounded
        self._schema = schema

    @property
    def name(self) -> str:
        return f"postgres({self._title}/{self._table or 'query'})"

    @property
    def schema(self) -> pa.Schema | None:
        return self._schema

    def check(self) -> None:
        connection = connect(self._dsn, self._title)
        try:
            with clear_errors(f"read {self._table or 'the query'}", self._title):
                connection.execute(self._statement(has_position=False), (0,))
        finally:
            connection.close()

    def discover(self, parallelism: int) -> Discovery:
        return Discovery((Split(self._table or "query", b""),), complete=True)

    def reader(self, split: Split, position: Any, context: ReaderContext) -> SplitReader:
        fetcher = _RowFetcher(
            self._dsn,
            self._title,
            (self._statement(has_position=False), self._statement(has_position=True)),
            width=len(self._keys),
            poll_seconds=self._poll_seconds,
            bounded=self._bounded,
            schema=self._schema,
        )
        return FetchingReader(fetcher, position, context, name=f'source "{self.name}"')

    def _statement(self, *, has_position: bool) -> Any:
        """The key comes twice: as a column of the record, and as text at the end, which is the position."""
        sql = client("psycopg.sql", extra="postgres")
        named = [sql.Identifier("cutwater_rows", key) for key in self._keys]
        keys = sql.SQL(", ").join(named)
        texts = sql.SQL(", ").join(sql.SQL("{}::text").format(key) for key in named)
        # Behind the line end: the query may end with a comment.
        query = sql.SQL((self._query or "").replace("%", "%%"))
        rows = table_name(self._table) if self._table else sql.SQL("({}\n)").format(query)
        columns = sql.SQL("cutwater_rows.*")
        if self._schema is not None:
            columns = sql.SQL(", ").join(map(sql.Identifier, self._schema.names))
        behind = sql.SQL("")
        if has_position:
            places = sql.SQL(", ").join([sql.Placeholder()] * len(self._keys))
            behind = sql.SQL("WHERE ({}) > ({})").format(keys, places)
        return sql.SQL("SELECT {}, {} FROM {} AS cutwater_rows {} ORDER BY {} LIMIT {}").format(
            columns, texts, rows, behind, keys, sql.Placeholder()
        )


class _RowFetcher(Fetcher):
    """Position: the last key, as PostgreSQL writes its values."""

    def __init__(
        self,
        dsn: str,
        title: str,
        statements: tuple[Any, Any],
        *,
        width: int,
        poll_seconds: float,
        bounded: bool,
        schema: pa.Schema | None,
    ) -> None:
        self._dsn = dsn
        self._title = title
        self._from_start, self._from_position = statements
        self._width = width
        self._poll_seconds = poll_seconds
        self._bounded = bounded
        self._schema = schema
        self._connection: Any = None
        self._position: Any = None
        self._ask_at_seconds = 0.0

    def connect(self, position: Any) -> None:
        self._connection = connect(self._dsn, self._title, options="-c datestyle=ISO -c timezone=UTC")
        self._position = position

    def fetch(self, limit: int) -> Fetched | None:
        wait_seconds = self._ask_at_seconds - time.monotonic()
        if wait_seconds > 0:
            time.sleep(min(wait_seconds, FETCH_WAIT_SECONDS))
            if wait_seconds > FETCH_WAIT_SECONDS:
                return None
        with clear_errors("read rows", self._title):
            statement = self._from_start if self._position is None else self._from_position
            cursor = self._connection.execute(statement, (*(self._position or ()), limit))
            rows = cursor.fetchall()
        is_all = len(rows) < limit
        if is_all:
            self._ask_at_seconds = time.monotonic() + self._poll_seconds
        if rows:
            self._position = list(rows[-1][-self._width :])
        elif not self._bounded:
            return None
        names = [column.name for column in cursor.description][: -self._width]
        return Fetched(self._position, self._batch(names, rows), ends_split=self._bounded and is_all)

    def _batch(self, names: list[str], rows: list[tuple[Any, ...]]) -> Batch | None:
        if not rows:
            return None
        # A row has more values than names: the key as text.
        records = [dict(zip(names, row, strict=False)) for row in rows]
        if self._schema is None:
            return ObjectBatch(records)
        try:
            return pa.RecordBatch.from_pylist(records, schema=self._schema)
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            raise SchemaError(
                f"rows of PostgreSQL at {self._title} don't fit the schema",
                detail=f"{error}, behind key {self._position}",
            ) from error

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()
