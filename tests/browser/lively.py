"""A job that runs nowhere and looks alive: to work on the page without Spark. `python -m tests.browser.lively`.

Everything that is claimed of the dashboard is tested on a real job; this one is a stage for its designers.
"""

from __future__ import annotations

import math
import random
import time

from rich.console import Console

from cutwater.config import Control
from cutwater.protocol.lifecycle import JobState
from cutwater.serving.service import ControlService
from cutwater.status import (
    ChainStatus,
    CheckpointDetails,
    CheckpointStatus,
    EdgeStatus,
    GraphStatus,
    JobResult,
    JobStatus,
    LatencyStatus,
    LogLine,
    OperatorActivity,
    OperatorStateStatus,
    OperatorStatus,
    RecoveryStatus,
    SlotStatus,
    TaskCheckpointStatus,
    TaskStatus,
)


def chain(uid: str, parallelism: int, *operators: tuple[str, str]) -> ChainStatus:
    found = tuple(OperatorStatus(name, name, kind, "payments.py:12") for name, kind in operators)
    return ChainStatus(uid, uid, parallelism, found)


GRAPH = GraphStatus(
    (
        chain("payments", 3, ("payments", "source"), ("parse", "operator")),
        chain("rules", 1, ("rules", "source")),
        chain("too-often", 3, ("too-often", "operator"), ("alarms", "sink")),
        chain("totals", 3, ("totals", "operator")),
        chain("out", 1, ("out", "sink")),
    ),
    (
        EdgeStatus("payments", "too-often", "hash"),
        EdgeStatus("rules", "too-often", "broadcast"),
        EdgeStatus("payments", "totals", "hash"),
        EdgeStatus("totals", "out", "rebalance"),
    ),
)
#: Busy and backpressured.
SHARES = {
    "payments": (0.52, 0.3),
    "rules": (0.01, 0.0),
    "too-often": (0.93, 0.0),
    "totals": (0.4, 0.02),
    "out": (0.12, 0.0),
}
RATES = {
    "payments": (0.0, 12_400.0),
    "rules": (0.0, 0.2),
    "too-often": (6_200.0, 31.0),
    "totals": (6_200.0, 820.0),
    "out": (820.0, 0.0),
}
EVERY_SECONDS = 4.0


