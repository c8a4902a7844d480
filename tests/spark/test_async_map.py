"""Calls that take for ever, on a real Spark: checkpoints go on, and whoever is killed, each result counts once."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import cutwater as cw
from cutwater.status import JobStatus

from .ledger_job import kill, wait_for

COUNT = 2_000


@pytest.fixture(scope="module")
def spark() -> Iterator[Any]:
    from cutwater.deploy.session import embedded_session

    session = embedded_session(4)
    yield session
    session.stop()


class Answer:
    """No call ends before the gate is open."""

    def __init__(self, gate: Path) -> None:
        self._gate = gate

    async def process(self, n: int) -> dict[str, int]:
        while not self._gate.exists():
            await asyncio.sleep(0.02)
        return {"n": n, "double": 2 * n}


def submit(spark: Any, root: Path, *, before: Callable[[cw.DataStream], cw.DataStream]) -> cw.JobHandle:
    env = cw.Environment(
        spark=spark,
        parallelism=2,
        checkpoints=cw.Checkpoints(every="200ms", storage=f"file://{root}/checkpoints"),
        restart=cw.restart.fixed_delay(attempts=50, delay="0s"),
    )
    numbers = before(env.from_source(cw.sources.generator(int, count=COUNT, splits=2), uid="numbers"))
    answers = numbers.async_map(Answer(root / "gate"), capacity=50, timeout=None, ordered=False, uid="answers")
    answers.sink_to(cw.sinks.json_lines(root / "out"), uid="out")
    return env.submit("answers", require="exactly_once")


def output(root: Path) -> list[int]:
    rows = [json.loads(line) for path in (root / "out").glob("*.jsonl") for line in path.open()]
    assert all(row["double"] == 2 * row["n"] for row in rows)
    return sorted(row["n"] for row in rows)


def completed(status: JobStatus) -> int:
    return sum(checkpoint.completed and checkpoint.attempt == status.attempt for checkpoint in status.checkpoints)


@pytest.mark.parametrize(
    "before", [lambda stream: stream, lambda stream: stream.rebalance()], ids=["behind the source", "behind a channel"]
)
def test_checkpoints_go_on_while_calls_are_under_way_and_a_kill_repeats_no_result(
    spark: Any, tmp_path: Path, before: Callable[[cw.DataStream], cw.DataStream]
) -> None:
    job = submit(spark, tmp_path, before=before)
    status = wait_for(job, lambda status: status.state is cw.JobState.RUNNING and completed(status) >= 2)
    kill(next(slot.pid for slot in status.slots if slot.tasks))
    wait_for(job, lambda status: status.restarts == 1 and completed(status) >= 2)
    early = output(tmp_path)
    (tmp_path / "gate").touch()
    status = job.wait("2min").status
    restored = [recovery.restored_checkpoint is not None for recovery in status.recoveries]
    assert (early, restored, output(tmp_path)) == ([], [True], list(range(COUNT)))


def test_a_job_that_is_stopped_has_waited_for_its_calls(spark: Any, tmp_path: Path) -> None:
    job = submit(spark, tmp_path, before=lambda stream: stream)
    wait_for(job, lambda status: status.state is cw.JobState.RUNNING and completed(status) >= 1)
    (tmp_path / "gate").touch()
    job.stop(savepoint=str(tmp_path / "savepoints"), timeout="60s")
    job.wait("60s")
    found = output(tmp_path)
    assert found
    assert len(found) == len(set(found))
