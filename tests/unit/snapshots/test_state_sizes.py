from __future__ import annotations

from cutwater.snapshots.format import Chunk, DatabaseFiles, SharedFile, StatePart, TaskSnapshot
from cutwater.snapshots.state_sizes import BARS_MAX, state_sizes


def snapshot(subtask: int, groups: dict[int, int], *, operator: str = "count") -> TaskSnapshot:
    chunks = tuple(Chunk(group, 0, length) for group, length in groups.items())
    return TaskSnapshot("v", subtask, (StatePart(operator, "value", "keyed", chunks),))


def test_sizes_are_by_operator_task_and_key_group() -> None:
    (found,) = state_sizes([snapshot(1, {2: 5, 3: 50}), snapshot(0, {0: 10})], {"count": 4})
    assert (found.operator, found.size_bytes, found.task_bytes) == ("count", 65, (10, 55))
    assert found.group_bytes == (10, 0, 5, 50)
    assert (found.largest_group, found.largest_group_bytes) == (3, 50)


def test_many_key_groups_become_few_bars_that_lose_nothing() -> None:
    groups = {group: group for group in range(1000)}
    (found,) = state_sizes([snapshot(0, groups)], {"count": 1000})
    assert len(found.group_bytes) <= BARS_MAX
    assert sum(found.group_bytes) == sum(groups.values())


def test_operator_state_has_no_key_groups() -> None:
    part = StatePart("source", "splits", "split", (Chunk(0, 0, 7), Chunk(1, 7, 3)))
    (found,) = state_sizes([TaskSnapshot("v", 0, (part,))], {"source": 128})
    assert (found.size_bytes, found.group_bytes, found.largest_group) == (10, (), None)


def test_files_of_a_database_count_for_their_task() -> None:
    files = (SharedFile("a.sst", "shared/a", 100, "x"),)
    database = DatabaseFiles("count", 0, 63, files, {"CURRENT": b"12345"})
    (found,) = state_sizes([TaskSnapshot("v", 1, (), databases=(database,))], {"count": 128})
    assert (found.size_bytes, found.task_bytes, found.group_bytes) == (105, (0, 105), ())


def test_the_largest_operator_comes_first() -> None:
    found = state_sizes([snapshot(0, {0: 1}, operator="small"), snapshot(0, {0: 9}, operator="large")], {})
    assert [each.operator for each in found] == ["large", "small"]
