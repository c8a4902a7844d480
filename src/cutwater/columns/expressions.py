"""What is computed from the columns of a typed batch, without Python per record?

An expression is a value: it can be compared to nothing, only combined, pickled, shown and evaluated. Its parts are
the subclasses of `Column` below; what an operation does with Arrow's values is in `arithmetic` and `values`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from keyword import iskeyword
from typing import Any, NoReturn

import pyarrow as pa

from cutwater.columns import arithmetic, values
from cutwater.columns.encoded import plain
from cutwater.columns.failures import (
    EvaluationFailed,
    first_offending_row,
    missing_column,
    type_error,
    value_error,
)
from cutwater.columns.type_names import parse_type
from cutwater.durations import Duration, parse_duration
from cutwater.errors import CutwaterError, UserError

# How tightly a part binds when it is written out; Python's order.
_COMPARISON, _OR, _AND, _SUM, _PRODUCT, _UNARY, _ATOM = range(7)
_UNITS_MICROSECONDS = {
    "day": 86_400_000_000,
    "hour": 3_600_000_000,
    "minute": 60_000_000,
    "second": 1_000_000,
    "millisecond": 1_000,
    "microsecond": 1,
}


def col(name: str) -> Column:
    """A column of the stream, by its name."""
    if not isinstance(name, str):
        raise UserError(f"col() takes the name of a column, not {name!r}", hint="a constant is written lit(…)")
    return Field(name)


def lit(value: Any) -> Column:
    """The same value for every row. An integer has 64 bits, a float too, a datetime microseconds."""
    if isinstance(value, Column):
        return value
    try:
        scalar = value if isinstance(value, pa.Scalar) else _scalar(value)
    except (pa.ArrowException, OverflowError, TypeError, ValueError) as error:
        raise UserError(f"{value!r} can't be a value of a column", detail=str(error)) from error
    if pa.types.is_dictionary(scalar.type):
        scalar = scalar.cast(scalar.type.value_type)
    return Literal(scalar)


class Column(ABC):
    """What to compute from the columns of a typed stream: `col("price") * 2 > 100`.

    Null in, null out, except for the functions about nulls. `&` and `|` follow SQL: `false & null` is false. Both of
    their sides are computed for every row; only `when` spares a branch the rows that it isn't meant for.

    Numbers: `/` is true division and gives float64; `//` and `%` round down, as in Python. Integers and floats meet
    as float64, integers of two widths in the wider. An integer result that doesn't fit its type is an error, never
    wrapped; so is a division of integers by zero with `//` or `%`. Floats follow IEEE 754: 1.0 / 0 is inf.

    Times with a time zone are taken apart in that zone. Dictionary-encoded columns can stand everywhere; they stay
    encoded where they are passed on untouched.
    """

    __slots__ = ()
    __array_ufunc__ = None  # a numpy number on the left leaves the operation to us

    # ------------------------------------------------------------------------------------------------- evaluation

    def evaluate(self, batch: pa.RecordBatch, *, where: str = "") -> pa.Array:
        """One value per row. Raises `UserFunctionError` with the first offending row, `UserError` for wrong types."""
        try:
            return self.array(batch)
        except EvaluationFailed as failure:
            raise self.explain(failure, batch, where=where) from failure.cause

    def check(self, schema: pa.Schema, *, where: str) -> pa.DataType:
        """The type of the result on batches of this schema; `where` says whose expression it is.

        Raises `UserError` for a column that is missing and for types that don't fit. Evaluates on a batch without
        rows: a function given to `apply` is called with an empty array, unless its type is known.
        """
        for name in sorted(self.columns):
            if schema.get_field_index(name) < 0:
                raise missing_column(name, schema.names, where=where)
        try:
            return self.array(pa.RecordBatch.from_pylist([], schema=schema)).type
        except EvaluationFailed as failure:
            raise self._type_error(failure, schema, where) from failure.cause

    def explain(self, failure: EvaluationFailed, batch: pa.RecordBatch, *, where: str) -> UserError:
        """The failure of `array` on this batch as the author of the job should read it."""
        if failure.is_about_types:
            return self._type_error(failure, batch.schema, where)
        row = first_offending_row(self.array, batch, self.columns)
        return value_error(failure, expression=self.text, row=row, where=where)

    def array(self, batch: pa.RecordBatch) -> pa.Array:
        """Like `evaluate`, but fails with the bare `EvaluationFailed`."""
        result = self.compute(batch)
        return pa.repeat(result, batch.num_rows) if isinstance(result, pa.Scalar) else result

    @abstractmethod
    def compute(self, batch: pa.RecordBatch) -> Any:
        """An array, or a scalar where all rows have the same; raises `EvaluationFailed`."""

    @property
    @abstractmethod
    def columns(self) -> frozenset[str]:
        """The columns that must be there."""

    @property
    def name(self) -> str:
        """What the result is called: the alias, the name of the column, else the expression as it is written."""
        return self.text

    @property
    @abstractmethod
    def text(self) -> str:
        """The expression as it is written."""

    @property
    def precedence(self) -> int:
        return _ATOM

    def _type_error(self, failure: EvaluationFailed, schema: pa.Schema, where: str) -> UserError:
        return type_error(failure, expression=self.text, schema=schema, columns=self.columns, where=where)

    # -------------------------------------------------------------------------------------------------- arithmetic

    def __add__(self, other: Any) -> Column:
        return _binary("+", _SUM, arithmetic.add, self, other)

    def __radd__(self, other: Any) -> Column:
        return _binary("+", _SUM, arithmetic.add, other, self)

    def __sub__(self, other: Any) -> Column:
        return _binary("-", _SUM, arithmetic.subtract, self, other)

    def __rsub__(self, other: Any) -> Column:
        return _binary("-", _SUM, arithmetic.subtract, other, self)

    def __mul__(self, other: Any) -> Column:
        return _binary("*", _PRODUCT, arithmetic.multiply, self, other)

    def __rmul__(self, other: Any) -> Column:
        return _binary("*", _PRODUCT, arithmetic.multiply, other, self)

    def __truediv__(self, other: Any) -> Column:
        return _binary("/", _PRODUCT, arithmetic.true_divide, self, other)

    def __rtruediv__(self, other: Any) -> Column:
        return _binary("/", _PRODUCT, arithmetic.true_divide, other, self)

    def __floordiv__(self, other: Any) -> Column:
        return _binary("//", _PRODUCT, arithmetic.floor_divide, self, other)

    def __rfloordiv__(self, other: Any) -> Column:
        return _binary("//", _PRODUCT, arithmetic.floor_divide, other, self)

    def __mod__(self, other: Any) -> Column:
        return _binary("%", _PRODUCT, arithmetic.modulo, self, other)

    def __rmod__(self, other: Any) -> Column:
        return _binary("%", _PRODUCT, arithmetic.modulo, other, self)

    def __neg__(self) -> Column:
        return Prefixed("-", arithmetic.negate, self)

    # ---------------------------------------------------------------------------------------- comparison and truth

    def __eq__(self, other: object) -> Column:  # type: ignore[override]
        return _comparison("==", arithmetic.equal, self, other)

    def __ne__(self, other: object) -> Column:  # type: ignore[override]
        return _comparison("!=", arithmetic.not_equal, self, other)

    def __lt__(self, other: Any) -> Column:
        return _comparison("<", arithmetic.less, self, other)

    def __le__(self, other: Any) -> Column:
        return _comparison("<=", arithmetic.less_equal, self, other)

    def __gt__(self, other: Any) -> Column:
        return _comparison(">", arithmetic.greater, self, other)

    def __ge__(self, other: Any) -> Column:
        return _comparison(">=", arithmetic.greater_equal, self, other)

    def between(self, low: Any, high: Any) -> Column:
        """Both ends included."""
        return Called("between", arithmetic.between, (self, _compared(self, low), _compared(self, high)))

    def is_in(self, candidates: Iterable[Any]) -> Column:
        """Equal to one of these values; null stays null."""
        listed = tuple(candidates)
        if any(candidate is None for candidate in listed):
            raise UserError(
                f"{self.text}.is_in([… None …]) can't find nulls", hint=f"add | {_receiver(self)}.is_null()"
            )
        if any(isinstance(candidate, Column) for candidate in listed):
            raise UserError(f"{self.text}.is_in([…]) takes constants", hint="compare with each column, joined by |")
        try:
            array = pa.array(listed)
        except (pa.ArrowException, OverflowError) as error:
            raise UserError(f"the values for {self.text}.is_in([…]) have no common type", detail=str(error)) from error
        return Called("is_in", values.is_in, (self,), (array,), shown=(list(listed),))

    def __and__(self, other: Any) -> Column:
        return _binary("&", _AND, values.both, self, other)

    def __rand__(self, other: Any) -> Column:
        return _binary("&", _AND, values.both, other, self)

    def __or__(self, other: Any) -> Column:
        return _binary("|", _OR, values.either, self, other)

    def __ror__(self, other: Any) -> Column:
        return _binary("|", _OR, values.either, other, self)

    def __invert__(self) -> Column:
        return Prefixed("~", values.negation, self)

    def __bool__(self) -> NoReturn:
        raise UserError(
            f'the expression "{self.text}" is not true or false: it stands for a value in each row',
            hint="use & | ~ instead of and, or, not, with each comparison in parentheses: (a > 1) & (b < 2); "
            "instead of 1 < a < 5 write a.between(…), instead of `in` a.is_in(…)",
        )

    def __iter__(self) -> NoReturn:
        raise TypeError(f'the expression "{self.text}" can\'t be iterated over')

    __hash__ = object.__hash__

    # ------------------------------------------------------------------------------------- nulls, types, and names

    def is_null(self) -> Column:
        return Called("is_null", values.is_null, (self,))

    def is_valid(self) -> Column:
        """Not null."""
        return Called("is_valid", values.is_valid, (self,))

    def fill_null(self, value: Any) -> Column:
        """This value where there is none: a constant that fits the column's type, or an expression."""
        return Called("fill_null", values.fill_null, (self, _operand(value, beside=self)))

    def cast(self, to: pa.DataType | str) -> Column:
        """Another type: a pyarrow one, or its name in Arrow or Spark.

        Fractions are cut off; a value out of range, or a text that doesn't spell one, is an error.
        """
        kind = parse_type(to)
        return Called("cast", values.cast, (self,), (kind,), shown=(str(to),))

    def alias(self, name: str) -> Column:
        """The same under another name."""
        return Alias(self, name)

    # ------------------------------------------------------------------------------------------------------- texts

    def upper(self) -> Column:
        return Called("upper", values.upper, (self,))

    def lower(self) -> Column:
        return Called("lower", values.lower, (self,))

    def length(self) -> Column:
        """In characters."""
        return Called("length", values.length, (self,))

    def contains(self, text: str) -> Column:
        return Called("contains", values.contains, (self,), (_text_constant(text, "contains"),))

    def starts_with(self, text: str) -> Column:
        return Called("starts_with", values.starts_with, (self,), (_text_constant(text, "starts_with"),))

    def ends_with(self, text: str) -> Column:
        return Called("ends_with", values.ends_with, (self,), (_text_constant(text, "ends_with"),))

    def substring(self, start: int, length: int | None = None) -> Column:
        """`text[start:][:length]`: counted from 0, a negative start from the end. (Spark's counts from 1.)"""
        for number in (start, length):
            if number is not None and (isinstance(number, bool) or not isinstance(number, int)):
                raise UserError(f"substring() takes whole numbers, not {number!r}")
        if length is not None and length < 0:
            raise UserError(f"the length of a substring can't be {length}")
        shown = (start,) if length is None else (start, length)
        return Called("substring", values.substring, (self,), (start, length), shown=shown)

    # ------------------------------------------------------------------------------------------------------- times

    def year(self) -> Column:
        return Called("year", values.year, (self,))

    def month(self) -> Column:
        """1 to 12."""
        return Called("month", values.month, (self,))

    def day(self) -> Column:
        """Of the month, from 1."""
        return Called("day", values.day, (self,))

    def hour(self) -> Column:
        """0 to 23."""
        return Called("hour", values.hour, (self,))

    def date(self) -> Column:
        """The day without the time."""
        return Called("date", values.date, (self,))

    def floor(self, interval: Duration) -> Column:
        """The begin of the interval in which a time lies; intervals are counted from 1970, local midnight."""
        microseconds = round(parse_duration(interval, option="interval") * 1_000_000)
        for unit, length in _UNITS_MICROSECONDS.items():
            if microseconds and microseconds % length == 0:
                return Called("floor", values.floor, (self,), (microseconds // length, unit), shown=(interval,))
        raise UserError(f"a time can't be rounded down to {interval!r}", hint='give an interval such as "10s" or "1h"')

    # ----------------------------------------------------------------------------------------------- escape hatch

    def apply(self, function: Callable[[pa.Array], Any], *, returns: pa.DataType | str | None = None) -> Column:
        """The function of a whole Arrow array (never dictionary-encoded); it returns one value per row.

        Called once per batch, and once with an empty array to learn the type unless `returns` says it. After a
        failure it is called again, on parts of the batch.
        """
        if not callable(function):
            raise UserError(f"apply() takes a function of an Arrow array, not {function!r}")
        return Applied(self, function, None if returns is None else parse_type(returns))

    def __repr__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Field(Column):
    """A column as it is."""

    field: str

    def compute(self, batch: pa.RecordBatch) -> Any:
        try:
            return batch.column(self.field)
        except KeyError:
            raise missing_column(self.field, batch.schema.names, where="") from None

    @property
    def columns(self) -> frozenset[str]:
        return frozenset((self.field,))

    @property
    def name(self) -> str:
        return self.field

    @property
    def text(self) -> str:
        bare = self.field.isidentifier() and not iskeyword(self.field)
        return self.field if bare else f"col({self.field!r})"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Literal(Column):
    """A constant."""

    scalar: Any

    def compute(self, batch: pa.RecordBatch) -> Any:
        return self.scalar

    @property
    def columns(self) -> frozenset[str]:
        return frozenset()

    @property
    def text(self) -> str:
        return repr(self.scalar.as_py())

    @property
    def precedence(self) -> int:
        return _UNARY if self.text.startswith("-") else _ATOM


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Infixed(Column):
    """Two operands around a sign."""

    sign: str
    binding: int
    function: Callable[..., Any]
    left: Column
    right: Column

    def compute(self, batch: pa.RecordBatch) -> Any:
        left, right = self.left.compute(batch), self.right.compute(batch)
        try:
            return self.function(left, right)
        except Exception as error:
            raise EvaluationFailed(self.text, error) from error

    @property
    def columns(self) -> frozenset[str]:
        return self.left.columns | self.right.columns

    @property
    def text(self) -> str:
        # Comparisons don't chain here, and everything else groups to the left.
        left = _enclosed(self.left, self.binding + (self.binding == _COMPARISON))
        return f"{left} {self.sign} {_enclosed(self.right, self.binding + 1)}"

    @property
    def precedence(self) -> int:
        return self.binding


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Prefixed(Column):
    """A sign before an operand."""

    sign: str
    function: Callable[..., Any]
    operand: Column

    def compute(self, batch: pa.RecordBatch) -> Any:
        value = self.operand.compute(batch)
        try:
            return self.function(value)
        except Exception as error:
            raise EvaluationFailed(self.text, error) from error

    @property
    def columns(self) -> frozenset[str]:
        return self.operand.columns

    @property
    def text(self) -> str:
        return f"{self.sign}{_enclosed(self.operand, _ATOM)}"

    @property
    def precedence(self) -> int:
        return _UNARY


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Called(Column):
    """A method: operands that are computed first, then options as they are."""

    method: str
    function: Callable[..., Any]
    operands: tuple[Column, ...]
    options: tuple[Any, ...] = ()
    #: The options as the user wrote them; () where they are the same.
    shown: tuple[Any, ...] = ()

    def compute(self, batch: pa.RecordBatch) -> Any:
        operands = [operand.compute(batch) for operand in self.operands]
        try:
            return self.function(*operands, *self.options)
        except Exception as error:
            raise EvaluationFailed(self.text, error) from error

    @property
    def columns(self) -> frozenset[str]:
        return frozenset().union(*(operand.columns for operand in self.operands))

    @property
    def text(self) -> str:
        receiver, *others = self.operands
        arguments = [other.text for other in others] + [repr(option) for option in self.shown or self.options]
        return f"{_receiver(receiver)}.{self.method}({', '.join(arguments)})"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Alias(Column):
    """An expression under another name."""

    aliased: Column
    alias_name: str

    def compute(self, batch: pa.RecordBatch) -> Any:
        return self.aliased.compute(batch)

    @property
    def columns(self) -> frozenset[str]:
        return self.aliased.columns

    @property
    def name(self) -> str:
        return self.alias_name

    @property
    def text(self) -> str:
        return f"{_receiver(self.aliased)}.alias({self.alias_name!r})"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Applied(Column):
    """A function of the user's, on whole arrays."""

    operand: Column
    function: Callable[[Any], Any]
    returns: pa.DataType | None

    def compute(self, batch: pa.RecordBatch) -> Any:
        argument = plain(self.operand.array(batch))
        if self.returns is not None and not len(argument):
            return pa.array([], type=self.returns)
        try:
            return self._array_of(self.function(argument), len(argument))
        except CutwaterError:
            raise
        except Exception as error:
            raise EvaluationFailed(self.text, error, function=self.function) from error

    def _array_of(self, result: Any, rows: int) -> Any:
        if isinstance(result, pa.ChunkedArray):
            result = result.combine_chunks()
        elif not isinstance(result, pa.Array | pa.Scalar):
            result = pa.array(result)
        if isinstance(result, pa.Array) and len(result) != rows:
            raise ValueError(f"the function returned {len(result)} values for {rows} rows")
        return result if self.returns is None or result.type == self.returns else result.cast(self.returns)

    @property
    def columns(self) -> frozenset[str]:
        return self.operand.columns

    @property
    def text(self) -> str:
        return f"{_receiver(self.operand)}.apply({getattr(self.function, '__name__', type(self.function).__name__)})"


def as_column(value: Any) -> Column:
    """An operand as the user wrote it: an expression, or a constant."""
    if isinstance(value, Column):
        return value
    unfinished = getattr(value, "unfinished", None)
    if unfinished is not None:
        raise UserError(f"{value!r} is no expression yet", hint=unfinished)
    return lit(value)


def _binary(sign: str, binding: int, function: Callable[..., Any], left: Any, right: Any) -> Column:
    beside = left if isinstance(left, Column) else right
    return Infixed(sign, binding, function, _operand(left, beside=beside), _operand(right, beside=beside))


def _comparison(sign: str, function: Callable[..., Any], left: Column, right: Any) -> Column:
    return Infixed(sign, _COMPARISON, function, left, _compared(left, right))


def _compared(column: Column, other: Any) -> Column:
    if other is None:
        receiver = _receiver(column)
        raise UserError(
            f"a comparison of {column.text} with None is never true",
            hint=f"use {receiver}.is_null() or {receiver}.is_valid()",
        )
    return as_column(other)


def _operand(value: Any, *, beside: Column) -> Column:
    if value is None:
        raise UserError(f"None as the operand beside {beside.text} makes every row null", hint="lit(None) if meant")
    return as_column(value)


def _scalar(value: Any) -> Any:
    if isinstance(value, int) and not isinstance(value, bool) and 1 << 63 <= value < 1 << 64:
        return pa.scalar(value, pa.uint64())
    return pa.scalar(value)


def _text_constant(text: str, method: str) -> str:
    if not isinstance(text, str):
        raise UserError(f"{method}() takes a text, not {text!r}", hint="for another column use apply()")
    return text


def _enclosed(part: Column, binding: int) -> str:
    return part.text if part.precedence >= binding else f"({part.text})"


def _receiver(part: Column) -> str:
    return f"lit({part.text})" if isinstance(part, Literal) else _enclosed(part, _ATOM)
