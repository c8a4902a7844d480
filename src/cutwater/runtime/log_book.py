"""What was written last? The newest lines of a job, each with its number."""

from __future__ import annotations

import threading
from collections import deque
from itertools import islice
from typing import Final

from cutwater.status import LogLine

LINES_MAX: Final = 1000


class LogBook:
    """For any thread. Never blocks for long."""

    def __init__(self, lines_max: int = LINES_MAX) -> None:
        self._lock = threading.Lock()
        self._newest = 0
        self._lines: deque[LogLine] = deque(maxlen=lines_max)

    def add(
        self, *, at_ms: int, level: str, logger: str, text: str, slot: str = "", attempt: int = 0, task: str = ""
    ) -> LogLine:
        with self._lock:
            self._newest += 1
            line = LogLine(self._newest, at_ms, level, logger, text, slot, attempt, task)
            self._lines.append(line)
        return line

    def after(self, number: int) -> tuple[LogLine, ...]:
        """The lines behind this one, oldest first, as far as they are remembered."""
        with self._lock:
            count = min(len(self._lines), max(0, self._newest - number))
            return tuple(islice(self._lines, len(self._lines) - count, None))
