"""When has a task seen everything that belongs to a checkpoint, and nothing that doesn't?

When the checkpoint's barrier came on every channel. Exactly once: a channel whose barrier came is blocked until the
others' came too, so that nothing from behind the barrier slips into the snapshot. At least once: barriers are counted
and nothing is blocked. A channel that ended counts as arrived, for ever.

    aligner = BarrierAligner({0, 1})
    aligner.handle(BarrierArrived(channel=0, checkpoint=1))  # [BlockChannel(0)]
    aligner.handle(BarrierArrived(channel=1, checkpoint=1))  # [TakeSnapshot(1), UnblockChannels({0})]

The shell forwards the barrier when it is told to take the snapshot. A barrier that is ignored here is not forwarded:
the tasks below learn from the coordinator that its checkpoint is gone.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import assert_never

from cutwater.protocol.ids import CheckpointId
from cutwater.protocol.modes import CheckpointMode

SUPERSEDED = "superseded by checkpoint"
"""How the reason of a decline begins that is nobody's failure; the coordinator knows it by this."""


@dataclass(frozen=True, slots=True)
class BarrierArrived:
    """The shell took a barrier out of a channel."""

    channel: int
    checkpoint: CheckpointId


@dataclass(frozen=True, slots=True)
class ChannelEnded:
    """The channel will carry nothing more, barriers included."""

    channel: int


@dataclass(frozen=True, slots=True)
class CheckpointTriggered:
    """The coordinator began a checkpoint; every task is told, since a task without live channels sees no barrier."""

    checkpoint: CheckpointId


@dataclass(frozen=True, slots=True)
class CheckpointCancelled:
    """The coordinator gave the checkpoint up; its barriers may still be on their way."""

    checkpoint: CheckpointId


@dataclass(frozen=True, slots=True)
class BlockChannel:
    """Take nothing more out of the channel until it is unblocked."""

    channel: int


@dataclass(frozen=True, slots=True)
class TakeSnapshot:
    """Freeze the state now, before any other element, and forward the barrier."""

    checkpoint: CheckpointId


@dataclass(frozen=True, slots=True)
class UnblockChannels:
    """Take elements out of these channels again."""

    channels: frozenset[int]


@dataclass(frozen=True, slots=True)
class DeclineCheckpoint:
    """Tell the coordinator that this task can't take part in the checkpoint any more."""

    checkpoint: CheckpointId
    reason: str


Event = BarrierArrived | ChannelEnded | CheckpointTriggered | CheckpointCancelled
Effect = BlockChannel | TakeSnapshot | UnblockChannels | DeclineCheckpoint


class BarrierAligner:
    """One per task. Takes each snapshot at most once, in increasing order of checkpoint."""

    def __init__(self, channels: Iterable[int], mode: CheckpointMode = CheckpointMode.EXACTLY_ONCE) -> None:
        # A job without periodic checkpoints still takes savepoints, and those are exact: only counting is opted into.
        self._blocking = mode is not CheckpointMode.AT_LEAST_ONCE
        self._live = set(channels)
        self._arrived: dict[CheckpointId, set[int]] = {}
        self._triggered: set[CheckpointId] = set()
        self._cancelled: set[CheckpointId] = set()
        self._settled = CheckpointId(0)

    @property
    def aligning(self) -> CheckpointId | None:
        """The oldest checkpoint of which some barriers came and some are missing."""
        return min(self._arrived, default=None)

    def handle(self, event: Event) -> list[Effect]:
        """What the task must do now, in this order."""
        match event:
            case BarrierArrived(channel, checkpoint):
                return self._barrier_arrived(channel, checkpoint)
            case ChannelEnded(channel):
                self._live.discard(channel)
                return self._take_what_is_complete()
            case CheckpointTriggered(checkpoint):
                if self._is_over(checkpoint):
                    return []
                self._triggered.add(checkpoint)
                return self._take_what_is_complete()
            case CheckpointCancelled(checkpoint):
                return self._cancel(checkpoint)
            case _:
                assert_never(event)

    def _is_over(self, checkpoint: CheckpointId) -> bool:
        return checkpoint <= self._settled or checkpoint in self._cancelled

    def _barrier_arrived(self, channel: int, checkpoint: CheckpointId) -> list[Effect]:
        if self._is_over(checkpoint):
            return []
        effects: list[Effect] = []
        if self._blocking:
            current = self.aligning
            if current is not None and checkpoint < current:
                # Channels are FIFO: where the newer barrier came first, the older one was skipped further up.
                return []
            if current is not None and checkpoint > current:
                effects += self._supersede(current, by=checkpoint)
        arrived = self._arrived.setdefault(checkpoint, set())
        if channel in arrived:
            return effects
        arrived.add(channel)
        if self._live <= arrived:
            # The last channel is never blocked: there is nothing left to wait for.
            arrived.discard(channel)
            return effects + self._take(checkpoint)
        if self._blocking:
            effects.append(BlockChannel(channel))
        return effects

    def _take_what_is_complete(self) -> list[Effect]:
        effects: list[Effect] = []
        for checkpoint in sorted(self._arrived.keys() | self._triggered):
            if not self._is_over(checkpoint) and self._live <= self._arrived.get(checkpoint, set()):
                effects += self._take(checkpoint)
        return effects

    def _take(self, checkpoint: CheckpointId) -> list[Effect]:
        effects: list[Effect] = []
        for older in sorted(self._arrived):
            # Only counting can leave an older one behind: some channel carried the newer barrier without it.
            if older < checkpoint:
                effects += self._supersede(older, by=checkpoint)
        effects.append(TakeSnapshot(checkpoint))
        effects += self._release(checkpoint)
        self._settle(checkpoint)
        return effects

    def _supersede(self, checkpoint: CheckpointId, *, by: CheckpointId) -> list[Effect]:
        effects: list[Effect] = [DeclineCheckpoint(checkpoint, f"{SUPERSEDED} {by}")]
        effects += self._release(checkpoint)
        self._settle(checkpoint)
        return effects

    def _cancel(self, checkpoint: CheckpointId) -> list[Effect]:
        if self._is_over(checkpoint):
            return []
        # Only this id is over: an older checkpoint may still be on its way, when several run at once.
        self._cancelled.add(checkpoint)
        self._triggered.discard(checkpoint)
        return self._release(checkpoint)

    def _release(self, checkpoint: CheckpointId) -> list[Effect]:
        held = self._arrived.pop(checkpoint, set())
        return [UnblockChannels(frozenset(held))] if self._blocking and held else []

    def _settle(self, checkpoint: CheckpointId) -> None:
        self._settled = checkpoint
        self._triggered = {later for later in self._triggered if later > checkpoint}
        self._cancelled = {later for later in self._cancelled if later > checkpoint}
