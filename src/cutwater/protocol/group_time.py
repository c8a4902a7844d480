"""How far has event time come for a key, when the tasks of a snapshot had not come equally far?

Idle channels let the tasks of one operator differ. When their key groups meet in one task after a change of
parallelism, the task goes on from the slowest of them, so that nothing that was in time is late. But a group whose
former task was further has given its results up to there: that time is the group's *floor*. For a key, event time is
at the watermark of the task or at the floor of its group, whichever is later.

    told = [TaskTime(0, 2, 120), TaskTime(1, 2, 40)]
    time = GroupTime.restored(told, subtask=0, parallelism=1, groups=range(4), max_parallelism=4)
    time.watermark_ms, time.floors  # 40, {0: 120, 1: 120}
    time.advance(100)
    time.of(0), time.of(2)          # 120, 100

Floors go when the watermark has passed them. Until then the task's own snapshots tell them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cutwater.protocol.key_groups import group_range
from cutwater.protocol.watermarks import MAX_TIMESTAMP_MS, MIN_TIMESTAMP_MS

Floor = tuple[int, int, int]
"""From this key group to that one, both included, event time had come at least this far."""


@dataclass(frozen=True, slots=True)
class TaskTime:
    """How far event time was in one task of a snapshot. A task in which it had not begun tells nothing."""

    subtask: int
    parallelism: int
    #: `MIN_TIMESTAMP_MS`: it had not begun, but some of its groups have a floor.
    watermark_ms: int
    floors: tuple[Floor, ...] = ()


def restored_watermark(told: Sequence[TaskTime], *, subtask: int, parallelism: int, same_inputs: bool = True) -> int:
    """Where a task goes on: where it was; if there were more or fewer tasks, where the slowest of them was.

    The same if its inputs differ from before (`same_inputs`): with more or fewer tasks somewhere in front of it, it
    may read what another task of the snapshot was waiting for. If event time hadn't begun there, it begins anew:
    `MIN_TIMESTAMP_MS`.
    """
    if not told:
        return MIN_TIMESTAMP_MS
    tasks = told[0].parallelism
    if tasks == parallelism and same_inputs:
        return next((task.watermark_ms for task in told if task.subtask == subtask), MIN_TIMESTAMP_MS)
    return min(task.watermark_ms for task in told) if len(told) == tasks else MIN_TIMESTAMP_MS


class GroupTime:
    """Event time in one operator of one task. `MIN_TIMESTAMP_MS` is the time before it has begun."""

    def __init__(self, watermark_ms: int = MIN_TIMESTAMP_MS, floors: Mapping[int, int] | None = None) -> None:
        self.watermark_ms = watermark_ms
        #: Key group to its floor, as far as it is above the watermark; soon, and mostly, there is none.
        self.floors: dict[int, int] = _above(watermark_ms, floors or {})
        # What the snapshots tell. The end of time is not told: a later run may have more input.
        self._told_ms = watermark_ms
        self._told_floors = self.floors

    @classmethod
    def restored(
        cls,
        told: Sequence[TaskTime],
        *,
        subtask: int,
        parallelism: int,
        groups: range,
        max_parallelism: int,
        same_inputs: bool = True,
    ) -> GroupTime:
        """In a task with these groups, of what all tasks of the snapshot told."""
        floors: dict[int, int] = {}
        for task in told:
            owned = group_range(task.subtask, task.parallelism, max_parallelism)
            for first, last, time_ms in ((owned.start, owned.stop - 1, task.watermark_ms), *task.floors):
                for group in range(max(first, groups.start), min(last + 1, groups.stop)):
                    floors[group] = max(time_ms, floors.get(group, time_ms))
        watermark_ms = restored_watermark(told, subtask=subtask, parallelism=parallelism, same_inputs=same_inputs)
        return cls(watermark_ms, floors)

    def advance(self, timestamp_ms: int) -> None:
        """The task's watermark has come this far; it never goes back."""
        if timestamp_ms <= self.watermark_ms:
            return
        self.watermark_ms = timestamp_ms
        if self.floors:
            self.floors = _above(timestamp_ms, self.floors)
        if timestamp_ms != MAX_TIMESTAMP_MS:
            self._told_ms, self._told_floors = timestamp_ms, self.floors

    def of(self, group: int) -> int:
        """How far event time has come for the keys of this group."""
        return max(self.watermark_ms, self.floors.get(group, MIN_TIMESTAMP_MS))

    def before_the_end(self, group: int) -> int:
        """The same, but for the end of time: how far it came by what records said."""
        return max(self._told_ms, self._told_floors.get(group, MIN_TIMESTAMP_MS))

    def told(self, *, subtask: int, parallelism: int) -> TaskTime | None:
        """For a snapshot; None: there is nothing to tell."""
        if self._told_ms == MIN_TIMESTAMP_MS and not self._told_floors:
            return None
        return TaskTime(subtask, parallelism, self._told_ms, _as_runs(self._told_floors))


def _above(watermark_ms: int, floors: Mapping[int, int]) -> dict[int, int]:
    return {group: time_ms for group, time_ms in floors.items() if time_ms > watermark_ms}


def _as_runs(floors: Mapping[int, int]) -> tuple[Floor, ...]:
    """Neighbours that have come equally far are told together."""
    runs: list[Floor] = []
    for group in sorted(floors):
        time_ms = floors[group]
        if runs and runs[-1][1:] == (group - 1, time_ms):
            runs[-1] = (runs[-1][0], group, time_ms)
        else:
            runs.append((group, group, time_ms))
    return tuple(runs)
