"""When do results leave that wait for newer ones of their key?

After the time that was asked for, and in front of every barrier: so they are in no snapshot, and a checkpoint commits
all that it counted. Watermarks wait behind them.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable

from cutwater.batches import Times, latest_of
from cutwater.operators.contract import Operator
from cutwater.protocol.ids import CheckpointId

#: As `next_wall_ms`: now.
_OVERDUE_MS = 0


class HoldingOperator(Operator):
    """Holds results for at most `hold_seconds`; for 0 they leave with the batch that made them."""

    def __init__(self, hold_seconds: float) -> None:
        self._hold_seconds = hold_seconds
        #: When the first of those that wait must leave; None: none waits. By a clock that never jumps.
        self._due_seconds: float | None = None
        self._latest_ms: int | None = None
        self._behind: list[Callable[[], None]] = []

    def in_turn(self, leave: Callable[[], None]) -> None:
        if self._due_seconds is None:
            leave()
        else:
            self._behind.append(leave)

    def next_wall_ms(self) -> int | None:
        if self._due_seconds is None:
            return None
        left_seconds = self._due_seconds - self.context.now_seconds()
        return _OVERDUE_MS if left_seconds <= 0 else self.context.wall_ms() + math.ceil(left_seconds * 1000)

    def on_wall_time(self, now_ms: int) -> None:
        self._release()

    def before_freeze(self, checkpoint: CheckpointId) -> None:
        self._release()

    def on_end(self) -> None:
        self._release()

    @abstractmethod
    def _emit_held(self, latest_ms: int | None) -> None:
        """Emits what waits, each result with this event time, and holds it no longer."""

    def _hold(self, times: Times | None) -> None:
        """Results of records with these event times wait from now on, or leave at once."""
        newest_ms = latest_of(times)
        if newest_ms is not None:
            self._latest_ms = newest_ms if self._latest_ms is None else max(newest_ms, self._latest_ms)
        if self._due_seconds is None:
            self._due_seconds = self.context.now_seconds() + self._hold_seconds
        if not self._hold_seconds:
            self._release()

    def _release(self) -> None:
        if self._due_seconds is None:
            return
        latest_ms, self._latest_ms, self._due_seconds = self._latest_ms, None, None
        self._emit_held(latest_ms)
        behind, self._behind = self._behind, []
        for leave in behind:
            leave()
