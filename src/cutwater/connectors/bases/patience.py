"""How long does a connector go on trying when the other end is gone?

A server that restarts is back within seconds; to fail the attempt for it would cost more than to wait. Only a
`PeerError` says that the other end may come back: all else fails at once.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from cutwater.connectors.failures import PeerError

log = logging.getLogger("cutwater")

FIRST_PAUSE_SECONDS = 0.1
PAUSE_SECONDS_MAX = 5.0
#: A minute without the server is survived.
PATIENCE_SECONDS = 90.0


class Patience:
    """Counts from the first failure to the next success. Used by one thread."""

    def __init__(self, who: str, *, now_seconds: Callable[[], float], seconds: float = PATIENCE_SECONDS) -> None:
        """`who` waits, for people: `source "kafka(orders)"`."""
        self._who = who
        self._now_seconds = now_seconds
        self._seconds = seconds
        self._since_seconds: float | None = None
        self._pause_seconds = FIRST_PAUSE_SECONDS

    def failed(self, error: PeerError) -> float:
        """How long to pause before the next try; raises the error when it has lasted too long."""
        now = self._now_seconds()
        if self._since_seconds is None:
            self._since_seconds = now
            log.warning("%s waits: %s", self._who, error.in_one_line)
        if now - self._since_seconds >= self._seconds:
            raise error
        pause, self._pause_seconds = self._pause_seconds, min(self._pause_seconds * 2, PAUSE_SECONDS_MAX)
        return max(pause, error.pause_seconds)

    def succeeded(self) -> None:
        if self._since_seconds is not None:
            log.info("%s goes on after %.1f s", self._who, self._now_seconds() - self._since_seconds)
        self._since_seconds = None
        self._pause_seconds = FIRST_PAUSE_SECONDS


def keep_trying(action: Callable[[], None], *, who: str, seconds: float = PATIENCE_SECONDS) -> None:
    """Does it, as often as the other end is gone meanwhile. For threads that may block."""
    patience = Patience(who, now_seconds=time.monotonic, seconds=seconds)
    while True:
        try:
            action()
        except PeerError as error:
            time.sleep(patience.failed(error))
        else:
            patience.succeeded()
            return
