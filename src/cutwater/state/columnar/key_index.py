"""Which slot of the state does each row's key have?

An index gives every distinct key a number, its slot, in the order of arrival. State is columns of values by slot. A key
of several columns is indexed column by column, and then as the tuple of its numbers.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from cutwater.state.columnar import key_kernels
from cutwater.state.columnar.buffers import (
    Codes,
    Integers,
    Text,
    codes_of,
    integers_of,
    is_text,
    is_whole,
    plain_type,
    text_array,
    text_of,
    whole_array,
)

_KEYS_MIN = 1024
_BYTES_MIN = 16384
#: Dictionaries whose codes are remembered; a stream has one or two under way.
_DICTIONARIES_MAX = 4


def can_be_indexed(kind: pa.DataType) -> bool:
    """A key column of this type can take the columnar path."""
    plain = plain_type(kind)
    return is_text(plain) or (is_whole(plain) and not pa.types.is_dictionary(kind))


class ColumnIndex(ABC):
    """The keys of one column."""

    def __init__(self, kind: pa.DataType) -> None:
        self.type = plain_type(kind)
        self.count = 0
        self._table = np.zeros(2 * _KEYS_MIN, dtype=np.uint64)
        self._hashes = np.empty(_KEYS_MIN, dtype=np.uint64)

    @abstractmethod
    def slots_of(self, column: pa.Array) -> Codes:
        """Each row's slot; keys that are new get one. No nulls."""

    @abstractmethod
    def keys(self) -> pa.Array:
        """All keys by slot, on memory that stays as it is."""

    def _grow(self, keys: int) -> None:
        """Makes room for this many keys; the table is kept at most half full."""
        if keys > len(self._hashes):
            self._hashes = _enlarged(self._hashes, keys)
        size = len(self._table)
        if 2 * keys > size:
            while 2 * keys > size:
                size *= 2
            self._table = np.zeros(size, dtype=np.uint64)
            key_kernels.refill(self._table, self._hashes, self.count)


class TextIndex(ColumnIndex):
    """Strings or binary values."""

    def __init__(self, kind: pa.DataType) -> None:
        super().__init__(kind)
        self._offsets: Integers = np.zeros(_KEYS_MIN + 1, dtype=np.int64)
        self._data = np.empty(_BYTES_MIN, dtype=np.uint8)
        self._dictionaries: list[_Dictionary] = []

    def slots_of(self, column: pa.Array) -> Codes:
        if isinstance(column, pa.DictionaryArray):
            return self._slots_of_codes(column)
        text = text_of(column)
        slots: Codes = np.empty(len(text), dtype=np.int32)
        self._make_room(len(text), int(text.offsets[-1] - text.offsets[0]))
        self.count = key_kernels.find_texts(
            text.offsets, text.data, self._table, self._hashes, self._offsets, self._data, self.count, slots
        )
        return slots

    def keys(self) -> pa.Array:
        offsets = self._offsets[: self.count + 1]
        return text_array(self.type, Text(offsets, self._data), int(offsets[-1]))

    def _slots_of_codes(self, column: pa.DictionaryArray) -> Codes:
        codes = codes_of(column)
        known = self._dictionary(column.dictionary)
        text = known.text
        slots: Codes = np.empty(len(codes), dtype=np.int32)
        self._make_room(min(len(codes), len(text)), int(text.offsets[-1] - text.offsets[0]))
        self.count = key_kernels.find_coded_texts(
            codes,
            known.slots,
            text.offsets,
            text.data,
            self._table,
            self._hashes,
            self._offsets,
            self._data,
            self.count,
            slots,
        )
        return slots

    def _dictionary(self, values: pa.Array) -> _Dictionary:
        identity = identity_of(values)
        for known in self._dictionaries:
            if known.identity == identity:
                return known
        added = _Dictionary(values, identity)
        self._dictionaries = [added, *self._dictionaries[: _DICTIONARIES_MAX - 1]]
        return added

    def _make_room(self, keys: int, text_bytes: int) -> None:
        self._grow(self.count + keys)
        if self.count + keys + 1 > len(self._offsets):
            self._offsets = _enlarged(self._offsets, self.count + keys + 1)
        used = int(self._offsets[self.count])
        if used + text_bytes > len(self._data):
            self._data = _enlarged(self._data, used + text_bytes)


