"""What can be read of a pickle whose author is not known?

Unpickling calls whatever the pickle names: a pickle from a stranger is a program. This reader calls nothing but the
constructors of plain values listed here: numbers, text, bytes, containers, dates and times, decimals, fractions, UUIDs,
NumPy scalars, and records of ours that its user names. Everything else becomes an `Opaque` in its place, so that the
rest can still be shown: the keys beside the values of a user's class.

It also bounds its own work: nested tuples that share their parts are small as a pickle, and endless to hash or print.
"""

from __future__ import annotations

import io
import pickle
import re
from collections.abc import Callable, Collection, Iterable
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from typing import Any, ClassVar, cast
from uuid import UUID, SafeUUID

import numpy as np

Loads = Callable[[bytes], Any]

_INT_BITS_MAX = 10_000
"""Python refuses to print much longer ones."""
_WORK_PER_BYTE = 32
_WORK_MIN = 10_000
_DEPTH_MAX = 100
_NAME_LENGTH_MAX = 120

#: What pickles of protocol 4 and 5 need; the other codes are older, or call what was registered elsewhere.
_CODES = b"".join(
    (
        pickle.PROTO,
        pickle.FRAME,
        pickle.STOP,
        pickle.MARK,
        pickle.POP,
        pickle.POP_MARK,
        pickle.MEMOIZE,
        pickle.BINPUT,
        pickle.LONG_BINPUT,
        pickle.BINGET,
        pickle.LONG_BINGET,
        pickle.NONE,
        pickle.NEWTRUE,
        pickle.NEWFALSE,
        pickle.BININT,
        pickle.BININT1,
        pickle.BININT2,
        pickle.LONG1,
        pickle.LONG4,
        pickle.BINFLOAT,
        pickle.SHORT_BINUNICODE,
        pickle.BINUNICODE,
        pickle.BINUNICODE8,
        pickle.SHORT_BINBYTES,
        pickle.BINBYTES,
        pickle.BINBYTES8,
        pickle.BYTEARRAY8,
        pickle.EMPTY_TUPLE,
        pickle.TUPLE1,
        pickle.TUPLE2,
        pickle.TUPLE3,
        pickle.TUPLE,
        pickle.EMPTY_LIST,
        pickle.APPEND,
        pickle.APPENDS,
        pickle.EMPTY_DICT,
        pickle.SETITEM,
        pickle.SETITEMS,
        pickle.EMPTY_SET,
        pickle.ADDITEMS,
        pickle.FROZENSET,
        pickle.STACK_GLOBAL,
        pickle.REDUCE,
        pickle.NEWOBJ,
        pickle.NEWOBJ_EX,
        pickle.BUILD,
    )
)
_ATOMS = frozenset(
    (type(None), bool, float, str, bytes, bytearray, complex, Decimal, UUID, datetime, date, time, timedelta, timezone)
)
_SCALARS: dict[str, type[np.generic]] = {
    np.dtype(kind).str[1:]: kind
    for kind in (
        *(np.bool_, np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64),
        *(np.float16, np.float32, np.float64, np.complex64, np.complex128),
    )
}
_SCALAR_KINDS = frozenset(_SCALARS.values())
_FRACTION = re.compile(r"-?\d{1,3000}(/\d{1,3000})?")


class Opaque:
    """In the place of a value that can't be read without trust in its author."""

    __slots__ = ("_what",)

    def __init__(self, what: str) -> None:
        self._what = what

    def __repr__(self) -> str:
        return f"<pickled, {self._what}: needs trust>"


class _Refused(Exception):
    """Nothing of this pickle can be read."""


def plain_loads(*records: type) -> Loads:
    """A function like `pickle.loads` that runs no code of the pickle's. `records`: slotted dataclasses, named tuples.

    It never raises: what can't be read at all is one `Opaque`.
    """
    known = {(kind.__module__, kind.__qualname__): kind for kind in records}

    def loads(data: bytes) -> Any:
        try:
            return _PlainUnpickler(data, known).load_checked()
        except Exception:  # whatever a broken pickle makes of the machine: it is data, and can't be read
            return Opaque(f"{len(data)} bytes")

    return loads


def has_opaque(value: Any) -> bool:
    """Whether some part of what `plain_loads` returned could not be read."""
    if type(value) is Opaque:
        return True
    if type(value) is dict:
        return any(map(has_opaque, value.keys())) or any(map(has_opaque, value.values()))
    return isinstance(value, (list, tuple, set, frozenset)) and any(map(has_opaque, value))


