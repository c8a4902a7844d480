"""Is expired state never seen, whatever it is and wherever it lies, and does it go by itself?"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cutwater.canonical import from_batch
from cutwater.errors import ConfigurationError
from cutwater.snapshots.local_files import LocalFiles
from cutwater.state.contract import KeyedBackend, KeyedBackendSettings, RestoredState
from cutwater.state.heap import HeapBackend
from cutwater.state.rocksdb.backend import RocksBackend
from cutwater.state.ttl import ExpiringStates, Ttl

SECOND = Ttl("1s")


class Mean:
    def create_accumulator(self) -> tuple[int, int]:
        return 0, 0

    def add(self, value: int, accumulator: tuple[int, int]) -> tuple[int, int]:
        return accumulator[0] + value, accumulator[1] + 1

    def get_result(self, accumulator: tuple[int, int]) -> float:
        return accumulator[0] / accumulator[1]

    def merge(self, accumulator: Any, other: Any) -> Any:
        return accumulator


class Clock:
    now_ms = 0

    def __call__(self) -> int:
        return self.now_ms


@pytest.fixture(params=["heap", "rocksdb"])
def backend(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[KeyedBackend]:
    settings = KeyedBackendSettings(8, range(8), LocalFiles(str(tmp_path), "job"), 8 << 20)
    made = HeapBackend(settings) if request.param == "heap" else RocksBackend(settings)
    made.set_current_key("a")
    yield made
    made.close()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def states(backend: KeyedBackend, clock: Clock) -> ExpiringStates:
    return ExpiringStates(backend, clock)


def test_a_value_is_gone_when_its_time_is_up_and_not_before(states: ExpiringStates, clock: Clock) -> None:
    state = states.value_state("v", 0, SECOND)
    state.update(5)
    clock.now_ms = 999
    assert state.value() == 5
    clock.now_ms = 1_000
    assert state.value() == 0


@pytest.mark.parametrize(("refresh", "expected"), [("write", None), ("read", 5)])
def test_only_with_refresh_on_read_a_read_value_lives_on(
    states: ExpiringStates, clock: Clock, refresh: Any, expected: Any
) -> None:
    state = states.value_state("v", None, Ttl("1s", refresh=refresh))
    state.update(5)
    clock.now_ms = 600
    state.value()
    clock.now_ms = 1_200
    assert state.value() == expected


def test_items_of_a_list_and_entries_of_a_map_expire_one_by_one(states: ExpiringStates, clock: Clock) -> None:
    items, entries = states.list_state("l", SECOND), states.map_state("m", SECOND)
    items.add(1)
    entries.put("x", 1)
    clock.now_ms = 600
    items.add(2)
    entries.put("y", 2)
    clock.now_ms = 1_100
    assert (items.get(), entries.items(), "x" in entries, entries.get("x", "-")) == ([2], [("y", 2)], False, "-")


def test_what_is_folded_starts_anew(states: ExpiringStates, clock: Clock) -> None:
    total = states.reducing_state("t", lambda one, other: one + other, SECOND)
    mean = states.aggregating_state("m", Mean(), SECOND)
    for number in (1, 2):
        total.add(number)
        mean.add(number)
    assert (total.get(), mean.get()) == (3, 1.5)
    clock.now_ms = 1_000
    assert (total.get(), mean.get()) == (None, None)
    total.add(7)
    assert total.get() == 7


def test_keys_that_never_come_again_are_swept(states: ExpiringStates, backend: KeyedBackend, clock: Clock) -> None:
    state = states.value_state("v", None, SECOND)
    for key in range(10):
        backend.set_current_key(key)
        state.update(key)
    clock.now_ms = 500
    backend.set_current_key(3)
    state.update("new")
    clock.now_ms = 1_200
    for _ in range(4):
        states.sweep(3)
    assert list(backend.keys("v")) == [3]


@pytest.mark.parametrize("make", [lambda: Ttl("0s"), lambda: Ttl("1s", refresh="never")])  # type: ignore[arg-type]
def test_a_time_to_live_that_makes_no_sense_is_refused(make: Any) -> None:
    with pytest.raises(ConfigurationError):
        make()


def test_something_else_than_a_time_to_live_is_refused(states: ExpiringStates) -> None:
    with pytest.raises(ConfigurationError, match=r"ttl can't be '1h'"):
        states.value_state("v", None, "1h")  # type: ignore[arg-type]


@pytest.mark.parametrize("form", ["tables", "chunks"])
def test_a_snapshot_leaves_out_what_has_expired(
    backend: KeyedBackend, states: ExpiringStates, clock: Clock, form: str
) -> None:
    if form == "chunks" and isinstance(backend, RocksBackend):
        pytest.skip("its checkpoints are files as they are")
    for time_ms in (0, 600):
        clock.now_ms = time_ms
        backend.set_current_key(f"key-{time_ms}")
        states.value_state("value", None, SECOND).update("v")
        states.map_state("map", SECOND).put("m", time_ms)
        backend.value_state("for ever").update((0, "no stamp"))
        backend.set_current_key("both")
        states.list_state("list", SECOND).add(time_ms)
        states.map_state("map", SECOND).put(f"m-{time_ms}", time_ms)
    clock.now_ms = 1_200
    frozen = backend.freeze()
    made = HeapBackend(KeyedBackendSettings(8, range(8)))
    if form == "tables":
        rows = [from_batch(batch, name, kind) for name, kind, batch in frozen.tables(100)]
        made.restore(RestoredState((), (), rows, {}))
    else:
        made.restore(RestoredState(frozen.chunks(), (), (), frozen.kinds))
    made.set_current_key("both")
    assert [value for _, value in made.list_state("list").get()] == [600]
    assert [key for key, _ in made.map_state("map").items()] == ["m-600"]
    for key in ("key-0", "key-600"):
        made.set_current_key(key)
        assert (made.value_state("value").value() is None) == (key == "key-0")
        assert made.value_state("for ever").value() == (0, "no stamp")
