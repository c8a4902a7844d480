"""Who waits for the answer to what was asked of a running job?"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

from cutwater.errors import CutwaterError

Answer = Callable[[str, CutwaterError | None], None]
"""Called once, on the coordinator's thread: with what came out of it, or why it could not be done."""


class Requests:
    """Open requests by name. On the coordinator's thread."""

    def __init__(self) -> None:
        self._open: dict[str, Answer] = {}
        self._numbers = count(1)

    def add(self, what: str, answer: Answer) -> str:
        """The name under which it will be answered."""
        name = f"{what}-{next(self._numbers)}"
        self._open[name] = answer
        return name

    def answer(self, name: str, result: str, error: CutwaterError | None) -> None:
        answer = self._open.pop(name, None)
        if answer is not None:
            answer(result, error)

    def answer_all(self, error: CutwaterError) -> None:
        for name in list(self._open):
            self.answer(name, "", error)