class _Named:
    """A global of the pickle: only a name, never what it names."""

    __slots__ = ("name",)

    def __init__(self, module: Any, name: Any) -> None:
        if type(module) is not str or type(name) is not str:
            raise _Refused
        self.name = (module, name)

    def opaque(self) -> Opaque:
        return Opaque(".".join(self.name)[:_NAME_LENGTH_MAX])


class _ByteOrder:
    """What a NumPy scalar says of its type."""

    __slots__ = ("code", "order")

    def __init__(self, code: str) -> None:
        self.code = code
        self.order = "<"


#: Values without parts.
_KNOWN = _ATOMS | _SCALAR_KINDS | {Opaque, Fraction}


class _PlainUnpickler(pickle._Unpickler):
    """The standard library's machine with fewer instructions; those that call something are all below."""

    stack: list[Any]
    pop_mark: Callable[[], list[Any]]
    read: Callable[[int], bytes]

    def __init__(self, data: bytes, records: dict[tuple[str, str], type]) -> None:
        super().__init__(io.BytesIO(data))
        self._records = records
        self._work = _WORK_MIN + _WORK_PER_BYTE * len(data)

    def load_checked(self) -> Any:
        value = self.load()
        self._check([value])
        return value

    def find_class(self, module: str, name: str) -> Any:
        raise AssertionError("globals are only named, never looked for")

    def load_stack_global(self) -> None:
        name = self.stack.pop()
        self.stack.append(_Named(self.stack.pop(), name))

    def load_reduce(self) -> None:
        arguments = self.stack.pop()
        self.stack[-1] = self._made(self.stack[-1], arguments)

    def load_newobj(self) -> None:
        arguments = self.stack.pop()
        self.stack[-1] = self._new(self.stack[-1], arguments)

    def load_newobj_ex(self) -> None:
        del self.stack[-2:]
        self.stack[-1] = self._new(self.stack[-1], None)

    def load_build(self) -> None:
        state = self.stack.pop()
        self._fill(self.stack[-1], state)

    def load_bytearray8(self) -> None:
        length = int.from_bytes(self.read(8), "little")
        self.stack.append(bytearray(self.read(length)))  # the length is a claim: nothing is allocated for it

    def load_appends(self) -> None:
        self._extend(self.pop_mark())

    def load_append(self) -> None:
        self._extend([self.stack.pop()])

    def load_setitems(self) -> None:
        self._set(self.pop_mark())

    def load_setitem(self) -> None:
        value = self.stack.pop()
        self._set([self.stack.pop(), value])

    def load_additems(self) -> None:
        items = self.pop_mark()
        self._check(items)
        if type(self.stack[-1]) is not Opaque:
            cast(set[Any], self._top(set)).update(items)

    def load_frozenset(self) -> None:
        items = self.pop_mark()
        self._check(items)
        self.stack.append(frozenset(items))

    def _extend(self, items: list[Any]) -> None:
        if type(self.stack[-1]) is not Opaque:
            cast(list[Any], self._top(list)).extend(items)

    def _set(self, items: list[Any]) -> None:
        self._check(items[::2])
        if type(self.stack[-1]) is not Opaque:
            cast(dict[Any, Any], self._top(dict)).update(zip(items[::2], items[1::2], strict=True))

    def _top(self, kind: type) -> Any:
        if type(self.stack[-1]) is not kind:
            raise _Refused
        return self.stack[-1]

    def _made(self, what: Any, arguments: Any) -> Any:
        """A call in the pickle."""
        if type(what) is not _Named:
            return Opaque("a call of an object")
        self._check(arguments, _KNOWN | {_ByteOrder})
        maker = _MAKERS.get(what.name)
        return what.opaque() if maker is None or has_opaque(arguments) else maker(*arguments)

    def _new(self, what: Any, arguments: Any) -> Any:
        """An instance without its fields, or a named tuple with them."""
        if type(what) is not _Named:
            return Opaque("an object")
        kind = UUID if what.name == ("uuid", "UUID") else self._records.get(what.name)
        if kind is None or arguments is None:
            return what.opaque()
        if issubclass(kind, tuple):
            return kind(*arguments)
        return object.__new__(kind)

    def _fill(self, made: Any, state: Any) -> None:
        kind = type(made)
        if kind is UUID:
            _fill_uuid(made, state)
        elif kind is _ByteOrder:
            made.order = state[1]
        elif kind in self._records.values():
            for field, value in zip(kind.__dataclass_fields__, state, strict=True):
                object.__setattr__(made, field, value)
        elif kind is not Opaque:
            raise _Refused

    def _check(self, values: Iterable[Any], known: frozenset[type] = _KNOWN) -> None:
        """That the values hold only what we know, and so little of it that they can be hashed, compared and shown."""
        level = list(values)
        for _ in range(_DEPTH_MAX):
            below: list[Any] = []
            for value in level:
                parts = self._parts(value, known)
                self._work -= 1 + len(parts)
                if self._work < 0:
                    raise _Refused
                below.extend(parts)
            if not below:
                return
            level = below
        raise _Refused

    def _parts(self, value: Any, known: frozenset[type]) -> Collection[Any]:
        kind = type(value)
        if kind in known:
            return ()
        if kind in (list, tuple, set, frozenset):
            return cast(Collection[Any], value)
        if kind is dict:
            return (*value.keys(), *value.values())
        if kind is int and value.bit_length() <= _INT_BITS_MAX:
            return ()
        if kind in self._records.values():
            return value if isinstance(value, tuple) else [getattr(value, field) for field in kind.__slots__]
        raise _Refused

    _STEPS: ClassVar[dict[int, Any]] = {
        pickle.STACK_GLOBAL[0]: load_stack_global,
        pickle.REDUCE[0]: load_reduce,
        pickle.NEWOBJ[0]: load_newobj,
        pickle.NEWOBJ_EX[0]: load_newobj_ex,
        pickle.BUILD[0]: load_build,
        pickle.BYTEARRAY8[0]: load_bytearray8,
        pickle.APPENDS[0]: load_appends,
        pickle.APPEND[0]: load_append,
        pickle.SETITEMS[0]: load_setitems,
        pickle.SETITEM[0]: load_setitem,
        pickle.ADDITEMS[0]: load_additems,
        pickle.FROZENSET[0]: load_frozenset,
    }
    dispatch = {code: step for code, step in pickle._Unpickler.dispatch.items() if code in _CODES} | _STEPS


