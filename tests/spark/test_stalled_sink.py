"""When one sink's server hangs, does the rest of the slot go on, and is nothing lost?"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import cutwater as cw
from cutwater.status import JobStatus

from .conftest import wait_until
from .kit_server import NumberServer, NumberSink

STALLED, FLOWING = 60_000, 400_000
STALL_SECONDS = 30.0


@pytest.fixture
def server(tmp_path: Path) -> Iterator[NumberServer]:
    made = NumberServer(tmp_path / "numbers")
    yield made
    made.resume()
    made.kill()


def records_into(status: JobStatus, operator: str) -> int:
    return sum(task.records_in for task in status.tasks if task.task.startswith(operator))


def completed(status: JobStatus) -> int:
    return sum(checkpoint.outcome == "completed" for checkpoint in status.checkpoints)


def in_words(before: JobStatus, after: JobStatus) -> str:
    """What happened between the two, for people."""

    def more(operator: str) -> str:
        return f"{records_into(after, operator) - records_into(before, operator):,}"

    checkpoints = after.checkpoints_completed - before.checkpoints_completed
    failed = after.checkpoints_failed - before.checkpoints_failed
    return (
        f"records into the other sink: {more('flows')}, into the stalled one: {more('stalls')};"
        f" checkpoints completed: {checkpoints}, failed: {failed}"
    )


@pytest.mark.parametrize("mode", ["at_least_once", "exactly_once"])
def test_a_sink_that_stalls_holds_up_neither_other_tasks_nor_loses_a_record(
    spark: Any, server: NumberServer, tmp_path: Path, mode: str
) -> None:
    env = cw.Environment(
        spark=spark,
        parallelism=2,
        checkpoints=cw.Checkpoints(every="200ms", mode=mode, storage=str(tmp_path / "checkpoints")),
    )
    stalled = env.from_source(cw.sources.generator(lambda n: {"n": n}, count=STALLED, per_second=10_000), uid="numbers")
    stalled.rebalance().sink_to(NumberSink(server.port), uid="stalls")
    flowing = env.from_source(cw.sources.generator(lambda n: n, count=FLOWING, per_second=50_000), uid="flow")
    flowing.rebalance().sink_to(cw.sinks.text(tmp_path / "out"), uid="flows")
    job = env.submit("stalled sink")
    assert wait_until(lambda: completed(job.status()) > 0)
    server.pause()
    before = records_into(job.status(), "flows")
    assert wait_until(lambda: records_into(job.status(), "flows") >= before + 100_000)
    attempt = job.status().attempt
    server.resume()
    status = job.wait("240s").status
    assert (attempt, status.attempt) == (1, 1)
    written = Counter(int(line) for line in server.file.read_text().splitlines())
    assert written.keys() == set(range(STALLED))
    lines = [int(line) for file in (tmp_path / "out").glob("*.txt") for line in file.read_text().splitlines()]
    assert Counter(lines) == Counter(range(FLOWING))


@pytest.mark.trials
@pytest.mark.parametrize("mode", ["at_least_once", "exactly_once"])
def test_a_sink_may_stall_for_half_a_minute(spark: Any, server: NumberServer, tmp_path: Path, mode: str) -> None:
    stalled, flowing = 150_000, 800_000
    env = cw.Environment(
        spark=spark,
        parallelism=2,
        checkpoints=cw.Checkpoints(every="200ms", mode=mode, storage=str(tmp_path / "checkpoints")),
    )
    numbers = env.from_source(cw.sources.generator(lambda n: {"n": n}, count=stalled, per_second=4_000), uid="numbers")
    numbers.rebalance().sink_to(NumberSink(server.port), uid="stalls")
    others = env.from_source(cw.sources.generator(lambda n: n, count=flowing, per_second=20_000), uid="flow")
    others.rebalance().sink_to(cw.sinks.text(tmp_path / "out"), uid="flows")
    job = env.submit("stalled sink")
    assert wait_until(lambda: completed(job.status()) > 0)
    server.pause()
    began = before = job.status()
    for _ in range(6):
        time.sleep(STALL_SECONDS / 6)
        now = job.status()
        print(f"{mode}, 5 s of the stall: {in_words(before, now)}")  # noqa: T201 - pytest -s
        assert records_into(now, "flows") > records_into(before, "flows")
        before = now
    print(f"{mode}, all {STALL_SECONDS:.0f} s: {in_words(began, before)}")  # noqa: T201
    server.resume()
    status = job.wait("240s").status
    print(f"{mode}, from then to the end: {in_words(before, status)}")  # noqa: T201
    written = Counter(int(line) for line in server.file.read_text().splitlines())
    lines = [int(line) for file in (tmp_path / "out").glob("*.txt") for line in file.read_text().splitlines()]
    assert (before.attempt, status.attempt) == (1, 1)
    assert (written.keys(), Counter(lines)) == (set(range(stalled)), Counter(range(flowing)))


def test_a_function_that_takes_long_holds_up_no_other_task(spark: Any, tmp_path: Path) -> None:
    go, written = tmp_path / "go", tmp_path / "written.txt"

    def consume(numbers: list[int]) -> None:
        while not go.exists():
            time.sleep(0.01)
        with written.open("a") as file:
            file.writelines(f"{number}\n" for number in numbers)

    checkpoints = cw.Checkpoints(every="200ms", mode="at_least_once", storage=str(tmp_path / "checkpoints"))
    env = cw.Environment(spark=spark, parallelism=1, checkpoints=checkpoints)
    env.from_collection(range(1000)).sink_to(cw.sinks.function(consume), uid="waits")
    flowing = env.from_source(cw.sources.generator(lambda n: n, count=50_000, per_second=20_000), uid="flow")
    flowing.rebalance().sink_to(cw.sinks.discard(), uid="flows")
    job = env.submit("slow function")
    assert wait_until(lambda: records_into(job.status(), "flows") >= 10_000)
    go.touch()
    assert job.wait("240s").status.attempt == 1
    assert [int(line) for line in written.read_text().splitlines()] == list(range(1000))
