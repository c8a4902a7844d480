"""Into which windows is a stream cut?

    orders.key_by("city").window(cw.tumbling("1h")).sum("price")

Windows follow event time unless they are told `time="processing"`: then a record belongs to the window of the moment in
which it arrives. Those that are still open when the input ends fire at that moment.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cutwater.durations import Duration, parse_duration
from cutwater.errors import ConfigurationError
from cutwater.operators.windows.model import AlignedWindows, GlobalWindows, SessionWindows, TimeKind


def tumbling(size: Duration, *, offset: Duration | None = None, time: TimeKind = "event") -> AlignedWindows:
    """Each window begins where the last one ends; the first at the epoch, or `offset` behind it."""
    size_ms = positive_ms(size, option="the size of a window")
    return AlignedWindows(size_ms, size_ms, _offset_ms(offset, below_ms=size_ms), _checked_time(time))


def sliding(
    size: Duration, every: Duration, *, offset: Duration | None = None, time: TimeKind = "event"
) -> AlignedWindows:
    """Windows of this size, of which one begins `every` so often: a record is in size / every of them."""
    size_ms = positive_ms(size, option="the size of a window")
    every_ms = positive_ms(every, option="every")
    return AlignedWindows(size_ms, every_ms, _offset_ms(offset, below_ms=every_ms), _checked_time(time))


def session(gap: Duration | Callable[[Any], Duration], *, time: TimeKind = "event") -> SessionWindows:
    """Records of a key that are not further apart than the gap; a function gives each record a gap of its own."""
    if callable(gap):
        return SessionWindows(None, gap, _checked_time(time))
    return SessionWindows(positive_ms(gap, option="the gap of a session"), None, _checked_time(time))


def global_window() -> GlobalWindows:
    """All records of a key in one window that has no end: it needs a trigger."""
    return GlobalWindows()


def count_window(count: int, *, every: int | None = None) -> GlobalWindows:
    """Windows of so many records of a key. With `every`: after every so many records a result of the last `count`, or
    of those that are there. A window that never becomes full gives no result."""
    return GlobalWindows(
        positive_count(count, option="the size of a count window"),
        None if every is None else positive_count(every, option="every"),
    )


def positive_ms(duration: Duration, *, option: str) -> int:
    """Milliseconds, one at least."""
    milliseconds = round(parse_duration(duration, option=option) * 1000)
    if milliseconds < 1:
        raise ConfigurationError(f"{option} must be a millisecond at least, not {duration!r}")
    return milliseconds


def positive_count(count: Any, *, option: str) -> int:
    if not isinstance(count, int) or isinstance(count, bool) or count < 1:
        raise ConfigurationError(f"{option} must be a whole number of records, one at least, not {count!r}")
    return count


def _offset_ms(offset: Duration | None, *, below_ms: int) -> int:
    offset_ms = 0 if offset is None else round(parse_duration(offset, option="the offset of a window") * 1000)
    if offset_ms >= below_ms:
        raise ConfigurationError(
            f"the offset of a window must be less than the time between two starts, not {offset!r}",
            detail=f"a window starts every {below_ms} ms",
            hint='days of a zone that is 8 hours ahead start 16 hours behind those of UTC: offset="16h"',
        )
    return offset_ms


def _checked_time(time: Any) -> TimeKind:
    if time not in ("event", "processing"):
        raise ConfigurationError(f"the time of a window can't be {time!r}", hint='choose "event" or "processing"')
    kind: TimeKind = time
    return kind
