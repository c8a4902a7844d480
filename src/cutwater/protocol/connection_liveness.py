"""Does a connection still carry anything, or does it hang?

A connection that breaks says so. One that hangs neither delivers nor breaks, so each end has to ask: after a while of
silence it sends a ping, which the other end's transport answers, whatever its loop is doing and however full its queues
are. An answer that doesn't come makes the connection suspect.

    liveness = ConnectionLiveness(timeout_seconds=30.0)
    liveness.handle(Looked(now_seconds=0.0, signs=0))     # []
    liveness.handle(Looked(now_seconds=5.0, signs=3))     # []: something came
    ...                                                   # silence
    liveness.handle(Looked(now_seconds=15.0, signs=3))    # [SendPing()]
    ...                                                   # no answer
    liveness.handle(Looked(now_seconds=35.0, signs=3))    # [SuspectConnection(silent_seconds=30.0)]

Silence is measured by looking. Time in which this end didn't look (a long call of a user's function, a process that was
stopped) says little about the other one, so that a single pause counts only for a part of the timeout.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

#: Shares of the timeout: the silence after which a ping is sent, and what one pause between two looks counts for.
PING_AFTER = 1 / 3
PAUSE_MAX = 1 / 6


@dataclass(frozen=True, slots=True)
class Looked:
    """How often something has been heard from the other end so far; None: nothing is expected from it now."""

    now_seconds: float
    signs: int | None


@dataclass(frozen=True, slots=True)
class SendPing:
    """Ask the other end for a sign of life."""


@dataclass(frozen=True, slots=True)
class SuspectConnection:
    """The connection hangs; said once."""

    silent_seconds: float


Effect: TypeAlias = SendPing | SuspectConnection


class ConnectionLiveness:
    """One end of one connection, as seen by that end's loop."""

    def __init__(self, timeout_seconds: float) -> None:
        assert timeout_seconds > 0, timeout_seconds
        self._timeout_seconds = timeout_seconds
        self._signs: int | None = None
        self._looked_at_seconds: float | None = None
        self._silent_seconds = 0.0
        self._asked = False
        self._suspected = False

    def handle(self, event: Looked) -> list[Effect]:
        pause_seconds = self._pause_until(event.now_seconds)
        if event.signs is None or event.signs != self._signs:
            self._signs, self._silent_seconds, self._asked = event.signs, 0.0, False
            return []
        self._silent_seconds += pause_seconds
        if self._silent_seconds >= self._timeout_seconds and not self._suspected:
            self._suspected = True
            return [SuspectConnection(self._silent_seconds)]
        if self._silent_seconds >= self._timeout_seconds * PING_AFTER and not self._asked:
            self._asked = True
            return [SendPing()]
        return []

    def _pause_until(self, now_seconds: float) -> float:
        before, self._looked_at_seconds = self._looked_at_seconds, now_seconds
        return 0.0 if before is None else min(now_seconds - before, self._timeout_seconds * PAUSE_MAX)
