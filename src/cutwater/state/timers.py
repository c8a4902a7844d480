"""How do timers survive a failure and a change of parallelism?

A registration is an entry of a key-group table, (time, key, namespace) to its number, so that it is frozen, restored
and moved like any other keyed state. A queue aside knows the order; it is filled from the table when it is opened.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import Any, Protocol

from cutwater.protocol.key_groups import KeyGroups
from cutwater.protocol.timers import Timer, TimerQueue
from cutwater.state.handles import Cursor


class TimerTable(Protocol):
    """Where registrations lie: a `KeyGroupTable`, or what looks like one."""

    @property
    def dicts(self) -> Sequence[Mapping[Any, int]]:
        """What was restored. Read once, first."""
        ...

    def put(self, index: int, key: Any, value: Any) -> None: ...
    def remove(self, index: int, key: Any) -> None: ...


class HeapTimerState:
    """The timers of one name, of all keys of the task. Used by the loop's thread only; never blocks."""

    __slots__ = ("_cursor", "_group_of", "_groups", "_numbered", "_queue", "_table")

    def __init__(self, table: TimerTable, cursor: Cursor, *, groups: range, key_groups: KeyGroups) -> None:
        self._table = table
        self._cursor = cursor
        self._groups = groups
        self._group_of = key_groups.of
        self._queue = TimerQueue()
        # By number: timers of one time fire in the order in which they were registered, also after a restore.
        # Several former tasks may have given the same number; any order will do between them.
        restored = [entry for entries in table.dicts for entry in entries.items()]
        restored.sort(key=itemgetter(1))
        self._numbered = restored[-1][1] + 1 if restored else 0
        self._queue.restore(Timer(*timer) for timer, _ in restored)

    def __len__(self) -> int:
        return len(self._queue)

    def register(self, time_ms: int, namespace: Any = None) -> bool:
        cursor = self._cursor
        if not self._queue.register(time_ms, cursor.key, namespace):
            return False
        self._table.put(cursor.index, (time_ms, cursor.key, namespace), self._numbered)
        self._numbered += 1
        return True

    def delete(self, time_ms: int, namespace: Any = None) -> bool:
        cursor = self._cursor
        if not self._queue.delete(time_ms, cursor.key, namespace):
            return False
        self._table.remove(cursor.index, (time_ms, cursor.key, namespace))
        return True

    def due(self, upto_ms: int) -> list[Timer]:
        due = self._queue.due(upto_ms)
        first, group_of, remove = self._groups.start, self._group_of, self._table.remove
        for timer in due:
            remove(group_of(timer.key) - first, timer)
        return due

    def next_time(self) -> int | None:
        return self._queue.next_time()
