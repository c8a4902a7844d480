"""How long from a failure to the first record processed again?"""

from __future__ import annotations

import os
import signal
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

import cutwater as cw
from benchmarks.measurements import Measurement, keep
from benchmarks.measuring import median, wait_for
from cutwater.api.jobs import JobHandle
from cutwater.protocol.lifecycle import JobState
from cutwater.status import JobStatus

SETTLE_SECONDS = 1.0


@dataclass(frozen=True)
class Recovery:
    """Seconds, each part counted from the end of the one before."""

    detection: float
    slots: float
    redeployment: float
    restore: float
    first_record: float

    @property
    def total(self) -> float:
        return self.detection + self.slots + self.redeployment + self.restore + self.first_record


class Poison:
    """A user function that raises when a file appears, once."""

    def __init__(self, file: Path) -> None:
        self._file = str(file)

    def __call__(self, value: int) -> int:
        if value % 64 == 0 and os.path.exists(self._file):
            os.unlink(self._file)
            raise ValueError("poisoned record")
        return value


def submit(spark: Any, folder: Path, *, spare_slots: int) -> JobHandle:
    env = cw.Environment(
        spark=spark,
        parallelism=2,
        spare_slots=spare_slots,
        checkpoints=cw.Checkpoints(every="300ms", storage=f"file://{folder}"),
        state_backend="filesystem",
        restart=cw.restart.fixed_delay(attempts=1_000, delay="0s"),
    )
    source = cw.sources.generator(lambda index: index, per_second=20_000)
    (
        env.from_source(source, uid="numbers")
        .map(Poison(folder / "poison"), uid="poison")
        .key_by(lambda value: value % 1_000)
        .count(uid="count")
        .sink_to(cw.sinks.discard(), uid="end")
    )
    return env.submit("benchmark recovery")


def kill_a_worker(status: JobStatus, folder: Path) -> None:
    os.kill(next(slot.pid for slot in status.slots if slot.tasks), signal.SIGKILL)


def poison_a_record(status: JobStatus, folder: Path) -> None:
    (folder / "poison").touch()


def observe(spark: Any, *, spare_slots: int, failures: int, fail: Callable[[JobStatus, Path], None]) -> list[Recovery]:
    recoveries = []
    with tempfile.TemporaryDirectory(prefix="cutwater-bench-") as name:
        folder = Path(name)
        job = submit(spark, folder, spare_slots=spare_slots)
        for done in range(failures):
            wait_for(job, lambda status: _settled(status, 2 + spare_slots, restarts=done))  # noqa: B023
            time.sleep(SETTLE_SECONDS)
            failed_at = time.monotonic()
            fail(job.status(), folder)
            status = wait_for(job, lambda status: _is_back(status, restarts=done + 1))  # noqa: B023
            recoveries.append(_split(status, failed_at))
        job.cancel()
        job.wait()
    return recoveries


def _settled(status: JobStatus, slots: int, *, restarts: int) -> bool:
    completed = [one for one in status.checkpoints if one.completed and one.attempt == status.attempt]
    return (
        status.state is JobState.RUNNING
        and len(status.slots) == slots
        and status.restarts >= restarts
        and len(completed) > 1
    )


def _is_back(status: JobStatus, *, restarts: int) -> bool:
    return status.restarts >= restarts and status.recoveries[-1].first_record_seconds is not None


def _split(status: JobStatus, failed_at_seconds: float) -> Recovery:
    last = status.recoveries[-1]
    assert last.slots_ready_seconds is not None and last.deployed_seconds is not None  # noqa: PT018
    assert last.restore_seconds is not None and last.first_record_seconds is not None  # noqa: PT018
    return Recovery(
        detection=last.noticed_at_seconds - failed_at_seconds,
        slots=last.slots_ready_seconds,
        redeployment=last.deployed_seconds - last.slots_ready_seconds - last.restore_seconds,
        restore=last.restore_seconds,
        first_record=last.first_record_seconds - last.deployed_seconds,
    )


def measure(spark: Any, console: Console, *, failures: int) -> None:
    table = Table(title=f"from the failure to the first record processed again, restart delay 0, median of {failures}")
    for heading in ("failure", "detection", "waiting for a slot", "redeployment", "restore", "first record", "total"):
        table.add_column(heading, justify="right")
    cases: list[tuple[str, int, Callable[[JobStatus, Path], None]]] = [
        ("kill -9, no spare slot", 0, kill_a_worker),
        ("kill -9, one spare slot", 1, kill_a_worker),
        ("exception in a user function", 0, poison_a_record),
    ]
    for name, spare_slots, fail in cases:
        seen = observe(spark, spare_slots=spare_slots, failures=failures, fail=fail)
        parts = ("detection", "slots", "redeployment", "restore", "first_record", "total")
        medians = {part: median(getattr(one, part) for one in seen) for part in parts}
        table.add_row(name, *(f"{seconds * 1000:.0f} ms" for seconds in medians.values()))
        keep(
            Measurement(
                workload="recovery",
                system="Cutwater",
                backend="filesystem",
                checkpoint_seconds=0.3,
                parallelism=2,
                p50_ms=medians["total"] * 1000,
                more={"variant": name, "failures": failures} | {f"{part}_seconds": medians[part] for part in parts},
            )
        )
    console.print(table)
