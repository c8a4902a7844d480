"""All tasks of one operator, each with its own watermark, and how their snapshot becomes that of more or fewer."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from tests.unit.operators.conftest import Harness

from cutwater.batches import Batch, ObjectBatch
from cutwater.operators.contract import Operator
from cutwater.protocol.ids import CheckpointId
from cutwater.protocol.key_groups import group_range, key_group, subtask_of

MAX_PARALLELISM = 8
Timed = tuple[Any, int]
"""A record, whose first item is its key, and its event time."""


def objects(timed: Iterable[Timed]) -> Batch:
    timed = list(timed)
    return ObjectBatch([record for record, _ in timed], np.array([time for _, time in timed], np.int64))


class SeveralTasks:
    """Sends records to the task of their key."""

    def __init__(
        self,
        build: Callable[[], Operator],
        parallelism: int,
        *,
        batch_of: Callable[[Iterable[Timed]], Batch] = objects,
        lists: dict[str, list[bytes]] | None = None,
        keyed: Iterable[tuple[str, int, bytes]] = (),
    ) -> None:
        self._build = build
        self._batch_of = batch_of
        chunks = list(keyed)
        self.tasks: list[Harness] = []
        for subtask in range(parallelism):
            groups = group_range(subtask, parallelism, MAX_PARALLELISM)
            own = [chunk for chunk in chunks if chunk[1] in groups]
            self.tasks.append(
                Harness(build(), lists=lists, keyed=own, subtask=subtask, parallelism=parallelism, groups=groups)
            )

    def task_of(self, key: Any) -> Harness:
        group = key_group(key, MAX_PARALLELISM)
        return self.tasks[subtask_of(group, len(self.tasks), MAX_PARALLELISM)]

    def at(self, *timed: Timed, port: int = 0) -> SeveralTasks:
        """One batch for each task that gets some of them."""
        by_task: defaultdict[int, list[Timed]] = defaultdict(list)
        for record, time in timed:
            by_task[self.tasks.index(self.task_of(record[0]))].append((record, time))
        for subtask, part in by_task.items():
            self.tasks[subtask].operator.process(self._batch_of(part), port)
        return self

    def watermarks(self, *times_ms: int | None) -> SeveralTasks:
        """One for each task; None: its time stays."""
        for task, time_ms in zip(self.tasks, times_ms, strict=True):
            if time_ms is not None:
                task.operator.on_watermark(time_ms)
        return self

    def rescaled(self, parallelism: int) -> SeveralTasks:
        """The tasks that go on from a snapshot taken now."""
        lists: defaultdict[str, list[bytes]] = defaultdict(list)
        keyed: list[tuple[str, int, bytes]] = []
        for task in self.tasks:
            snapshot = task.operator.freeze(CheckpointId(1))
            for part in snapshot.lists:
                assert part.redistribution == "union"
                lists[part.name] += part.items
            if snapshot.keyed is not None:
                keyed += snapshot.keyed.chunks()
        return SeveralTasks(self._build, parallelism, batch_of=self._batch_of, lists=lists, keyed=keyed)

    @property
    def output(self) -> list[Any]:
        """All that was emitted since the last look, task by task."""
        return [row for task in self.tasks for row in task.output]

    @property
    def side(self) -> list[Any]:
        """What has gone to side outputs since the last look."""
        rows = [row for task in self.tasks for _, found in task.side for row in found]
        for task in self.tasks:
            task.side.clear()
        return rows

    @property
    def late_records(self) -> int:
        return sum(task.metrics.late_records for task in self.tasks)
