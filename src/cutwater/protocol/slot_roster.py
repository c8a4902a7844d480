"""Which slots can take the tasks of the next attempt?

A slot that has tasks drops them when it is told to, and says so. Until then it is leaving: its loop may be in a call of
a user's function, or in I/O that never returns. One that doesn't get out in time is written off, for good: another slot
takes its place, and what it may still say counts for nothing.

    roster = SlotRoster(patience_seconds=30.0)
    roster.registered("a")
    roster.told_to_drop("a", attempt=1, now_seconds=0.0)
    roster.free                       # []
    roster.dropped("a", attempt=1)
    roster.free                       # ["a"]
"""

from __future__ import annotations

from dataclasses import dataclass

from cutwater.protocol.ids import AttemptNumber, SlotId


@dataclass(frozen=True, slots=True)
class Leaving:
    """What a slot still has to drop, and since when."""

    attempt: AttemptNumber
    since_seconds: float


class SlotRoster:
    """All registered slots, in the order of their registration."""

    def __init__(self, patience_seconds: float) -> None:
        assert patience_seconds > 0, patience_seconds
        self._patience_seconds = patience_seconds
        self._slots: dict[SlotId, Leaving | None] = {}

    def registered(self, slot: SlotId) -> None:
        self._slots[slot] = None

    def lost(self, slot: SlotId) -> None:
        """It is gone, or not wanted any more; unknown ones are ignored."""
        self._slots.pop(slot, None)

    def told_to_drop(self, slot: SlotId, attempt: AttemptNumber, now_seconds: float) -> None:
        if slot in self._slots:
            self._slots[slot] = Leaving(attempt, now_seconds)

    def dropped(self, slot: SlotId, attempt: AttemptNumber) -> None:
        """The slot has dropped this attempt; what it says of an older one changes nothing."""
        leaving = self._slots.get(slot)
        if leaving is not None and leaving.attempt <= attempt:
            self._slots[slot] = None

    @property
    def free(self) -> list[SlotId]:
        """Slots without tasks of an attempt that is over."""
        return [slot for slot, leaving in self._slots.items() if leaving is None]

    @property
    def leaving(self) -> dict[SlotId, Leaving]:
        return {slot: leaving for slot, leaving in self._slots.items() if leaving is not None}

    def write_off(self, now_seconds: float) -> dict[SlotId, Leaving]:
        """Slots that have not dropped their tasks in time. They are no longer in the roster."""
        patience = self._patience_seconds
        stuck = {slot: one for slot, one in self.leaving.items() if one.since_seconds + patience <= now_seconds}
        for slot in stuck:
            del self._slots[slot]
        return stuck

    def wake_at(self) -> float | None:
        """When the next slot is to be written off; None: none is leaving."""
        earliest = min((one.since_seconds for one in self.leaving.values()), default=None)
        return None if earliest is None else earliest + self._patience_seconds
