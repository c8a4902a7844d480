"""Which task owns a key, in every process, on every machine, today and after a rescale?

A key becomes canonical bytes, the bytes a key group, and each task owns a contiguous range of groups. Python's own
`hash` is of no use: it differs from process to process. The bytes follow Python's equality instead: keys that are
equal (`1 == 1.0 == True`) share their bytes, because they share their state.
"""

from __future__ import annotations

import dataclasses
import struct
import zlib
from collections.abc import Callable, Iterable
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from numbers import Integral
from typing import Any, NoReturn
from uuid import UUID

from cutwater.errors import ConfigurationError, KeyTypeError

MAX_PARALLELISM_LIMIT = 32768
_MEMO_ENTRIES_MAX = 65536
_UNHASHABLE = -1
_MICROSECOND = timedelta(microseconds=1)


def canonical_bytes(key: object) -> bytes:
    """Bytes that are equal for equal keys; raises `KeyTypeError` for a key whose equality has no stable bytes."""
    encode = _ENCODERS.get(type(key)) or _encoder_of_subtype(key)
    return encode(key)


def key_group(key: object, max_parallelism: int) -> int:
    """The key's group, 0 up to and not including `max_parallelism`."""
    return _fmix32(zlib.crc32(canonical_bytes(key))) % max_parallelism


class KeyGroups:
    """`key_group` with a memory, for the hot path; used by one thread."""

    def __init__(self, max_parallelism: int) -> None:
        if not 1 <= max_parallelism <= MAX_PARALLELISM_LIMIT:
            raise ConfigurationError(
                f"max_parallelism {max_parallelism} is out of range", detail=f"allowed: 1 to {MAX_PARALLELISM_LIMIT}"
            )
        self.max_parallelism = max_parallelism
        self._memo: dict[object, int] = {}

    def of(self, key: object) -> int:
        """The key's group. A dict may remember it, because equal keys have equal bytes."""
        try:
            group = self._memo.get(key)
        except TypeError:
            group = _UNHASHABLE
        if group is None:
            group = key_group(key, self.max_parallelism)
            if len(self._memo) >= _MEMO_ENTRIES_MAX:
                self._memo.clear()
            self._memo[key] = group
        elif group == _UNHASHABLE:
            canonical_bytes(key)  # names the very part that can't be a key, if there is one
            _refuse(key, "it can't be hashed")
        return group


def group_range(subtask: int, parallelism: int, max_parallelism: int) -> range:
    """The groups that a subtask owns: contiguous, and as even as can be (Flink's formula)."""
    assert 0 <= subtask < parallelism <= max_parallelism, (subtask, parallelism, max_parallelism)
    start = (subtask * max_parallelism + parallelism - 1) // parallelism
    last = ((subtask + 1) * max_parallelism - 1) // parallelism
    return range(start, last + 1)


def subtask_of(group: int, parallelism: int, max_parallelism: int) -> int:
    """The subtask whose `group_range` holds the group."""
    return group * parallelism // max_parallelism


def default_max_parallelism(parallelism: int) -> int:
    """Room to grow: the power of two at or above one and a half times the parallelism, 128 at least."""
    wanted = parallelism + parallelism // 2
    return min(max(1 << (wanted - 1).bit_length(), 128), MAX_PARALLELISM_LIMIT)


def _fmix32(value: int) -> int:
    """Murmur3's finaliser: CRC alone leaves neighbouring keys in neighbouring groups."""
    value ^= value >> 16
    value = value * 0x85EBCA6B & 0xFFFFFFFF
    value ^= value >> 13
    value = value * 0xC2B2AE35 & 0xFFFFFFFF
    return value ^ value >> 16


# Each encoding begins with a letter for what Python treats as one world of equality: all numbers are one.


def _none(key: None) -> bytes:
    return b"0"


def _text(key: str) -> bytes:
    return b"s" + str.encode(key, "utf-8", "surrogatepass")


def _binary(key: bytes) -> bytes:
    return b"b" + key


