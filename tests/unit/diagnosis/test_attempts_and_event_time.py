"""A job that doesn't run, that restarts again and again, whose event time stands still."""

from __future__ import annotations

from dataclasses import replace

from tests.unit.diagnosis.statuses import NOW_MS, job, restarts, task

from cutwater.diagnosis.attempts import failed, restart_loop, waiting
from cutwater.diagnosis.doctor import diagnose, needs_attention
from cutwater.diagnosis.event_time import watermark_stuck
from cutwater.diagnosis.finding import Case, Severity
from cutwater.protocol.lifecycle import JobState
from cutwater.protocol.watermarks import MAX_TIMESTAMP_MS
from cutwater.status import FailureStatus, TaskStatus


def test_a_job_that_failed_says_why() -> None:
    status = job(state=JobState.FAILED, failure=FailureStatus("UserFunctionError", "map(slow) failed", "ValueError: 3"))
    (found,) = failed(Case(status))
    assert (found.severity, found.title, found.evidence) == (
        Severity.CRITICAL,
        "the job has failed: map(slow) failed",
        "ValueError: 3",
    )
    assert needs_attention(diagnose(status))


def test_what_a_job_waits_for_is_told() -> None:
    status = job(state=JobState.WAITING_FOR_SLOTS, waiting_for="2 of 4 slots: the cluster has no free cores", tasks=())
    (found,) = waiting(Case(status))
    assert (found.title, found.evidence) == ("the job doesn't run: it waits for slots", status.waiting_for)
    assert list(waiting(Case(job()))) == []


def test_the_same_failure_three_times_is_a_loop() -> None:
    status = job(recoveries=restarts("slot slot-1 was lost", "map failed on 7", "map failed on 8", "map failed on 9"))
    (found,) = restart_loop(Case(status))
    assert found.title == "the job fails again and again for the same reason: map failed on 9"
    assert found.evidence == "3 of 4 restarts within 20 s"


def test_different_failures_and_old_ones_are_no_loop() -> None:
    assert list(restart_loop(Case(job(recoveries=restarts("a failed", "b failed", "c failed"))))) == []
    old = tuple(replace(each, noticed_at_ms=1_000) for each in restarts("a failed", "a failed", "a failed"))
    assert list(restart_loop(Case(job(recoveries=old)))) == []


def stuck(*, below_ms: int | None, silent: TaskStatus) -> list[str]:
    below = [task(f"count[{n}]", watermark_ms=below_ms) for n in (0, 1)]
    status = job(changed=[task("numbers[0]", watermark_ms=NOW_MS), silent, *below])
    return [found.title for found in watermark_stuck(Case(status))]


SILENT = task("numbers[1]", records_in_per_second=0.0, records_out_per_second=0.0, watermark_ms=None)


def test_a_silent_source_task_that_holds_up_event_time_is_told() -> None:
    expected = "event time stands still: numbers[1] reads nothing, and windows below wait for its watermark"
    assert stuck(below_ms=None, silent=SILENT) == [expected]
    behind_ms = NOW_MS - 120_000
    assert stuck(below_ms=behind_ms, silent=replace(SILENT, watermark_ms=behind_ms)) == [expected]


def test_a_silent_task_that_counts_as_idle_or_has_ended_holds_up_nobody() -> None:
    assert stuck(below_ms=NOW_MS, silent=SILENT) == []
    assert stuck(below_ms=NOW_MS, silent=replace(SILENT, watermark_ms=MAX_TIMESTAMP_MS)) == []


def test_a_task_that_reads_far_behind_the_others_is_worth_knowing() -> None:
    behind_ms = NOW_MS - 3_600_000
    (title,) = stuck(below_ms=behind_ms, silent=task("numbers[1]", watermark_ms=behind_ms))
    assert title.startswith("numbers[1] is far behind")


def test_a_job_that_ended_well_or_has_just_begun_is_healthy() -> None:
    assert diagnose(job(state=JobState.FINISHED))[0].title == "the job has ended: finished"
    assert diagnose(job(running_seconds=1.0))[0].title.startswith("the job has just started")
    assert not needs_attention(diagnose(job(running_seconds=1.0)))
