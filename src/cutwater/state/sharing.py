"""When may what a function emits be an object that its state keeps?

Once it has put something changeable there. A function that keeps numbers and strings in its state emits objects of its
own, and pays for nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cutwater.state.values import is_immutable


class Sharing:
    """Told of every value that goes into the state of one function. By the loop's thread only."""

    __slots__ = ("_begins", "on")

    def __init__(self, begins: Callable[[], None]) -> None:
        """`begins` is called once, before the first changeable value is in the state."""
        self._begins = begins
        self.on = False

    def begin(self) -> None:
        if not self.on:
            self.on = True
            self._begins()

    def meet(self, value: Any) -> None:
        """This goes into the state."""
        if not is_immutable(value):
            self.begin()


def _nothing() -> None:
    """There is nobody to tell."""


def unwatched() -> Sharing:
    """For state that an operator keeps for itself: nothing is looked at."""
    sharing = Sharing(_nothing)
    sharing.begin()
    return sharing


UNWATCHED = unwatched()
