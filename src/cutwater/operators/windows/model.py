"""Which windows are there, and which of them does a record belong to?

Aligned windows begin at the same times for all keys: tumbling ones are sliding ones that begin when the last one ends.
A session has the times of its own key's records. The global window is never over; count windows are made of it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from math import gcd
from typing import Any, Literal

from cutwater.errors import BadTimestampError
from cutwater.protocol.watermarks import MAX_TIMESTAMP_MS

TimeKind = Literal["event", "processing"]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class TimeWindow:
    """From `start_ms` up to and not including `end_ms`."""

    start_ms: int
    end_ms: int

    @property
    def start(self) -> datetime:
        return utc(self.start_ms)

    @property
    def end(self) -> datetime:
        return utc(self.end_ms)

    @property
    def max_timestamp_ms(self) -> int:
        """The last millisecond inside: the event time of the window's results."""
        return self.end_ms - 1


@dataclass(frozen=True, slots=True)
class GlobalWindow:
    """All records of a key."""

    @property
    def max_timestamp_ms(self) -> int:
        return MAX_TIMESTAMP_MS


Window = TimeWindow | GlobalWindow
GLOBAL_WINDOW = GlobalWindow()


@lru_cache(maxsize=1024)
def utc(time_ms: int) -> datetime:
    """The keys of a window share its times, so most calls find theirs."""
    try:
        return _EPOCH + timedelta(milliseconds=time_ms)
    except OverflowError:
        raise BadTimestampError(
            f"a window can't begin or end at {time_ms} ms since the epoch",
            detail="Python's datetimes end with the year 9999",
            hint="do the timestamps have another unit? assign_timestamps(…, unit=…) says which",
        ) from None


@dataclass(frozen=True, slots=True)
class AlignedWindows:
    """A window of `size_ms` begins every `every_ms`; every record is in size / every of them."""

    size_ms: int
    every_ms: int
    offset_ms: int
    time: TimeKind

    @property
    def slice_ms(self) -> int:
        """All times of a slice are in the same windows."""
        return gcd(self.size_ms, self.every_ms)

    def starts_of(self, slice_start_ms: int) -> range:
        """The windows that hold the slice, by their start, earliest first."""
        last = slice_start_ms - (slice_start_ms - self.offset_ms) % self.every_ms
        return range(last, slice_start_ms - self.size_ms, -self.every_ms)[::-1]

    def describe(self) -> str:
        return "tumbling" if self.size_ms == self.every_ms else "sliding"


@dataclass(frozen=True, slots=True)
class SessionWindows:
    """Records of a key that are not further apart than the gap; exactly one of the two gaps is set."""

    gap_ms: int | None
    gap_function: Callable[[Any], Any] | None
    time: TimeKind

    def describe(self) -> str:
        return "session"


@dataclass(frozen=True, slots=True)
class GlobalWindows:
    """One window per key. With a count: of that many records each; `every` so many, if they overlap."""

    count: int | None = None
    every: int | None = None

    def describe(self) -> str:
        return "global" if self.count is None else "count"


Assigner = AlignedWindows | SessionWindows | GlobalWindows
