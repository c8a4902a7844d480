from __future__ import annotations

from tests.unit.runtime.task_rig import StoppedClock

from cutwater.config import JobOptions
from cutwater.errors import JobFailedError, OperationsError, SlotsMissingError, UserFunctionError
from cutwater.graph.model import LogicalGraph
from cutwater.graph.plan import JobPlan
from cutwater.protocol.lifecycle import JobState
from cutwater.runtime.job_status import StatusBoard


def board() -> StatusBoard:
    plan = JobPlan.of("orders", "orders", LogicalGraph(), JobOptions(), ())
    return StatusBoard(plan, StoppedClock())


def test_a_job_out_of_restarts_names_what_failed_and_why_that_was_the_end() -> None:
    made = board()
    cause = UserFunctionError("the function failed", detail="line 3")
    made.failed(1, cause)
    made.gave_up(cause, "all 3 restarts are used up")
    assert isinstance(made.failure, JobFailedError)
    assert (
        str(made.failure) == "job 'orders' failed: the function failed (line 3)\n  detail: all 3 restarts are used up"
    )
    assert made.failure.__cause__ is cause


def test_a_job_that_runs_for_years_keeps_its_newest_troubles_and_counts_all() -> None:
    made = board()
    for attempt in range(1, 1001):
        made.failed(attempt, OperationsError(f"slot {attempt} was lost"))
        made.warn(f"warning {attempt}")
    made.update(JobState.RUNNING, None, {}, "")
    status = made.status
    assert (status.restarts, status.warnings_total) == (1000, 1000)
    assert (len(status.recoveries), len(status.warnings)) == (100, 100)
    assert (status.recoveries[-1].attempt, status.warnings[-1]) == (1000, "warning 1000")


def test_a_failure_that_no_restart_helps_is_the_jobs_own() -> None:
    made = board()
    cause = SlotsMissingError("no slots")
    made.gave_up(cause, "")
    assert made.failure is cause
