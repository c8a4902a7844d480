"""How large is the state of each operator, and is it spread evenly?"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from cutwater.snapshots.format import AttachedFile, DatabaseFiles, StateTable, TaskSnapshot
from cutwater.status import OperatorStateStatus

BARS_MAX = 64


def state_sizes(tasks: Iterable[TaskSnapshot], key_groups: Mapping[str, int]) -> tuple[OperatorStateStatus, ...]:
    """Of operators that have any, the largest first. `key_groups`: how many each operator has."""
    by_task: dict[str, dict[int, int]] = defaultdict(lambda: defaultdict(int))
    by_group: dict[str, dict[int, int]] = defaultdict(lambda: defaultdict(int))
    for task in tasks:
        for operator, size_bytes in _sizes(task):
            by_task[operator][task.subtask] += size_bytes
        for part in task.parts:
            if part.kind == "keyed":
                for chunk in part.chunks:
                    by_group[part.operator][chunk.group] += chunk.length
    found = [
        _status(operator, sizes, by_group.get(operator, {}), key_groups.get(operator, 0))
        for operator, sizes in by_task.items()
    ]
    return tuple(sorted(found, key=lambda each: (-each.size_bytes, each.operator)))


def _sizes(task: TaskSnapshot) -> Iterable[tuple[str, int]]:
    for part in task.parts:
        yield part.operator, sum(chunk.length for chunk in part.chunks)
    wholes: tuple[DatabaseFiles | StateTable | AttachedFile, ...] = (*task.databases, *task.tables, *task.attached)
    for whole in wholes:
        yield whole.operator, whole.size_bytes


def _status(operator: str, tasks: dict[int, int], groups: dict[int, int], key_groups: int) -> OperatorStateStatus:
    largest = max(groups, key=lambda group: (groups[group], -group), default=None)
    return OperatorStateStatus(
        operator=operator,
        size_bytes=sum(tasks.values()),
        task_bytes=tuple(tasks.get(subtask, 0) for subtask in range(max(tasks) + 1)),
        group_bytes=_bars(groups, key_groups),
        largest_group=largest,
        largest_group_bytes=0 if largest is None else groups[largest],
    )


def _bars(groups: dict[int, int], key_groups: int) -> tuple[int, ...]:
    if not groups:
        return ()
    count = max(key_groups, max(groups) + 1)
    width = -(-count // BARS_MAX)
    bars = [0] * -(-count // width)
    for group, size_bytes in groups.items():
        bars[group // width] += size_bytes
    return tuple(bars)