class LivelyJob:
    job_id = "card-fraud"

    def __init__(self) -> None:
        self._begun = time.time()
        self._random = random.Random(7)
        self._details: dict[int, CheckpointDetails] = {}
        self._end: JobState | None = None
        for number in range(1, 41):
            self._checkpoint(number, self._begun - (41 - number) * EVERY_SECONDS)

    def status(self) -> JobStatus:
        now = time.time()
        while len(self._details) < 40 + (now - self._begun) / EVERY_SECONDS:
            self._checkpoint(len(self._details) + 1, now)
        return JobStatus(
            self.job_id,
            "card fraud",
            self._end or JobState.RUNNING,
            attempt=2,
            graph=GRAPH,
            slots=tuple(SlotStatus(f"slot-{at}", "worker", 4000 + at, 4) for at in range(3)),
            tasks=tuple(self._tasks(now)),
            checkpoints=tuple(each.checkpoint for each in self._details.values())[-100:],
            checkpoints_completed=len(self._details) - 1,
            checkpoints_failed=1,
            latency=LatencyStatus(0.031, 0.084, 0.122, 400),
            operator_states=self._states(),
            recoveries=(RecoveryStatus(1, CAUSE, 1.0, int((self._begun - 300) * 1000), 12, 0.0, 0.42, 0.08, 0.61),),
            restarts=1,
            as_of_ms=int(now * 1000),
            running_seconds=now - self._begun + 300,
        )

    def checkpoint_details(self, checkpoint: int) -> CheckpointDetails | None:
        return self._details.get(checkpoint)

    def logs(self, after: int) -> tuple[LogLine, ...]:
        return ()

    def configuration(self) -> dict[str, object]:
        return {}

    def wait(self, timeout_seconds: float | None) -> JobResult:
        raise TimeoutError

    def cancel(self) -> None:
        self._end = JobState.CANCELLED

    def stop(self, *, savepoint: str | None, drain: bool, timeout_seconds: float | None) -> str:
        self._end = JobState.FINISHED
        return savepoint or ""

    def checkpoint(self, timeout_seconds: float | None) -> None:
        time.sleep(1)

    def savepoint(self, target: str, timeout_seconds: float | None) -> str:
        time.sleep(2)
        return f"{target}/savepoint-1"

    def rescale(self, parallelism: int, timeout_seconds: float | None) -> None:
        raise ValueError("there are 3 slots")

    def _tasks(self, now: float) -> list[TaskStatus]:
        found = []
        for each in GRAPH.chains:
            for at in range(each.parallelism):
                wave = 1 + 0.12 * math.sin(now / 3 + at * 2)
                busy, pressed = (min(1.0, part * wave) for part in SHARES[each.uid])
                read, sent = (rate / each.parallelism * wave for rate in RATES[each.uid])
                seconds = now - self._begun + 300
                operators = tuple(
                    OperatorActivity(
                        operator.uid, int(read * seconds), int(sent * seconds), busy * seconds, read, sent, busy
                    )
                    for operator in each.operators
                )
                found.append(
                    TaskStatus(
                        f"{each.uid}[{at}]",
                        f"slot-{at}",
                        int(read * seconds),
                        int(sent * seconds),
                        busy * seconds,
                        (1 - busy) * seconds,
                        0.0,
                        0.0,
                        3,
                        watermark_ms=int((now - 5.2) * 1000),
                        lag={f"payments/{at}": 812} if each.uid == "payments" else {},
                        records_in_per_second=read,
                        records_out_per_second=sent,
                        busy_share=busy,
                        backpressured_share=pressed,
                        idle_share=max(0.0, 1 - busy - pressed),
                        operators=operators,
                    )
                )
        return found

    def _checkpoint(self, number: int, at: float) -> None:
        draw = self._random.uniform
        passed: dict[str, float] = {}
        tasks = []
        for each in GRAPH.chains:
            senders = [edge.sender for edge in GRAPH.edges if edge.receiver == each.uid]
            for index in range(each.parallelism):
                ready = [passed[task] for task in passed if task.partition("[")[0] in senders]
                start = min(ready) + draw(0.002, 0.006) if ready else draw(0.001, 0.006)
                aligned = max(max(ready) + draw(0.004, 0.022), start) if ready else start
                sync, wrote = draw(0.001, 0.003), draw(0.006, 0.024)
                passed[f"{each.uid}[{index}]"] = aligned + sync
                tasks.append(
                    TaskCheckpointStatus(
                        f"{each.uid}[{index}]",
                        start,
                        aligned - start,
                        sync,
                        wrote,
                        aligned + sync + wrote + draw(0.001, 0.004),
                        int(draw(200_000, 900_000)),
                        int(draw(40_000, 90_000)),
                    )
                )
        failed = number == 31
        duration = max(task.acknowledged_seconds for task in tasks) + 0.006
        status = CheckpointStatus(
            number,
            "savepoint" if number == 22 else "checkpoint",
            2,
            "task too-often[1] declined" if failed else "completed",
            duration,
            int(at * 1000),
            int(sum(task.size_bytes for task in tasks) * (1 + number / 60)),
            sum(task.new_bytes for task in tasks),
            max(task.start_delay_seconds for task in tasks),
            max(task.sync_seconds for task in tasks),
            max(task.async_seconds for task in tasks),
            max(task.alignment_seconds for task in tasks),
            tasks_acknowledged=5 if failed else len(tasks),
            tasks_total=len(tasks),
        )
        self._details[number] = CheckpointDetails(status, tuple(tasks[:5] if failed else tasks))

    def _states(self) -> tuple[OperatorStateStatus, ...]:
        groups = [int(20_000 + 9_000 * math.sin(at * 1.7) + 3_000 * math.cos(at * 3.1)) for at in range(64)]
        groups[17] = 260_000
        return (
            OperatorStateStatus("too-often", sum(groups), (420_000, 980_000, 410_000), tuple(groups), 34, 201_000),
            OperatorStateStatus("totals", 640_000, (210_000, 220_000, 210_000), tuple([10_000] * 64), 3, 6_000),
            OperatorStateStatus("payments", 612, (204, 204, 204)),
        )


CAUSE = """the function of "too-often" failed
  detail: ZeroDivisionError: division by zero
          at /home/me/payments.py:41 in judge
          at /home/me/payments.py:28 in on_timer
          record: {'card': 4711, 'amount': 0}
  hint:   handle the record, or set on_error="dead_letter" """


def main() -> None:
    service = ControlService(LivelyJob(), Control(port=8099))
    console = Console(soft_wrap=True)
    console.print(service.address, service.tokens.change)
    while True:
        time.sleep(3600)


if __name__ == "__main__":
    main()
