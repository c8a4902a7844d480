"""Who is being answered just now? They hear all of it before the process ends."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class Listeners:
    """Requests whose answer has not left yet; a page that follows the job's events is one. For any thread."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._number = 0

    @contextmanager
    def one_more(self) -> Iterator[None]:
        self._add(1)
        try:
            yield
        finally:
            self._add(-1)

    def wait_until_gone(self, seconds: float) -> bool:
        """False: some are still there after this time."""
        with self._changed:
            return self._changed.wait_for(lambda: self._number == 0, seconds)

    def _add(self, number: int) -> None:
        with self._changed:
            self._number += number
            self._changed.notify_all()
