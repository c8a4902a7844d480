"""Do timers fire in order, once, and for whoever owns their key after a restore?"""

from __future__ import annotations

import pytest

from cutwater.errors import ConfigurationError
from cutwater.protocol.key_groups import key_group
from cutwater.protocol.timers import Timer
from cutwater.state.contract import KeyedBackendSettings, RestoredState, TimerState
from cutwater.state.heap import HeapBackend

MAX_PARALLELISM = 8
ALL_GROUPS = KeyedBackendSettings(MAX_PARALLELISM, range(MAX_PARALLELISM))
FOREVER = 10**15


def backend_with(*timers: tuple[int, str]) -> tuple[HeapBackend, TimerState]:
    backend = HeapBackend(ALL_GROUPS)
    state = backend.timer_state("timers")
    for time_ms, key in timers:
        backend.set_current_key(key)
        state.register(time_ms)
    return backend, state


def test_timers_are_due_by_time_and_then_as_they_were_registered():
    _, timers = backend_with((20, "a"), (10, "b"), (10, "a"), (30, "c"))
    assert timers.due(20) == [Timer(10, "b"), Timer(10, "a"), Timer(20, "a")]
    assert (timers.next_time(), timers.due(29)) == (30, [])


def test_a_timer_registered_twice_fires_once_and_one_of_another_namespace_by_itself():
    backend, timers = backend_with((10, "a"))
    backend.set_current_key("a")
    assert (timers.register(10), timers.register(10, "w")) == (False, True)
    assert timers.due(FOREVER) == [Timer(10, "a"), Timer(10, "a", "w")]


def test_only_the_current_keys_timer_is_deleted():
    backend, timers = backend_with((10, "a"), (10, "b"))
    backend.set_current_key("b")
    assert (timers.delete(10), timers.delete(10), timers.delete(11)) == (True, False, False)
    assert timers.due(FOREVER) == [Timer(10, "a")]


def test_a_fired_or_deleted_timer_is_in_no_snapshot():
    backend, timers = backend_with((10, "a"), (20, "b"), (30, "c"))
    timers.due(10)
    backend.set_current_key("b")
    timers.delete(20)
    restored = HeapBackend(ALL_GROUPS)
    restored.restore(RestoredState(backend.freeze().chunks()))
    assert restored.timer_state("timers").due(FOREVER) == [Timer(30, "c")]


def test_a_frozen_view_keeps_the_timers_that_fire_behind_the_barrier():
    backend, timers = backend_with((10, "a"))
    view = backend.freeze()
    timers.due(10)
    restored = HeapBackend(ALL_GROUPS)
    restored.restore(RestoredState(view.chunks()))
    assert restored.timer_state("timers").due(FOREVER) == [Timer(10, "a")]


def test_the_order_of_registration_survives_a_restore_and_goes_on():
    keys = [f"k{n}" for n in range(20)]
    backend, _ = backend_with(*((10, key) for key in keys))
    restored = HeapBackend(ALL_GROUPS)
    restored.restore(RestoredState(backend.freeze().chunks()))
    timers = restored.timer_state("timers")
    restored.set_current_key("new")
    timers.register(10)
    assert [timer.key for timer in timers.due(10)] == [*keys, "new"]


def test_each_task_of_a_rescaled_operator_has_the_timers_of_its_groups():
    keys = [f"k{n}" for n in range(20)]
    backend, _ = backend_with(*((10, key) for key in keys))
    chunks = list(backend.freeze().chunks())
    found = []
    for groups in (range(3), range(3, 8)):
        part = HeapBackend(KeyedBackendSettings(MAX_PARALLELISM, groups))
        part.restore(RestoredState([chunk for chunk in chunks if chunk[1] in groups]))
        found.append([timer.key for timer in part.timer_state("timers").due(10)])
    assert found == [[key for key in keys if key_group(key, 8) in groups] for groups in (range(3), range(3, 8))]


def test_timers_of_two_former_tasks_need_not_be_comparable():
    chunks = []
    for key in (1, "one"):
        backend = HeapBackend(ALL_GROUPS)
        backend.set_current_key(key)
        backend.timer_state("timers").register(10)
        chunks += backend.freeze().chunks()
    restored = HeapBackend(ALL_GROUPS)
    restored.restore(RestoredState(chunks))
    assert {timer.key for timer in restored.timer_state("timers").due(10)} == {1, "one"}


def test_the_timers_of_a_name_are_one_object_whose_keys_are_those_with_timers():
    backend, timers = backend_with((10, "a"), (20, "a"), (10, "b"))
    assert backend.timer_state("timers") is timers
    assert sorted(backend.keys("timers")) == ["a", "b"]


def test_a_name_is_either_timers_or_something_else():
    backend, _ = backend_with()
    with pytest.raises(ConfigurationError, match="is a timer state"):
        backend.value_state("timers")
