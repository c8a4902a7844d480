"""How do timers of keys become calls, in order?"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from operator import index
from typing import Any

from cutwater.errors import UserError
from cutwater.protocol.timers import Timer
from cutwater.state.contract import TimerState

#: Names of keyed state that no function of a user's should choose.
EVENT_TIMERS = "__event_timers"
PROCESSING_TIMERS = "__processing_timers"

#: Distinct times in one advance of a clock. More than that is a timer that sets itself again and again behind the
#: end of the input, where every time has come.
_TIMES_MAX = 10_000_000

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)


def take_due(timers: TimerState, upto_ms: int, *, operator: str) -> Iterator[Timer]:
    """Takes out the timers that are due, also those that are registered while earlier ones fire."""
    times = 0
    while (time_ms := timers.next_time()) is not None and time_ms <= upto_ms:
        times += 1
        if times > _TIMES_MAX:
            raise UserError(
                f'the timers of operator "{operator}" never end',
                detail=f"{_TIMES_MAX:,} times have come since the watermark advanced to {upto_ms}",
                hint="at the end of the input context.watermark_ms is the end of time: set no further timer then",
            )
        yield from timers.due(time_ms)


def time_ms_of(time: Any) -> int:
    """What a user gives as the time of a timer: milliseconds since the epoch, or a datetime with a time zone."""
    if isinstance(time, datetime):
        if time.tzinfo is None:
            raise UserError(
                f"a timer can't be set to {time!r}: it has no time zone",
                hint="give an aware datetime, e.g. datetime.now(timezone.utc), or milliseconds since the epoch",
            )
        return (time - _EPOCH) // _MILLISECOND
    try:
        if isinstance(time, bool):
            raise TypeError
        return index(time)
    except TypeError:
        raise UserError(
            f"a timer can't be set to {time!r}",
            hint="give milliseconds since the epoch as an int, or an aware datetime",
        ) from None