def _fill_uuid(made: UUID, state: Any) -> None:
    number = state["int"]
    if type(number) is not int or not 0 <= number < 1 << 128:
        raise _Refused
    object.__setattr__(made, "int", number)
    object.__setattr__(made, "is_safe", SafeUUID.unknown)


def _decimal(text: Any) -> Decimal:
    if type(text) is not str:
        raise _Refused
    return Decimal(text)


def _fraction(*parts: Any) -> Fraction:
    """Never from a text with an exponent: "1e999999999" takes hours."""
    if len(parts) == 1 and type(parts[0]) is str and _FRACTION.fullmatch(parts[0]):
        return Fraction(parts[0])
    numerator, denominator = parts
    if not type(numerator) is type(denominator) is int:
        raise _Refused
    return Fraction(numerator, denominator)


def _complex(real: float, imaginary: float) -> complex:
    if not type(real) is type(imaginary) is float:
        raise _Refused
    return complex(real, imaginary)


def _dtype(code: Any, *_: Any) -> _ByteOrder:
    if code not in _SCALARS:
        raise _Refused
    return _ByteOrder(code)


def _scalar(kind: Any, data: Any) -> Any:
    if type(kind) is not _ByteOrder or type(data) is not bytes or kind.order not in ("<", ">", "|", "="):
        raise _Refused
    (value,) = np.frombuffer(data, np.dtype(kind.order + kind.code))
    return _SCALARS[kind.code](value)


_MAKERS: dict[tuple[str, str], Callable[..., Any]] = {
    ("builtins", "complex"): _complex,
    ("datetime", "datetime"): datetime,
    ("datetime", "date"): date,
    ("datetime", "time"): time,
    ("datetime", "timedelta"): timedelta,
    ("datetime", "timezone"): timezone,
    ("decimal", "Decimal"): _decimal,
    ("fractions", "Fraction"): _fraction,
    ("numpy", "dtype"): _dtype,
    ("numpy._core.multiarray", "scalar"): _scalar,
    ("numpy.core.multiarray", "scalar"): _scalar,
}
