"""How are changes read from the log of PostgreSQL, and rows from its tables in between?

The server sends committed transactions in the order of their commits, from any position that its replication slot still
keeps. A position is the end of the last whole transaction and how many changes of the next one were read: what comes
behind an end is the same whenever it is asked for. At the beginning it also says how far the tables have been read.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, assert_never

import msgspec

from cutwater.batches import ObjectBatch
from cutwater.connectors.bases.fetching import FETCH_WAIT_SECONDS, Fetched, Fetcher
from cutwater.connectors.postgres.pgoutput import Began, Changed, Committed, Decoder
from cutwater.connectors.postgres.progress import Change, Logged, Part, Progress, Reconciliation, title
from cutwater.connectors.postgres.replication import Keepalive, ReplicationConnection, loader_of, text_of
from cutwater.connectors.postgres.tables import PublishedTables
from cutwater.errors import StorageError

#: How often the server is asked how far it is: while nothing changes, and while tables wait for the log.
_ASK_SECONDS = 1.0
_ASK_SOON_SECONDS = 0.02


@dataclass(frozen=True, slots=True)
class ChangeLog:
    """Where the log is."""

    dsn: str = field(repr=False)
    #: For people.
    server: str
    slot: str
    publication: str


class ChangeFetcher(Fetcher):
    """Position: [end of the last whole transaction, changes that were read of the next one], and the progress of
    reading the tables, until they are read."""

    def __init__(self, log: ChangeLog, end_lsn: int | None, *, reads_tables: bool) -> None:
        self._log = log
        self._end_lsn = end_lsn
        self._reads_tables = reads_tables
        self._connection: ReplicationConnection | None = None
        self._tables: PublishedTables | None = None
        self._progress: Progress | None = None
        self._reconciliation = Reconciliation(())

    def connect(self, position: Any) -> None:
        self._connection = ReplicationConnection(self._log.dsn, self._log.server)
        kept_from = self._connection.kept_from(self._log.slot)
        self._lsn: int = kept_from if position is None else position[0]
        self._skip: int = 0 if position is None else position[1]
        if self._lsn < kept_from:
            raise StorageError(
                f"PostgreSQL at {self._log.server} doesn't keep the changes any more that follow the snapshot",
                detail=f'the snapshot is at {text_of(self._lsn)}, slot "{self._log.slot}" keeps from '
                f"{text_of(kept_from)}",
                hint="restore the newest snapshot; or drop the slot and start anew, from the rows of the tables",
            )
        self._seen = 0
        self._began: Began | None = None
        self._open_tables(position)
        self._handed_over = (self._lsn, self._skip, self._progress)
        progress = self._progress
        keys = {} if progress is None else {title(table): self._key_of(table) for table in progress.tables}
        self._decoder = Decoder(loader_of, keys)
        self._connection.start(self._log.slot, self._log.publication, self._lsn)
        self._asked_at_seconds = 0.0

    def fetch(self, limit: int) -> Fetched | None:
        if self._progress is not None and self._progress.part is None and self._began is None and not self._skip:
            fetched = self._fetch_rows(self._progress, limit)
            if fetched is not None:
                return fetched
        logged: list[Logged] = []
        deadline = time.monotonic() + FETCH_WAIT_SECONDS
        while len(logged) < limit and not self._is_at_end():
            wait_seconds = 0.0 if logged else max(0.0, deadline - time.monotonic())
            message = self._open.receive(min(wait_seconds, self._patience_seconds))
            if message is None:
                break
            self._take(message, logged)
            if self._has_caught_up():
                break
        return self._handed_on(self._judged(logged))

    def _handed_on(self, changes: Sequence[Change]) -> Fetched | None:
        position = (self._lsn, self._seen if self._began is not None else self._skip)
        if position < self._handed_over[:2]:  # inside of what is skipped
            return None
        if not changes and (*position, self._progress) == self._handed_over and not self._is_at_end():
            self._ask()
            return None
        self._handed_over = (*position, self._progress)
        stored = list(position) if self._progress is None else [*position, msgspec.to_builtins(self._progress)]
        return Fetched(stored, ObjectBatch(list(changes)) if changes else None, ends_split=self._is_at_end())

    # The log.

    def _take(self, message: memoryview | Keepalive, logged: list[Logged]) -> None:
        if isinstance(message, Keepalive):
            # Not in front of a transaction of which a part was read before: its changes are counted from here.
            if self._began is None and not self._skip:
                self._lsn = max(self._lsn, message.lsn)
            return
        for each in self._decoder.decode(message):
            match each:
                case Began():
                    self._began, self._seen = each, 0
                case Committed():
                    self._began, self._skip, self._lsn = None, 0, each.end_lsn
                case Changed():
                    self._seen += 1
                    if self._seen > self._skip:
                        logged.append(self._logged(each))
                case _:
                    assert_never(each)

    def _logged(self, changed: Changed) -> Logged:
        began = self._began
        assert began is not None, "a change outside of a transaction"
        change = Change(
            changed.op, changed.table, changed.before, changed.after, began.lsn, self._seen, began.commit_time
        )
        return Logged(changed, change, began.transaction)

    def _is_at_end(self) -> bool:
        is_behind = self._end_lsn is not None and self._began is None and self._lsn >= self._end_lsn
        return is_behind and self._progress is None

    def _ask(self) -> None:
        """Where nothing changes, the position moves on all the same, so that the log of other tables isn't kept."""
        now = time.monotonic()
        if now - self._asked_at_seconds >= self._patience_seconds:
            self._asked_at_seconds = now
            self._open.confirm(0, asks_back=True)

    @property
    def _patience_seconds(self) -> float:
        return _ASK_SECONDS if self._progress is None else _ASK_SOON_SECONDS

    # The tables.

    def _open_tables(self, position: Any) -> None:
        self._progress = None
        is_under_way = self._reads_tables if position is None else len(position) > 2
        if not is_under_way:
            return
        self._tables = PublishedTables(self._log.dsn, self._log.server, self._log.publication)
        if position is None:
            tables = self._tables.all()
            self._progress = Progress(tables) if tables else None
        else:
            self._progress = msgspec.convert(position[2], Progress)
        # Of those that write now, the log may have told already, or never will, because they came before the slot.
        self._reconciliation = Reconciliation(self._tables.running())

    def _key_of(self, table: tuple[str, str]) -> tuple[str, ...]:
        assert self._tables is not None, "tables are being read"
        return tuple(column.name for column in self._tables.described(table).key)

    def _fetch_rows(self, progress: Progress, limit: int) -> Fetched | None:
        """The next part; None: not now."""
        assert self._tables is not None, "tables are being read"
        read = self._tables.read(progress, limit, self._reconciliation.allows)
        if read is None:
            return None
        name = title(progress.tables[0])
        # In front of all that is to come, and behind all that came.
        lsn = self._lsn - 1
        changes = [
            Change("read", name, None, row, lsn, number, read.time)
            for number, row in enumerate(read.rows, start=progress.rows + 1)
        ]
        part = Part(None if read.up_to is None else list(read.up_to), read.moment, read.lsn)
        self._progress = msgspec.structs.replace(progress, part=part, rows=progress.rows + len(changes))
        self._catch_up()
        return self._handed_on(changes)

    def _judged(self, logged: Sequence[Logged]) -> list[Change]:
        if self._progress is None:
            return [each.change for each in logged]
        assert self._tables is not None, "tables are being read"
        places = partial(self._tables.places, self._progress)
        self._progress, changes = self._reconciliation.judge(self._progress, logged, places)
        self._catch_up()
        return changes

    def _has_caught_up(self) -> bool:
        part = None if self._progress is None else self._progress.part
        return part is not None and self._began is None and self._lsn >= part.lsn

    def _catch_up(self) -> None:
        assert self._progress is not None, "tables are being read"
        if self._began is None:
            self._progress = self._progress.caught_up(self._lsn)
        if self._progress is None:
            self._close_tables()

    def _close_tables(self) -> None:
        tables, self._tables = self._tables, None
        if tables is not None:
            tables.close()

    def acknowledge(self, position: Any) -> None:
        self._open.confirm(position[0])

    @property
    def _open(self) -> ReplicationConnection:
        assert self._connection is not None, "not connected"
        return self._connection

    def close(self) -> None:
        self._close_tables()
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()
