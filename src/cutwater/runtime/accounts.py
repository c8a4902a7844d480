"""Which operator of a chain has the turn, and what has each one done so far?

Operators call each other, so the time of a call contains that of the calls inside it. One clock reading at each change
of turns is enough to give each operator its own part.
"""

from __future__ import annotations

from collections.abc import Callable

from cutwater.operators.metrics import OperatorMetrics


class Accounts:
    """On the loop's thread."""

    def __init__(self, now_seconds: Callable[[], float]) -> None:
        self._now_seconds = now_seconds
        #: The time between the calls into the chain belongs to no operator.
        self._has_turn = OperatorMetrics("")
        self._since_seconds = now_seconds()

    def turn(self, of: OperatorMetrics) -> OperatorMetrics:
        """From now on the time belongs to this operator; returns the one that had the turn, to be given it back."""
        now = self._now_seconds()
        before = self._has_turn
        before.busy_seconds += now - self._since_seconds
        self._has_turn, self._since_seconds = of, now
        return before
