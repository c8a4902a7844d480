"""However often the parallelism changes, a key's time is the furthest that any task has brought it to."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from cutwater.protocol.group_time import GroupTime, TaskTime
from cutwater.protocol.key_groups import group_range
from cutwater.protocol.watermarks import MAX_TIMESTAMP_MS, MIN_TIMESTAMP_MS

GROUPS = 6
ADVANCES = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 9)), max_size=8)
RUNS = st.lists(st.tuples(st.integers(1, 4), ADVANCES, st.booleans()), min_size=1, max_size=5)
"""For each run: how many tasks, which of them come how far, and whether the input ends."""


@given(RUNS)
def test_a_keys_time_never_goes_back_and_never_runs_ahead_of_what_its_tasks_have_seen(
    runs: list[tuple[int, list[tuple[int, int]], bool]],
) -> None:
    furthest = dict.fromkeys(range(GROUPS), MIN_TIMESTAMP_MS)
    told: list[TaskTime] = []
    for parallelism, advances, ends in runs:
        owned = [group_range(subtask, parallelism, GROUPS) for subtask in range(parallelism)]
        tasks = [
            GroupTime.restored(told, subtask=subtask, parallelism=parallelism, groups=groups, max_parallelism=GROUPS)
            for subtask, groups in enumerate(owned)
        ]
        assert {
            group: tasks[subtask].of(group) for subtask in range(parallelism) for group in owned[subtask]
        } == furthest
        for number, time_ms in advances:
            subtask = number % parallelism
            tasks[subtask].advance(time_ms)
            for group in owned[subtask]:
                furthest[group] = max(furthest[group], time_ms)
                assert tasks[subtask].of(group) == furthest[group]
        for task in tasks:
            if ends:
                task.advance(MAX_TIMESTAMP_MS)
        said = [task.told(subtask=subtask, parallelism=parallelism) for subtask, task in enumerate(tasks)]
        told = [task for task in said if task is not None]
