"""What does the coordinator remember for people to read?"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Protocol

from cutwater.errors import CutwaterError, JobFailedError
from cutwater.graph.plan import JobPlan
from cutwater.operators.metrics import SlotMetrics
from cutwater.protocol.ids import SlotId, TaskId
from cutwater.protocol.lifecycle import JobState
from cutwater.runtime.attempt import Attempt
from cutwater.runtime.checkpoint_history import CheckpointHistory
from cutwater.runtime.recent_activity import RecentActivity
from cutwater.runtime.recovering import Recovered
from cutwater.runtime.seams import Clock
from cutwater.snapshots.format import TaskSnapshot
from cutwater.snapshots.state_sizes import state_sizes
from cutwater.status import (
    ChainStatus,
    CheckpointDetails,
    CheckpointStatus,
    EdgeStatus,
    GraphStatus,
    JobStatus,
    OperatorStateStatus,
    OperatorStatus,
    RecoveryStatus,
    SlotStatus,
    TaskStatus,
    failure_of,
)

#: A job may run for years: what it shows of each kind are the newest, and a count of all.
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
        self._last_tasks = _last_tasks_of(plan)
        self._key_groups = _key_groups_of(plan)
        self._checkpoints = CheckpointHistory()
        self._operator_states: tuple[OperatorStateStatus, ...] = ()
        self._activity: dict[SlotId, RecentActivity] = {}
        #: Made when a slot reports: most changes of the status are others.
        self._tasks: dict[SlotId, tuple[TaskStatus, ...]] = {}
        self._recoveries: deque[RecoveryStatus] = deque(maxlen=RECOVERIES_SHOWN_MAX)
        self._restarts = 0
        self._warnings: deque[str] = deque(maxlen=WARNINGS_SHOWN_MAX)
        self._warnings_total = 0
        self.failure: CutwaterError | None = None
        self._started_at_seconds: float | None = None
        self._running_seconds = 0.0
        self.status = JobStatus(plan.job_id, plan.name, JobState.CREATED, attempt=0, graph=self._graph)

    def rescaled(self, plan: JobPlan) -> None:
        self._graph = _graph_of(plan)
        self._last_tasks = _last_tasks_of(plan)
        self._key_groups = _key_groups_of(plan)

    def metrics(self, slot: SlotId, told: SlotMetrics) -> None:
        now = self._clock.now_seconds()
        known = self._activity.get(slot)
        if known is None or known.attempt != told.attempt:
            known = self._activity[slot] = RecentActivity(slot, told, now)
        self._tasks[slot] = known.tasks(told, now)

    def checkpoint(self, details: CheckpointDetails, snapshots: Iterable[TaskSnapshot] = ()) -> None:
        """It is over; `snapshots`: of one that completed."""
        self._checkpoints.add(details, last_tasks=self._last_tasks)
        if details.checkpoint.completed:
            self._operator_states = state_sizes(snapshots, self._key_groups)

    def checkpoint_details(self, checkpoint: int) -> CheckpointDetails | None:
        """From any thread."""
        return self._checkpoints.details_of(checkpoint)

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
        self,
        state: JobState,
        attempt: Attempt | None,
        slots: Mapping[SlotId, _SlotFacts],
        waiting_for: str,
        under_way: tuple[CheckpointStatus, ...] = (),
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
            tasks=self._tasks_of(number),
            checkpoints=self._checkpoints.newest,
            checkpoints_under_way=under_way,
            checkpoints_completed=self._checkpoints.completed,
            checkpoints_failed=self._checkpoints.failed,
            latency=self._checkpoints.latency,
            operator_states=self._operator_states,
            recoveries=tuple(self._recoveries),
            restarts=self._restarts,
            as_of_ms=self._clock.wall_ms(),
            running_seconds=self._running_seconds,
            warnings=tuple(self._warnings),
            warnings_total=self._warnings_total,
        )

    def _noticed(self, attempt: int, cause: CutwaterError) -> RecoveryStatus:
        return RecoveryStatus(attempt, _told(cause), self._clock.now_seconds(), noticed_at_ms=self._clock.wall_ms())

    def _tasks_of(self, attempt: int) -> tuple[TaskStatus, ...]:
        return tuple(
            task for slot, tasks in self._tasks.items() if self._activity[slot].attempt == attempt for task in tasks
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


def _last_tasks_of(plan: JobPlan) -> frozenset[str]:
    """Those that send to no other."""
    senders = {edge.sender for edge in plan.graph.edges}
    last = [vertex for vertex in plan.graph.vertices if vertex.uid not in senders]
    return frozenset(str(TaskId(vertex.uid, subtask)) for vertex in last for subtask in range(vertex.parallelism))


def _key_groups_of(plan: JobPlan) -> dict[str, int]:
    return {node.uid: vertex.max_parallelism for vertex in plan.graph.vertices for node in vertex.operators}


def _told(cause: CutwaterError) -> str:
    """What happened and why in the first line, then the rest."""
    return "\n".join([cause.in_one_line, *str(cause).splitlines()[1:]])
