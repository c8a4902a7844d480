"""What do the records of a drawn pipeline look like?

Every stream between two stages carries the same four fields, so that any stage can follow any other: a key, a number
that tells records apart, a value to add up, and the event time in milliseconds. Streams carry them as dicts, which
functions can change in place, or as typed rows. The models see `Row`s.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Literal, NamedTuple

import pyarrow as pa

from cutwater.batches import Batch, ObjectBatch

Form = Literal["objects", "typed"]

SCHEMA = pa.schema([("k", pa.string()), ("n", pa.int64()), ("v", pa.int64()), ("t", pa.int64())])
KEYS = ("ant", "bee", "cat", "dog", "elk", "fox", "gnu")


class Row(NamedTuple):
    """A record as the models see it."""

    k: str
    n: int
    v: int
    t: int


def row_of(record: Any) -> Row:
    """Of a record of either form."""
    if isinstance(record, dict):
        return Row(record["k"], record["n"], record["v"], record["t"])
    return Row(record.k, record.n, record.v, record.t)


def key_of(record: Any) -> Any:
    return record["k"] if isinstance(record, dict) else record.k


def time_of(record: Any) -> int:
    return int(record["t"] if isinstance(record, dict) else record.t)


def objects_of(rows: Sequence[Row]) -> Batch:
    """New ones on every call, as a real source makes them."""
    return ObjectBatch([row._asdict() for row in rows])


def typed_of(rows: Sequence[Row]) -> Batch:
    columns = [pa.array(column, kind) for column, kind in zip(zip(*rows, strict=True), SCHEMA.types, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


def plain(value: Any) -> Any:
    """An output as something that can be hashed and compared: fields by name, times in milliseconds."""
    match value:
        case dict():
            return tuple(sorted((name, plain(field)) for name, field in value.items()))
        case tuple() if hasattr(value, "_fields"):
            return plain(dict(zip(value._fields, value, strict=True)))
        case list() | tuple():
            return tuple(map(plain, value))
        case datetime():
            return round(value.timestamp() * 1000)
    return value
