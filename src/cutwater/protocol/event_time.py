"""How far has event time come in the splits of one task?

As far as the slowest split that still counts. Each split has a clock of its own, fed with the timestamps that are read
from it; a split that has been silent for too long doesn't count until it speaks again.

Silent is only who was asked and had nothing. A split that nobody asks (its task is held up by a slow receiver, or waits
for slower sources) may have much to say, and time must not pass it by.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from cutwater.protocol.watermarks import MAX_TIMESTAMP_MS, MIN_TIMESTAMP_MS


def bounded_watermark(newest_ms: int, out_of_orderness_ms: int) -> int:
    """What a split promises after this timestamp, when records come late by the bound at the most."""
    return limited_watermark(newest_ms - out_of_orderness_ms - 1)


def limited_watermark(timestamp_ms: int) -> int:
    """A watermark that is one: the last timestamp is kept for the end of event time, which no record can bring."""
    return min(max(timestamp_ms, MIN_TIMESTAMP_MS), MAX_TIMESTAMP_MS - 1)


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


#: A task whose splits are all read may just be waiting for its next one: only after this long is it out of work.
OUT_OF_WORK_SECONDS = 1.0


@dataclass(slots=True)
class _Split:
    watermark_ms: int | None
    #: It had nothing when it was asked then, nor whenever it was asked since.
    silent_since_seconds: float | None = None
    idle: bool = False


class SplitClocks:
    """One per source task. Only ever goes forward."""

    def __init__(self, idle_after_seconds: float | None, restored_ms: int | None = None) -> None:
        """`restored_ms`: where event time was in the snapshot that the task goes on from."""
        self._idle_after_seconds = idle_after_seconds
        self._splits: dict[str, _Split] = {}
        self._reached_ms = restored_ms
        #: The furthest that a split came before it ended.
        self._ended_ms: int | None = None
        self._no_splits_since_seconds: float | None = None
        self._no_splits_idle = False
        self._out_of_work = False

    @property
    def watermark_ms(self) -> int | None:
        """What every split that counts has reached."""
        return self._reached_ms

    @property
    def all_idle(self) -> bool:
        """Nothing here holds event time back: every split is silent, or there has been none for as long."""
        if self._splits:
            return all(split.idle for split in self._splits.values())
        return self._no_splits_idle

    @property
    def may_lag(self) -> bool:
        """Other sources should wait for this task: it has a split that counts, or will have one soon."""
        return not self.all_idle and (bool(self._splits) or not self._out_of_work)

    def watermark_of(self, split: str) -> int | None:
        """The split's own."""
        return self._splits[split].watermark_ms if split in self._splits else None

    def promised_of(self, split: str) -> int | None:
        """For snapshots: below this the split's records are late, by its own clock or by what the task has told."""
        own = self.watermark_of(split)
        known = [reached for reached in (own, self._reached_ms) if reached is not None]
        return max(known, default=None)

    def opened(self, split: str, watermark_ms: int | None = None) -> None:
        """A split begins, or is to go on after a restore from where it was, even if it isn't read yet."""
        if split not in self._splits:
            self._splits[split] = _Split(watermark_ms)
            self._no_splits_since_seconds, self._no_splits_idle, self._out_of_work = None, False, False

    def spoke(self, split: str, watermark_ms: int | None) -> None:
        """Records came out of the split, and have been passed on; its own watermark is this now (None: unknown)."""
        state = self._splits[split]
        state.silent_since_seconds = None
        state.idle = False
        self.advanced(split, watermark_ms)

    def advanced(self, split: str, watermark_ms: int | None) -> None:
        """The split's watermark is this now, whether records came or not."""
        state = self._splits[split]
        if watermark_ms is not None and (state.watermark_ms is None or watermark_ms > state.watermark_ms):
            state.watermark_ms = watermark_ms
        self.merge()

    def silent(self, split: str, now_seconds: float) -> None:
        """The split was asked and had nothing."""
        state = self._splits[split]
        if state.silent_since_seconds is None:
            state.silent_since_seconds = now_seconds
        if self._is_long(state.silent_since_seconds, now_seconds) and not state.idle:
            state.idle = True
            self.merge()

    def without_splits(self, now_seconds: float, *, expects_one: bool) -> None:
        """There is no split to ask. `expects_one`: another may follow soon; else none is meant for this task."""
        if not expects_one:
            self._no_splits_idle = self._out_of_work = True
            return
        if self._no_splits_since_seconds is None:
            self._no_splits_since_seconds = now_seconds
        self._out_of_work = now_seconds - self._no_splits_since_seconds >= OUT_OF_WORK_SECONDS
        self._no_splits_idle = self._is_long(self._no_splits_since_seconds, now_seconds)

    def finished(self, split: str) -> None:
        """Nothing will come out of it any more. The last one leaves event time where it is: another may follow."""
        ended = self._splits.pop(split, None)
        if ended is not None and ended.watermark_ms is not None:
            self._ended_ms = max(ended.watermark_ms, ended.watermark_ms if self._ended_ms is None else self._ended_ms)
        self.merge()

    def next_look_seconds(self) -> float | None:
        """When somebody will have been silent for too long, if asked then."""
        if self._idle_after_seconds is None:
            return None
        since = [split.silent_since_seconds for split in self._splits.values() if not split.idle]
        if not self._splits and not self._no_splits_idle:
            since.append(self._no_splits_since_seconds)
        return min((time + self._idle_after_seconds for time in since if time is not None), default=None)

    def merge(self) -> None:
        """Event time comes as far as it may."""
        counting = [split.watermark_ms for split in self._splits.values() if not split.idle]
        known = [reached for reached in counting if reached is not None]
        if known and len(known) == len(counting):
            self._advance(min(known))
        elif self._splits and not counting:
            # The furthest, since the order in which splits fall silent or end must not matter (see WatermarkMerger).
            told = (*(split.watermark_ms for split in self._splits.values()), self._ended_ms)
            if furthest := [reached for reached in told if reached is not None]:
                self._advance(max(furthest))

    def _advance(self, watermark_ms: int) -> None:
        if self._reached_ms is None or watermark_ms > self._reached_ms:
            self._reached_ms = watermark_ms

    def _is_long(self, since_seconds: float, now_seconds: float) -> bool:
        # As `next_look_seconds` adds: with a difference, rounding could make that moment a little too early for ever.
        return self._idle_after_seconds is not None and now_seconds >= since_seconds + self._idle_after_seconds
