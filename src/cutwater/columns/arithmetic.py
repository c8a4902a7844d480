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
    if types.is_floating(left.type):
        return _float_by_float(np.floor_divide, left, right)
    if _cannot_fail(left, right):
        values, divisor = _values_of(left), _constant_of(right)
        return _with_nulls_of(left, values // divisor)
    return _floor_divide_integers(left, right)


def modulo(left: Any, right: Any) -> Any:
    """The rest of `//`, with the sign of the divisor."""
    left, right = _numbers(left, right)
    if types.is_floating(left.type):
        return _float_by_float(np.remainder, left, right)
    if _cannot_fail(left, right):
        values, divisor = _values_of(left), _constant_of(right)
        floored = values // divisor  # numpy divides by a constant far faster than % does
        floored *= divisor
        return _with_nulls_of(left, np.subtract(values, floored, out=floored))
    return pc.subtract(left, pc.multiply(_floor_divide_integers(left, right), right))


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


def _cannot_fail(left: Any, right: Any) -> bool:
    """Division of a column by a constant where neither zero nor an overflow can occur."""
    return isinstance(right, pa.Scalar) and isinstance(left, pa.Array) and right.as_py() not in (None, 0, -1)


def _floor_divide_integers(left: Any, right: Any) -> Any:
    """Arrow rounds towards zero: one less where there is a rest and the signs differ."""
    quotient = pc.divide_checked(left, right)
    if types.is_unsigned_integer(quotient.type):
        return quotient
    zero = pa.scalar(0, quotient.type)
    has_rest = pc.not_equal(pc.multiply(quotient, right), left)
    signs_differ = pc.xor(pc.less(left, zero), pc.less(right, zero))
    return pc.subtract(quotient, pc.and_(has_rest, signs_differ).cast(quotient.type))


def _float_by_float(function: Callable[[Any, Any], Any], left: Any, right: Any) -> Any:
    """Python's own rules for floats: the floor of a rounded quotient can be one too many."""
    if isinstance(left, pa.Scalar) and isinstance(right, pa.Scalar):
        return _float_by_float(function, pa.repeat(left, 1), right)[0]
    with np.errstate(all="ignore"):
        result = pa.array(function(_floats_of(left), _floats_of(right)), type=pa.float64())
    for operand in (left, right):
        if isinstance(operand, pa.Scalar):
            result = result if operand.is_valid else pa.nulls(len(result), pa.float64())
        else:
            result = _null_where(operand, result)
    return result


def _floats_of(value: Any) -> Any:
    if isinstance(value, pa.Scalar):
        return np.float64(value.as_py() if value.is_valid else "nan")
    return value.to_numpy(zero_copy_only=False)


def _values_of(array: Any) -> Any:
    """The buffer as numpy sees it; what it holds where the array is null doesn't matter."""
    if not array.null_count:
        return array.to_numpy()
    return pa.Array.from_buffers(array.type, len(array), [None, array.buffers()[1]], offset=array.offset).to_numpy()


def _constant_of(scalar: Any) -> Any:
    """With the type of its column, so that numpy keeps it."""
    return np.dtype(scalar.type.to_pandas_dtype()).type(scalar.as_py())


def _with_nulls_of(array: Any, values: Any) -> Any:
    return _null_where(array, pa.array(values, type=array.type))


def _null_where(array: Any, result: Any) -> Any:
    if not array.null_count:
        return result
    return pc.if_else(array.is_valid(), result, pa.scalar(None, result.type))
