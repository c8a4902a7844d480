"""How fast do records flow, so that there are some under way whenever something is done to the job?

At a pace first; then, behind the share at which the last strike comes, they trickle; and the very last are held back
until everything has been done.
"""

from __future__ import annotations

import math
import threading
import time

from cutwater.testing.connectors.controls import Controls
from cutwater.testing.connectors.faults import LAST_SHARE

LOOK_SECONDS = 0.01
#: What a job that was down may catch up on.
BURST_SECONDS = 0.2
HELD_BACK_FROM_SHARE = 0.95
#: By how much a trickle is slower.
TRICKLE = 0.1


class Flow:
    """Opens and closes the metered source, on a thread of its own, while the context lasts."""

    def __init__(self, controls: Controls, *, records: int, seconds: float) -> None:
        """`seconds`: how long it takes, at least, until the last strike may come."""
        self._controls = controls
        self._records = records
        self._per_second = records * LAST_SHARE / seconds
        self._over = threading.Event()
        self._lock = threading.Lock()
        self._released = False
        self._thread = threading.Thread(target=self._run, name="cutwater-flow", daemon=True)

    def __enter__(self) -> Flow:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def release(self) -> None:
        """From now on nothing is slow, and nothing held back."""
        with self._lock:
            self._released = True
            self._controls.release()

    def _run(self) -> None:
        allowed, looked_at, tick = 0.0, time.monotonic(), 0
        while not self._over.wait(LOOK_SECONDS):
            passed_seconds = time.monotonic() - looked_at
            looked_at += passed_seconds
            splits, seen = self._controls.splits, self._controls.seen
            if not splits:  # nobody reads yet, and nobody shall catch up on that
                continue
            per_second = self._per_second * (1 if seen < LAST_SHARE * self._records else TRICKLE)
            allowed = min(allowed + passed_seconds * per_second, seen + BURST_SECONDS * per_second)
            wanted = min(allowed, HELD_BACK_FROM_SHARE * self._records) - seen
            with self._lock:
                if wanted > 0 and not self._released:
                    tick += 1
                    self._controls.let_flow(tick, rows=math.ceil(wanted / splits))
