"""How far has event time come in the splits of one task?

As far as the slowest split that still counts. Each split has a clock of its own, fed with the timestamps that are read
from it; a split that has been silent for too long doesn't count until it speaks again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from cutwater.protocol.watermarks import MAX_TIMESTAMP_MS

MIN_TIMESTAMP_MS = -(2**63)
"""Before the beginning of event time."""


@dataclass(frozen=True, slots=True)
class WatermarkStrategy:
    """How a source or an operator knows that no earlier record will follow.

    `bounded`: the highest timestamp so far, less a bound. `injected`: the source's reader says. `custom`: a generator
    that the user wrote, one per split.
    """

    kind: Literal["bounded", "injected", "custom"]
    out_of_orderness_ms: int = 0
    generator: Callable[[], Any] | None = None
    #: A split that gave nothing for this long holds event time back no longer.
    idle_after_seconds: float | None = None
    #: Splits that are further ahead of the slowest source of the group than this are not read.
    max_drift_ms: int | None = None
    group: str = "default"
    #: At most one watermark in this time while records are dense.
    every_seconds: float = 0.05
    #: A timestamp further ahead of the wall clock than this can't be true; None: anything goes.
    max_ahead_ms: int | None = 86_400_000
    bad_timestamps: Literal["fail", "drop"] = "fail"


@dataclass(slots=True)
class _Split:
    watermark_ms: int | None
    spoke_at_seconds: float
    idle: bool = False


class SplitClocks:
    """One per source task. Only ever goes forward."""

    def __init__(self, idle_after_seconds: float | None) -> None:
        self._idle_after_seconds = idle_after_seconds
        self._splits: dict[str, _Split] = {}
        self._reached_ms: int | None = None

    @property
    def watermark_ms(self) -> int | None:
        """What every split that counts has reached."""
        return self._reached_ms

    @property
    def all_idle(self) -> bool:
        """There are splits, and none of them counts."""
        return bool(self._splits) and all(split.idle for split in self._splits.values())

    def watermark_of(self, split: str) -> int | None:
        return self._splits[split].watermark_ms if split in self._splits else None

    def opened(self, split: str, now_seconds: float, watermark_ms: int | None = None) -> None:
        """A split begins, or goes on after a restore from where it was."""
        self._splits[split] = _Split(watermark_ms, now_seconds)

    def spoke(self, split: str, watermark_ms: int | None, now_seconds: float) -> None:
        """Records came out of the split; its own watermark is this now (None: it can't say)."""
        state = self._splits[split]
        state.spoke_at_seconds = now_seconds
        state.idle = False
        if watermark_ms is not None and (state.watermark_ms is None or watermark_ms > state.watermark_ms):
            state.watermark_ms = watermark_ms
        self._merge()

    def finished(self, split: str) -> None:
        """Nothing will come out of it any more. The last one leaves event time where it is: another may follow."""
        ended = self._splits.pop(split, None)
        if not self._splits and ended is not None and ended.watermark_ms is not None:
            self._advance(ended.watermark_ms)
        self._merge()

    def look(self, now_seconds: float) -> None:
        """Time has passed: who has fallen silent?"""
        if self._idle_after_seconds is None:
            return
        for split in self._splits.values():
            if now_seconds - split.spoke_at_seconds >= self._idle_after_seconds:
                split.idle = True
        self._merge()

    def next_look_seconds(self) -> float | None:
        """When the next split may fall silent."""
        if self._idle_after_seconds is None:
            return None
        times = [split.spoke_at_seconds + self._idle_after_seconds for split in self._splits.values() if not split.idle]
        return min(times, default=None)

    def _merge(self) -> None:
        counting = [split.watermark_ms for split in self._splits.values() if not split.idle]
        known = [reached for reached in counting if reached is not None]
        if known and len(known) == len(counting):
            self._advance(min(known))

    def _advance(self, watermark_ms: int) -> None:
        assert watermark_ms <= MAX_TIMESTAMP_MS
        if self._reached_ms is None or watermark_ms > self._reached_ms:
            self._reached_ms = watermark_ms
