"""Which version of a thing was valid at a time?

The newest at or before it. Of versions of one time the one that came last counts. What no record can ask for any more
is forgotten: of the versions at or before the watermark all but the newest.
"""

from __future__ import annotations

import heapq
from bisect import bisect_right
from collections.abc import Hashable, Iterable
from typing import Any

Version = tuple[int, Any]


class Versions:
    """The versions by key. Used by one thread."""

    def __init__(self, known: Iterable[tuple[Hashable, list[Version]]] = ()) -> None:
        """`known`: what `items` gave."""
        self._times: dict[Hashable, list[int]] = {}
        self._rows: dict[Hashable, list[Any]] = {}
        # (time, number, key): when the watermark gets there, the key's versions before this one are of no use.
        self._replaced_at: list[tuple[int, int, Hashable]] = []
        self._numbered = 0
        for key, versions in known:
            for time_ms, row in versions:
                self.add(key, time_ms, row)

    def __len__(self) -> int:
        return sum(map(len, self._times.values()))

    def add(self, key: Hashable, time_ms: int, row: Any) -> None:
        times = self._times.get(key)
        if times is None:
            self._times[key], self._rows[key] = [time_ms], [row]
            return
        index = bisect_right(times, time_ms)
        times.insert(index, time_ms)
        self._rows[key].insert(index, row)
        # Of the two neighbours the later one ends the earlier one's time, whichever of them is new.
        heapq.heappush(self._replaced_at, (times[max(index, 1)], self._numbered, key))
        self._numbered += 1

    def valid_at(self, key: Hashable, time_ms: int) -> Any:
        """None: there was none yet."""
        times = self._times.get(key)
        if times is None:
            return None
        index = bisect_right(times, time_ms)
        return self._rows[key][index - 1] if index else None

    def forget_before(self, watermark_ms: int) -> None:
        """Nobody will ask for a time at or before the watermark."""
        while self._replaced_at and self._replaced_at[0][0] <= watermark_ms:
            _, _, key = heapq.heappop(self._replaced_at)
            useless = bisect_right(self._times[key], watermark_ms) - 1
            if useless > 0:
                del self._times[key][:useless], self._rows[key][:useless]

    def items(self) -> list[tuple[Hashable, list[Version]]]:
        """All of it, for a snapshot."""
        return [(key, list(zip(times, self._rows[key], strict=True))) for key, times in self._times.items()]
