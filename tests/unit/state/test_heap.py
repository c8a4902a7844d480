"""Does state in dicts behave as its handles promise, also while frozen views of it are about?"""

from __future__ import annotations

import pickle
import threading
from collections import namedtuple
from dataclasses import dataclass, field
from typing import Any

import pytest

from cutwater.errors import ConfigurationError, InternalError, SerializationError
from cutwater.protocol.key_groups import key_group
from cutwater.state import tables
from cutwater.state.backends import backend_factory, open_backend
from cutwater.state.contract import FrozenKeyedState, KeyedBackendSettings, RestoredState
from cutwater.state.heap import HeapBackend
from cutwater.state.values import is_immutable

MAX_PARALLELISM = 8
ALL_GROUPS = KeyedBackendSettings(MAX_PARALLELISM, range(MAX_PARALLELISM))


@dataclass
class Basket:
    """A value that a function may change in place."""

    items: list[str] = field(default_factory=list)


class Mean:
    def create_accumulator(self) -> list[float]:
        return [0.0, 0]

    def add(self, value: float, accumulator: list[float]) -> list[float]:
        accumulator[0] += value
        accumulator[1] += 1
        return accumulator

    def get_result(self, accumulator: list[float]) -> float:
        return accumulator[0] / accumulator[1]

    def merge(self, accumulator: list[float], other: list[float]) -> list[float]:
        return [accumulator[0] + other[0], accumulator[1] + other[1]]


def contents(view: FrozenKeyedState) -> dict[str, dict[Any, Any]]:
    found: dict[str, dict[Any, Any]] = {}
    for name, _, data in view.chunks():
        found.setdefault(name, {}).update(pickle.loads(data))
    return found


def backend_at(key: Any) -> HeapBackend:
    backend = HeapBackend(ALL_GROUPS)
    backend.set_current_key(key)
    return backend


def test_a_value_belongs_to_its_key():
    backend = HeapBackend(ALL_GROUPS)
    count = backend.value_state("count", default=0)
    for word in ("to", "be", "or", "not", "to", "be"):
        backend.set_current_key(word)
        count.update(count.value() + 1)
    assert contents(backend.freeze()) == {"count": {"to": 2, "be": 2, "or": 1, "not": 1}}


def test_a_cleared_value_is_the_default_again():
    backend = backend_at("a")
    count = backend.value_state("count", default=7)
    count.update(1)
    count.clear()
    count.clear()
    assert (count.value(), backend.size(), list(backend.keys("count"))) == (7, 0, [])


def test_two_keys_do_not_fill_one_default_list():
    backend = backend_at("a")
    words = backend.value_state("words", default=[])
    words.value().append("x")
    assert words.value() == []


def test_a_list_grows_and_empties():
    words = backend_at("a").list_state("words")
    words.add(1)
    words.add(2)
    first = words.get()
    words.update([3])
    words.add(4)
    second = words.get()
    words.update([])
    assert (first, second, words.get()) == ([1, 2], [3, 4], [])


def test_a_list_that_was_handed_out_is_not_the_state():
    words = backend_at("a").list_state("words")
    words.add(1)
    words.get().append(2)
    assert words.get() == [1]


def test_a_map_without_keys_is_no_state():
    backend = backend_at("a")
    prices = backend.map_state("prices")
    prices.put("tea", 3)
    prices.put("jam", 4)
    before = (prices.get("tea"), prices.get("oil", 0), "jam" in prices, prices.items())
    prices.remove("tea")
    prices.remove("tea")
    prices.remove("jam")
    assert before == (3, 0, True, [("tea", 3), ("jam", 4)])
    assert (prices.items(), backend.size()) == ([], 0)


def test_a_reducing_state_folds_what_is_added():
    longest = backend_at("a").reducing_state("longest", lambda one, other: max(one, other))
    before = longest.get()
    for value in (3, 9, 4):
        longest.add(value)
    assert (before, longest.get()) == (None, 9)


def test_an_aggregating_state_returns_the_result_of_its_accumulator():
    mean = backend_at("a").aggregating_state("mean", Mean())
    before = mean.get()
    mean.add(1.0)
    mean.add(2.0)
    assert (before, mean.get()) == (None, 1.5)


