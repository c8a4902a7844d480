"""What does the coordinator remember for people to read?"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import replace
from typing import Protocol

from cutwater.errors import CutwaterError, JobFailedError
from cutwater.graph.plan import JobPlan
from cutwater.operators.metrics import SlotMetrics
from cutwater.protocol.ids import SlotId
from cutwater.protocol.lifecycle import JobState
from cutwater.runtime.attempt import Attempt
from cutwater.runtime.recovering import Recovered
from cutwater.runtime.seams import Clock
from cutwater.status import (
    ChainStatus,
    CheckpointStatus,
    EdgeStatus,
    GraphStatus,
    JobStatus,
    OperatorStatus,
    RecoveryStatus,
    SlotStatus,
    TaskStatus,
    failure_of,
)

#: A job may run for years: what it shows of each kind are the newest, and a count of all.
CHECKPOINTS_SHOWN_MAX = 100
RECOVERIES_SHOWN_MAX = 100
WARNINGS_SHOWN_MAX = 100


class _SlotFacts(Protocol):
    @property
    def host(self) -> str: ...
    @property
    def pid(self) -> int: ...


class StatusBoard:
    """Collects facts on the coordinator's thread; `status` is a value that any thread may read."""

    def __init__(self, plan: JobPlan, clock: Clock) -> None:
        self._clock = clock
        self._graph = _graph_of(plan)
        self._checkpoints: deque[CheckpointStatus] = deque(maxlen=CHECKPOINTS_SHOWN_MAX)
        self._metrics: dict[SlotId, SlotMetrics] = {}
        self._recoveries: deque[RecoveryStatus] = deque(maxlen=RECOVERIES_SHOWN_MAX)
        self._restarts = 0
        self._warnings: deque[str] = deque(maxlen=WARNINGS_SHOWN_MAX)
        self._warnings_total = 0
        self._completed = 0
        self._failed = 0
        self.failure: CutwaterError | None = None
        self._started_at_seconds: float | None = None
        self._running_seconds = 0.0
        self.status = JobStatus(plan.job_id, plan.name, JobState.CREATED, attempt=0, graph=self._graph)

    def rescaled(self, plan: JobPlan) -> None:
        self._graph = _graph_of(plan)

    def metrics(self, slot: SlotId, told: SlotMetrics) -> None:
        self._metrics[slot] = told

    def checkpoint(self, status: CheckpointStatus) -> None:
        self._checkpoints.append(status)
        if status.completed:
            self._completed += 1
        else:
            self._failed += 1

    def warn(self, text: str) -> None:
        self._warnings.append(text)
        self._warnings_total += 1

    def failed(self, attempt: int, cause: CutwaterError) -> None:
        self._recoveries.append(self._noticed(attempt, cause))
        self._restarts += 1

    def gave_up(self, cause: CutwaterError, reason: str) -> None:
        if self._recoveries and self._recoveries[-1].cause == _told(cause):
            self._recoveries.pop()
            self._restarts -= 1
        if not reason:
            self.failure = cause
            return
        self.failure = JobFailedError(f"job {self.status.name!r} failed: {cause.in_one_line}", detail=reason)
        self.failure.__cause__ = cause

    def recovered(self, recovered: Recovered) -> None:
        for checkpoint, problem in recovered.skipped:
            self.warn(f"snapshot chk-{checkpoint} is damaged and was passed over: {problem}")
        restored = recovered.restored
        self._amend(restored_checkpoint=restored.manifest.checkpoint if restored else None, skipped=recovered.skipped)

    def slots_ready(self) -> None:
        self._amend_time("slots_ready_seconds")

    def deployed(self, restore_seconds: float) -> None:
        self._started_at_seconds = self._clock.now_seconds()
        self._amend_time("deployed_seconds")
        self._amend(restore_seconds=restore_seconds)

    def first_record(self) -> None:
        if self._recoveries and self._recoveries[-1].first_record_seconds is None:
            self._amend_time("first_record_seconds")

    def update(
        self, state: JobState, attempt: Attempt | None, slots: Mapping[SlotId, _SlotFacts], waiting_for: str
    ) -> None:
        """Makes a new status of everything known."""
        if state is JobState.RUNNING and self._started_at_seconds is not None:
            self._running_seconds = self._clock.now_seconds() - self._started_at_seconds
        number = attempt.number if attempt is not None else self.status.attempt
        tasks_per_slot = [(slot, len(attempt.tasks_in(slot)) if attempt is not None else 0) for slot in slots]
        self.status = JobStatus(
            job_id=self.status.job_id,
            name=self.status.name,
            state=state,
            attempt=number,
            waiting_for=waiting_for,
            failure=None if self.failure is None else failure_of(self.failure),
            graph=self._graph,
            slots=tuple(SlotStatus(slot, slots[slot].host, slots[slot].pid, tasks) for slot, tasks in tasks_per_slot),
            tasks=self._tasks(number),
            checkpoints=tuple(self._checkpoints),
            checkpoints_completed=self._completed,
            checkpoints_failed=self._failed,
            recoveries=tuple(self._recoveries),
            restarts=self._restarts,
            running_seconds=self._running_seconds,
            warnings=tuple(self._warnings),
            warnings_total=self._warnings_total,
        )

    def _noticed(self, attempt: int, cause: CutwaterError) -> RecoveryStatus:
        return RecoveryStatus(attempt, _told(cause), self._clock.now_seconds(), noticed_at_ms=self._clock.wall_ms())

    def _tasks(self, attempt: int) -> tuple[TaskStatus, ...]:
        return tuple(
            TaskStatus(
                task=task.task,
                slot=slot,
                records_in=task.records_in,
                records_out=task.records_out,
                busy_seconds=task.busy_seconds,
                idle_seconds=task.idle_seconds,
                backpressured_seconds=task.backpressured_seconds,
                alignment_seconds=task.alignment_seconds,
                queued_elements=task.queued_elements,
                watermark_ms=task.watermark_ms,
                late_records=task.late_records,
                bad_timestamps=task.bad_timestamps,
                skipped_records=task.skipped_records,
                dead_letters=task.dead_letters,
                lag=task.lag,
            )
            for slot, metrics in self._metrics.items()
            if metrics.attempt == attempt
            for task in metrics.tasks
        )

    def _amend_time(self, field: str) -> None:
        if self._recoveries:
            self._amend(**{field: self._clock.now_seconds() - self._recoveries[-1].noticed_at_seconds})

    def _amend(self, **fields: object) -> None:
        if self._recoveries:
            self._recoveries[-1] = replace(self._recoveries[-1], **fields)  # type: ignore[arg-type]


def _graph_of(plan: JobPlan) -> GraphStatus:
    chains = [
        ChainStatus(
            vertex.uid,
            vertex.name,
            vertex.parallelism,
            tuple(OperatorStatus(node.uid, node.name, node.kind.value, node.written_at) for node in vertex.operators),
        )
        for vertex in plan.graph.vertices
    ]
    edges = [EdgeStatus(edge.sender, edge.receiver, edge.partitioning.value, edge.tag) for edge in plan.graph.edges]
    return GraphStatus(tuple(chains), tuple(edges))


def _told(cause: CutwaterError) -> str:
    """What happened and why in the first line, then the rest."""
    return "\n".join([cause.in_one_line, *str(cause).splitlines()[1:]])
