"""How much may the service take from the job? A part of one processor, however many clients ask, and however often.

Those who look wait for their turn, one behind the other, and so do strangers; a page, a shell and Prometheus together
never notice. Those who steer the job don't wait behind them.
"""

from __future__ import annotations

import asyncio
import time

#: Of one processor.
SHARE_MAX = 0.03
#: What was not used for so long may be used at once: to open a page is a handful of requests.
SAVED_SECONDS = 3.0
#: Of the newest cost in the average.
_NEWEST = 0.1


class Pace:
    """For the service's thread alone, but for `hurry`."""

    def __init__(self) -> None:
        self._hurries = False
        #: Each sleeps until its turn: hundreds that looked for it now and then would take the share by looking.
        self._waiting: set[asyncio.Future[None]] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._cost_seconds = 0.0
        self._seen_seconds: float | None = None
        self._free_at_seconds = float("-inf")

    def delay_seconds(self, *, now: float, used: float) -> float:
        """Until the turn of the one who asks now; `used`: processor time of this thread so far."""
        if self._seen_seconds is not None:
            self._cost_seconds += _NEWEST * (used - self._seen_seconds - self._cost_seconds)
        self._seen_seconds = used
        self._free_at_seconds = max(self._free_at_seconds, now - SAVED_SECONDS) + self._cost_seconds / SHARE_MAX
        return max(0.0, self._free_at_seconds - now)

    async def turn(self) -> None:
        delay = self.delay_seconds(now=time.monotonic(), used=time.thread_time())
        if delay <= 0 or self._hurries:
            return
        self._loop = asyncio.get_running_loop()
        waiting = self._loop.create_future()
        self._waiting.add(waiting)
        timer = self._loop.call_later(delay, _let_go, waiting)
        try:
            await waiting
        finally:
            timer.cancel()
            self._waiting.discard(waiting)

    def hurry(self) -> None:
        """The service is about to end: no request waits any more. From any thread."""
        self._hurries = True
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._let_all_go)

    def _let_all_go(self) -> None:
        for waiting in self._waiting:
            _let_go(waiting)


def _let_go(waiting: asyncio.Future[None]) -> None:
    if not waiting.done():
        waiting.set_result(None)
