"""Where do the registrations of timers lie, when state is in RocksDB?

As entries of their own, (time, key, namespace) to number, so that a snapshot carries only what changed. The order in
which they are due is kept in memory, as on the heap.
"""

from __future__ import annotations

from typing import Any

from cutwater.protocol.timers import Timer
from cutwater.state.rocksdb.entries import Entries


class RocksTimerTable:
    """What `HeapTimerState` uses of a `KeyGroupTable`."""

    def __init__(self, entries: Entries, restored: dict[Any, int]) -> None:
        self._entries = entries
        self.dicts: list[dict[Any, int]] = [restored]

    def put(self, index: int, timer: tuple[int, Any, Any], number: int) -> None:
        self._entries.put(Timer(*timer), number)

    def remove(self, index: int, timer: tuple[int, Any, Any]) -> None:
        self._entries.remove(Timer(*timer))
