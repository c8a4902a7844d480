"""Do equal keys meet in one group, in every process?"""

import os
import subprocess
import sys
from collections import namedtuple
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum, Flag, IntEnum, StrEnum
from fractions import Fraction
from pathlib import Path
from uuid import UUID
from zoneinfo import ZoneInfo

import numpy
import pytest

import cutwater.protocol.key_groups as key_groups_module
from cutwater.errors import ConfigurationError, KeyTypeError
from cutwater.protocol.key_groups import (
    KeyGroups,
    canonical_bytes,
    default_max_parallelism,
    group_range,
    key_group,
    subtask_of,
)

Point = namedtuple("Point", "x y")
EAST = timezone(timedelta(hours=2))
BERLIN = ZoneInfo("Europe/Berlin")


class Colour(Enum):
    RED = 1
    BLUE = 2


class Level(IntEnum):
    LOW = 1


class Word(StrEnum):
    YES = "yes"


class Right(Flag):
    READ = 1
    WRITE = 2


@dataclass(frozen=True)
class User:
    name: str
    age: int
    note: str = field(default="", compare=False)


@dataclass
class Mutable:
    name: str


@dataclass(frozen=True, eq=False)
class Identity:
    name: str


EQUAL = [
    (1, True),
    (1, 1.0),
    (0, -0.0),
    (1, Decimal("1.00")),
    (1, Fraction(1)),
    (1, numpy.int64(1)),
    (1.5, numpy.float64(1.5)),
    (2**70, float(2**70)),
    (0.5, Decimal("0.50")),
    (0.5, Fraction(1, 2)),
    (float("inf"), Decimal("Infinity")),
    (1, Level.LOW),
    ("yes", Word.YES),
    ((1, "a"), (1.0, "a")),
    ((1, 2), Point(1, 2)),
    (datetime(2024, 1, 1, 12, tzinfo=UTC), datetime(2024, 1, 1, 14, tzinfo=EAST)),
    (datetime(2024, 10, 27, 2, 30, tzinfo=BERLIN, fold=0), datetime(2024, 10, 27, 2, 30, tzinfo=BERLIN, fold=1)),
    (time(12, tzinfo=UTC), time(14, tzinfo=EAST)),
    (time(12), time(12, fold=1)),
    (timedelta(hours=1), timedelta(minutes=60)),
    (User("ann", 3), User("ann", 3.0, note="ignored by equality")),
    (Right.READ | Right.WRITE, Right.WRITE | Right.READ),
]

DIFFERENT = [
    (1, "1"),
    ("a", b"a"),
    ("", None),
    (0, None),
    ((), None),
    (1, (1,)),
    (("ab", "c"), ("a", "bc")),
    (((1,), 2), ((1, 2),)),
    (1, -1),
    (255, -1),
    (128, -128),
    (float("inf"), float("-inf")),
    (Colour.RED, Colour.BLUE),
    (Colour.RED, 1),
    (Right.READ, Right(0)),
    (datetime(2024, 1, 1), date(2024, 1, 1)),  # noqa: DTZ001
    (datetime(2024, 1, 1), datetime(2024, 1, 1, tzinfo=UTC)),  # noqa: DTZ001
    (time(1), time(1, tzinfo=UTC)),
    (User("ann", 3), User("ann", 4)),
    (User("ann", 3), ("ann", 3)),
    (UUID(int=1), 1),
]


@pytest.mark.parametrize(("left", "right"), EQUAL)
def test_equal_keys_share_their_bytes(left: object, right: object):
    assert (left == right, canonical_bytes(left)) == (True, canonical_bytes(right))


@pytest.mark.parametrize(("left", "right"), DIFFERENT)
def test_different_keys_have_different_bytes(left: object, right: object):
    assert (left == right, canonical_bytes(left) == canonical_bytes(right)) == (False, False)


