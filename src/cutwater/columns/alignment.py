"""In which type do two operands meet?

Arrow's own implicit casts refuse integers that a float can't hold exactly, and timestamps of two time zones. Here a
mix of integers and floats is computed in float64, rounding as Python and Spark do, and timestamps meet in the time
zone of the left side, or of the column if the other is a constant. The answer depends on the types and the constants
alone, never on the data.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from pyarrow import types

from cutwater.columns.failures import TypesDoNotFit

_FLOAT64 = pa.float64()
_UINT64 = pa.uint64()


def for_arithmetic(left: Any, right: Any) -> tuple[Any, Any]:
    """Both sides as one kernel takes them; the type of the result follows from theirs."""
    if left.type == right.type:
        return left, right
    left, right = _mixed(left, right)
    if isinstance(right, pa.Scalar):
        right = _constant_in_unit(right, left.type)
    elif isinstance(left, pa.Scalar):
        left = _constant_in_unit(left, right.type)
    return left, right


def for_comparison(left: Any, right: Any) -> tuple[Any, Any]:
    """Both sides as one kernel takes them; a constant takes the column's type, so that the column needn't be cast."""
    if left.type == right.type:
        return left, right
    left, right = _mixed(left, right)
    if isinstance(right, pa.Scalar):
        right = as_type_of(right, left.type)
    elif isinstance(left, pa.Scalar):
        left = as_type_of(left, right.type)
    return left, right


def as_type_of(constant: Any, kind: pa.DataType) -> Any:
    """The constant (or an array of some) in this type, if that is of its family and loses nothing."""
    if constant.type == kind or not _of_one_family(constant.type, kind):
        return constant
    try:
        return constant.cast(kind)
    except pa.ArrowInvalid:
        return constant


def floating(value: Any) -> Any:
    """A number as float64, rounded where it must be."""
    kind = value.type
    if kind == _FLOAT64:
        return value
    if not (types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind) or types.is_null(kind)):
        raise TypesDoNotFit(f"{kind} is not a number")
    return value.cast(_FLOAT64, safe=False)


def _mixed(left: Any, right: Any) -> tuple[Any, Any]:
    """Integers and floats meet as float64, time zones in one of the two."""
    left_type, right_type = left.type, right.type
    if types.is_floating(left_type) and types.is_integer(right_type):
        return floating(left), floating(right)
    if types.is_integer(left_type) and types.is_floating(right_type):
        return floating(left), floating(right)
    if _are_zoned(left_type, right_type) and left_type.tz != right_type.tz:
        if isinstance(left, pa.Scalar):
            return left.cast(pa.timestamp(left_type.unit, right_type.tz)), right
        return left, right.cast(pa.timestamp(right_type.unit, left_type.tz))
    return left, right


def _constant_in_unit(constant: Any, kind: pa.DataType) -> Any:
    """A time keeps the column's unit where it can; a count beside a uint64 is one, too."""
    if types.is_duration(constant.type) and (types.is_timestamp(kind) or types.is_duration(kind)):
        return as_type_of(constant, pa.duration(kind.unit))
    if types.is_timestamp(constant.type) or kind == _UINT64:
        return as_type_of(constant, kind)
    return constant


def _of_one_family(one: pa.DataType, other: pa.DataType) -> bool:
    if types.is_integer(one):
        return bool(types.is_integer(other))
    if types.is_timestamp(one):
        return bool(types.is_timestamp(other)) and (one.tz is None) == (other.tz is None)
    if types.is_duration(one):
        return bool(types.is_duration(other))
    if types.is_string(one) or types.is_large_string(one):
        return bool(types.is_string(other) or types.is_large_string(other))
    if types.is_binary(one) or types.is_large_binary(one):
        return bool(types.is_binary(other) or types.is_large_binary(other))
    return False


def _are_zoned(one: pa.DataType, other: pa.DataType) -> bool:
    return bool(types.is_timestamp(one) and types.is_timestamp(other)) and one.tz is not None and other.tz is not None
