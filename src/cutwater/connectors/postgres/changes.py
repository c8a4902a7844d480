"""How do the changes of tables of PostgreSQL become a stream, each exactly once?

By its replication slot, which keeps the log until a completed checkpoint holds the changes; and by reading the tables
themselves at the beginning, for what was there before.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import msgspec

from cutwater.connectors.bases.extras import client
from cutwater.connectors.bases.fetching import FetchingReader
from cutwater.connectors.contract import Discovery, ReaderContext, Source, SplitReader
from cutwater.connectors.postgres.client import clear_errors, connect, table_name, title_of
from cutwater.connectors.postgres.log_reader import ChangeFetcher, ChangeLog
from cutwater.connectors.postgres.replication import END_OF_LOG, end_of_log
from cutwater.connectors.postgres.tables import PublishedTables
from cutwater.connectors.settings import check_names, check_text
from cutwater.errors import ConfigurationError
from cutwater.protocol.splits import Split

_NAME = re.compile(r"[a-z0-9_]{1,63}")


def postgres_changes(
    dsn: str,
    *,
    tables: Sequence[str] = (),
    slot: str,
    publication: str | None = None,
    snapshot: bool = True,
    bounded: bool = False,
) -> PostgresChanges:
    """A source of the rows of tables of PostgreSQL and of all their changes, by logical replication (extra `postgres`).

    Records are `Change`s: `op` ("read", "insert", "update", "delete", "truncate"), `table`, `before`, `after`, `lsn`,
    `number`, `commit_time`. `before` has the key of a deleted row, or of one whose key changed; all columns after
    `ALTER TABLE … REPLICA IDENTITY FULL`. Large values that an update didn't touch are missing in `after` unless they
    are in `before`.

    Replayable: exactly once, in the order of commits. A position is the end of the last transaction that was read and
    how many changes of the next one were. One task reads.

    `snapshot`: a job that starts from nothing first reads the rows that are there, as changes with `op="read"`, in the
    order of the primary key, which every table needs. They are read in parts while the changes go on, not all at one
    moment; of each row exactly those changes follow that its reading could not see yet. A job that fails meanwhile
    goes on where the checkpoint was. False: only changes are read, from where the slot is.

    `dsn`: what libpq takes; the user needs the attribute REPLICATION, the server `wal_level=logical`.
    `slot`: the replication slot, one for each job. It is created if it isn't there.
    The server keeps its log until a checkpoint holds the changes, also while the job is down: drop the slot
    (`SELECT pg_drop_replication_slot('…')`) when the job is gone for good. An older snapshot than the last can't be
    restored, unless nothing was confirmed since.
    `publication`: left out, named like the slot. It is created for the `tables` if it isn't there.
    `bounded`: ends behind what is committed when the job starts.
    """
    for option, name in (("slot", slot), ("publication", publication or slot)):
        check_text(option, name)
        if not _NAME.fullmatch(name):
            raise ConfigurationError(
                f"{option} {name!r} is no name for it", hint="up to 63 lower-case letters, digits and underscores"
            )
    if publication is None and not tables:
        raise ConfigurationError(
            "nothing says whose changes to read", hint='tables=("orders",), or an existing publication="…"'
        )
    names = check_names("tables", tables, required=False)
    log = ChangeLog(dsn, title_of(dsn), slot, publication or slot)
    return PostgresChanges(log, names, snapshot=snapshot, bounded=bounded)


class PostgresChanges(Source):
    """One split: the slot."""

    eager = True

    def __init__(self, log: ChangeLog, tables: tuple[str, ...], *, snapshot: bool, bounded: bool) -> None:
        self._log = log
        self._dsn = log.dsn
        self._title = log.server
        self._slot = log.slot
        self._publication = log.publication
        self._tables = tables
        self._reads_tables = snapshot
        self.bounded = self._bounded = bounded

    @property
    def name(self) -> str:
        return f"postgres_changes({self._title}, slot {self._slot})"

    def check(self) -> None:
        connection = connect(self._dsn, self._title)
        try:
            with clear_errors("be checked", self._title):
                self._check_log(connection)
                self._check_publication(connection)
                found = connection.execute(
                    "SELECT plugin, database = current_database() FROM pg_replication_slots WHERE slot_name = %s",
                    (self._slot,),
                ).fetchone()
                if found is None:
                    connection.execute("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", (self._slot,))
                elif found != ("pgoutput", True):
                    raise ConfigurationError(
                        f'replication slot "{self._slot}" of PostgreSQL at {self._title} is not ours',
                        detail="it has another plugin, or belongs to another database",
                        hint="choose another name",
                    )
        finally:
            connection.close()
        if self._reads_tables:
            tables = PublishedTables(self._dsn, self._title, self._publication)
            try:
                tables.check()
            finally:
                tables.close()

    def _check_log(self, connection: Any) -> None:
        level = connection.execute("SHOW wal_level").fetchone()[0]
        if level != "logical":
            raise ConfigurationError(
                f"PostgreSQL at {self._title} doesn't log changes of rows",
                detail=f"wal_level is {level!r}",
                hint="ALTER SYSTEM SET wal_level = logical, and restart it",
            )

    def _check_publication(self, connection: Any) -> None:
        sql = client("psycopg.sql", extra="postgres")
        for table in self._tables:
            quoted = table_name(table).as_string(connection)
            if connection.execute("SELECT to_regclass(%s)", (quoted,)).fetchone()[0] is None:
                raise ConfigurationError(
                    f'PostgreSQL at {self._title} has no table "{table}"',
                    hint="create it first; a table outside the search path is named with its schema",
                )
        name = sql.Identifier(self._publication)
        found = connection.execute("SELECT 1 FROM pg_publication WHERE pubname = %s", (self._publication,)).fetchone()
        if found is not None:
            return
        if not self._tables:
            raise ConfigurationError(
                f'PostgreSQL at {self._title} has no publication "{self._publication}"',
                hint=f"CREATE PUBLICATION {self._publication} FOR TABLE …, or give the tables: tables=(…)",
            )
        tables = sql.SQL(", ").join(map(table_name, self._tables))
        connection.execute(sql.SQL("CREATE PUBLICATION {} FOR TABLE {}").format(name, tables))

    def discover(self, parallelism: int) -> Discovery:
        end = None
        if self._bounded:
            connection = connect(self._dsn, self._title)
            try:
                with clear_errors("say where its log ends", self._title):
                    end = end_of_log(*connection.execute(f"SELECT {END_OF_LOG}").fetchone())
            finally:
                connection.close()
        return Discovery((Split(self._slot, msgspec.msgpack.encode(end)),), complete=True)

    def reader(self, split: Split, position: Any, context: ReaderContext) -> SplitReader:
        end: int | None = msgspec.msgpack.decode(split.payload, type=int | None)
        fetcher = ChangeFetcher(self._log, end, reads_tables=self._reads_tables)
        return FetchingReader(fetcher, position, context, name=f'source "{self.name}"')
