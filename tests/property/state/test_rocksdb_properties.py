"""Does state in RocksDB behave as state on the heap does, and come back whole at any parallelism?"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cutwater.operators.contract import OperatorSnapshot
from cutwater.protocol.ids import AttemptNumber, CheckpointId, TaskId
from cutwater.protocol.key_groups import group_range, key_group
from cutwater.snapshots.local_files import LocalFiles
from cutwater.snapshots.reader import DatabaseRestore
from cutwater.snapshots.storage import MemoryStorage
from cutwater.snapshots.writer import Destination, write_task_snapshot
from cutwater.state.contract import KeyedBackend, KeyedBackendSettings, RestoredState
from cutwater.state.heap import HeapBackend
from cutwater.state.rocksdb import entries
from cutwater.state.rocksdb.backend import RocksBackend

MAX_PARALLELISM = 4
keys = st.sampled_from(["a", "b", "", 1, 2.5, True, ("x", 1), ("x", 0.5), None, b"a", -300])
values = st.one_of(st.integers(), st.text(max_size=3), st.lists(st.integers(), max_size=2))
operations = st.one_of(
    st.tuples(st.just("update"), keys, values),
    st.tuples(st.just("append in place"), keys, values),
    st.tuples(st.just("add"), keys, values),
    st.tuples(st.just("put"), keys, keys, values),
    st.tuples(st.just("remove"), keys, keys),
    st.tuples(st.just("append in map"), keys, keys, values),
    st.tuples(st.just("count"), keys, st.integers()),
    st.tuples(st.just("register"), keys, st.integers(-5, 5)),
    st.tuples(st.just("delete"), keys, st.integers(-5, 5)),
    st.tuples(st.just("clear"), keys, st.sampled_from(["value", "list", "map", "sum"])),
)
few_examples = settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))


class Side:
    """A backend with one state of each kind."""

    def __init__(self, backend: KeyedBackend) -> None:
        self.backend = backend
        self.value = backend.value_state("value")
        self.list = backend.list_state("list")
        self.map = backend.map_state("map")
        self.sum = backend.reducing_state("sum", lambda one, other: [*one, *other])
        self.timers = backend.timer_state("timers")

    def do(self, operation: tuple[Any, ...]) -> None:
        verb, key, *arguments = operation
        self.backend.set_current_key(key)
        match verb, arguments:
            case "update", [value]:
                self.value.update([value])
            case "append in place", [value]:
                if self.value.value() is None:
                    self.value.update([])
                self.value.value().append(value)
            case "add", [value]:
                self.list.add(value)
            case "put", [inner, value]:
                self.map.put(inner, [value])
            case "remove", [inner]:
                self.map.remove(inner)
            case "append in map", [inner, value]:
                if inner in self.map:
                    self.map.get(inner).append(value)
            case "count", [number]:
                self.sum.add([number])
            case "register", [time_ms]:
                self.timers.register(time_ms, ("w", time_ms))
            case "delete", [time_ms]:
                self.timers.delete(time_ms, ("w", time_ms))
            case "clear", [name]:
                {"value": self.value, "list": self.list, "map": self.map, "sum": self.sum}[name].clear()

    def contents(self, wanted: list[Any]) -> dict[Any, Any]:
        found = {}
        for key in wanted:
            self.backend.set_current_key(key)
            items = sorted(self.map.items(), key=repr)
            found[repr(key)] = (self.value.value(), self.list.get(), items, self.sum.get())
        return found

    def due(self) -> list[Any]:
        return sorted(self.timers.due(10), key=repr)


ALL_KEYS = ["a", "b", "", 1, 2.5, ("x", 1), ("x", 0.5), None, b"a", -300]


@contextmanager
def local_files() -> Iterator[LocalFiles]:
    with tempfile.TemporaryDirectory() as folder:
        yield LocalFiles(folder, "job")


def rocks(local: LocalFiles, groups: range = range(MAX_PARALLELISM)) -> RocksBackend:
    return RocksBackend(KeyedBackendSettings(MAX_PARALLELISM, groups, local, 8 << 20))


def heap() -> HeapBackend:
    return HeapBackend(KeyedBackendSettings(MAX_PARALLELISM, range(MAX_PARALLELISM)))


@pytest.fixture(autouse=True)
def tiny_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that values are written, dropped and read again all the time."""
    monkeypatch.setattr(entries, "CHANGED_ENTRIES_MAX", 2)
    monkeypatch.setattr(entries, "GENERATION_ENTRIES_MAX", 3)


@few_examples
@given(st.lists(operations, max_size=40))
def test_it_behaves_as_state_on_the_heap(steps: list[tuple[Any, ...]]) -> None:
    with local_files() as local:
        backend = rocks(local)
        ours, model = Side(backend), Side(heap())
        for step in steps:
            ours.do(step)
            model.do(step)
        assert ours.contents(ALL_KEYS) == model.contents(ALL_KEYS)
        for name in ("value", "list", "map", "sum", "timers"):
            assert set(backend.keys(name)) == set(model.backend.keys(name))
        assert ours.due() == model.due()
        backend.close()


@few_examples
@given(
    st.lists(operations, max_size=30),
    st.lists(operations, max_size=30),
    st.integers(1, MAX_PARALLELISM),
    st.integers(1, MAX_PARALLELISM),
)
def test_a_snapshot_restores_at_any_parallelism(
    before: list[tuple[Any, ...]], after: list[tuple[Any, ...]], old: int, new: int
) -> None:
    """What happens behind the barrier is not in the snapshot."""
    storage = MemoryStorage()
    with local_files() as local:
        model = Side(heap())
        snapshots = []
        for step in before:
            model.do(step)
        for subtask in range(old):
            groups = group_range(subtask, old, MAX_PARALLELISM)
            backend = rocks(local, groups)
            side = Side(backend)
            for step in before:
                if key_group(step[1], MAX_PARALLELISM) in groups:
                    side.do(step)
            frozen = backend.freeze()
            for step in after:
                if key_group(step[1], MAX_PARALLELISM) in groups:
                    side.do(step)
            to = Destination(storage, "job", AttemptNumber(1), 0, local)
            state = OperatorSnapshot(keyed=frozen)
            snapshots.append(write_task_snapshot(to, CheckpointId(1), TaskId("v", subtask), [("op", state)]))
            backend.close()
        found: dict[Any, Any] = {}
        due: list[Any] = []
        for subtask in range(new):
            groups = group_range(subtask, new, MAX_PARALLELISM)
            backend = rocks(local, groups)
            databases = [
                DatabaseRestore(storage, "job/chk-1", database, None, is_ours=True)
                for snapshot in snapshots
                for database in snapshot.databases
                if set(database.groups) & set(groups)
            ]
            backend.restore(RestoredState(databases=databases))
            side = Side(backend)
            found |= side.contents([key for key in ALL_KEYS if key_group(key, MAX_PARALLELISM) in groups])
            due += side.due()
            backend.close()
        assert found == model.contents(ALL_KEYS)
        assert sorted(due, key=repr) == model.due()
