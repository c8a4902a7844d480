"""Which sources of an attempt wait for each other, and what are they told?

The shell around the pure `SourceAlignment`: the tasks' metrics go in, limits of event time come out. On the
coordinator's thread.
"""

from __future__ import annotations

from collections.abc import Callable

from cutwater.graph.model import NodeKind
from cutwater.graph.plan import JobPlan
from cutwater.operators.contract import SourceOperator
from cutwater.operators.metrics import SlotMetrics
from cutwater.protocol.ids import TaskId
from cutwater.protocol.source_alignment import (
    LimitSource,
    Member,
    SourceAdvanced,
    SourceAlignment,
    SourceFinished,
    SourceIdled,
)


class AlignedSources:
    """Of one attempt. `limit` tells a task how far event time may go."""

    def __init__(self, plan: JobPlan, limit: Callable[[LimitSource], None]) -> None:
        members = _members(plan)
        self._alignment = SourceAlignment(members)
        self._tasks = {str(task): task for task in members}
        self._limit = limit

    def advanced(self, metrics: SlotMetrics) -> None:
        for told in metrics.tasks:
            task = self._tasks.get(told.task)
            if task is not None:
                lags = told.source_may_lag
                self._handle(SourceAdvanced(task, told.source_watermark_ms) if lags else SourceIdled(task))

    def finished(self, task: TaskId) -> None:
        self._handle(SourceFinished(task))

    def _handle(self, event: SourceAdvanced | SourceIdled | SourceFinished) -> None:
        for effect in self._alignment.handle(event):
            self._limit(effect)


def _members(plan: JobPlan) -> dict[TaskId, Member]:
    members: dict[TaskId, Member] = {}
    for vertex in plan.graph.vertices:
        head = vertex.operators[0].build() if vertex.operators[0].kind is NodeKind.SOURCE else None
        if isinstance(head, SourceOperator) and head.alignment is not None:
            member = Member(*head.alignment)
            members.update((TaskId(vertex.uid, subtask), member) for subtask in range(vertex.parallelism))
    return members