def _integer(key: int) -> bytes:
    number = int(key)
    return b"i" + number.to_bytes((number.bit_length() + 8) // 8, "big", signed=True)


def _number(key: float | Decimal | Fraction) -> bytes:
    try:
        numerator, denominator = key.as_integer_ratio()
    except OverflowError:
        return b"+" if key > 0 else b"-"
    except ValueError:
        raise KeyTypeError(
            "NaN can't be a key",
            detail="it equals nothing, itself included: what is kept for it would never be found again",
            hint="drop such records before key_by, or give them a key of their own",
        ) from None
    # In lowest terms, so that 0.5, Decimal("0.5") and Decimal("0.50") agree.
    return _integer(numerator) if denominator == 1 else b"r" + _joined((_integer(numerator), _integer(denominator)))


def _tuple(key: tuple[object, ...]) -> bytes:
    return b"t" + _joined(canonical_bytes(part) for part in key)


def _datetime(key: datetime) -> bytes:
    key = key.replace(fold=0)  # equality within one zone ignores it
    offset = key.utcoffset()
    local = key.toordinal() * 86_400_000_000 + _time_of_day_us(key)
    return b"D" + _integer(local) if offset is None else b"Z" + _integer(local - offset // _MICROSECOND)


def _date(key: date) -> bytes:
    return b"d" + _integer(key.toordinal())


def _time(key: time) -> bytes:
    key = key.replace(fold=0)
    offset = key.utcoffset()
    local = _time_of_day_us(key)
    return b"T" + _integer(local) if offset is None else b"z" + _integer(local - offset // _MICROSECOND)


def _time_of_day_us(key: datetime | time) -> int:
    return ((key.hour * 60 + key.minute) * 60 + key.second) * 1_000_000 + key.microsecond


def _timedelta(key: timedelta) -> bytes:
    return b"l" + _integer(key // _MICROSECOND)


def _uuid(key: UUID) -> bytes:
    return b"u" + key.bytes


def _enum(key: Enum) -> bytes:
    # A combination of flags may have no name; the value then tells it apart.
    return b"e" + _joined((_text(type(key).__qualname__), canonical_bytes(key.name or key.value)))


def _dataclass(key: Any) -> bytes:
    fields = [canonical_bytes(getattr(key, field.name)) for field in dataclasses.fields(key) if field.compare]
    return b"c" + _joined([_text(type(key).__qualname__), *fields])


def _joined(parts: Iterable[bytes]) -> bytes:
    return b"".join(struct.pack(">I", len(part)) + part for part in parts)


_ENCODERS: dict[type, Callable[..., bytes]] = {
    type(None): _none,
    str: _text,
    bytes: _binary,
    bool: _integer,
    int: _integer,
    float: _number,
    Decimal: _number,
    Fraction: _number,
    tuple: _tuple,
    datetime: _datetime,  # before date, whose subtype it is
    date: _date,
    time: _time,
    timedelta: _timedelta,
    UUID: _uuid,
}


def _encoder_of_subtype(key: object) -> Callable[..., bytes]:
    # Enums last among the values: a member of an IntEnum equals a plain int, so it must have the int's bytes.
    for kind, encode in _ENCODERS.items():
        if isinstance(key, kind):
            return encode
    if isinstance(key, Enum):
        return _enum
    if isinstance(key, Integral):  # numpy's integers equal Python's
        return _integer
    parameters = getattr(type(key), "__dataclass_params__", None)
    if parameters is None:
        _refuse(key, "its equality has no stable bytes")
    if not (parameters.frozen and parameters.eq):
        _refuse(key, "a dataclass must be frozen and compare by its fields")
    return _dataclass


def _refuse(key: object, why: str) -> NoReturn:
    kind = type(key)
    raise KeyTypeError(
        f'a value of type "{kind.__module__}.{kind.__qualname__}" can\'t be a key',
        detail=f"{why}: {_shown(key)}",
        hint="use a str, bytes, a number, None, a date or time, a UUID, an Enum, a tuple or frozen dataclass of these",
    )


def _shown(key: object) -> str:
    text = object.__repr__(key) if type(key).__repr__ is object.__repr__ else repr(key)
    return text if len(text) <= 80 else text[:77] + "..."
