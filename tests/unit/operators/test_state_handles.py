"""Does state of a declared type survive a change of the type, or is the change refused by the field's name?"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pyarrow as pa
import pytest

from cutwater.errors import ConfigurationError, SerializationError
from cutwater.operators.state_handles import StateHandles
from cutwater.snapshots.local_files import LocalFiles
from cutwater.state.contract import KeyedBackend, KeyedBackendSettings
from cutwater.state.heap import HeapBackend
from cutwater.state.rocksdb.backend import RocksBackend
from cutwater.state.ttl import Ttl


@dataclass
class Account:
    owner: str
    cents: int
    opened: datetime


FIRST_ACCOUNT = Account("Ada", 1, datetime(2026, 1, 1, tzinfo=UTC))


@dataclass
class AccountWithMore:
    owner: str
    cents: float
    limit: int = 100
    tags: list[str] = field(default_factory=list)


@dataclass
class AccountWithABranch:
    owner: str
    cents: int
    branch: str


@dataclass
class AccountOfText:
    owner: str
    cents: str


class Point(NamedTuple):
    x: int
    y: int


class NewPoint(NamedTuple):
    y: int
    z: int = 7


class Struct(msgspec.Struct):
    a: int
    b: list[int] = []


ANNA = Account("Anna", 5, datetime(2026, 1, 1, tzinfo=UTC))


class Sum:
    def create_accumulator(self) -> Point:
        return Point(0, 0)

    def add(self, value: int, accumulator: Point) -> Point:
        return Point(accumulator.x + value, accumulator.y + 1)

    def get_result(self, accumulator: Point) -> int:
        return accumulator.x

    def merge(self, accumulator: Any, other: Any) -> Any:
        return accumulator


@pytest.fixture(params=["heap", "rocksdb"])
def backend(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[KeyedBackend]:
    settings = KeyedBackendSettings(8, range(8), LocalFiles(str(tmp_path), "job"), 8 << 20)
    made = HeapBackend(settings) if request.param == "heap" else RocksBackend(settings)
    made.set_current_key("a")
    yield made
    made.close()


def opened(backend: KeyedBackend) -> StateHandles:
    return StateHandles(backend, operator="accounts", wall_ms=lambda: 0)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (Account, ANNA),
        (Point, Point(1, 2)),
        (Struct, Struct(1, [2])),
        (int, 5),
        (dict[str, list[int]], {"x": [1]}),
        (pa.schema([("name", pa.string()), ("n", pa.int64())]), {"name": "x", "n": 1}),
    ],
)
def test_values_of_a_declared_type_come_back(backend: KeyedBackend, kind: Any, value: Any) -> None:
    states = opened(backend)
    one, many = states.value_state("v", None, kind, None), states.list_state("l", kind, None)
    mapped = states.map_state("m", kind, Ttl("1h"))
    assert (one.value(), many.get(), mapped.get("k")) == (None, [], None)
    one.update(value)
    many.add(value)
    mapped.put("k", value)
    assert (one.value(), many.get(), mapped.items()) == (value, [value], [("k", value)])
    assert type(one.value()) is type(value)


def test_a_pydantic_model_is_a_type_too(backend: KeyedBackend) -> None:
    pydantic = pytest.importorskip("pydantic")

    class Model(pydantic.BaseModel):
        n: int

    state = opened(backend).value_state("v", None, Model, None)
    state.update(Model(n=3))
    assert state.value() == Model(n=3)


def test_folded_state_has_a_type(backend: KeyedBackend) -> None:
    states = opened(backend)
    total = states.aggregating_state("t", Sum(), Point, None)
    largest = states.reducing_state("r", max, Point, None)
    for number in (3, 1):
        total.add(number)
        largest.add(Point(number, 0))
    assert (total.get(), largest.get()) == (4, Point(3, 0))


def test_a_default_is_nobodys_but_the_keys(backend: KeyedBackend) -> None:
    state = opened(backend).value_state("v", Struct(1), Struct, None)
    state.value().b.append(5)
    assert state.value() == Struct(1)


def test_a_type_may_get_fields_with_defaults_lose_fields_and_widen(backend: KeyedBackend) -> None:
    opened(backend).value_state("v", None, Account, None).update(ANNA)
    opened(backend).value_state("p", None, Point, None).update(Point(1, 2))
    changed = opened(backend)
    assert changed.value_state("v", None, AccountWithMore, None).value() == AccountWithMore("Anna", 5.0, 100, [])
    assert changed.value_state("p", None, NewPoint, None).value() == NewPoint(2, 7)


@pytest.mark.parametrize(("kind", "field_name"), [(AccountWithABranch, "branch"), (AccountOfText, "cents")])
def test_any_other_change_is_refused_when_the_state_is_opened(
    backend: KeyedBackend, kind: Any, field_name: str
) -> None:
    opened(backend).value_state("v", None, Account, None).update(ANNA)
    with pytest.raises(SerializationError, match=field_name) as caught:
        opened(backend).value_state("v", None, kind, None)
    assert 'state "v" of operator "accounts"' in caught.value.fact


def test_a_type_that_can_not_be_stored_is_refused(backend: KeyedBackend) -> None:
    class Plain:
        pass

    with pytest.raises(ConfigurationError, match=r"can't have the type .*Plain"):
        opened(backend).value_state("v", None, Plain, None)


def test_to_look_for_pickles_finds_them_behind_a_time_to_live_and_lets_nothing_live_longer(
    backend: KeyedBackend,
) -> None:
    now_ms = 0
    handles = StateHandles(backend, operator="op", wall_ms=lambda: now_ms)
    read = Ttl("1s", refresh="read")
    backend.set_current_key("a")
    value = handles.value_state("value", None, None, read)
    value.update(FIRST_ACCOUNT)
    handles.map_state("map", None, read).put("m", FIRST_ACCOUNT)
    handles.list_state("list", None, read).add(FIRST_ACCOUNT)
    handles.reducing_state("reduced", lambda old, new: new, None, read).add(FIRST_ACCOUNT)
    handles.value_state("plain", None, None, read).update((1, "x"))
    now_ms = 900
    found = handles.pickled()
    assert sorted(name for name, _ in found) == ["list", "map", "reduced", "value"]
    now_ms = 1_500
    backend.set_current_key("a")
    assert value.value() is None
