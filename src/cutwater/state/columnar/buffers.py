"""How does a kernel see an Arrow column?

As NumPy arrays on Arrow's own memory. A column is text (offsets and bytes), whole numbers (also what counts as such:
booleans, dates, times), or floats; any of them may be dictionary-encoded. Nothing is copied where the layout fits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cutwater.batches import viewless

Codes = npt.NDArray[np.int32]
Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Bytes = npt.NDArray[np.uint8]

_DAY_MS = 86_400_000
_NO_BYTES = np.empty(0, dtype=np.uint8)
#: "Every value is there."
ALL_VALID: Bytes = np.empty(0, dtype=np.uint8)


@dataclass(frozen=True, slots=True)
class Text:
    """Strings or binary values: value i lies between offsets[i] and offsets[i + 1]."""

    offsets: Integers
    data: Bytes

    def __len__(self) -> int:
        return len(self.offsets) - 1


def is_text(kind: pa.DataType) -> bool:
    return bool(
        is_string(kind) or pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind)
    )


def is_string(kind: pa.DataType) -> bool:
    """Text, of what `is_text`; else binary values."""
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def is_whole(kind: pa.DataType) -> bool:
    """Its values are whole numbers of 64 bits or fewer, or stand for such."""
    return bool(
        (pa.types.is_integer(kind) and not pa.types.is_uint64(kind))
        or pa.types.is_boolean(kind)
        or pa.types.is_date(kind)
        or pa.types.is_timestamp(kind)
    )


def plain_type(kind: pa.DataType) -> pa.DataType:
    """What the values are, however they are encoded."""
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def text_of(column: pa.Array) -> Text:
    """Of a column of strings or binary values, without nulls."""
    if column.type != viewless(column.type):
        column = column.cast(viewless(column.type))
    _, offsets, data = column.buffers()
    wide = pa.types.is_large_string(column.type) or pa.types.is_large_binary(column.type)
    if offsets is None:
        return Text(np.zeros(1, dtype=np.int64), _NO_BYTES)
    found = np.frombuffer(offsets, dtype=np.int64 if wide else np.int32)
    found = found[column.offset : column.offset + len(column) + 1]
    return Text(found.astype(np.int64, copy=False), _NO_BYTES if data is None else np.frombuffer(data, dtype=np.uint8))


def integers_of(column: pa.Array) -> Integers:
    """Of a column that `is_whole`, without nulls: dates in days, times in their own unit."""
    kind = column.type
    if pa.types.is_boolean(kind):
        column = column.cast(pa.int8())
    elif pa.types.is_date32(kind):
        column = column.view(pa.int32())
    elif pa.types.is_timestamp(kind) or pa.types.is_date64(kind):
        column = column.view(pa.int64())
    if pa.types.is_date64(kind):
        days: Integers = column.to_numpy() // _DAY_MS  # a date, whatever time of day the number tells
        return days * _DAY_MS
    numbers: Integers = column.to_numpy(zero_copy_only=False).astype(np.int64, copy=False)
    return numbers


def floats_of(column: pa.Array) -> Floats:
    """Of a column of numbers, without nulls."""
    numbers: Floats = column.to_numpy(zero_copy_only=False).astype(np.float64, copy=False)
    return numbers


def codes_of(column: pa.DictionaryArray) -> Codes:
    """The position of each value in the dictionary."""
    codes: Codes = column.indices.to_numpy(zero_copy_only=False).astype(np.int32, copy=False)
    return codes


def validity_of(column: pa.Array) -> Bytes:
    """One byte a row, 1: the value is there. `ALL_VALID`, which is empty, if all are."""
    if column.null_count == 0:
        return ALL_VALID
    mask: Any = column.is_valid().to_numpy(zero_copy_only=False)
    valid: Bytes = mask.view(np.uint8)
    return valid


def text_array(kind: pa.DataType, text: Text, used_bytes: int) -> pa.Array:
    """An Arrow column on this memory; the values must lie one behind the other from byte 0 on."""
    large = pa.large_string() if is_string(kind) else pa.large_binary()
    buffers = [None, pa.py_buffer(text.offsets), pa.py_buffer(text.data[:used_bytes])]
    array = pa.Array.from_buffers(large, len(text), buffers)
    return array if kind == large else array.cast(kind)


def whole_array(kind: pa.DataType, numbers: Integers, *, nulls: npt.NDArray[np.bool_] | None = None) -> pa.Array:
    """The inverse of `integers_of`."""
    array = pa.array(numbers, mask=nulls)
    if pa.types.is_timestamp(kind) or pa.types.is_date64(kind):
        return array.view(kind)
    if pa.types.is_date32(kind):
        return array.cast(pa.int32()).view(kind)
    return array if kind == pa.int64() else array.cast(kind)
