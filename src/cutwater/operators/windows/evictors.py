"""Which records of a window count when it fires?

An evictor sees the window's records before the result is made, and after; what it leaves out is gone for good.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from cutwater.errors import UserError
from cutwater.operators.windows.model import Window


class TimedRecord(NamedTuple):
    """A record of a window, and its event time if it has one."""

    value: Any
    timestamp_ms: int | None


class Evictor:
    """Derive from this for an evictor of your own, or write a class with the same methods."""

    def evict_before(self, records: list[TimedRecord], window: Window) -> list[TimedRecord]:
        """Those that stay, in their order; the result is made of them."""
        return records

    def evict_after(self, records: list[TimedRecord], window: Window) -> list[TimedRecord]:
        """Those that stay in the window after the result was made."""
        return records


class CountEvictor(Evictor):
    """The newest `count` by arrival stay."""

    def __init__(self, count: int, *, after: bool) -> None:
        self._count = count
        self._after = after

    def evict_before(self, records: list[TimedRecord], window: Window) -> list[TimedRecord]:
        return records if self._after else records[-self._count :]

    def evict_after(self, records: list[TimedRecord], window: Window) -> list[TimedRecord]:
        return records[-self._count :] if self._after else records


class TimeEvictor(Evictor):
    """Those stay that are less than `keep_ms` older than the newest by event time."""

    def __init__(self, keep_ms: int, *, after: bool) -> None:
        self._keep_ms = keep_ms
        self._after = after

    def evict_before(self, records: list[TimedRecord], window: Window) -> list[TimedRecord]:
        return records if self._after else self._kept(records)

    def evict_after(self, records: list[TimedRecord], window: Window) -> list[TimedRecord]:
        return self._kept(records) if self._after else records

    def _kept(self, records: list[TimedRecord]) -> list[TimedRecord]:
        newest = max((record.timestamp_ms for record in records if record.timestamp_ms is not None), default=None)
        if newest is None:
            return records
        kept_after = newest - self._keep_ms
        return [record for record in records if record.timestamp_ms is None or record.timestamp_ms > kept_after]


def as_evictor(evictor: Any) -> Any:
    """Raises `UserError` for what can't evict."""
    if isinstance(evictor, type):
        raise UserError(
            f'"{evictor.__name__}" is a class, not an evictor', hint=f"pass an object: {evictor.__name__}()"
        )
    if not callable(getattr(evictor, "evict_before", None)) and not callable(getattr(evictor, "evict_after", None)):
        raise UserError(
            f"{evictor!r} is not an evictor",
            hint="give one of cw.evictors, or an object with evict_before(records, window) or evict_after",
        )
    return evictor
