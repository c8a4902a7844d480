"""A job that runs nowhere, and remembers what was asked of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from cutwater.protocol.lifecycle import JobState
from cutwater.status import (
    ChainStatus,
    CheckpointDetails,
    CheckpointStatus,
    GraphStatus,
    JobResult,
    JobStatus,
    LogLine,
    OperatorStatus,
    RecoveryStatus,
    TaskCheckpointStatus,
    TaskStatus,
)


def running_status() -> JobStatus:
    operator = OperatorStatus("count", "count", "operator", "orders.py:7")
    return JobStatus(
        "orders",
        "orders",
        JobState.RUNNING,
        attempt=2,
        graph=GraphStatus((ChainStatus("count", "count", 2, (operator,)),)),
        tasks=(TaskStatus("count[0]", "slot-1", 10, 7, 1.0, 2.0, 1.0, 0.0, 0, lag={"orders/0": 3}),),
        checkpoints=(CheckpointStatus(4, "checkpoint", 2, "completed", 0.02, triggered_at_ms=1_700_000_000_000),),
        checkpoints_completed=4,
        recoveries=(RecoveryStatus(1, "slot slot-1 was lost", 1.0, noticed_at_ms=1_700_000_000_000),),
        restarts=1,
    )


class StandInJob:
    job_id = "orders"

    def __init__(self) -> None:
        self.now = running_status()
        self.asked: list[object] = []
        self.lines: tuple[LogLine, ...] = ()
        #: Called by whatever blocks, with what was asked.
        self.does: Callable[[object], str] = lambda what: "file:///savepoints/1"

    def status(self) -> JobStatus:
        return self.now

    def logs(self, after: int) -> tuple[LogLine, ...]:
        return tuple(line for line in self.lines if line.number > after)

    def configuration(self) -> dict[str, Any]:
        return {"parallelism": 2}

    def checkpoint_details(self, checkpoint: int) -> CheckpointDetails | None:
        known = {each.checkpoint: each for each in self.now.checkpoints}
        task = TaskCheckpointStatus("count[0]", 0.001, 0.004, 0.002, 0.008, 0.016, 300, 40)
        return CheckpointDetails(known[checkpoint], (task,)) if checkpoint in known else None

    def wait(self, timeout_seconds: float | None) -> JobResult:
        raise TimeoutError

    def cancel(self) -> None:
        self.asked.append("cancel")
        self.end(JobState.CANCELLED)

    def stop(self, *, savepoint: str | None, drain: bool, timeout_seconds: float | None) -> str:
        return self._asked(("stop", savepoint, drain))

    def checkpoint(self, timeout_seconds: float | None) -> None:
        self._asked("checkpoint")

    def savepoint(self, target: str, timeout_seconds: float | None) -> str:
        return self._asked(("savepoint", target))

    def rescale(self, parallelism: int, timeout_seconds: float | None) -> None:
        self._asked(("rescale", parallelism))

    def end(self, state: JobState) -> None:
        self.now = replace(self.now, state=state)

    def _asked(self, what: object) -> str:
        self.asked.append(what)
        return self.does(what)
