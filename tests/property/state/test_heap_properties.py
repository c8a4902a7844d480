"""Is a frozen view what the state was, whatever happened since, and can any parallelism restore it?"""

from __future__ import annotations

import copy
import pickle
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from cutwater.protocol.key_groups import group_range
from cutwater.state.contract import KeyedBackendSettings, RestoredState
from cutwater.state.heap import HeapBackend
from cutwater.state.tables import FrozenTables

MAX_PARALLELISM = 3
Model = dict[str, dict[Any, Any]]

keys = st.sampled_from(["a", "b", "c", 1, 2, ("x", 1), None])
values = st.one_of(st.integers(), st.text(max_size=3), st.tuples(st.integers(), st.text(max_size=2)))
operations = st.one_of(
    st.tuples(st.just("update"), keys, values),
    st.tuples(st.just("append in place"), keys, values),
    st.tuples(st.just("add"), keys, values),
    st.tuples(st.just("put"), keys, keys, values),
    st.tuples(st.just("remove"), keys, keys),
    st.tuples(st.just("append in map"), keys, keys, values),
    st.tuples(st.just("count"), keys, st.integers()),
    st.tuples(st.just("clear"), keys, st.sampled_from(["value", "list", "map", "sum"])),
    st.just(("freeze",)),
    st.tuples(st.just("write"), st.integers(0, 3)),
    st.tuples(st.just("drop"), st.integers(0, 3)),
)


class Run:
    """A backend and a plain dict do the same; frozen views are compared when they are written, or at the end."""

    def __init__(self) -> None:
        self.backend = HeapBackend(KeyedBackendSettings(MAX_PARALLELISM, range(MAX_PARALLELISM)))
        self.value = self.backend.value_state("value")
        self.list = self.backend.list_state("list")
        self.map = self.backend.map_state("map")
        self.sum = self.backend.reducing_state("sum", lambda one, other: [*one, *other])
        self.model: Model = {"value": {}, "list": {}, "map": {}, "sum": {}}
        self.frozen: list[tuple[FrozenTables, Model]] = []

    def do(self, operation: tuple[Any, ...]) -> None:
        match operation:
            case ("freeze",):
                self.frozen.append((self.backend.freeze(), copy.deepcopy(self.model)))
            case ("write", index) if index < len(self.frozen):
                view, expected = self.frozen.pop(index)
                assert contents(view) == without_empty(expected)
            case ("drop", index) if index < len(self.frozen):
                del self.frozen[index]
            case ("write" | "drop", _):
                pass
            case (verb, key, *arguments):
                self.backend.set_current_key(key)
                self._change(verb, key, arguments)

    def _change(self, verb: str, key: Any, arguments: list[Any]) -> None:
        model = self.model
        match verb, arguments:
            case "update", [value]:
                self.value.update([value])
                model["value"][key] = [value]
            case "append in place", [value]:
                if key not in model["value"]:
                    self._change("update", key, [value])
                self.value.value().append(value)
                model["value"][key].append(value)
            case "add", [value]:
                self.list.add([value])
                model["list"].setdefault(key, []).append([value])
            case "put", [inner, value]:
                self.map.put(inner, [value])
                model["map"].setdefault(key, {})[inner] = [value]
            case "remove", [inner]:
                self.map.remove(inner)
                model["map"].get(key, {}).pop(inner, None)
                if not model["map"].get(key, True):
                    del model["map"][key]
            case "append in map", [inner, value]:
                if inner not in self.map:
                    self._change("put", key, [inner, value])
                self.map.get(inner).append(value)
                model["map"][key][inner].append(value)
            case "count", [number]:
                self.sum.add([number])
                model["sum"][key] = [*model["sum"].get(key, []), number]
            case "clear", [name]:
                {"value": self.value, "list": self.list, "map": self.map, "sum": self.sum}[name].clear()
                model[name].pop(key, None)


def contents(view: FrozenTables) -> Model:
    found: Model = {}
    for name, _, data in view.chunks():
        found.setdefault(name, {}).update(pickle.loads(data))
    return found


def without_empty(model: Model) -> Model:
    return {name: entries for name, entries in model.items() if entries}


@given(st.lists(operations, max_size=60))
def test_a_frozen_view_is_the_state_at_its_freeze(steps: list[tuple[Any, ...]]):
    run = Run()
    for step in steps:
        run.do(step)
    run.do(("freeze",))
    assert [contents(view) for view, _ in run.frozen] == [without_empty(model) for _, model in run.frozen]


@given(st.lists(operations, max_size=40), st.integers(1, MAX_PARALLELISM))
def test_any_parallelism_restores_all_of_a_view_and_nothing_twice(steps: list[tuple[Any, ...]], parallelism: int):
    run = Run()
    for step in steps:
        run.do(step)
    chunks = list(run.backend.freeze().chunks())
    together: Model = {}
    for subtask in range(parallelism):
        groups = group_range(subtask, parallelism, MAX_PARALLELISM)
        restored = HeapBackend(KeyedBackendSettings(MAX_PARALLELISM, groups))
        restored.restore(RestoredState([chunk for chunk in chunks if chunk[1] in groups]))
        for name, entries in contents(restored.freeze()).items():
            assert not together.get(name, {}).keys() & entries.keys()
            together.setdefault(name, {}).update(entries)
    assert together == without_empty(run.model)
