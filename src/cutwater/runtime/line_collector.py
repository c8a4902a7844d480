"""Which lines that a slot writes does its driver hear of?

A few, whatever a user's function prints: the first lines of a flood, then so many a second. The others are counted.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue
from threading import get_ident
from typing import Final

from cutwater.runtime.messages import LinesLogged, LoggedLine
from cutwater.runtime.turn import Turn

LINES_AT_ONCE_MAX: Final = 500
LINES_PER_SECOND: Final = 100
CHARACTERS_AT_ONCE_MAX: Final = 512 * 1024
CHARACTERS_PER_SECOND: Final = 64 * 1024
LINE_CHARACTERS_MAX: Final = 4096
#: Of a line that is cut: the end of a traceback says what happened.
LINE_END_CHARACTERS: Final = 1024


class Allowance:
    """So much at once, and so much a second."""

    def __init__(self, at_once: float, per_second: float) -> None:
        self._at_once = at_once
        self._per_second = per_second
        self._left = at_once
        self._at_seconds = 0.0

    def has(self, amount: float, now_seconds: float) -> bool:
        grown = (now_seconds - self._at_seconds) * self._per_second
        self._left = min(self._at_once, self._left + grown)
        self._at_seconds = now_seconds
        return amount <= self._left

    def take(self, amount: float) -> None:
        self._left -= amount


class LineCollector:
    """Keeps lines until they are taken. `add` is for any thread and has no lock: a count that is off by one among
    several threads is nothing, compared with a destructor that prints and waits for ever."""

    def __init__(self, turn: Turn, now_seconds: Callable[[], float]) -> None:
        """On the thread whose turns these are."""
        self._turn = turn
        self._loop_thread = get_ident()
        self._now_seconds = now_seconds
        self._lines_left = Allowance(LINES_AT_ONCE_MAX, LINES_PER_SECOND)
        self._characters_left = Allowance(CHARACTERS_AT_ONCE_MAX, CHARACTERS_PER_SECOND)
        self._dropped = 0
        #: None: look, though there may be no line. A queue whose `put` may interrupt itself.
        self._queue: SimpleQueue[LoggedLine | None] = SimpleQueue()
        self._found: list[LoggedLine | None] = []

    def add(self, level: str, logger: str, text: str, at_ms: int) -> None:
        now = self._now_seconds()
        text = _cut(text)
        room = self._lines_left.has(1, now) and self._characters_left.has(len(text), now)
        if not room or self._queue.qsize() > LINES_AT_ONCE_MAX:
            self._dropped += 1
            if self._dropped == 1:
                self.wake()
            return
        self._lines_left.take(1)
        self._characters_left.take(len(text))
        turn = self._turn
        task = str(turn.task) if turn.task is not None and get_ident() == self._loop_thread else ""
        self._queue.put(LoggedLine(at_ms, level, logger, _encodable(text), turn.attempt, task))

    def wait(self) -> None:
        """Blocks until there is something to take, or `wake` is called."""
        self._found.append(self._queue.get())

    def wake(self) -> None:
        """From any thread."""
        self._queue.put(None)

    def take(self) -> LinesLogged | None:
        """What was added since, if anything was. On the thread that waits."""
        with suppress(Empty):
            while True:
                self._found.append(self._queue.get_nowait())
        found, self._found = self._found, []
        dropped, self._dropped = self._dropped, 0
        lines = tuple(line for line in found if line is not None)
        return LinesLogged(lines, dropped) if lines or dropped else None


def _cut(text: str) -> str:
    if len(text) <= LINE_CHARACTERS_MAX:
        return text
    start, end = text[: LINE_CHARACTERS_MAX - LINE_END_CHARACTERS], text[-LINE_END_CHARACTERS:]
    return f"{start} … ({len(text) - LINE_CHARACTERS_MAX:,} characters) … {end}"


def _encodable(text: str) -> str:
    """Half of a surrogate pair would not get over the wire."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()
