"""Can a pickle from a stranger do anything but be read?"""

from __future__ import annotations

import builtins
import collections
import datetime
import os
import pickle
import struct
import uuid
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import cloudpickle
import numpy as np
import pytest

from cutwater.operators.windows.model import GLOBAL_WINDOW, TimeWindow
from cutwater.pickles import Opaque, has_opaque, plain_loads
from cutwater.protocol.timers import Timer

loads = plain_loads(TimeWindow, type(GLOBAL_WINDOW), Timer)

PLAIN: list[Any] = [
    *(None, True, 1, -5, 2**70, 1.5, float("inf"), 1j, "text" * 100, "\ud800", b"bytes", bytearray(b"more")),
    *((), (1,), (1, 2, 3, 4), [1, [2]], {"a": {1: 2}}, {1, 2}, frozenset({3}), [None] * 5_000),
    *(
        datetime.datetime(2026, 1, 2, 3),  # noqa: DTZ001
        datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC),
    ),
    datetime.datetime(2026, 1, 2, tzinfo=datetime.timezone(datetime.timedelta(hours=2), "here")),
    *(datetime.date(2026, 1, 2), datetime.time(3), datetime.timedelta(3, 4, 5)),
    *(Decimal("1.20"), Fraction(1, 3), uuid.UUID(int=7)),
    *(np.float64(1.5), np.int32(4), np.bool_(True), np.uint8(200), np.float32(2)),
    *(TimeWindow(1, 2), GLOBAL_WINDOW, Timer(1, "key", TimeWindow(3, 4))),
]


@pytest.mark.parametrize("value", PLAIN, ids=lambda value: f"{type(value).__name__}")
def test_plain_values_are_read_as_pickle_reads_them(value: Any):
    read = loads(pickle.dumps(value, 5))
    assert (type(read), read) == (type(value), value)


@dataclass
class Order:
    total: int


class Runs:
    """Calls what it was made with when it is unpickled."""

    def __init__(self, function: Any, *arguments: Any) -> None:
        self._call = function, arguments

    def __reduce__(self) -> Any:
        return self._call


class Builds(Runs):
    """The same with a state, which is set on what the call returned."""

    def __reduce__(self) -> Any:
        return (*self._call, {"state": "changed"})


def test_what_needs_trust_is_opaque_and_the_rest_is_shown():
    order = f"<pickled, {Order.__module__}.Order: needs trust>"
    assert (
        repr(loads(pickle.dumps([("k", Order(3)), ("l", [1, Order(4)])], 5)))
        == f"[('k', {order}), ('l', [1, {order}])]"
    )


def test_a_class_that_travels_by_value_is_opaque():
    class Local:
        pass

    assert has_opaque(loads(cloudpickle.dumps({"a": Local()}, 5)))


@pytest.mark.parametrize(
    "function",
    [
        *(os.system, os.mkdir, builtins.eval, builtins.exec, builtins.getattr, builtins.__import__, builtins.open),
        *(collections.deque, pickle.loads, Path, type, object, np.fromfile, np.load),
    ],
    ids=lambda function: function.__name__,
)
@pytest.mark.parametrize("attack", [Runs, Builds])
def test_no_function_is_called(function: Any, attack: Any, tmp_path: Path):
    target = tmp_path / "made"
    read = loads(pickle.dumps([attack(function, str(target)), "behind"], 5))
    assert isinstance(read[0], Opaque)
    assert read[1] == "behind"
    assert list(tmp_path.iterdir()) == []


def stream(*parts: bytes) -> bytes:
    return b"\x80\x05" + b"".join(parts) + b"."


def text(value: str) -> bytes:
    return b"\x8c" + bytes([len(value)]) + value.encode()


def named(module: str, name: str) -> bytes:
    return text(module) + text(name) + pickle.STACK_GLOBAL


MARK_OF_SYSTEM = named("os", "system")
SHARED_TUPLES = b"K\x01\x85\x94" + b"".join(b"h" + bytes([index]) + b"\x86\x94" for index in range(60))


@pytest.mark.parametrize(
    "data",
    [
        stream(b"cos\nsystem\n", text("true"), b"\x85R"),  # GLOBAL, of an old protocol
        stream(b"(", text("true"), b"ios\nsystem\n"),  # INST
        stream(b"(", MARK_OF_SYSTEM, text("true"), b"o"),  # OBJ
        stream(b"\x82\x01"),  # EXT1
        stream(text("id"), b"Q"),  # BINPERSID
        stream(b"]", text("x"), b"b"),  # BUILD of a list
        stream(named("uuid", "UUID"), b")\x81}", text("int"), MARK_OF_SYSTEM, b"sb"),
        stream(named("uuid", "UUID"), b")\x81}", text("int"), b"\x8a\x20" + b"\x7f" * 32, b"sb"),
        stream(named("uuid", "UUID"), b"}", text("__init__"), MARK_OF_SYSTEM, b"sb"),  # changes the class
        stream(named("fractions", "Fraction"), text("1e999999999"), b"\x85R"),  # hours of work
        stream(named("numpy", "dtype"), text("O8"), b"\x89\x88\x87R"),  # objects: pickles again
        stream(named("numpy", "dtype"), text("i8"), b"\x89\x88\x87R"),
        stream(b"\x96" + struct.pack("<Q", 1 << 62)),  # a claim of 4 EiB
        stream(b"\x8b" + struct.pack("<i", 5_000) + b"\x7f" * 5_000),  # too long to be printed
        stream(b"}(", SHARED_TUPLES, b"K\x01u"),  # a key with 2**60 parts
        stream(b"(", SHARED_TUPLES, b"\x91"),
        stream(b"]\x94h\x00a"),  # a list that holds itself
        stream(b"]" * 5_000, b"a" * 4_999),  # deeper than Python can print
        stream(MARK_OF_SYSTEM),
        b"",
        b"\x80\x05",
    ],
)
def test_a_pickle_that_is_more_than_data_is_opaque_as_a_whole(data: bytes):
    assert repr(loads(data)) == f"<pickled, {len(data)} bytes: needs trust>"


def test_no_class_was_changed():
    assert uuid.UUID(int=7).hex == f"{7:032x}"
    assert repr(TimeWindow(1, 2)) == "TimeWindow(start_ms=1, end_ms=2)"


def test_the_name_of_an_unknown_class_is_only_a_text():
    assert repr(loads(stream(named("m" * 200, "Class"), b")R"))) == f"<pickled, {'m' * 120}: needs trust>"
