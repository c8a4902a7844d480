"""Which value of a record belongs into which column?

Records are dicts, named tuples, or objects with attributes (dataclasses, structs); or the rows of typed batches.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from operator import attrgetter, itemgetter
from typing import Any

from cutwater.batches import Batch, ObjectBatch
from cutwater.errors import SchemaError


def columns_of(batch: Batch) -> tuple[str, ...]:
    """The columns that the first record has; all others are expected to have the same."""
    if not isinstance(batch, ObjectBatch):
        return tuple(batch.schema.names)
    record = batch.values[0]
    if isinstance(record, dict):
        return tuple(record)
    names = getattr(record, "_fields", None) or getattr(record, "__struct_fields__", None)
    if names is not None:
        return tuple(names)
    if dataclasses.is_dataclass(record) and not isinstance(record, type):
        return tuple(field.name for field in dataclasses.fields(record))
    raise SchemaError(
        "a record has no columns",
        detail=f"it is {_shown(record)}",
        hint="map() records to dicts, named tuples or dataclasses first; plain tuples need columns=(…)",
    )


def tuples_of(batch: Batch, columns: Sequence[str]) -> list[tuple[Any, ...]]:
    """One tuple per record, in the order of the columns."""
    if not isinstance(batch, ObjectBatch):
        refuse_missing([name for name in columns if name not in batch.schema.names], batch.schema.names)
        return list(zip(*(batch.column(name).to_pylist() for name in columns), strict=True))
    getter = _getter(batch.values[0], columns)
    rows: list[tuple[Any, ...]] = []
    try:
        rows.extend(map(getter, batch.values))
    except (KeyError, AttributeError, TypeError, IndexError) as error:
        record = batch.values[len(rows)]
        raise SchemaError(
            f"a record doesn't have the columns {', '.join(columns)}",
            detail=f"{type(error).__name__}: {error}, in {_shown(record)}",
            hint="all records need all columns; None stands for NULL",
        ) from error
    return rows


def _getter(record: Any, columns: Sequence[str]) -> Callable[[Any], tuple[Any, ...]]:
    if isinstance(record, dict):
        get: Any = itemgetter(*columns)
    elif isinstance(record, tuple | list) and not hasattr(record, "_fields"):
        return lambda record: _plain_tuple(record, len(columns))
    elif getattr(record, "_fields", None) == tuple(columns):
        return tuple
    else:
        get = attrgetter(*columns)
    return get if len(columns) > 1 else lambda record: (get(record),)


def _plain_tuple(record: Any, width: int) -> tuple[Any, ...]:
    if len(record) != width:
        raise IndexError(f"{len(record)} values for {width} columns")
    return tuple(record)


def refuse_missing(missing: Sequence[str], there: Sequence[str]) -> None:
    """Raises for columns that the stream should have."""
    if missing:
        raise SchemaError(f"the stream has no column {missing[0]!r}", detail=f"its columns are {', '.join(there)}")


def _shown(record: Any) -> str:
    text = repr(record)
    return text if len(text) <= 200 else f"{text[:200]}…"
