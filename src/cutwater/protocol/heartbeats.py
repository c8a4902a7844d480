"""Who has been silent for too long?"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

#: How often in a row a silence is excused.
EXCUSES_MAX = 9

Who = TypeVar("Who", bound=Hashable)


class HeartbeatMonitor(Generic[Who]):
    """Watches everyone it has seen, until it reported or forgot them."""

    def __init__(self, timeout_seconds: float) -> None:
        assert timeout_seconds > 0, timeout_seconds
        self._timeout_seconds = timeout_seconds
        self._seen_seconds: dict[Who, float] = {}
        self._excuses: dict[Who, int] = {}

    def seen(self, who: Who, now_seconds: float) -> None:
        """A sign of life."""
        # Taken out first, so that the dict stays ordered by the last sign of life.
        self._seen_seconds.pop(who, None)
        self._seen_seconds[who] = now_seconds
        self._excuses.pop(who, None)

    def excuse(self, who: Who, now_seconds: float) -> bool:
        """Its silence has a reason that may pass: it has another timeout. False: it was excused too often."""
        excuses = self._excuses.get(who, 0) + 1
        if excuses > EXCUSES_MAX:
            return False
        self.seen(who, now_seconds)
        self._excuses[who] = excuses
        return True

    def watches(self, who: Who) -> bool:
        return who in self._seen_seconds

    def forget(self, who: Who) -> None:
        """Left in good order; unknown ones are ignored."""
        self._seen_seconds.pop(who, None)
        self._excuses.pop(who, None)

    def expired(self, now_seconds: float) -> list[Who]:
        """Whoever was silent for the whole timeout, longest silence first. Reported once, then no longer watched."""
        late = [who for who, seen in self._seen_seconds.items() if seen + self._timeout_seconds <= now_seconds]
        for who in late:
            del self._seen_seconds[who]
        return late

    def wake_at(self) -> float | None:
        """When somebody would expire next; None if nobody is watched."""
        earliest = min(self._seen_seconds.values(), default=None)
        return None if earliest is None else earliest + self._timeout_seconds
