"""Which timers are due, and in which order?

By time, then in the order in which they were registered. A timer is its time, key and namespace: registering it twice
fires it once.
"""

from __future__ import annotations

import heapq
from collections.abc import Hashable, Iterable
from typing import NamedTuple

_STALE_ENTRIES_MIN = 64


class Timer(NamedTuple):
    """A wake-up call for one key. A tuple, not a dataclass: windows register one for nearly every record."""

    time_ms: int
    key: Hashable
    namespace: Hashable = None


class TimerQueue:
    """The timers of one task and one notion of time; used by the task's thread only."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Timer]] = []
        # Deleting from a heap is slow: an entry counts only while its number is still the one written here.
        self._registered: dict[Timer, int] = {}
        self._numbered = 0

    def __len__(self) -> int:
        return len(self._registered)

    def register(self, time_ms: int, key: Hashable, namespace: Hashable = None) -> bool:
        """True if the timer is new."""
        timer = Timer(time_ms, key, namespace)
        if timer in self._registered:
            return False
        number = self._numbered
        self._numbered = number + 1
        self._registered[timer] = number
        heapq.heappush(self._heap, (time_ms, number, timer))
        return True

    def delete(self, time_ms: int, key: Hashable, namespace: Hashable = None) -> bool:
        """True if the timer was there."""
        if self._registered.pop(Timer(time_ms, key, namespace), None) is None:
            return False
        if len(self._heap) > 2 * len(self._registered) + _STALE_ENTRIES_MIN:
            self._heap = [entry for entry in self._heap if self._counts(entry)]
            heapq.heapify(self._heap)
        return True

    def due(self, upto_ms: int) -> list[Timer]:
        """Takes out the timers at or before this time. What they register meanwhile is due at the next call."""
        fired: list[Timer] = []
        while self._heap and self._heap[0][0] <= upto_ms:
            entry = heapq.heappop(self._heap)
            if self._counts(entry):
                del self._registered[entry[2]]
                fired.append(entry[2])
        return fired

    def next_time(self) -> int | None:
        """The time of the earliest timer."""
        while self._heap and not self._counts(self._heap[0]):
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def items(self) -> list[Timer]:
        """All timers in the order in which they would fire, for a snapshot."""
        return [entry[2] for entry in sorted(entry for entry in self._heap if self._counts(entry))]

    def restore(self, timers: Iterable[Timer]) -> None:
        """Adds what `items` gave, perhaps of several tasks; their order stays."""
        for timer in timers:
            self.register(*timer)

    def _counts(self, entry: tuple[int, int, Timer]) -> bool:
        return self._registered.get(entry[2]) == entry[1]
