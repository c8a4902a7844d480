"""Checkpoints that fail or cost much are told; others aren't."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.diagnosis.statuses import checkpoints, job, task

from cutwater.diagnosis.finding import Case, Finding, Rule, Severity
from cutwater.diagnosis.snapshots import failing, long_freezes, slow_barriers, slow_driver, without_a_pause


def found_by(rule: Rule, *taken: Any, **changes: Any) -> list[Finding]:
    return list(rule(Case(job(checkpoints=taken, **changes))))


def test_checkpoints_that_fail_one_after_the_other_are_critical() -> None:
    taken = (*checkpoints(3), *checkpoints(2, outcome="took longer than 10 s"))
    (found,) = found_by(failing, *taken)
    assert found.severity is Severity.CRITICAL
    assert found.evidence == "2 of the newest 5; the last that did, 2: took longer than 10 s"


def test_one_that_failed_among_others_is_a_warning_and_one_of_an_older_attempt_nothing() -> None:
    one = checkpoints(1, outcome="declined")
    assert found_by(failing, *one, *checkpoints(3))[0].severity is Severity.WARNING
    assert found_by(failing, *checkpoints(1, outcome="declined", attempt=0), *checkpoints(3)) == []


@pytest.mark.parametrize(
    ("rule", "changes", "title"),
    [
        (without_a_pause, {"duration_seconds": 0.98}, "checkpoints take as long as their interval"),
        (slow_barriers, {"duration_seconds": 2.0, "alignment_seconds_max": 1.5}, "barriers wait at tasks"),
        (slow_barriers, {"duration_seconds": 2.0, "start_delay_seconds_max": 1.5}, "barriers wait in queues"),
        (long_freezes, {"duration_seconds": 2.0, "sync_seconds_max": 0.7}, "checkpoints halt tasks"),
        (slow_driver, {"duration_seconds": 2.0, "async_seconds_max": 0.1}, "the driver takes long"),
    ],
)
def test_what_costs_much_is_told(rule: Rule, changes: dict[str, float], title: str) -> None:
    (found,) = found_by(rule, *checkpoints(5, **changes))
    assert found.title.startswith(title)
    assert found.severity is Severity.WARNING
    assert found_by(rule, *checkpoints(5)) == []
    assert found_by(rule, *checkpoints(2, **changes)) == []  # too few to say anything


def test_the_task_behind_which_barriers_wait_is_named() -> None:
    taken = checkpoints(5, duration_seconds=2.0, alignment_seconds_max=1.5)
    held_up = task("numbers[1]", backpressured_share=0.8, busy_share=0.1)
    (found,) = found_by(slow_barriers, *taken, changed=[held_up])
    assert found.task == "numbers[1]"
    assert found.title.endswith("behind the backpressure at numbers[1]")
    assert found.evidence == "1.5 s of the 2.0 s that a checkpoint takes (75 %)"