@pytest.mark.parametrize("nan", [float("nan"), Decimal("nan"), Decimal("snan")])
@pytest.mark.parametrize("wrap", [lambda nan: nan, lambda nan: ("a", nan)], ids=["alone", "in a tuple"])
def test_a_nan_is_refused_because_it_would_never_be_found_again(nan: object, wrap: Callable[[object], object]):
    with pytest.raises(KeyTypeError, match="NaN can't be a key"):
        KeyGroups(8).of(wrap(nan))


def test_zero_has_no_sign():
    assert canonical_bytes(-0.0) == canonical_bytes(0.0) == canonical_bytes(0)


def test_lone_surrogates_have_bytes_too():
    assert canonical_bytes("\ud800") != canonical_bytes("\ud801")


@pytest.mark.parametrize(
    "key", [[1], {1: 2}, {1}, frozenset({1}), bytearray(b"a"), object(), 1j, Mutable("a"), Identity("a"), User]
)
def test_a_key_without_stable_bytes_is_refused(key: object):
    with pytest.raises(KeyTypeError):
        canonical_bytes(key)


def test_the_refusal_names_the_type_and_says_what_to_do():
    with pytest.raises(KeyTypeError) as refused:
        canonical_bytes(("a", [1]))
    assert (refused.value.fact, refused.value.detail) == (
        'a value of type "builtins.list" can\'t be a key',
        "its equality has no stable bytes: [1]",
    )


@pytest.mark.parametrize("key", [[1], (1, [2]), User("ann", [3]), Decimal("snan")])
def test_an_unhashable_key_is_refused_by_the_memo(key: object):
    with pytest.raises(KeyTypeError):
        KeyGroups(128).of(key)


def test_the_memo_agrees_with_the_function():
    groups = KeyGroups(128)
    keys = ["a", 1, 1.0, True, "1", (1, "a"), None] * 2
    assert [groups.of(key) for key in keys] == [key_group(key, 128) for key in keys]


def test_the_memo_is_bounded(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(key_groups_module, "_MEMO_ENTRIES_MAX", 10)
    groups = KeyGroups(128)
    for key in range(25):
        groups.of(key)
    assert len(groups._memo) == 5


@pytest.mark.parametrize("max_parallelism", [0, -1, 32769])
def test_a_max_parallelism_out_of_range_is_refused(max_parallelism: int):
    with pytest.raises(ConfigurationError):
        KeyGroups(max_parallelism)


def test_groups_never_change_between_versions():
    keys = ["", "word", b"word", 0, 1, -1, 10**20, 0.5, None, ("a", 1), date(2024, 2, 29), Decimal("1.10")]
    assert [key_group(key, 128) for key in keys] == [87, 60, 57, 105, 2, 48, 39, 61, 46, 20, 22, 80]


def test_groups_agree_in_a_process_with_another_hash_seed():
    code = (
        "from cutwater.protocol.key_groups import key_group\n"
        "print([key_group(k, 32768) for k in ['word', b'w', 7, 0.1, None, ('a', (1, 'b'))]])"
    )
    source = Path(key_groups_module.__file__).parents[2]
    seen = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(source)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        for seed in ("1", "4711")
    }
    assert seen == {str([key_group(key, 32768) for key in ["word", b"w", 7, 0.1, None, ("a", (1, "b"))]])}


def test_neighbouring_numbers_spread_over_all_groups():
    counts = [0] * 128
    for number in range(128 * 100):
        counts[key_group(number, 128)] += 1
    assert (min(counts) > 50, max(counts) < 150) == (True, True)


def test_ranges_are_those_of_flink():
    assert [group_range(subtask, 3, 10) for subtask in range(3)] == [range(4), range(4, 7), range(7, 10)]


def test_the_subtask_of_a_group_is_the_one_whose_range_holds_it():
    assert [subtask_of(group, 3, 10) for group in range(10)] == [0, 0, 0, 0, 1, 1, 1, 2, 2, 2]


@pytest.mark.parametrize(
    ("parallelism", "expected"), [(1, 128), (85, 128), (86, 256), (171, 256), (172, 512), (30000, 32768)]
)
def test_the_default_max_parallelism_leaves_room_to_grow(parallelism: int, expected: int):
    assert default_max_parallelism(parallelism) == expected
