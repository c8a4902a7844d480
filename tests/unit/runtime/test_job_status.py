from __future__ import annotations

from cutwater.config import JobOptions
from cutwater.errors import JobFailedError, SlotsMissingError, UserFunctionError
from cutwater.graph.model import LogicalGraph
from cutwater.graph.plan import JobPlan
from cutwater.runtime.job_status import StatusBoard


class StoppedClock:
    def now_seconds(self) -> float:
        return 0.0

    def wall_ms(self) -> int:
        return 0

    def timestamp(self) -> str:
        return ""


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


def test_a_failure_that_no_restart_helps_is_the_jobs_own() -> None:
    made = board()
    cause = SlotsMissingError("no slots")
    made.gave_up(cause, "")
    assert made.failure is cause
