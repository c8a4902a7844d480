"""How is a job's work spread? What several rules ask of a status.

All tasks of a slot share one thread: what limits a job is a slot that is busy all the time, and then the task in it
that takes most of that time. A task that can't emit, because its receivers or its sink have no room, is backpressured.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from cutwater.protocol.lifecycle import JobState
from cutwater.status import ChainStatus, JobStatus, OperatorActivity, OperatorStatus, TaskStatus

#: A slot that is busy for so much of the time has no more to give.
SATURATED_SHARE = 0.9
#: Waiting for room for so much of the time is no accident.
BACKPRESSURED_SHARE = 0.3
#: Rates and shares of the first moments say nothing.
SETTLED_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Shares:
    """What a task did with the last seconds; the rest of them belonged to other tasks of its slot."""

    busy: float
    idle: float
    backpressured: float


def is_settled(status: JobStatus) -> bool:
    """It runs, and has done so for a while."""
    return status.state is JobState.RUNNING and status.running_seconds >= SETTLED_SECONDS


def shares_of(task: TaskStatus) -> Shares:
    """Of the last seconds; of the whole attempt where those aren't known."""
    if task.busy_share or task.idle_share or task.backpressured_share:
        return Shares(task.busy_share, task.idle_share, task.backpressured_share)
    total = task.busy_seconds + task.idle_seconds + task.backpressured_seconds
    if total <= 0:
        return Shares(0.0, 0.0, 0.0)
    return Shares(task.busy_seconds / total, task.idle_seconds / total, task.backpressured_seconds / total)


def busy_of_slots(status: JobStatus) -> dict[str, float]:
    busy: dict[str, float] = defaultdict(float)
    for task in status.tasks:
        busy[task.slot] += shares_of(task).busy
    return dict(busy)


def chain_of(status: JobStatus, task: TaskStatus) -> ChainStatus | None:
    uid = uid_of(task)
    return next((chain for chain in status.graph.chains if chain.uid == uid), None)


def uid_of(task: TaskStatus) -> str:
    """ "count[1]" belongs to the chain "count"."""
    return task.task.rpartition("[")[0] or task.task


def tasks_of(status: JobStatus, chain: str) -> list[TaskStatus]:
    return [task for task in status.tasks if uid_of(task) == chain]


def receivers_of(status: JobStatus, chain: str) -> list[str]:
    return [edge.receiver for edge in status.graph.edges if edge.sender == chain]


def senders_of(status: JobStatus, chain: str) -> list[str]:
    return [edge.sender for edge in status.graph.edges if edge.receiver == chain]


def has_source(chain: ChainStatus) -> bool:
    return any(operator.kind == "source" for operator in chain.operators)


def records_of(task: TaskStatus) -> int:
    """What it has read, or got."""
    head = task.operators[0].records_out if task.operators and not task.operators[0].records_in else 0
    return max(task.records_in, head, 0 if task.records_in else task.records_out)


def rate_of(task: TaskStatus) -> float:
    return task.records_in_per_second or task.records_out_per_second


def lag_of(status: JobStatus) -> int:
    return sum(sum(task.lag.values()) for task in status.tasks)


def knows_lag(status: JobStatus) -> bool:
    return any(task.lag for task in status.tasks)


def busiest_operator(task: TaskStatus, chain: ChainStatus | None) -> OperatorStatus | None:
    """The one that takes most of the task's time; None: the chain has several, and it isn't known which."""
    operators = {} if chain is None else {operator.uid: operator for operator in chain.operators}
    known = [activity for activity in task.operators if activity.operator in operators]
    if known and any(map(_weight, known)):
        return operators[max(known, key=_weight).operator]
    return chain.operators[0] if chain is not None and len(chain.operators) == 1 else None


def _weight(activity: OperatorActivity) -> tuple[float, float]:
    return activity.busy_share, activity.busy_seconds


def named(operator: OperatorStatus | None, chain: ChainStatus | None, task: str) -> str:
    """As the user wrote it: its name, its uid where that says more, and the line."""
    if operator is None:
        return f'"{chain.name}"' if chain is not None else task
    uid = f' "{operator.uid}"' if operator.uid != operator.name else ""
    written = f" ({operator.written_at})" if operator.written_at else ""
    return f"{operator.name}{uid}{written}"