def test_an_accumulator_that_is_changed_in_place_does_not_tear_a_frozen_view():
    backend = backend_at("a")
    mean = backend.aggregating_state("mean", Mean())
    mean.add(1.0)
    view = backend.freeze()
    mean.add(3.0)
    assert (contents(view), mean.get()) == ({"mean": {"a": [1.0, 1]}}, 2.0)


def test_a_value_that_is_changed_in_place_does_not_tear_a_frozen_view():
    backend = backend_at("a")
    basket = backend.value_state("basket")
    basket.update(Basket(["tea"]))
    first = backend.freeze()
    basket.value().items.append("jam")
    second = backend.freeze()
    basket.value().items.append("oil")
    assert contents(first) == {"basket": {"a": Basket(["tea"])}}
    assert contents(second) == {"basket": {"a": Basket(["tea", "jam"])}}
    assert basket.value() == Basket(["tea", "jam", "oil"])


def test_a_change_in_place_lasts_while_a_view_is_about():
    backend = backend_at("a")
    basket = backend.value_state("basket")
    basket.update(Basket())
    view = backend.freeze()
    basket.value().items.append("tea")
    basket.value().items.append("jam")
    assert (basket.value().items, view.live) == (["tea", "jam"], True)


def test_a_value_is_copied_once_for_a_view():
    backend = backend_at("a")
    basket = backend.value_state("basket")
    basket.update(Basket())
    view = backend.freeze()
    copied = basket.value()
    basket.update(basket.value())
    assert (basket.value() is copied, view.live) == (True, True)


def test_two_keys_of_one_group_are_each_kept_from_a_frozen_view():
    backend = HeapBackend(KeyedBackendSettings(1, range(1)))
    basket = backend.value_state("basket")
    for key in ("a", "b"):
        backend.set_current_key(key)
        basket.update(Basket())
    view = backend.freeze()
    for key in ("a", "b"):
        backend.set_current_key(key)
        basket.value().items.append("tea")
    assert contents(view) == {"basket": {"a": Basket(), "b": Basket()}}


def test_a_tuple_with_a_list_inside_is_not_shared_with_a_view():
    backend = backend_at("a")
    pair = backend.value_state("pair")
    pair.update((1, ["x"]))
    view = backend.freeze()
    pair.value()[1].append("y")
    assert contents(view) == {"pair": {"a": (1, ["x"])}}


def test_values_of_a_map_that_are_changed_in_place_do_not_tear_a_frozen_view():
    backend = backend_at("a")
    baskets = backend.map_state("baskets")
    baskets.put("mine", Basket(["tea"]))
    view = backend.freeze()
    baskets.get("mine").items.append("jam")
    baskets.put("yours", Basket())
    assert contents(view) == {"baskets": {"a": {"mine": Basket(["tea"])}}}


def test_state_added_after_a_freeze_is_not_in_the_view():
    backend = backend_at("a")
    view = backend.freeze()
    backend.value_state("late").update(1)
    assert contents(view) == {}


def test_nothing_is_copied_once_the_last_view_is_written():
    backend = backend_at("a")
    basket = backend.value_state("basket")
    basket.update(Basket())
    before = basket.value()
    view = backend.freeze()
    contents(view)
    assert (basket.value() is before, view.live) == (True, False)


def test_a_view_that_was_dropped_unread_costs_nothing():
    backend = backend_at("a")
    basket = backend.value_state("basket")
    basket.update(Basket())
    before = basket.value()
    backend.freeze()
    assert basket.value() is before


def test_only_groups_that_are_written_to_are_copied():
    backend = HeapBackend(ALL_GROUPS)
    count = backend.value_state("count")
    for key in range(100):
        backend.set_current_key(key)
        count.update(key)
    table = backend.table("count")
    before = table.dicts[:]
    view = backend.freeze()
    backend.set_current_key(5)
    count.update(-5)
    copied = [group for group in range(MAX_PARALLELISM) if table.dicts[group] is not before[group]]
    assert (copied, view.live) == ([key_group(5, MAX_PARALLELISM)], True)


def test_an_operator_can_write_a_group_itself_without_tearing_a_view():
    backend = HeapBackend(ALL_GROUPS)
    group = key_group("a", MAX_PARALLELISM)
    backend.table("sum").group_dict_for_write(group)["a"] = 1
    view = backend.freeze()
    backend.table("sum").group_dict_for_write(group)["a"] = 2
    backend.set_current_key("a")
    assert (contents(view), backend.value_state("sum").value()) == ({"sum": {"a": 1}}, 2)


