"""Does each owner get an object of its own, and only where it could be changed?"""

from __future__ import annotations

import threading
from collections import Counter, OrderedDict, defaultdict, deque, namedtuple
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from enum import Enum
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from cutwater.batches import ObjectBatch
from cutwater.state.copies import copied, copied_batch, copied_values

Point = namedtuple("Point", "x y")


class Colour(Enum):
    RED = 1


@dataclass
class Basket:
    items: list[str] = field(default_factory=list)
    total: int = 0


@dataclass(frozen=True)
class Ticket:
    number: int
    tags: tuple[str, ...] = ()


@dataclass(frozen=True)
class Loose:
    tags: list[str]


@dataclass(slots=True)
class Slotted:
    number: int


class WithCopy:
    """Says itself how it is pickled."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.unpickled = False

    def __getstate__(self) -> int:
        return self.number

    def __setstate__(self, state: int) -> None:
        self.number = state
        self.unpickled = True


@pytest.mark.parametrize(
    "value",
    [
        1,
        "text",
        2.5,
        None,
        b"bytes",
        Decimal(1),
        datetime(2026, 1, 1, tzinfo=UTC),
        (1, ("a", None)),
        frozenset({1, 2}),
        Point(1, 2),
        Colour.RED,
        Ticket(1, ("a",)),
    ],
    ids=repr,
)
def test_what_can_not_change_is_shared(value: Any) -> None:
    assert copied(value) is value


@pytest.mark.parametrize(
    "value",
    [
        [1, 2],
        [[1], {"a": [2]}],
        {"a": 1},
        {"a": {"b": [1]}},
        {1, 2},
        bytearray(b"ab"),
        deque([1], maxlen=3),
        defaultdict(list, {"a": [1]}),
        OrderedDict(a=1),
        Counter("aab"),
        (1, [2]),
        Point(1, [2]),
        Basket(["a"]),
        Basket([], 3),
        Loose(["a"]),
        Slotted(1),
    ],
    ids=repr,
)
def test_what_can_change_is_copied_as_a_whole(value: Any) -> None:
    other = copied(value)
    assert other == value
    assert type(other) is type(value)
    assert other is not value


def test_a_copy_shares_nothing_changeable_inside() -> None:
    basket = {"a": [[1]], "b": Basket(["x"])}
    other = copied(basket)
    other["a"][0].append(2)
    other["b"].items.append("y")
    assert basket == {"a": [[1]], "b": Basket(["x"])}


def test_an_array_is_copied() -> None:
    array = np.arange(3)
    copied(array)[0] = 9
    assert array.tolist() == [0, 1, 2]


def test_a_class_that_says_how_it_is_pickled_is_asked() -> None:
    assert copied(WithCopy(3)).unpickled


def test_a_class_without_a_module_is_copied_by_value() -> None:
    @dataclass
    class Local:
        items: list[int]

    other = copied(Local([1]))
    assert (type(other), other.items) == (Local, [1])


def test_what_can_not_be_pickled_stays_shared() -> None:
    lock = {"lock": threading.Lock()}
    assert copied(lock) is lock


@pytest.mark.parametrize(
    ("values", "shared"),
    [
        ([1, "a", None], True),
        ([("a", 1), ("b", 2)], True),
        ([("a", [1])], False),
        ([{"a": 1}, {"a": 2}], False),
        ([{"a": [1]}, 3], False),
    ],
)
def test_of_a_batch_only_what_can_change_is_copied(values: list[Any], shared: bool) -> None:
    copies = copied_values(values)
    assert copies == values
    assert (copies is values) is shared


def test_equal_objects_of_a_batch_do_not_stay_one() -> None:
    record = {"n": 1}
    one, other = copied_values([record, record])
    assert one is not other


def test_a_copied_batch_keeps_its_times() -> None:
    batch = ObjectBatch([{"n": 1}], np.array([5], np.int64))
    other = copied_batch(batch)
    assert isinstance(other, ObjectBatch)
    assert (other.values, other.times is batch.times) == ([{"n": 1}], True)


def test_a_typed_batch_never_changes() -> None:
    batch = pa.RecordBatch.from_pydict({"n": [1]})
    assert copied_batch(batch) is batch
