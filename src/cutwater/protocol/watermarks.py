"""How far has event time come at a task with several inputs?

As far as the slowest channel that still counts. An idle channel doesn't count until it stirs again, an ended one never
again. The merged watermark only ever advances: a channel that wakes up behind it holds it where it is.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import assert_never

MAX_TIMESTAMP_MS = 2**63 - 1
"""The end of event time: what the watermark is when every channel ended."""
MIN_TIMESTAMP_MS = -(2**63)
"""Before the beginning of event time: a watermark that promises nothing, and only says that its channel counts."""


@dataclass(frozen=True, slots=True)
class WatermarkArrived:
    """The channel promises that nothing at or below the timestamp follows; it is idle no longer.

    A channel that stirs again says so by a watermark that it had told before."""

    channel: int
    timestamp_ms: int


@dataclass(frozen=True, slots=True)
class ChannelIdled:
    """The channel has nothing to say for now."""

    channel: int


@dataclass(frozen=True, slots=True)
class ChannelResumed:
    """A record came out of an idle channel, before any watermark did."""

    channel: int


@dataclass(frozen=True, slots=True)
class ChannelFinished:
    """The channel ended: it has reached the end of event time."""

    channel: int


@dataclass(frozen=True, slots=True)
class AdvanceWatermark:
    """Let event time come this far: fire timers, then forward it."""

    timestamp_ms: int


@dataclass(frozen=True, slots=True)
class BecomeIdle:
    """Forward that nothing holds event time back from here."""


@dataclass(frozen=True, slots=True)
class BecomeActive:
    """Forward that event time waits for this task again, though it has not advanced.

    A record alone would tell only the receiver that it goes to."""


Event = WatermarkArrived | ChannelIdled | ChannelResumed | ChannelFinished
Effect = AdvanceWatermark | BecomeIdle | BecomeActive


class WatermarkMerger:
    """One per task with inputs."""

    def __init__(self, channels: Iterable[int], restored_ms: int | None = None) -> None:
        """`restored_ms`: where event time was in the snapshot that the task goes on from; it never goes back."""
        self._reached_ms: dict[int, int | None] = dict.fromkeys(channels)
        self._idle: set[int] = set()
        #: The furthest that a channel told before it ended.
        self._ended_ms: int | None = None
        self._merged_ms = restored_ms
        self._all_idle = False

    @property
    def watermark_ms(self) -> int | None:
        """The merged watermark; None before every channel that counts has shown one."""
        return self._merged_ms

    @property
    def any_idle(self) -> bool:
        """A record that comes in may have to be told (`ChannelResumed`)."""
        return bool(self._idle)

    def handle(self, event: Event) -> list[Effect]:
        """What follows for the task; often nothing."""
        match event:
            case WatermarkArrived(channel, timestamp_ms):
                if channel not in self._reached_ms:
                    return []
                if timestamp_ms == MAX_TIMESTAMP_MS:
                    # Its end, which follows, says the same; alone it must not end time while others may come back.
                    return self.handle(ChannelFinished(channel))
                self._idle.discard(channel)
                before = self._reached_ms[channel]
                if timestamp_ms > (MIN_TIMESTAMP_MS if before is None else before):
                    self._reached_ms[channel] = timestamp_ms
            case ChannelIdled(channel):
                if channel not in self._reached_ms:
                    return []
                self._idle.add(channel)
            case ChannelResumed(channel):
                if channel not in self._idle:
                    return []
                self._idle.discard(channel)
            case ChannelFinished(channel):
                self._idle.discard(channel)
                reached = self._reached_ms.pop(channel, None)
                if reached is not None and (self._ended_ms is None or reached > self._ended_ms):
                    self._ended_ms = reached
            case _:
                assert_never(event)
        return self._merge()

    def _merge(self) -> list[Effect]:
        if not self._reached_ms:
            return self._advance_to(MAX_TIMESTAMP_MS)
        active = [reached for channel, reached in self._reached_ms.items() if channel not in self._idle]
        if active:
            resumed, self._all_idle = self._all_idle, False
            known = [reached for reached in active if reached is not None]
            advance = self._advance_to(min(known)) if len(known) == len(active) else []
            return advance or ([BecomeActive()] if resumed else [])
        if self._all_idle:
            return []
        self._all_idle = True
        # The furthest, since the order in which channels fell idle or ended must not matter: had the slow ones been
        # first, the fastest would have brought the watermark there.
        told = (*self._reached_ms.values(), self._ended_ms)
        furthest = max((reached for reached in told if reached is not None), default=None)
        return [*([] if furthest is None else self._advance_to(furthest)), BecomeIdle()]

    def _advance_to(self, timestamp_ms: int) -> list[Effect]:
        if self._merged_ms is not None and timestamp_ms <= self._merged_ms:
            return []
        self._merged_ms = timestamp_ms
        return [AdvanceWatermark(timestamp_ms)]