class WholeIndex(ColumnIndex):
    """Whole numbers, and what counts as such."""

    def __init__(self, kind: pa.DataType) -> None:
        super().__init__(kind)
        self._keys: Integers = np.empty(_KEYS_MIN, dtype=np.int64)

    def slots_of(self, column: pa.Array) -> Codes:
        return self.slots_of_numbers(integers_of(column))

    def slots_of_numbers(self, numbers: Integers) -> Codes:
        slots: Codes = np.empty(len(numbers), dtype=np.int32)
        wanted = self.count + len(numbers)
        self._grow(wanted)
        if wanted > len(self._keys):
            self._keys = _enlarged(self._keys, wanted)
        self.count = key_kernels.find_integers(numbers, self._table, self._hashes, self._keys, self.count, slots)
        return slots

    def numbers(self) -> Integers:
        return self._keys[: self.count]

    def keys(self) -> pa.Array:
        return whole_array(self.type, self.numbers())


class KeyIndex:
    """The keys of one or several columns."""

    def __init__(self, kinds: Sequence[pa.DataType]) -> None:
        self._columns = [_column_index(kind) for kind in kinds]
        #: Of several columns: the pairs (first, second), then the pairs (slot of that pair, third), and so on.
        self._pairs = [WholeIndex(pa.int64()) for _ in kinds[1:]]

    @property
    def count(self) -> int:
        return self._pairs[-1].count if self._pairs else self._columns[0].count

    def slots_of(self, columns: Sequence[pa.Array]) -> Codes:
        """Each row's slot; keys that are new get the next ones. No nulls."""
        slots = self._columns[0].slots_of(columns[0])
        for pairs, index, column in zip(self._pairs, self._columns[1:], columns[1:], strict=True):
            slots = pairs.slots_of_numbers(slots.astype(np.int64) << 32 | index.slots_of(column))
        return slots

    def keys(self) -> list[pa.Array]:
        """One column each, by slot, on memory that stays as it is."""
        if not self._pairs:
            return [self._columns[0].keys()]
        found: list[pa.Array] = []
        rest = self._pairs[-1].numbers()
        for position in range(len(self._pairs), 0, -1):
            found.append(self._columns[position].keys().take(pa.array(rest & 0xFFFFFFFF)))
            left = rest >> 32
            rest = self._pairs[position - 2].numbers()[left] if position > 1 else left
        found.append(self._columns[0].keys().take(pa.array(rest)))
        return found[::-1]


class _Dictionary:
    """The slots of a dictionary's values, found when they are first needed. Holds the values, so that no other
    dictionary can come to lie at their address."""

    def __init__(self, values: pa.Array, identity: tuple[int, ...]) -> None:
        self._values = values
        self.identity = identity
        self.text = text_of(values)
        self.slots: Codes = np.full(len(values), key_kernels.UNKNOWN, dtype=np.int32)


def identity_of(values: pa.Array) -> tuple[int, ...]:
    """Tells two arrays apart by where they lie in memory; holds while the array is alive."""
    addresses = tuple(0 if buffer is None else buffer.address for buffer in values.buffers())
    return (*addresses, values.offset, len(values))


def _column_index(kind: pa.DataType) -> ColumnIndex:
    return TextIndex(kind) if is_text(plain_type(kind)) else WholeIndex(kind)


def _enlarged(array: Any, wanted: int) -> Any:
    size = max(len(array), 1)
    while size < wanted:
        size *= 2
    larger = np.empty(size, dtype=array.dtype)
    larger[: len(array)] = array
    return larger
