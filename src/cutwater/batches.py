"""What is a batch of records, and how does a row function see it?

A typed stream carries Arrow record batches; a stream of arbitrary Python values carries `ObjectBatch`es. Row functions
see plain values: the value itself, or a named tuple for each row of a typed batch.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeAlias

import pyarrow as pa


@dataclass(slots=True)
class ObjectBatch:
    """Records of a stream without a schema; never empty in a channel."""

    values: list[Any]

    @property
    def num_rows(self) -> int:
        return len(self.values)


Batch: TypeAlias = ObjectBatch | pa.RecordBatch


@lru_cache(maxsize=256)
def row_maker(names: tuple[str, ...]) -> Callable[[Iterable[Any]], Any]:
    """Makes the named tuple that stands for one row; names that Python can't use become _0, _1, …"""

    def reduce(row: Any) -> tuple[Any, ...]:
        return make_row, (names, tuple(row))

    # The class exists in no module, so a row is pickled as its names and values.
    kind = type("Row", (namedtuple("Row", names, rename=True),), {"__slots__": (), "__reduce__": reduce})
    return kind._make  # type: ignore[attr-defined, no-any-return]


def make_row(names: tuple[str, ...], values: Iterable[Any]) -> Any:
    """One row, as `rows_of` makes them."""
    return row_maker(names)(values)


def rows_of(batch: Batch) -> list[Any]:
    """The records as a row function sees them."""
    if isinstance(batch, ObjectBatch):
        return batch.values
    make = row_maker(tuple(batch.schema.names))
    return list(map(make, zip(*(column.to_pylist() for column in batch.columns), strict=True)))


def take_rows(batch: Batch, indices: Sequence[int]) -> Batch:
    """The rows at these positions, in this order."""
    if isinstance(batch, ObjectBatch):
        values = batch.values
        return ObjectBatch([values[index] for index in indices])
    return batch.take(pa.array(indices, type=pa.int64()))


def concatenate(batches: Sequence[Batch]) -> Batch:
    """One batch of all rows; all batches are of one kind and schema."""
    first = batches[0]
    if len(batches) == 1:
        return first
    if isinstance(first, ObjectBatch):
        return ObjectBatch([value for batch in batches for value in rows_of(batch)])
    return pa.concat_batches(batches)
