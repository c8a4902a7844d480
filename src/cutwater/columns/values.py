"""What do the functions of nulls, sets, truth, types, texts and times give?

Null in, null out, except where the function is about nulls. `&` and `|` know that `false & null` is false and that
`true | null` is true.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from cutwater.batches import with_nulls_in_sight
from cutwater.columns.alignment import as_type_of, for_arithmetic, for_comparison
from cutwater.columns.encoded import each_value_once, plain
from cutwater.columns.failures import TypesDoNotFit

_BOOL = pa.bool_()
_CAST_TO_TIMESTAMP = 'an integer of milliseconds becomes a time by .cast("timestamp[ms]")'


def is_null(value: Any) -> Any:
    return pc.is_null(with_nulls_in_sight(value))


def is_valid(value: Any) -> Any:
    return pc.is_valid(with_nulls_in_sight(value))


def fill_null(value: Any, filling: Any) -> Any:
    """A constant must fit the column's type, which stays as it is."""
    value, filling = plain(value), plain(filling)
    if not isinstance(filling, pa.Scalar):
        return pc.coalesce(*for_arithmetic(value, filling))
    if types.is_floating(value.type) and types.is_integer(filling.type):
        filling = filling.cast(value.type, safe=False)
    filling = as_type_of(filling, value.type)
    if filling.type != value.type and not types.is_null(value.type):
        # Decimals and dates have rules of their own; what would change the column's type is refused.
        filled = pc.coalesce(value, filling)
        if filled.type != value.type:
            raise TypesDoNotFit(f"{filling.as_py()!r} does not fit into {value.type}", hint="cast the column before")
        return filled
    return pc.coalesce(value, filling)


def is_in(value: Any, candidates: Any) -> Any:
    """Null for null, as `==` gives it."""

    def found(values: Any) -> Any:
        sought = as_type_of(candidates, values.type) if len(candidates) else pa.array([], values.type)
        result = pc.is_in(*for_comparison(values, sought))
        if isinstance(values, pa.Scalar):
            return result if values.is_valid else pa.scalar(None, _BOOL)
        return pc.if_else(values.is_valid(), result, pa.scalar(None, _BOOL)) if values.null_count else result

    return each_value_once(found, value)


def both(left: Any, right: Any) -> Any:
    return pc.and_kleene(_truth(left), _truth(right))


def either(left: Any, right: Any) -> Any:
    return pc.or_kleene(_truth(left), _truth(right))


def negation(value: Any) -> Any:
    return pc.invert(_truth(value))


def is_true(value: Any) -> Any:
    """Null counts as false."""
    value = _truth(value)
    if isinstance(value, pa.Scalar):
        return value if value.is_valid else pa.scalar(False)
    return pc.coalesce(value, pa.scalar(False)) if value.null_count else value


def choose(condition: Any, chosen: Any, other: Any) -> Any:
    """A condition without nulls, and what holds where it is true and where it is not."""
    return pc.if_else(condition, *for_arithmetic(plain(chosen), plain(other)))


def cast(value: Any, kind: pa.DataType) -> Any:
    """Fractions are cut off and floats rounded; a value out of range, or a text that says no such value, fails."""
    if value.type == kind:
        return value
    value = plain(value)
    if types.is_floating(value.type) and types.is_integer(kind):
        return pc.cast(pc.trunc(value), kind)  # the safe cast sees what is out of range
    options = pc.CastOptions(kind, allow_time_truncate=True, allow_float_truncate=True, allow_decimal_truncate=True)
    return pc.cast(value, options=options)


def upper(value: Any) -> Any:
    return each_value_once(pc.utf8_upper, value)


def lower(value: Any) -> Any:
    return each_value_once(pc.utf8_lower, value)


def length(value: Any) -> Any:
    """In characters, not bytes."""
    return each_value_once(pc.utf8_length, value)


def contains(value: Any, pattern: str) -> Any:
    return each_value_once(lambda values: pc.match_substring(values, pattern=pattern), value)


def starts_with(value: Any, pattern: str) -> Any:
    return each_value_once(lambda values: pc.starts_with(values, pattern=pattern), value)


def ends_with(value: Any, pattern: str) -> Any:
    return each_value_once(lambda values: pc.ends_with(values, pattern=pattern), value)


def substring(value: Any, start: int, length: int | None) -> Any:
    """`text[start:][:length]`"""

    def sliced(values: Any) -> Any:
        if length is not None and start >= 0:
            return pc.utf8_slice_codeunits(values, start=start, stop=start + length)
        rest = pc.utf8_slice_codeunits(values, start=start)
        return rest if length is None else pc.utf8_slice_codeunits(rest, start=0, stop=length)

    return each_value_once(sliced, value)


def year(value: Any) -> Any:
    return pc.year(_time(value))


def month(value: Any) -> Any:
    return pc.month(_time(value))


def day(value: Any) -> Any:
    return pc.day(_time(value))


def hour(value: Any) -> Any:
    return pc.hour(_time(value))


def date(value: Any) -> Any:
    value = _time(value)
    if types.is_timestamp(value.type) and value.type.tz is not None:
        value = pc.local_timestamp(value)
    return pc.cast(value, options=pc.CastOptions(pa.date32(), allow_time_truncate=True))


def floor(value: Any, multiple: int, unit: str) -> Any:
    return pc.floor_temporal(_time(value), multiple=multiple, unit=unit)


def _time(value: Any) -> Any:
    value = plain(value)
    if not (types.is_timestamp(value.type) or types.is_date(value.type)):
        raise TypesDoNotFit(f"{value.type} is not a time", hint=_CAST_TO_TIMESTAMP)
    return value


def _truth(value: Any) -> Any:
    value = plain(value)
    if types.is_null(value.type):
        return value.cast(_BOOL)
    if value.type != _BOOL:
        raise TypesDoNotFit(
            f"{value.type} is neither true nor false",
            hint="compare it with something, and put comparisons in parentheses: (a > 1) & (b < 2)",
        )
    return value
