"""What was the status some seconds ago, and which bytes say what it is now?"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

import msgspec

from cutwater.status import JobStatus

LOOK_SECONDS = 5.0
#: So many looks make the past: 10 to 15 seconds.
LOOKS = 3


class StatusMemory:
    """For the service's thread alone."""

    def __init__(self) -> None:
        self._looks: deque[JobStatus] = deque(maxlen=LOOKS)
        self._encoded: tuple[JobStatus, bytes] | None = None

    @property
    def earlier(self) -> JobStatus | None:
        return self._looks[0] if self._looks else None

    def encoded(self, status: JobStatus) -> bytes:
        """As JSON. However many clients ask, a status is encoded once."""
        if self._encoded is None or self._encoded[0] is not status:
            self._encoded = (status, msgspec.json.encode(status))
        return self._encoded[1]

    async def look_now_and_then(self, status: Callable[[], JobStatus]) -> None:
        while True:
            self._looks.append(status())
            await asyncio.sleep(LOOK_SECONDS)
