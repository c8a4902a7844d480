"""Which Arrow type does "bigint" name?"""

from __future__ import annotations

import pyarrow as pa

from cutwater.errors import UserError

#: Spark's names that Arrow doesn't know or, worse, would be missed.
_OF_SPARK = {
    "boolean": pa.bool_(),
    "byte": pa.int8(),
    "tinyint": pa.int8(),
    "short": pa.int16(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "integer": pa.int32(),
    "long": pa.int64(),
    "bigint": pa.int64(),
    "date": pa.date32(),
}


def parse_type(kind: pa.DataType | str) -> pa.DataType:
    """An Arrow type as it is, or by Arrow's or Spark's name for it."""
    if isinstance(kind, pa.DataType):
        return kind
    if isinstance(kind, str):
        if kind in _OF_SPARK:
            return _OF_SPARK[kind]
        try:
            return pa.type_for_alias(kind)
        except ValueError:
            pass
    raise UserError(
        f"{kind!r} names no type",
        hint='use a pyarrow type, or a name such as "int64", "float64", "string", "bool", "date", "timestamp[ms]"',
    )
