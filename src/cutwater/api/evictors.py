"""Which records does a window leave out when it fires?

    stream.window(cw.global_window()).trigger(cw.triggers.count(10)).evictor(cw.evictors.count(100)).mean("value")

A window with an evictor keeps its records until it is cleaned up. An evictor of your own is an object with
`evict_before(records, window)` or `evict_after(records, window)`, or both: of a list of `TimedRecord`s each returns
those that stay.
"""

from __future__ import annotations

from cutwater.api.windows import positive_count, positive_ms
from cutwater.durations import Duration
from cutwater.operators.windows.evictors import CountEvictor, Evictor, TimedRecord, TimeEvictor

__all__ = ["Evictor", "TimedRecord", "count", "time"]


def count(records: int, *, after: bool = False) -> Evictor:
    """The last so many records stay; `after`: only after the result was made of all of them."""
    return CountEvictor(positive_count(records, option="the count of an evictor"), after=after)


def time(keep: Duration, *, after: bool = False) -> Evictor:
    """Records stay that are less than this older than the newest in the window; `after` as in `count`."""
    return TimeEvictor(positive_ms(keep, option="the time of an evictor"), after=after)
