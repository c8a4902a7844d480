"""Which rows of one batch belong together?

Used before a shuffle: rows of one key (and one window) become one row. Where the distinct values are few, which for
dictionary-encoded columns is known in advance, rows are numbered by plain arithmetic instead of hashing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from cutwater.state.columnar import key_kernels
from cutwater.state.columnar.buffers import Codes, Integers, codes_of
from cutwater.state.columnar.key_index import KeyIndex, WholeIndex

#: Numbering by arithmetic needs an array over all combinations: so many for each row, and so many in any case.
_COMBINATIONS_PER_ROW_MAX = 4
_COMBINATIONS_MIN = 65_536


@dataclass(frozen=True, slots=True)
class Groups:
    """The group of each row, from 0 on in order of appearance, and the first row of each group."""

    ids: Codes
    first_rows: Codes

    @property
    def count(self) -> int:
        return len(self.first_rows)


def group_rows(columns: Sequence[pa.Array], numbers: Integers | None = None) -> Groups:
    """Rows that are equal in all columns (no nulls), and in `numbers` if given."""
    ids, size = _numbered(columns[0])
    for column in columns[1:]:
        right, right_size = _numbered(column)
        ids, size = _combined(ids, size, right, right_size)
    if numbers is not None and len(numbers):
        lowest = int(numbers.min())
        ids, size = _combined(ids, size, numbers - lowest, int(numbers.max()) - lowest + 1)
    return _renumbered(ids, size)


def _numbered(column: pa.Array) -> tuple[Integers, int]:
    """Each row's value as a number below the returned size."""
    if isinstance(column, pa.DictionaryArray):
        return codes_of(column).astype(np.int64), len(column.dictionary)
    index = KeyIndex([column.type])
    slots = index.slots_of([column])
    return slots.astype(np.int64), index.count


def _combined(left: Integers, left_size: int, right: Integers, right_size: int) -> tuple[Integers, int]:
    if left_size * right_size < 1 << 62:
        return right * left_size + left, left_size * right_size
    index = WholeIndex(pa.int64())
    slots = index.slots_of_numbers(left)
    return right * index.count + slots, index.count * right_size


def _renumbered(ids: Integers, size: int) -> Groups:
    rows = len(ids)
    if size > max(_COMBINATIONS_PER_ROW_MAX * rows, _COMBINATIONS_MIN):
        index = WholeIndex(pa.int64())
        numbered, size = index.slots_of_numbers(ids), index.count
    else:
        numbered = ids.astype(np.int32)
    marks: Codes = np.full(size, key_kernels.UNKNOWN, dtype=np.int32)
    first: Codes = np.empty(min(rows, size), dtype=np.int32)
    count = key_kernels.first_rows(numbered, marks, first)
    return Groups(numbered, first[:count])
