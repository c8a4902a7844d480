"""How far are the slots of an attempt with opening their tasks, and which of them stands still?

To open an operator takes as long as it takes: a function may load a model, a restore may fetch gigabytes. A slot says
which operator it opens before it does; only one that says nothing new for the whole timeout is taken to hang.

    deploying = DeployingSlots(["a", "b"], now_seconds=0.0, timeout_seconds=3600.0)
    deploying.opening("a", operator="model", now_seconds=1.0)
    deploying.deployed("b")                   # False: not all are
    deploying.waiting_for(now_seconds=41.0)   # 'open of operator "model" in slot a since 40 s'
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from cutwater.protocol.ids import SlotId


@dataclass(frozen=True, slots=True)
class _Stage:
    operator: str | None
    """None: the slot has not said anything yet."""
    since_seconds: float


class DeployingSlots:
    """The slots of one attempt, from the order to deploy until each has reported its tasks open."""

    def __init__(self, slots: Iterable[SlotId], *, now_seconds: float, timeout_seconds: float) -> None:
        self._timeout_seconds = timeout_seconds
        self._stages = {slot: _Stage(None, now_seconds) for slot in slots}

    def opening(self, slot: SlotId, *, operator: str, now_seconds: float) -> None:
        """The slot begins to open an operator."""
        if slot in self._stages:
            self._stages[slot] = _Stage(operator, now_seconds)

    def deployed(self, slot: SlotId) -> bool:
        """All tasks of the slot are open; True when it was the last one."""
        self._stages.pop(slot, None)
        return not self._stages

    def waiting_for(self, now_seconds: float) -> str:
        """What takes longest, for people; empty when all are deployed."""
        if not self._stages:
            return ""
        slot, stage = min(self._stages.items(), key=lambda item: item[1].since_seconds)
        what = "the tasks" if stage.operator is None else f'open of operator "{stage.operator}"'
        others = f", and {len(self._stages) - 1} more" if len(self._stages) > 1 else ""
        return f"{what} in slot {slot} since {now_seconds - stage.since_seconds:.0f} s{others}"

    def overdue(self, now_seconds: float) -> list[tuple[SlotId, str]]:
        """Slots that have said nothing new for the whole timeout, with the operator that they open, if they said."""
        return [
            (slot, stage.operator or "")
            for slot, stage in self._stages.items()
            if stage.since_seconds + self._timeout_seconds <= now_seconds
        ]

    def overdue_at(self) -> float | None:
        """When the next slot would be overdue; None: none is awaited."""
        earliest = min((stage.since_seconds for stage in self._stages.values()), default=None)
        return None if earliest is None else earliest + self._timeout_seconds
