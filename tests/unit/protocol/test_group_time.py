"""How far is event time for a key, when the tasks that owned the keys differed?"""

from __future__ import annotations

import pytest

from cutwater.protocol.group_time import GroupTime, TaskTime
from cutwater.protocol.watermarks import MAX_TIMESTAMP_MS, MIN_TIMESTAMP_MS

FAST, SLOW = TaskTime(0, 2, 120), TaskTime(1, 2, 40)


def one_task(*told: TaskTime) -> GroupTime:
    """With all four key groups."""
    return GroupTime.restored(told, subtask=0, parallelism=1, groups=range(4), max_parallelism=4)


def test_a_task_goes_on_from_the_slowest_and_keeps_how_far_each_group_was() -> None:
    time = one_task(FAST, SLOW)
    assert (time.watermark_ms, time.floors) == (40, {0: 120, 1: 120})
    assert [time.of(group) for group in range(4)] == [120, 120, 40, 40]


def test_a_floor_counts_until_the_watermark_has_come_there() -> None:
    time = one_task(FAST, SLOW)
    time.advance(100)
    assert (time.of(0), time.of(2)) == (120, 100)
    time.advance(120)
    assert (time.of(0), time.floors) == (120, {})


def test_a_watermark_never_goes_back() -> None:
    time = GroupTime(40)
    time.advance(30)
    assert time.watermark_ms == 40


@pytest.mark.parametrize("subtask", [0, 1])
def test_as_many_tasks_as_before_go_on_where_they_were(subtask: int) -> None:
    groups = range(2 * subtask, 2 * subtask + 2)
    time = GroupTime.restored([FAST, SLOW], subtask=subtask, parallelism=2, groups=groups, max_parallelism=4)
    assert (time.watermark_ms, time.floors) == ([120, 40][subtask], {})


def test_a_task_in_which_time_had_not_begun_holds_back_the_watermark_but_no_floor() -> None:
    time = one_task(FAST)
    assert (time.watermark_ms, time.floors) == (MIN_TIMESTAMP_MS, {0: 120, 1: 120})


def test_a_task_without_key_groups_has_no_floors() -> None:
    time = GroupTime.restored([FAST, SLOW], subtask=0, parallelism=1, groups=range(0), max_parallelism=4)
    assert (time.watermark_ms, time.floors) == (40, {})


def test_what_is_told_while_floors_exist_holds_them_by_runs_of_groups() -> None:
    time = one_task(TaskTime(0, 4, 7), TaskTime(1, 4, 7), TaskTime(2, 4, 3), TaskTime(3, 4, 7))
    assert time.told(subtask=0, parallelism=1) == TaskTime(0, 1, 3, ((0, 1, 7), (3, 3, 7)))


def test_floors_survive_the_next_change_of_parallelism() -> None:
    told = one_task(FAST, SLOW).told(subtask=0, parallelism=1)
    assert told is not None
    halves = [
        GroupTime.restored([told], subtask=subtask, parallelism=2, groups=groups, max_parallelism=4)
        for subtask, groups in enumerate([range(2), range(2, 4)])
    ]
    assert [(half.watermark_ms, half.floors) for half in halves] == [(40, {0: 120, 1: 120}), (40, {})]


def test_floors_are_told_though_time_has_not_begun_in_the_task() -> None:
    assert one_task(FAST).told(subtask=0, parallelism=1) == TaskTime(0, 1, MIN_TIMESTAMP_MS, ((0, 1, 120),))


def test_nothing_is_told_before_time_has_begun() -> None:
    assert one_task().told(subtask=0, parallelism=1) is None


def test_the_end_of_time_passes_all_floors_and_is_not_told() -> None:
    time = one_task(FAST, SLOW)
    time.advance(MAX_TIMESTAMP_MS)
    assert (time.of(0), time.floors) == (MAX_TIMESTAMP_MS, {})
    assert (time.before_the_end(0), time.before_the_end(2)) == (120, 40)
    assert time.told(subtask=0, parallelism=1) == TaskTime(0, 1, 40, ((0, 1, 120),))


@pytest.mark.parametrize("subtask", [0, 1])
def test_a_task_that_reads_from_other_tasks_than_before_goes_on_from_the_slowest(subtask: int) -> None:
    told = [FAST, SLOW]
    time = GroupTime.restored(
        told, subtask=subtask, parallelism=2, groups=range(4), max_parallelism=4, same_inputs=False
    )
    assert time.watermark_ms == SLOW.watermark_ms
    assert max(map(time.of, range(4))) == FAST.watermark_ms