def test_chunks_are_ordered_by_name_and_group_and_empty_groups_are_left_out():
    backend = HeapBackend(ALL_GROUPS)
    for name in ("b", "a"):
        state = backend.value_state(name)
        for key in ("x", "y", "z"):
            backend.set_current_key(key)
            state.update(1)
    places = [(name, group) for name, group, _ in backend.freeze().chunks()]
    groups = sorted({key_group(key, MAX_PARALLELISM) for key in ("x", "y", "z")})
    assert places == [(name, group) for name in ("a", "b") for group in groups]


def test_a_large_group_becomes_several_chunks_that_restore_as_one(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(tables, "PAIRS_PER_CHUNK_MAX", 10)
    settings = KeyedBackendSettings(1, range(1))
    backend, restored = HeapBackend(settings), HeapBackend(settings)
    backend.table("n").group_dict_for_write(0).update({number: number for number in range(25)})
    chunks = list(backend.freeze().chunks())
    restored.restore(RestoredState(chunks))
    assert ([group for _, group, _ in chunks], restored.size()) == ([0, 0, 0], 25)


def test_chunks_are_given_once():
    view = backend_at("a").freeze()
    list(view.chunks())
    with pytest.raises(InternalError, match="twice"):
        list(view.chunks())


def test_a_key_of_another_task_is_a_bug_of_ours():
    group = key_group("a", MAX_PARALLELISM)
    others = range(group + 1, MAX_PARALLELISM) if group < MAX_PARALLELISM - 1 else range(group)
    backend = HeapBackend(KeyedBackendSettings(MAX_PARALLELISM, others))
    with pytest.raises(InternalError, match="wrong task"):
        backend.set_current_key("a")


def test_a_group_of_another_task_is_a_bug_of_ours():
    backend = HeapBackend(KeyedBackendSettings(MAX_PARALLELISM, range(2, 4)))
    with pytest.raises(InternalError, match="key group 1"):
        backend.table("sum").group_dict_for_write(1)


def test_a_value_without_bytes_is_named_with_its_state_and_key():
    backend = backend_at("a")
    state = backend.value_state("connection")
    state.update(threading.Lock())
    with pytest.raises(SerializationError) as caught:
        list(backend.freeze().chunks())
    assert '"connection"' in caught.value.fact
    assert "key 'a'" in caught.value.detail


def test_a_class_that_has_no_importable_name_can_be_kept():
    @dataclass
    class Local:
        number: int

    backend, restored = backend_at("a"), backend_at("a")
    backend.value_state("local").update(Local(3))
    restored.restore(RestoredState(backend.freeze().chunks()))
    assert restored.value_state("local").value().number == 3


def test_bytes_that_are_no_state_are_named_with_state_and_group():
    with pytest.raises(SerializationError) as caught:
        HeapBackend(ALL_GROUPS).restore(RestoredState([("count", 3, b"nonsense")]))
    assert '"count"' in caught.value.fact
    assert "key group 3" in caught.value.detail


def test_one_name_is_one_kind_of_state():
    backend = backend_at("a")
    backend.value_state("words")
    with pytest.raises(ConfigurationError, match="value state"):
        backend.list_state("words")


Point = namedtuple("Point", "x y")


class Tagged(tuple[int, ...]):
    """A tuple whose instances have attributes."""


@pytest.mark.parametrize("value", [1, "a", None, (1, ("b", 2.0)), frozenset({1}), Point(1, 2)])
def test_what_nobody_can_change_is_shared(value: object):
    assert is_immutable(value)


@pytest.mark.parametrize("value", [[1], {"a": 1}, {1}, ([],), Point(1, []), Tagged((1,)), Basket(), bytearray(b"a")])
def test_what_somebody_may_change_is_not_shared(value: object):
    assert not is_immutable(value)


@pytest.mark.parametrize("name", ["memory", "filesystem"])
def test_a_backend_has_a_name(name: str):
    assert isinstance(open_backend(name, ALL_GROUPS), HeapBackend)


@pytest.mark.parametrize(("name", "fact"), [("redis", "no state backend")])
def test_a_backend_we_do_not_have_is_refused_with_those_we_have(name: str, fact: str):
    with pytest.raises(ConfigurationError, match=fact) as caught:
        backend_factory(name)
    assert '"memory", "filesystem"' in caught.value.hint
