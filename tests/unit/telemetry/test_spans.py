"""A checkpoint and a recovery become spans, once, when they are over."""

from __future__ import annotations

from dataclasses import replace

from tests.unit.telemetry.statuses import NOW_MS, full_status

from cutwater.protocol.lifecycle import JobState
from cutwater.status import CheckpointDetails, JobStatus, TaskCheckpointStatus
from cutwater.telemetry.spans import TASKS_TOLD_MAX, Span, SpanMaker

CHECKPOINT = replace(full_status().checkpoints[0], triggered_at_ms=NOW_MS)
TASK = TaskCheckpointStatus("count[0]", 0.01, 0.0, 0.02, 0.03, 0.07)


def status(**changes: object) -> JobStatus:
    before = replace(
        full_status(), checkpoints=(), checkpoints_completed=0, checkpoints_failed=0, recoveries=(), restarts=0
    )
    return replace(before, **changes)  # type: ignore[arg-type]


def test_a_checkpoint_is_told_once_with_the_phases_of_its_tasks() -> None:
    maker = SpanMaker(lambda number: CheckpointDetails(CHECKPOINT, (TASK,)))
    now = status(checkpoints=(CHECKPOINT,), checkpoints_completed=1)
    assert maker.take(status()) == []
    (span,) = maker.take(now)
    assert maker.take(now) == []
    assert (span.name, span.begun_ms, span.ended_ms, span.problem) == ("checkpoint", NOW_MS, NOW_MS + 20, "")
    assert span.attributes["cutwater.checkpoint.id"] == 4
    (task,) = span.parts
    assert (task.name, task.ended_ms) == ("count[0]", NOW_MS + 70)
    assert task.parts == (
        Span("wait for the barrier", NOW_MS, NOW_MS + 10),
        Span("freeze", NOW_MS + 10, NOW_MS + 30),
        Span("write", NOW_MS + 30, NOW_MS + 60),
    )


def test_a_checkpoint_that_failed_says_why() -> None:
    failed = replace(CHECKPOINT, outcome="took longer than 10 s")
    (span,) = SpanMaker(lambda number: None).take(status(checkpoints=(failed,), checkpoints_failed=1))
    assert (span.problem, span.parts) == ("took longer than 10 s", ())


def test_of_many_tasks_the_slowest_are_told() -> None:
    tasks = tuple(replace(TASK, task=f"count[{n}]", acknowledged_seconds=n) for n in range(100))
    maker = SpanMaker(lambda number: CheckpointDetails(CHECKPOINT, tasks))
    (span,) = maker.take(status(checkpoints=(CHECKPOINT,), checkpoints_completed=1))
    assert [part.name for part in span.parts] == [f"count[{99 - n}]" for n in range(TASKS_TOLD_MAX)]


def test_more_checkpoints_than_are_remembered_are_told_as_far_as_they_are() -> None:
    newest = tuple(replace(CHECKPOINT, checkpoint=number) for number in (8, 9))
    maker = SpanMaker(lambda number: None)
    assert len(maker.take(status(checkpoints=newest, checkpoints_completed=9))) == 2


def test_a_recovery_is_told_when_the_first_record_was_processed() -> None:
    begun = replace(full_status().recoveries[0], noticed_at_ms=NOW_MS, slots_ready_seconds=0.5, deployed_seconds=0.7)
    over = replace(begun, first_record_seconds=0.9, restored_checkpoint=3)
    maker = SpanMaker(lambda number: None)
    assert maker.take(status(recoveries=(begun,), restarts=1)) == []
    (span,) = maker.take(status(recoveries=(over,), restarts=1))
    assert maker.take(status(recoveries=(over,), restarts=1)) == []
    assert (span.name, span.ended_ms, span.problem) == ("recovery", NOW_MS + 900, "slot slot-1 was lost")
    assert [(part.name, part.ended_ms) for part in span.parts] == [
        ("wait for slots", NOW_MS + 500),
        ("deploy and restore", NOW_MS + 700),
        ("first record", NOW_MS + 900),
    ]


def test_a_recovery_that_another_failure_or_the_end_cut_short_is_told_too() -> None:
    begun = replace(full_status().recoveries[0], deployed_seconds=None)
    maker = SpanMaker(lambda number: None)
    assert len(maker.take(status(recoveries=(begun, replace(begun, attempt=2)), restarts=2))) == 1
    ended = status(recoveries=(begun, replace(begun, attempt=2)), restarts=2, state=JobState.CANCELLED)
    assert [span.attributes["cutwater.attempt"] for span in maker.take(ended)] == [2]
