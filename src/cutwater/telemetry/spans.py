"""Which spans does a job make? Each change of the status in, finished spans out: no clock, no exporter."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from cutwater.status import CheckpointDetails, CheckpointStatus, JobStatus, RecoveryStatus, TaskCheckpointStatus

Value = str | int | float | bool
#: Of a checkpoint with more tasks, the slowest are told.
TASKS_TOLD_MAX = 32


@dataclass(frozen=True, slots=True)
class Span:
    """Something that took its time, and what it consisted of. Milliseconds since the epoch."""

    name: str
    begun_ms: float
    ended_ms: float
    attributes: dict[str, Value] = field(default_factory=dict)
    problem: str = ""
    """Why it did not go well; empty: it did."""
    parts: tuple[Span, ...] = ()


class SpanMaker:
    """Tells every checkpoint and every recovery once, when it is over. For one thread."""

    def __init__(self, details: Callable[[int], CheckpointDetails | None]) -> None:
        self._details = details
        self._checkpoints_told = 0
        self._recoveries_told = 0

    def take(self, status: JobStatus) -> list[Span]:
        return [*self._checkpoints(status), *self._recoveries(status)]

    def _checkpoints(self, status: JobStatus) -> Iterator[Span]:
        over = status.checkpoints_completed + status.checkpoints_failed
        untold = over - self._checkpoints_told
        self._checkpoints_told = over
        for each in status.checkpoints[-untold:] if untold > 0 else ():
            found = self._details(each.checkpoint)
            tasks = found.tasks if found is not None and found.checkpoint.attempt == each.attempt else ()
            yield checkpoint_span(status, each, tasks)

    def _recoveries(self, status: JobStatus) -> Iterator[Span]:
        untold = status.restarts - self._recoveries_told
        for each in status.recoveries[-untold:] if untold > 0 else ():
            is_newest = each is status.recoveries[-1]
            if is_newest and each.first_record_seconds is None and not status.state.terminal:
                return  # it isn't over
            self._recoveries_told += 1
            yield recovery_span(status, each)


def checkpoint_span(status: JobStatus, each: CheckpointStatus, tasks: tuple[TaskCheckpointStatus, ...]) -> Span:
    slowest = sorted(tasks, key=lambda task: task.acknowledged_seconds, reverse=True)[:TASKS_TOLD_MAX]
    return Span(
        each.kind,
        each.triggered_at_ms,
        each.triggered_at_ms + each.duration_seconds * 1000,
        {
            **_of_job(status),
            "cutwater.attempt": each.attempt,
            "cutwater.checkpoint.id": each.checkpoint,
            "cutwater.checkpoint.outcome": each.outcome,
            "cutwater.checkpoint.size_bytes": each.size_bytes,
            "cutwater.checkpoint.new_bytes": each.new_bytes,
            "cutwater.checkpoint.tasks": each.tasks_total,
        },
        problem="" if each.completed else each.outcome,
        parts=tuple(_task_span(each, task) for task in slowest),
    )


def _task_span(checkpoint: CheckpointStatus, task: TaskCheckpointStatus) -> Span:
    """The phases follow each other: each begins where the one before ends."""
    phases = (
        ("wait for the barrier", task.start_delay_seconds),
        ("align", task.alignment_seconds),
        ("freeze", task.sync_seconds),
        ("write", task.async_seconds),
    )
    parts, at_ms = [], float(checkpoint.triggered_at_ms)
    for name, seconds in phases:
        if seconds > 0:
            parts.append(Span(name, at_ms, at_ms + seconds * 1000))
        at_ms += seconds * 1000
    return Span(
        task.task,
        checkpoint.triggered_at_ms,
        checkpoint.triggered_at_ms + task.acknowledged_seconds * 1000,
        {"cutwater.task": task.task, "cutwater.size_bytes": task.size_bytes, "cutwater.new_bytes": task.new_bytes},
        parts=tuple(parts),
    )


def recovery_span(status: JobStatus, each: RecoveryStatus) -> Span:
    """From the failure to the first record after it, or as far as it came."""
    steps = (
        ("wait for slots", each.slots_ready_seconds),
        ("deploy and restore", each.deployed_seconds),
        ("first record", each.first_record_seconds),
    )
    parts, before = [], 0.0
    for name, seconds in steps:
        if seconds is not None and seconds >= before:
            parts.append(Span(name, each.noticed_at_ms + before * 1000, each.noticed_at_ms + seconds * 1000))
            before = seconds
    restored = {} if each.restored_checkpoint is None else {"cutwater.checkpoint.id": each.restored_checkpoint}
    return Span(
        "recovery",
        each.noticed_at_ms,
        each.noticed_at_ms + before * 1000,
        {**_of_job(status), "cutwater.attempt": each.attempt, **restored},
        problem=each.cause.partition("\n")[0],
        parts=tuple(parts),
    )


def _of_job(status: JobStatus) -> dict[str, Value]:
    return {"cutwater.job.id": status.job_id, "cutwater.job.name": status.name}
