"""Jobs that run nowhere: two slots, a source, a keyed count, a sink; each test changes what it needs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from cutwater.diagnosis.finding import Finding
from cutwater.protocol.lifecycle import JobState
from cutwater.status import (
    ChainStatus,
    CheckpointStatus,
    EdgeStatus,
    GraphStatus,
    JobStatus,
    OperatorActivity,
    OperatorStatus,
    RecoveryStatus,
    TaskStatus,
)

NOW_MS = 1_700_000_000_000
GRAPH = GraphStatus(
    (
        ChainStatus(
            "numbers",
            "numbers → map(slow)",
            2,
            (
                OperatorStatus("numbers", "generator", "source", "job.py:1"),
                OperatorStatus("slow", "map(slow)", "operator", "job.py:2"),
            ),
        ),
        ChainStatus(
            "count",
            "count → end",
            2,
            (
                OperatorStatus("count", "count", "operator", "job.py:3"),
                OperatorStatus("end", "kafka", "sink", "job.py:4"),
            ),
        ),
    ),
    (EdgeStatus("numbers", "count", "hash"),),
)


def task(name: str, **changes: Any) -> TaskStatus:
    """In the slot of its number: neither busy nor held up."""
    given: dict[str, Any] = {
        "slot": f"slot-{name[-2]}",
        "records_in": 50_000,
        "records_out": 50_000,
        "busy_seconds": 20.0,
        "idle_seconds": 70.0,
        "backpressured_seconds": 0.0,
        "alignment_seconds": 0.0,
        "queued_elements": 0,
        "busy_share": 0.2,
        "idle_share": 0.7,
        "records_in_per_second": 500.0,
        "records_out_per_second": 500.0,
    }
    return TaskStatus(name, **(given | changes))


def job(**changes: Any) -> JobStatus:
    """A healthy one; a task that is given takes the place of the healthy one of its name."""
    tasks = {name: task(name) for name in ("numbers[0]", "numbers[1]", "count[0]", "count[1]")}
    tasks |= {one.task: one for one in changes.pop("changed", ())}
    healthy = JobStatus(
        "orders",
        "orders",
        JobState.RUNNING,
        attempt=1,
        graph=GRAPH,
        tasks=tuple(tasks.values()),
        checkpoints=checkpoints(5),
        checkpoints_completed=5,
        as_of_ms=NOW_MS,
        running_seconds=100.0,
    )
    return replace(healthy, **changes)


def checkpoints(count: int, *, every_seconds: float = 1.0, **changes: Any) -> tuple[CheckpointStatus, ...]:
    given: dict[str, Any] = {"kind": "checkpoint", "attempt": 1, "outcome": "completed", "duration_seconds": 0.04}
    begin_ms = NOW_MS - round(count * every_seconds * 1000)
    return tuple(
        CheckpointStatus(
            checkpoint=number + 1, triggered_at_ms=begin_ms + round(number * every_seconds * 1000), **(given | changes)
        )
        for number in range(count)
    )


def restarts(*causes: str, every_ms: int = 10_000) -> tuple[RecoveryStatus, ...]:
    begin_ms = NOW_MS - len(causes) * every_ms
    return tuple(
        RecoveryStatus(number + 1, cause, 0.0, noticed_at_ms=begin_ms + number * every_ms)
        for number, cause in enumerate(causes)
    )


def activity(operator: str, busy_share: float) -> OperatorActivity:
    return OperatorActivity(operator, 1_000, 1_000, busy_share * 100, busy_share=busy_share)


def titles(findings: list[Finding]) -> list[str]:
    return [finding.title for finding in findings]
