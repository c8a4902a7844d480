"""What has each task of a slot done, and how fast in the last seconds?"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from cutwater.operators.metrics import OperatorMetrics, SlotMetrics, TaskMetrics
from cutwater.protocol.ids import SlotId
from cutwater.status import MetricStatus, OperatorActivity, TaskStatus

#: Rates are over one to two of these.
WINDOW_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class _Sample:
    at_seconds: float
    tasks: dict[str, TaskMetrics]


class RecentActivity:
    """Of one slot in one attempt. Two samples are kept, however often the slot reports."""

    def __init__(self, slot: SlotId, first: SlotMetrics, now_seconds: float) -> None:
        self._slot = slot
        self.attempt = first.attempt
        self._base = self._next_base = _sample(first, now_seconds)

    def tasks(self, told: SlotMetrics, now_seconds: float) -> tuple[TaskStatus, ...]:
        if now_seconds - self._next_base.at_seconds >= WINDOW_SECONDS:
            self._base, self._next_base = self._next_base, _sample(told, now_seconds)
        seconds = now_seconds - self._base.at_seconds
        return tuple(self._task(task, self._base.tasks.get(task.task, task), seconds) for task in told.tasks)

    def _task(self, task: TaskMetrics, base: TaskMetrics, seconds: float) -> TaskStatus:
        busy = _rate(task.busy_seconds, base.busy_seconds, seconds)
        backpressured = _rate(task.backpressured_seconds, base.backpressured_seconds, seconds)
        return TaskStatus(
            task=task.task,
            slot=self._slot,
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
            records_in_per_second=_rate(task.records_in, base.records_in, seconds),
            records_out_per_second=_rate(task.records_out, base.records_out, seconds),
            busy_share=min(1.0, busy),
            idle_share=max(0.0, 1.0 - busy - backpressured) if seconds else 0.0,
            backpressured_share=min(1.0, backpressured),
            operators=tuple(
                _operator(operator, before, seconds)
                for operator, before in zip(task.operators, base.operators, strict=True)
            ),
        )


def _sample(told: SlotMetrics, now_seconds: float) -> _Sample:
    return _Sample(now_seconds, {task.task: task for task in told.tasks})


def _operator(operator: OperatorMetrics, base: OperatorMetrics, seconds: float) -> OperatorActivity:
    return OperatorActivity(
        operator=operator.uid,
        records_in=operator.records_in,
        records_out=operator.records_out,
        busy_seconds=operator.busy_seconds,
        records_in_per_second=_rate(operator.records_in, base.records_in, seconds),
        records_out_per_second=_rate(operator.records_out, base.records_out, seconds),
        busy_share=min(1.0, _rate(operator.busy_seconds, base.busy_seconds, seconds)),
        metrics=tuple(MetricStatus(*msgspec.structs.astuple(metric)) for metric in operator.users),
    )


def _rate(now: float, before: float, seconds: float) -> float:
    return (now - before) / seconds if seconds > 0 else 0.0
