"""How is a table that changes read to its end, so that no change is lost or counted twice?

Part by part, in the order of its key, while the log goes on. PostgreSQL says of every reading which transactions it
could see, and the log says of every change which transaction made it. So for each change there is one answer:

* its row was read in a part that could not see its transaction: the change follows the row, and goes on;
* its row was read in a part that saw its transaction: the row has the change already, and the change is dropped;
* its row will be read later: the change is dropped, and the part that reads the row must see its transaction.

A part needs no memory any more when the log is behind everything that the part could see.

    >>> Moment.of("10:14:11,13").sees(12), Moment.of("10:14:11,13").sees(13), Moment.of("10:14:11,13").sees(14)
    (True, False, False)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import IntEnum
from typing import Any, NamedTuple, Self

import msgspec

from cutwater.connectors.postgres.pgoutput import Changed

Key = tuple[str, ...]
"""Values of the key's columns, as PostgreSQL writes them."""


class Change(NamedTuple):
    """One change of one row, or a row that was read at the beginning. `before` and `after`: its columns."""

    op: str
    table: str
    before: dict[str, Any] | None
    after: dict[str, Any] | None
    #: Of the transaction's commit, and the number of the change in the transaction: together unique, and growing.
    lsn: int
    number: int
    commit_time: datetime


class Logged(NamedTuple):
    """A change as the log tells it, and the transaction that made it."""

    changed: Changed
    change: Change
    transaction: int


@dataclass(frozen=True, slots=True)
class Moment:
    """Which transactions a reading could see; what PostgreSQL calls a snapshot."""

    #: All below are over; those from `end` on had not ended.
    begin: int
    end: int
    #: In between, had not ended.
    running: frozenset[int]

    @classmethod
    def of(cls, text: str) -> Self:
        begin, end, running = text.split(":")
        return cls(int(begin), int(end), frozenset(map(int, filter(None, running.split(",")))))

    def sees(self, transaction: int) -> bool:
        """The log has the lower 32 bits of a transaction's number: what is near is meant."""
        distance = (transaction - self.end + (1 << 31)) % (1 << 32) - (1 << 31)
        number = self.end + distance
        return number < self.begin or (number < self.end and number not in self.running)


class Part(msgspec.Struct, frozen=True, array_like=True):
    """Rows that were read at one moment."""

    #: The last of them; None: up to the end of the table.
    up_to: list[str] | None
    moment: str
    #: Everything that the moment could see was committed before this position of the log.
    lsn: int


class Progress(msgspec.Struct, frozen=True, array_like=True):
    """How far the tables have been read. Part of the reader's position."""

    #: Schema and name of those that are not done; the first one is being read.
    tables: list[tuple[str, str]]
    #: The last row that was read, without those of `part`; None: none yet.
    behind: list[str] | None = None
    #: What the log has not caught up with.
    part: Part | None = None
    #: Rows of all tables.
    rows: int = 0

    def caught_up(self, lsn: int) -> Progress | None:
        """When the log is here; None: everything has been read."""
        if self.part is None or lsn < self.part.lsn:
            return self
        if self.part.up_to is not None:
            return msgspec.structs.replace(self, behind=self.part.up_to, part=None)
        tables = self.tables[1:]
        return Progress(tables, rows=self.rows) if tables else None


class Place(IntEnum):
    """Where a row is, in the order of the key."""

    READ = 0
    IN_PART = 1
    AHEAD = 2


def title(table: Sequence[str]) -> str:
    """As changes name it."""
    schema, name = table
    return name if schema == "public" else f"{schema}.{name}"


class Reconciliation:
    """Decides of each change whether it goes on, from the progress that it is given."""

    def __init__(self, must_see: Iterable[int]) -> None:
        """`must_see`: what the next part must be able to see."""
        self.must_see = set(must_see)

    def allows(self, moment: Moment) -> bool:
        """Could a part be read now? The log may tell of a commit a little before others can see it."""
        self.must_see = {transaction for transaction in self.must_see if not moment.sees(transaction)}
        return not self.must_see

    def judge(
        self, progress: Progress, logged: Sequence[Logged], places: Callable[[Sequence[Key]], Sequence[Place]]
    ) -> tuple[Progress, list[Change]]:
        """What goes on. `places` says of keys of the table that is being read where they are."""
        left = {title(table): index for index, table in enumerate(progress.tables)}
        current = [each.changed for each in logged if left.get(each.change.table) == 0]
        keys = list({key for changed in current for key in (changed.old_key, changed.new_key) if key is not None})
        at = dict(zip(keys, places(keys), strict=True)) if keys else {}
        moment = Moment.of(progress.part.moment) if progress.part is not None else None
        judged: list[Change] = []
        for each in logged:
            index = left.get(each.change.table)
            if index is None:
                judged.append(each.change)
            elif index > 0:
                self.must_see.add(each.transaction)
            elif each.changed.op == "truncate":
                # Which of its rows came before, and which after, is hard to tell: it is read anew.
                if progress.behind is not None or progress.part is not None:
                    judged.append(each.change)
                progress, at = msgspec.structs.replace(progress, behind=None, part=None), {}
                self.must_see.add(each.transaction)
            else:
                judged += self._judge_row(each, at, moment)
        return progress, judged

    def _judge_row(self, logged: Logged, at: dict[Key, Place], moment: Moment | None) -> list[Change]:
        changed, change = logged.changed, logged.change

        def goes_on(key: Key | None) -> bool:
            place = Place.AHEAD if key is None else at.get(key, Place.AHEAD)
            if place is Place.AHEAD:
                self.must_see.add(logged.transaction)
            return place is Place.READ or (place is Place.IN_PART and not _sees(moment, logged.transaction))

        if changed.op != "update" or changed.old_key in (None, changed.new_key):
            return [change] if goes_on(changed.new_key or changed.old_key) else []
        # The row has another key now: it left one place and came to another.
        match goes_on(changed.old_key), goes_on(changed.new_key):
            case True, True:
                return [change]
            case True, False:
                return [change._replace(op="delete", after=None)]
            case False, True:
                return [change._replace(op="insert", before=None)]
        return []


def _sees(moment: Moment | None, transaction: int) -> bool:
    return moment is not None and moment.sees(transaction)
