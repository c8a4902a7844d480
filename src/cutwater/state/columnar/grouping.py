"""Which rows of one batch belong together?

Used before a shuffle: rows of one key (and one window) become one row. Where the distinct values are few, which for
dictionary-encoded columns is known in advance, rows are numbered by plain arithmetic instead of hashing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from cutwater.state.columnar import key_kernels
from cutwater.state.columnar.buffers import Codes, Integers, codes_of
from cutwater.state.columnar.key_index import KeyIndex, WholeIndex

#: Numbering by arithmetic needs an array over all combinations: so many for each row, and so many in any case.
_COMBINATIONS_PER_ROW_MAX = 4
_COMBINATIONS_MIN = 65_536
_NUMBERS_APART_MAX = 1 << 30


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
        ids, size = _combined(ids, size, *_numbered(column))
    if numbers is not None and len(numbers):
        lowest, highest = int(numbers.min()), int(numbers.max())
        if highest - lowest < _NUMBERS_APART_MAX:
            ids, size = _combined(ids, size, numbers - lowest, highest - lowest + 1)
        else:
            index = WholeIndex(pa.int64())
            slots = index.slots_of_numbers(numbers)
            ids, size = _combined(ids, size, slots, index.count)
    return _renumbered(ids, size)


def _numbered(column: pa.Array) -> tuple[Codes, int]:
    """Each row's value as a number below the returned size."""
    if isinstance(column, pa.DictionaryArray):
        return codes_of(column), len(column.dictionary)
    index = KeyIndex([column.type])
    slots = index.slots_of([column])
    return slots, index.count


def _combined(left: Codes | Integers, left_size: int, right: Codes | Integers, right_size: int) -> tuple[Any, int]:
    """A number for each pair, in 32 bits where they suffice."""
    size = left_size * right_size
    if size < 1 << 31:
        return left + right.astype(np.int32) * np.int32(left_size), size
    if size < 1 << 62:
        return left + right.astype(np.int64) * left_size, size
    index = WholeIndex(pa.int64())  # few of these pairs exist
    slots = index.slots_of_numbers(left.astype(np.int64))
    return slots + right.astype(np.int64) * index.count, index.count * right_size


def _renumbered(ids: Any, size: int) -> Groups:
    rows = len(ids)
    if size > max(_COMBINATIONS_PER_ROW_MAX * rows, _COMBINATIONS_MIN):
        index = WholeIndex(pa.int64())
        numbered, size = index.slots_of_numbers(ids.astype(np.int64)), index.count
    else:
        numbered = ids.astype(np.int32)  # a copy: it is renumbered in place
    marks: Codes = np.full(size, key_kernels.UNKNOWN, dtype=np.int32)
    first: Codes = np.empty(min(rows, size), dtype=np.int32)
    count = key_kernels.first_rows(numbered, marks, first)
    return Groups(numbered, first[:count])
