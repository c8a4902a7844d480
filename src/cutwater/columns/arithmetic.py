"""What do + - * / // % and comparisons give, null by null and at the edges?

Null in, null out. Integers never wrap: a result that doesn't fit is an error, and so is a division by zero with //
or %. Floats follow IEEE 754: no error, but inf and nan; // and % of floats are Python's, exact. / is always float64.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from cutwater.columns.alignment import floating, for_arithmetic, for_comparison
from cutwater.columns.encoded import each_value_once, plain
from cutwater.columns.failures import TypesDoNotFit


def add(left: Any, right: Any) -> Any:
    """The sum; two texts are joined, as in Python."""
    left, right = plain(left), plain(right)
    if _is_text(left.type) and _is_text(right.type):
        left, right = for_comparison(left, right)
        return pc.binary_join_element_wise(left, right, pa.scalar("", left.type))
    return pc.add_checked(*for_arithmetic(left, right))


def subtract(left: Any, right: Any) -> Any:
    return pc.subtract_checked(*for_arithmetic(plain(left), plain(right)))


def multiply(left: Any, right: Any) -> Any:
    return pc.multiply_checked(*for_arithmetic(plain(left), plain(right)))


def true_divide(left: Any, right: Any) -> Any:
    return pc.divide(floating(plain(left)), floating(plain(right)))


def floor_divide(left: Any, right: Any) -> Any:
    left, right = _numbers(left, right)
    if types.is_integer(left.type):
        _refuse_impossible_division(left, right)
    return _by_numpy(np.floor_divide, left, right)


def modulo(left: Any, right: Any) -> Any:
    """The rest of `//`, with the sign of the divisor."""
    left, right = _numbers(left, right)
    if types.is_floating(left.type):
        return _by_numpy(np.remainder, left, right)
    _refuse_impossible_division(left, right)
    return _by_numpy(_rest_of_integers, left, right)


def negate(value: Any) -> Any:
    return pc.negate_checked(plain(value))


def equal(left: Any, right: Any) -> Any:
    return _compare(pc.equal, left, right)


def not_equal(left: Any, right: Any) -> Any:
    return _compare(pc.not_equal, left, right)


def less(left: Any, right: Any) -> Any:
    return _compare(pc.less, left, right)


def less_equal(left: Any, right: Any) -> Any:
    return _compare(pc.less_equal, left, right)


def greater(left: Any, right: Any) -> Any:
    return _compare(pc.greater, left, right)


def greater_equal(left: Any, right: Any) -> Any:
    return _compare(pc.greater_equal, left, right)


def between(value: Any, low: Any, high: Any) -> Any:
    """Both ends included."""
    return pc.and_kleene(greater_equal(value, low), less_equal(value, high))


def _compare(kernel: Callable[[Any, Any], Any], left: Any, right: Any) -> Any:
    if isinstance(right, pa.Scalar):
        return each_value_once(lambda values: kernel(*for_comparison(values, right)), left)
    if isinstance(left, pa.Scalar):
        return each_value_once(lambda values: kernel(*for_comparison(left, values)), right)
    return kernel(*for_comparison(plain(left), plain(right)))


def _is_text(kind: pa.DataType) -> bool:
    return bool(types.is_string(kind) or types.is_large_string(kind))


def _numbers(left: Any, right: Any) -> tuple[Any, Any]:
    """Two integers of one type, or two float64."""
    left, right = for_arithmetic(plain(left), plain(right))
    if types.is_integer(left.type) and types.is_integer(right.type):
        if left.type == right.type:
            return left, right
        # Arrow knows the common type of two integers, and a kernel on nothing tells it.
        common = pc.add_checked(pa.scalar(None, left.type), pa.scalar(None, right.type)).type
        return left.cast(common), right.cast(common)
    for kind in (left.type, right.type):
        if types.is_decimal(kind):
            raise TypesDoNotFit(f"// and % take integers and floats, not {kind}", hint='.cast("float64") before it')
    return floating(left), floating(right)


def _refuse_impossible_division(left: Any, right: Any) -> None:
    """Of integers; a row with a null is none. Arrow's checked kernel would take 1 µs to note each such row."""
    if _is_anywhere(0, right) and _any(pc.and_(pc.equal(right, pa.scalar(0, right.type)), pc.is_valid(left))):
        raise pa.ArrowInvalid("divide by zero")
    if types.is_unsigned_integer(left.type) or not _is_anywhere(-1, right):
        return
    smallest = -(1 << (left.type.bit_width - 1))
    if _is_anywhere(smallest, left):
        minus_one = pc.equal(right, pa.scalar(-1, right.type))
        if _any(pc.and_(minus_one, pc.equal(left, pa.scalar(smallest, left.type)))):
            raise pa.ArrowInvalid("overflow")


def _is_anywhere(number: int, value: Any) -> bool:
    if isinstance(value, pa.Scalar):
        return bool(value.as_py() == number)
    return _any(pc.equal(value, pa.scalar(number, value.type)))


def _any(truths: Any) -> bool:
    return truths.as_py() is True if isinstance(truths, pa.Scalar) else truths.true_count > 0


def _by_numpy(function: Callable[[Any, Any], Any], left: Any, right: Any) -> Any:
    """Two operands of one type. numpy divides as Python does, floats too: no floor of a rounded quotient."""
    if isinstance(left, pa.Scalar) and isinstance(right, pa.Scalar):
        return _by_numpy(function, pa.repeat(left, 1), right)[0]
    with np.errstate(all="ignore"):  # 1.0 // 0 is inf, and what lies behind a null is anything
        result = pa.array(function(_values_of(left), _values_of(right)), type=left.type)
    return _null_where(right, _null_where(left, result))


def _rest_of_integers(left: Any, right: Any) -> Any:
    rest = left // right  # for a constant far faster than numpy's %
    rest *= right
    return np.subtract(left, rest, out=rest)


def _values_of(value: Any) -> Any:
    """As numpy sees them; what it sees where there is a null doesn't matter."""
    if isinstance(value, pa.Scalar):
        # Typed, so that numpy keeps the type.
        return np.dtype(value.type.to_pandas_dtype()).type(value.as_py() if value.is_valid else 1)
    if value.null_count:
        value = pa.Array.from_buffers(value.type, len(value), [None, value.buffers()[1]], offset=value.offset)
    return value.to_numpy()


def _null_where(operand: Any, result: Any) -> Any:
    """The result, but null where the operand is."""
    if isinstance(operand, pa.Scalar):
        return result if operand.is_valid else pa.nulls(len(result), result.type)
    if not operand.null_count:
        return result
    return pc.if_else(operand.is_valid(), result, pa.scalar(None, result.type))
