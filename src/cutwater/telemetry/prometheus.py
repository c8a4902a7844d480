"""What does Prometheus read of a job? Its status, as families of samples; made when it is asked for, never before."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector

from cutwater.protocol.lifecycle import JobState
from cutwater.protocol.watermarks import MAX_TIMESTAMP_MS
from cutwater.status import CheckpointStatus, JobStatus, MetricStatus, OperatorActivity, TaskStatus

CONTENT_TYPE = CONTENT_TYPE_LATEST
_USERS = "cutwater_user_"
_JOB = ("job_id",)
_TASK = ("job_id", "chain", "subtask")
_OPERATOR = (*_TASK, "operator")

#: Of a task, since its attempt started. Prometheus knows that counters begin again.
_TASK_COUNTERS: tuple[tuple[str, str, Callable[[TaskStatus], float]], ...] = (
    ("task_records_in", "Records that came in.", lambda task: task.records_in),
    ("task_records_out", "Records that were emitted.", lambda task: task.records_out),
    ("task_busy_seconds", "Time with something to do.", lambda task: task.busy_seconds),
    ("task_idle_seconds", "Time without anything to do, or without its turn.", lambda task: task.idle_seconds),
    ("task_backpressured_seconds", "Time without room to emit.", lambda task: task.backpressured_seconds),
    ("task_alignment_seconds", "Time from the first barrier to the last.", lambda task: task.alignment_seconds),
    ("task_late_records", "Records that came too late for their window.", lambda task: task.late_records),
    ("task_bad_timestamps", "Records dropped for their timestamp.", lambda task: task.bad_timestamps),
    ("task_skipped_records", "Records that failed and were dropped.", lambda task: task.skipped_records),
    ("task_dead_letters", "Records that failed and became dead letters.", lambda task: task.dead_letters),
)
_OPERATOR_COUNTERS: tuple[tuple[str, str, Callable[[OperatorActivity], float]], ...] = (
    ("operator_records_in", "Records that came in.", lambda one: one.records_in),
    ("operator_records_out", "Records that were emitted.", lambda one: one.records_out),
    ("operator_busy_seconds", "Time in this operator alone.", lambda one: one.busy_seconds),
)
#: Of the newest checkpoint that completed.
_CHECKPOINT_GAUGES: tuple[tuple[str, str, Callable[[CheckpointStatus], float]], ...] = (
    ("id", "Its number.", lambda one: one.checkpoint),
    ("timestamp_seconds", "When it was triggered.", lambda one: one.triggered_at_ms / 1000),
    ("duration_seconds", "From the trigger until it was complete.", lambda one: one.duration_seconds),
    ("size_bytes", "Its size.", lambda one: one.size_bytes),
    ("new_bytes", "What was written for it.", lambda one: one.new_bytes),
    ("start_delay_seconds", "Until the barrier was everywhere.", lambda one: one.start_delay_seconds_max),
    ("alignment_seconds", "The longest alignment of a task.", lambda one: one.alignment_seconds_max),
    ("sync_seconds", "The longest freeze of a task.", lambda one: one.sync_seconds_max),
    ("async_seconds", "The longest write of a task.", lambda one: one.async_seconds_max),
    ("source_pause_seconds", "The longest pause of a source.", lambda one: one.source_pause_seconds_max),
)


def exposition(status: JobStatus) -> bytes:
    """In the text format of Prometheus."""
    return generate_latest(_Families(status))


class _Families(Collector):
    def __init__(self, status: JobStatus) -> None:
        self._status = status

    def collect(self) -> Iterator[Metric]:
        status = self._status
        yield from _of_job(status)
        yield from _of_checkpoints(status)
        yield from _of_tasks(status)
        yield from _of_operators(status)
        yield from _of_users(status)


def _of_job(status: JobStatus) -> Iterator[Metric]:
    job = [status.job_id]
    info = GaugeMetricFamily("cutwater_job_info", "The job's name; always 1.", labels=(*_JOB, "name"))
    info.add_metric([*job, status.name], 1)
    yield info
    states = GaugeMetricFamily("cutwater_job_state", "1 for the state that it is in.", labels=(*_JOB, "state"))
    for state in JobState:
        states.add_metric([*job, state.value], float(state is status.state))
    yield states
    yield _gauge("job_attempt", "The number of the current attempt.", job, status.attempt)
    yield _gauge("job_running_seconds", "How long the attempt has been running.", job, status.running_seconds)
    yield _gauge("job_slots", "Slots that are registered.", job, len(status.slots))
    yield _counter("job_restarts", "Failures after which the job went on.", job, status.restarts)
    yield _counter("job_warnings", "Warnings.", job, status.warnings_total)
    if status.recoveries and status.recoveries[-1].deployed_seconds is not None:
        took = status.recoveries[-1].deployed_seconds
        yield _gauge("job_last_recovery_seconds", "From a failure until the tasks were deployed again.", job, took)
    if status.latency is not None:
        latency = GaugeMetricFamily(
            "cutwater_latency_seconds", "How long barriers took to the end of the job.", labels=(*_JOB, "quantile")
        )
        for quantile, seconds in (
            ("0.5", status.latency.p50_seconds),
            ("0.95", status.latency.p95_seconds),
            ("0.99", status.latency.p99_seconds),
        ):
            latency.add_metric([*job, quantile], seconds)
        yield latency


def _of_checkpoints(status: JobStatus) -> Iterator[Metric]:
    job = [status.job_id]
    counts = CounterMetricFamily("cutwater_checkpoints", "Checkpoints by outcome.", labels=(*_JOB, "outcome"))
    counts.add_metric([*job, "completed"], status.checkpoints_completed)
    counts.add_metric([*job, "failed"], status.checkpoints_failed)
    yield counts
    yield _gauge("checkpoints_under_way", "Checkpoints that have begun.", job, len(status.checkpoints_under_way))
    newest = next((each for each in reversed(status.checkpoints) if each.completed), None)
    if newest is None:
        return
    for name, text, value in _CHECKPOINT_GAUGES:
        yield _gauge(f"checkpoint_last_{name}", f"The newest complete checkpoint: {text}", job, value(newest))


def _of_tasks(status: JobStatus) -> Iterator[Metric]:
    labels = [(_task_labels(status, task), task) for task in status.tasks]
    for name, text, value in _TASK_COUNTERS:
        yield _filled(CounterMetricFamily(f"cutwater_{name}", text, labels=_TASK), labels, value)
    queued = GaugeMetricFamily("cutwater_task_queued_elements", "What waits in its inputs.", labels=_TASK)
    yield _filled(queued, labels, lambda task: task.queued_elements)
    timed = [
        (label, task)
        for label, task in labels
        if task.watermark_ms is not None and task.watermark_ms < MAX_TIMESTAMP_MS
    ]
    watermark = GaugeMetricFamily("cutwater_task_watermark_seconds", "How far event time has come.", labels=_TASK)
    yield _filled(watermark, timed, lambda task: (task.watermark_ms or 0) / 1000)
    behind = GaugeMetricFamily("cutwater_task_watermark_lag_seconds", "Time of day minus event time.", labels=_TASK)
    yield _filled(behind, timed, lambda task: (status.as_of_ms - (task.watermark_ms or 0)) / 1000)
    lag = GaugeMetricFamily("cutwater_source_lag_records", "Not read yet.", labels=(*_TASK, "split"))
    for label, task in labels:
        for split, records in task.lag.items():
            lag.add_metric([*label, split], records)
    yield lag


def _of_operators(status: JobStatus) -> Iterator[Metric]:
    labels = [([*_task_labels(status, task), one.operator], one) for task in status.tasks for one in task.operators]
    for name, text, value in _OPERATOR_COUNTERS:
        yield _filled(CounterMetricFamily(f"cutwater_{name}", text, labels=_OPERATOR), labels, value)
    size = GaugeMetricFamily("cutwater_operator_state_bytes", "In the newest checkpoint.", labels=(*_JOB, "operator"))
    group = GaugeMetricFamily(
        "cutwater_operator_largest_key_group_bytes", "In the newest checkpoint.", labels=(*_JOB, "operator")
    )
    for state in status.operator_states:
        size.add_metric([status.job_id, state.operator], state.size_bytes)
        if state.largest_group is not None:
            group.add_metric([status.job_id, state.operator], state.largest_group_bytes)
    yield size
    yield group


def _of_users(status: JobStatus) -> Iterator[Metric]:
    """`context.metrics`: one family for each name and kind."""
    families: dict[tuple[str, str], Metric] = {}
    taken: set[str] = set()
    for task in status.tasks:
        for one in task.operators:
            labels = [*_task_labels(status, task), one.operator]
            for metric in one.metrics:
                key = (metric.name, metric.kind)
                if key not in families:
                    families[key] = _family(metric, _free_name(metric.name, taken))
                _add(families[key], labels, metric)
    yield from families.values()


def _family(metric: MetricStatus, name: str) -> Metric:
    kinds: dict[str, type[CounterMetricFamily | HistogramMetricFamily | GaugeMetricFamily]] = {
        "counter": CounterMetricFamily,
        "histogram": HistogramMetricFamily,
    }
    return kinds.get(metric.kind, GaugeMetricFamily)(
        name, f"The job's own {metric.kind} {metric.name}.", labels=_OPERATOR
    )


def _add(family: Metric, labels: Sequence[str], metric: MetricStatus) -> None:
    match family:
        case HistogramMetricFamily():
            bounds = [*map(str, metric.bounds), "+Inf"]
            family.add_metric(labels, list(zip(bounds, accumulate(metric.counts), strict=False)), metric.value)
        case CounterMetricFamily() | GaugeMetricFamily():
            family.add_metric(labels, metric.value)


def _free_name(name: str, taken: set[str]) -> str:
    """As Prometheus allows it; two that become the same are numbered."""
    base = _USERS + (re.sub(r"[^a-zA-Z0-9_]", "_", name).removesuffix("_total") or "unnamed")
    found, number = base, 1
    while found in taken:
        number += 1
        found = f"{base}_{number}"
    taken.add(found)
    return found


def _task_labels(status: JobStatus, task: TaskStatus) -> list[str]:
    chain, _, subtask = task.task.rpartition("[")
    return [status.job_id, chain, subtask.removesuffix("]")]


def _filled(
    family: CounterMetricFamily | GaugeMetricFamily,
    labelled: Iterable[tuple[Sequence[str], TaskStatus]] | Iterable[tuple[Sequence[str], OperatorActivity]],
    value: Callable[..., float],
) -> Metric:
    for labels, one in labelled:
        family.add_metric(labels, value(one))
    return family


def _gauge(name: str, text: str, labels: Sequence[str], value: float) -> Metric:
    family = GaugeMetricFamily(f"cutwater_{name}", text, labels=_JOB)
    family.add_metric(labels, value)
    return family


def _counter(name: str, text: str, labels: Sequence[str], value: float) -> Metric:
    family = CounterMetricFamily(f"cutwater_{name}", text, labels=_JOB)
    family.add_metric(labels, value)
    return family
