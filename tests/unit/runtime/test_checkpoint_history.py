from __future__ import annotations

import pytest

from cutwater.runtime.checkpoint_history import CHECKPOINTS_SHOWN_MAX, TASKS_REMEMBERED_MAX, CheckpointHistory
from cutwater.status import CheckpointDetails, CheckpointStatus, TaskCheckpointStatus


def details(
    number: int, *, outcome: str = "completed", tasks: tuple[TaskCheckpointStatus, ...] = ()
) -> CheckpointDetails:
    return CheckpointDetails(CheckpointStatus(number, "checkpoint", 1, outcome, 0.1), tasks)


def task(name: str, delay: float, alignment: float = 0.0) -> TaskCheckpointStatus:
    return TaskCheckpointStatus(name, delay, alignment, 0.0, 0.0, delay + alignment)


def test_the_newest_are_shown_and_all_are_counted() -> None:
    history = CheckpointHistory()
    for number in range(1, 301):
        history.add(details(number, outcome="completed" if number % 3 else "expired"), last_tasks=())
    assert (history.completed, history.failed) == (200, 100)
    assert [each.checkpoint for each in history.newest] == list(range(301 - CHECKPOINTS_SHOWN_MAX, 301))
    assert history.details_of(300) is not None
    assert history.details_of(200) is None


def test_of_a_large_job_fewer_checkpoints_are_remembered_in_detail_but_always_the_newest() -> None:
    history = CheckpointHistory()
    many = tuple(task(f"t[{index}]", 0.0) for index in range(TASKS_REMEMBERED_MAX // 2))
    for number in (1, 2, 3):
        history.add(details(number, tasks=many), last_tasks=())
    assert [history.details_of(number) is not None for number in (1, 2, 3)] == [False, True, True]
    more = tuple(task(f"t[{index}]", 0.0) for index in range(TASKS_REMEMBERED_MAX + 1))
    history.add(details(4, tasks=more), last_tasks=())
    assert [history.details_of(number) is not None for number in (2, 3, 4)] == [False, False, True]


def test_a_number_that_comes_again_replaces_the_aborted_one() -> None:
    history = CheckpointHistory()
    history.add(details(1, outcome="expired", tasks=(task("t[0]", 0.0),)), last_tasks=())
    history.add(details(1), last_tasks=())
    found = history.details_of(1)
    assert found is not None
    assert found.checkpoint.completed


def test_latency_is_the_slowest_of_the_last_tasks() -> None:
    history = CheckpointHistory()
    assert history.latency is None
    for number in range(1, 101):
        way = (task("source[0]", 9.0), task("sink[0]", number / 1000), task("sink[1]", 0.0, number / 1000 / 2))
        history.add(details(number, tasks=way), last_tasks={"sink[0]", "sink[1]"})
    history.add(details(101, outcome="expired", tasks=(task("sink[0]", 50.0),)), last_tasks={"sink[0]"})
    assert history.latency is not None
    assert history.latency.samples == 100
    assert history.latency.p50_seconds == pytest.approx(0.0505)
    assert history.latency.p99_seconds == pytest.approx(0.09901)


def test_one_sample_is_every_percentile() -> None:
    history = CheckpointHistory()
    history.add(details(1, tasks=(task("sink[0]", 0.25),)), last_tasks={"sink[0]"})
    assert history.latency is not None
    assert (history.latency.p50_seconds, history.latency.p99_seconds, history.latency.samples) == (0.25, 0.25, 1)
