"""Does the state of a task come back as it was, to as many tasks as there are now, or is the damage named?"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cutwater.errors import SnapshotDamagedError
from cutwater.operators.contract import FrozenList, OperatorSnapshot
from cutwater.protocol.ids import AttemptNumber, CheckpointId, TaskId
from cutwater.protocol.key_groups import group_range
from cutwater.snapshots.format import Manifest, TaskSnapshot
from cutwater.snapshots.names import sanitise
from cutwater.snapshots.reader import KeyedRestore, list_items, list_items_of, read_parts, verify
from cutwater.snapshots.redistribution import tasks_needed
from cutwater.snapshots.storage import LocalStorage, MemoryStorage, Storage
from cutwater.snapshots.writer import Destination, write_task_snapshot

FOLDER = "job/chk-1"


@dataclass
class Chunks:
    """A frozen keyed state."""

    triples: list[tuple[str, int, bytes]]
    database: None = None
    kinds: dict[str, str] = field(default_factory=dict)

    def chunks(self) -> Iterator[tuple[str, int, bytes]]:
        return iter(self.triples)


def snapshot(
    storage: Storage | None, subtask: int, *states: tuple[str, OperatorSnapshot], inline_bytes_max: int = 0
) -> TaskSnapshot:
    to = Destination(storage, "job", AttemptNumber(2), inline_bytes_max)
    return write_task_snapshot(to, CheckpointId(1), TaskId("words/count", subtask), states)


def keyed(*triples: tuple[str, int, bytes]) -> OperatorSnapshot:
    return OperatorSnapshot(keyed=Chunks(list(triples)))


def listed(*items: bytes, union: bool = False) -> OperatorSnapshot:
    return OperatorSnapshot(lists=(FrozenList("items", items, "union" if union else "split"),))


def manifest(*tasks: TaskSnapshot) -> Manifest:
    return Manifest(1, "job", "name", 1, 2, "checkpoint", "", (), tasks, {})


def items_of(storage: Storage, tasks: list[TaskSnapshot], *, subtask: int, parallelism: int) -> list[bytes]:
    found = list_items(
        storage, FOLDER, tasks, "op", subtask=subtask, parallelism=parallelism, old_parallelism=len(tasks)
    )
    return found["items"]


def test_small_state_travels_inline():
    storage = MemoryStorage()
    written = snapshot(storage, 0, ("op", keyed(("n", 3, b"abc"))), inline_bytes_max=3)
    assert (written.inline, written.file, storage.list("")) == (b"abc", None, [])


def test_larger_state_is_one_file():
    storage = MemoryStorage()
    written = snapshot(storage, 4, ("op", keyed(("n", 3, b"abcd"))), inline_bytes_max=3)
    assert written.file is not None
    assert (written.file.path, written.file.size_bytes) == ("words%2Fcount-4-a2.state", 4)
    assert storage.list("") == [f"{FOLDER}/words%2Fcount-4-a2.state"]


def test_without_a_storage_everything_is_inline():
    assert snapshot(None, 0, ("op", keyed(("n", 3, b"abcd")))).inline == b"abcd"


def test_a_task_without_state_writes_nothing():
    storage = MemoryStorage()
    written = snapshot(storage, 0, ("op", OperatorSnapshot()))
    assert (written.parts, written.inline, storage.list("")) == ((), b"", [])


def test_each_operator_finds_its_own_groups_again():
    storage = MemoryStorage()
    tasks = [
        snapshot(storage, 0, ("op", keyed(("a", 0, b"a0"), ("a", 1, b"a1"), ("b", 1, b"b1"))), ("other", listed(b"x"))),
        snapshot(storage, 1, ("op", keyed(("a", 2, b"a2"), ("a", 2, b"more"), ("a", 3, b"a3")))),
    ]
    restored = list(KeyedRestore(storage, FOLDER, tasks, "op", range(1, 3)))
    assert restored == [("a", 1, b"a1"), ("b", 1, b"b1"), ("a", 2, b"a2"), ("a", 2, b"more")]


def test_files_without_a_wanted_group_are_not_read():
    storage = MemoryStorage()
    tasks = [snapshot(storage, n, ("op", keyed(("a", n, b"bytes")))) for n in range(2)]
    storage.delete(f"{FOLDER}/words%2Fcount-0-a2.state")
    assert list(KeyedRestore(storage, FOLDER, tasks, "op", range(1, 2))) == [("a", 1, b"bytes")]


def test_with_the_same_parallelism_every_subtask_gets_its_own_items_back():
    storage = MemoryStorage()
    tasks = [snapshot(storage, n, ("op", listed(*items))) for n, items in enumerate([(b"1", b"2", b"3"), (), (b"4",)])]
    assert [items_of(storage, tasks, subtask=n, parallelism=3) for n in range(3)] == [[b"1", b"2", b"3"], [], [b"4"]]


def test_with_another_parallelism_items_are_dealt_out_in_turn():
    storage = MemoryStorage()
    tasks = [snapshot(storage, n, ("op", listed(*items))) for n, items in enumerate([(b"1", b"2", b"3"), (), (b"4",)])]
    assert [items_of(storage, tasks, subtask=n, parallelism=2) for n in range(2)] == [[b"1", b"3"], [b"2", b"4"]]


def test_a_union_list_goes_to_everyone():
    storage = MemoryStorage()
    tasks = [snapshot(storage, n, ("op", listed(b"%d" % n, union=True))) for n in range(2)]
    assert [items_of(storage, tasks, subtask=n, parallelism=3) for n in range(3)] == [[b"0", b"1"]] * 3


def test_all_items_can_be_had_in_their_order():
    storage = MemoryStorage()
    tasks = [snapshot(storage, n, ("op", listed(b"a%d" % n, b"b%d" % n))) for n in range(12)]
    expected = [item for n in range(12) for item in (b"a%d" % n, b"b%d" % n)]
    assert list_items_of(storage, FOLDER, tasks[::-1], "op", "items") == expected


def test_a_subtask_needs_only_its_own_snapshot_while_the_parallelism_stays():
    tasks = [snapshot(None, n, ("op", listed(b"x")), ("keyed", keyed(("s", n, b"y")))) for n in range(3)]
    operators = {"op": 3, "keyed": 3}
    assert tasks_needed(tasks, operators=operators, groups=range(1, 2), subtask=1, parallelism=3) == (tasks[1],)


@given(st.lists(st.lists(st.binary(max_size=3), max_size=4), min_size=1, max_size=4), st.integers(1, 5))
def test_no_item_is_lost_or_doubled_and_what_is_needed_is_enough(old: list[list[bytes]], parallelism: int):
    tasks = [
        snapshot(None, n, ("op", listed(*items)), ("keyed", keyed(*(("s", g, b"g%d" % g) for g in owned))))
        for n, items in enumerate(old)
        for owned in [group_range(n, len(old), 6)]
    ]
    dealt: list[bytes] = []
    groups_seen: list[int] = []
    for subtask in range(parallelism):
        groups = group_range(subtask, parallelism, 6)
        needed = tasks_needed(
            tasks,
            operators={"op": len(old), "keyed": len(old)},
            groups=groups,
            subtask=subtask,
            parallelism=parallelism,
        )
        answers = [
            list_items(None, FOLDER, some, "op", subtask=subtask, parallelism=parallelism, old_parallelism=len(old))
            for some in (tasks, needed)
        ]
        restored = list(KeyedRestore(None, FOLDER, needed, "keyed", groups))
        assert answers[0].get("items", []) == answers[1].get("items", [])
        assert restored == list(KeyedRestore(None, FOLDER, tasks, "keyed", groups))
        dealt += answers[0].get("items", [])
        groups_seen += [group for _, group, _ in restored]
    assert sorted(dealt) == sorted(item for items in old for item in items)
    assert groups_seen == list(range(6))


def test_a_flipped_byte_is_found_and_named(tmp_path: Path):
    storage = LocalStorage(str(tmp_path))
    written = snapshot(storage, 0, ("op", keyed(("n", 3, b"abcdef"))))
    storage.write(f"{FOLDER}/words%2Fcount-0-a2.state", b"abcdeg")
    problem = verify(storage, FOLDER, manifest(written))
    assert problem is not None
    assert f'"{FOLDER}/words%2Fcount-0-a2.state" is damaged: its checksum differs (expected ' in problem
    with pytest.raises(SnapshotDamagedError, match="words%2Fcount-0-a2"):
        read_parts(storage, FOLDER, written)


def test_a_truncated_file_is_found_and_named(tmp_path: Path):
    storage = LocalStorage(str(tmp_path))
    written = snapshot(storage, 0, ("op", keyed(("n", 3, b"abcdef"))))
    storage.write(f"{FOLDER}/words%2Fcount-0-a2.state", b"abc")
    assert verify(storage, FOLDER, manifest(written)) == (
        f'"{FOLDER}/words%2Fcount-0-a2.state" is damaged: its size differs (expected 6 bytes, found 3)'
    )


def test_a_missing_file_is_found_and_named(tmp_path: Path):
    storage = LocalStorage(str(tmp_path))
    written = snapshot(storage, 0, ("op", keyed(("n", 3, b"abcdef"))))
    storage.delete(f"{FOLDER}/words%2Fcount-0-a2.state")
    assert verify(storage, FOLDER, manifest(written)) == (
        f'"{FOLDER}/words%2Fcount-0-a2.state" is damaged: it is missing'
    )


def test_a_whole_snapshot_verifies(tmp_path: Path):
    storage = LocalStorage(str(tmp_path))
    tasks = [snapshot(storage, n, ("op", keyed(("n", n, b"abcdef")))) for n in range(2)]
    assert verify(storage, FOLDER, manifest(*tasks, snapshot(None, 2, ("op", keyed(("n", 3, b"inline")))))) is None


@given(st.lists(st.text(max_size=300), max_size=20, unique=True))
def test_different_names_have_different_files(names: list[str]):
    files = {sanitise(name) for name in names}
    assert len(files) == len(names)
    assert all("/" not in file and len(file) <= 160 for file in files)
