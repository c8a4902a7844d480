"""What code in slots logs, prints and counts reaches the driver: from real processes, in a flood, and after a kill."""

# ruff: noqa: T201 (what is printed is the matter)
from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import cutwater as cw
from cutwater.protocol.lifecycle import JobState
from cutwater.runtime.line_collector import LINES_AT_ONCE_MAX
from cutwater.runtime.log_book import LINES_MAX
from cutwater.serving.client import find_job
from cutwater.status import JobStatus, LogLine

from .ledger_job import kill, wait_for

FLOOD = 60_000


@pytest.fixture(scope="module")
def spark() -> Iterator[Any]:
    from cutwater.deploy.session import embedded_session

    session = embedded_session(4)
    yield session
    session.stop()


@pytest.fixture(autouse=True)
def driver_log(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.INFO, logger="cutwater")
    return caplog


def said(number: int) -> int:
    if number < 2:
        print(f"number {number}")
    return number


class Talk:
    def open(self, context: Any) -> None:
        self._logger = logging.getLogger("jobs.talk")
        self._logger.info("opened %d", context.subtask)
        self._count = context.metrics.counter("seen")

    def process(self, number: int, context: Any) -> None:
        self._count.inc()
        if self._count.value == 1:
            self._logger.warning("first one")


def environment(spark: Any) -> cw.Environment:
    return cw.Environment(
        spark=spark,
        parallelism=2,
        checkpoints=cw.Checkpoints(every="200ms"),
        restart=cw.restart.fixed_delay(attempts=50, delay="0s"),
    )


def lines_of(job: cw.JobHandle, holds: Callable[[LogLine], bool]) -> list[LogLine]:
    return [line for line in job.logs() if holds(line)]


def test_prints_and_log_records_arrive_with_their_tasks_and_go_on_after_a_kill(
    spark: Any, driver_log: pytest.LogCaptureFixture
) -> None:
    env = environment(spark)
    numbers = env.from_source(cw.sources.generator(int, splits=2, per_second=2000), uid="numbers").map(said)
    numbers.key_by(lambda number: number % 16).process(Talk(), uid="talk").sink_to(cw.sinks.discard(), uid="end")
    job = env.submit("talking")

    def from_talk(attempt: int) -> set[tuple[str, str, str]]:
        found = lines_of(job, lambda line: line.logger == "jobs.talk" and line.attempt == attempt)
        return {(line.task, line.level, line.text) for line in found}

    expected = {
        ("talk[0]", "INFO", "opened 0"),
        ("talk[1]", "INFO", "opened 1"),
        ("talk[0]", "WARNING", "first one"),
        ("talk[1]", "WARNING", "first one"),
    }
    wait_for(job, lambda status: from_talk(1) == expected)
    wait_for(job, lambda status: len(lines_of(job, lambda line: line.text.startswith("number "))) == 2)
    printed = {(line.task, line.text) for line in lines_of(job, lambda line: line.level == "PRINT")}
    assert printed >= {("numbers[0]", "number 0"), ("numbers[1]", "number 1")}
    assert {line.slot for line in job.logs()} == {"", *(slot.slot for slot in job.status().slots)}

    wait_for(job, lambda status: set(counted(status)) == {"talk[0]", "talk[1]"})

    kill(job.status().slots[0].pid)
    wait_for(job, lambda now: now.restarts > 0 and now.state is JobState.RUNNING and from_talk(now.attempt) == expected)
    assert any(line.slot == "" and "was lost" in line.text for line in job.logs()), "the driver's own lines"

    served = find_job("talking").logs()
    assert served == list(job.logs())[: len(served)]
    assert find_job("talking").logs(after=served[-1].number - 1)[0] == served[-1]
    assert find_job("talking").configuration()["parallelism"] == 2
    job.cancel()
    job.wait()
    messages = driver_log.messages
    assert any(message.startswith("[numbers[0] slot-") and message.endswith("] number 0") for message in messages)
    assert sum(message.endswith("] opened 1") for message in messages) >= 2


def counted(status: JobStatus) -> list[str]:
    """The tasks whose function has counted something."""
    return [
        task.task
        for task in status.tasks
        for operator in task.operators
        for metric in operator.metrics
        if (operator.operator, metric.name, metric.kind) == ("talk", "seen", "counter") and metric.value > 0
    ]


def flooded(number: int) -> dict[str, int]:
    print(f"line {number}", "x" * 200)
    return {"number": number}


def test_a_flood_of_prints_is_bounded_and_the_job_has_all_its_records(spark: Any, tmp_path: Path) -> None:
    env = environment(spark)
    env.from_source(cw.sources.generator(int, count=FLOOD, splits=2), uid="numbers").map(flooded).sink_to(
        cw.sinks.json_lines(tmp_path / "out"), uid="end"
    )
    job = env.submit("flooding")
    result = job.wait("5min")
    lines = job.logs()
    dropped = [line for line in lines if "lines more were dropped" in line.text]
    assert sum(len(path.read_text().splitlines()) for path in (tmp_path / "out").glob("*.jsonl")) == FLOOD
    assert result.restarts == 0
    assert dropped
    assert len(lines) <= LINES_MAX
    arrived = lines[-1].number
    assert arrived < FLOOD / 4
    assert arrived >= LINES_AT_ONCE_MAX


def test_the_last_words_of_a_job_are_there_when_it_has_ended(spark: Any) -> None:
    env = environment(spark)
    env.from_collection(["only one"]).map(echoed).sink_to(cw.sinks.discard())
    job = env.submit("short")
    job.wait()
    assert [line.text for line in job.logs() if line.level == "PRINT"] == ["only one"]


def echoed(text: str) -> str:
    print(text)
    return text
