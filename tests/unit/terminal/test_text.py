"""What is printed of a status and of a result."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cutwater.protocol.lifecycle import JobState
from cutwater.status import FailureStatus, JobResult, JobStatus
from cutwater.terminal import figures
from cutwater.terminal.text import summary

from .statuses import orders


def test_a_status_prints_itself_in_a_few_lines() -> None:
    lines = str(orders()).splitlines()
    assert lines[:8] == [
        'job "orders" (orders-1): running, attempt 2, for 5 min 12 s, parallelism 2',
        "  900 records/s read, 70 written; lag 1,400",
        "  98 checkpoints (the newest took 34 ms, 12.1 kB), 1 failed, savepoint 9 under way (3 of 4 tasks); 1 restart",
        "  operator         tasks      in     out  in/s  out/s  busy",
        "  kafka(orders)        2       0  10,000     0    900   10%",
        "  └ map[parse]            10,000   8,000   900    800   75%",
        "  count                2   8,000     700   800     70    0%",
        "  └ parquet(out/)            700       0    70      0    0%",
    ]


def test_a_failed_job_prints_why() -> None:
    failed = replace(orders(), state=JobState.FAILED, failure=FailureStatus("UserFunctionError", "it raised", "line 7"))
    assert "  failed: it raised\n    detail: line 7\n" in str(failed)


def test_a_result_is_one_line() -> None:
    finished = replace(orders(), state=JobState.FINISHED, restarts=0)
    assert str(JobResult(finished, 12.34)) == (
        'job "orders": finished after 12.3 s: 10,000 records read, 700 written; 98 checkpoints'
    )


def test_what_was_counted_before_a_restart_is_not_claimed() -> None:
    words = summary(replace(orders(), state=JobState.FINISHED), 1.0)
    assert words == (
        "finished after 1.0 s: 10,000 records read, 700 written since the last restart; 98 checkpoints, 1 restart"
    )


def test_a_job_without_counts_has_none_in_its_summary() -> None:
    assert summary(JobStatus("a", "a", JobState.CANCELLED, 1), 0.5) == "cancelled after 0.5 s; 0 checkpoints"


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0, "0 s"), (59.9, "59 s"), (60, "1 min"), (312, "5 min 12 s"), (11_220, "3 h 7 min"), (1_051_200, "12 d 4 h")],
)
def test_an_age_has_two_units_at_most(seconds: float, words: str) -> None:
    assert figures.age(seconds) == words


@pytest.mark.parametrize(
    ("per_second", "words"),
    [(0, "0"), (0.25, "0.2"), (12.3, "12"), (999, "999"), (1_234, "1.23k"), (45_600, "45.6k"), (999_900, "1000k")],
)
def test_a_rate_has_three_digits(per_second: float, words: str) -> None:
    assert figures.rate(per_second) == words


@pytest.mark.parametrize(
    ("number", "words"), [(999, "999 B"), (12_100, "12.1 kB"), (123_000_000, "123 MB"), (4_500_000_000_000, "4.5 TB")]
)
def test_a_size_has_the_unit_that_fits(number: int, words: str) -> None:
    assert figures.size(number) == words
