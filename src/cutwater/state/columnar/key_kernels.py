"""How is a key found in a table of a million, for every row of a batch?

Open addressing with linear probing. An entry is one word, the upper half of the key's hash and its slot plus one, so
that a wrong key is passed over without looking at the keys themselves. Slots are given in the order of arrival and
never change, and keys are stored one behind the other: what a frozen view has seen of them stays as it was.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from cutwater.state.columnar.buffers import Bytes, Codes, Integers
from cutwater.state.columnar.compiling import inlined, kernel

Words = npt.NDArray[np.uint64]

_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
_LOW = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)
UNKNOWN = -1
_ASKED_FOR = -2
BLOCK_ROWS = 64


@inlined
def _mixed(value: np.uint64) -> np.uint64:
    value ^= value >> np.uint64(33)
    value *= np.uint64(0xFF51AFD7ED558CCD)
    value ^= value >> np.uint64(33)
    value *= np.uint64(0xC4CEB9FE1A85EC53)
    return value ^ (value >> np.uint64(33))


@inlined
def _hash_of_bytes(data: Bytes, begin: np.uint64, end: np.uint64) -> np.uint64:
    hashed = (end - begin) * _MULTIPLIER
    while end - begin >= np.uint64(8):
        word = (
            np.uint64(data[begin])
            | np.uint64(data[begin + np.uint64(1)]) << np.uint64(8)
            | np.uint64(data[begin + np.uint64(2)]) << np.uint64(16)
            | np.uint64(data[begin + np.uint64(3)]) << np.uint64(24)
            | np.uint64(data[begin + np.uint64(4)]) << np.uint64(32)
            | np.uint64(data[begin + np.uint64(5)]) << np.uint64(40)
            | np.uint64(data[begin + np.uint64(6)]) << np.uint64(48)
            | np.uint64(data[begin + np.uint64(7)]) << np.uint64(56)
        )
        hashed = (hashed ^ word) * _MULTIPLIER
        hashed ^= hashed >> _HALF
        begin += np.uint64(8)
    rest = np.uint64(0)
    while begin < end:
        rest = rest << np.uint64(8) | np.uint64(data[begin])
        begin += np.uint64(1)
    return _mixed(hashed ^ rest)


@inlined
def _equal_bytes(left: Bytes, left_begin: np.uint64, right: Bytes, right_begin: np.uint64, length: np.uint64) -> bool:
    for position in range(length):
        if left[left_begin + np.uint64(position)] != right[right_begin + np.uint64(position)]:
            return False
    return True


@inlined
def _slot_of_bytes(
    data: Bytes,
    begin: np.uint64,
    end: np.uint64,
    hashed: np.uint64,
    table: Words,
    hashes: Words,
    key_offsets: Integers,
    key_data: Bytes,
    count: int,
) -> int:
    """The key's slot; equal to `count` when it is new, and then it has been added."""
    tag = hashed >> _HALF
    mask = np.uint64(len(table) - 1)
    place = hashed & mask
    length = end - begin
    while True:
        entry = table[place]
        if entry == np.uint64(0):
            break
        if entry >> _HALF == tag:
            slot = (entry & _LOW) - np.uint64(1)
            key_begin = np.uint64(key_offsets[slot])
            known = np.uint64(key_offsets[slot + np.uint64(1)]) - key_begin
            if known == length and _equal_bytes(data, begin, key_data, key_begin, length):
                return int(slot)
        place = (place + np.uint64(1)) & mask
    table[place] = tag << _HALF | np.uint64(count + 1)
    hashes[count] = hashed
    key_begin = np.uint64(key_offsets[count])
    for position in range(length):
        key_data[key_begin + np.uint64(position)] = data[begin + np.uint64(position)]
    key_offsets[count + 1] = key_begin + length
    return count


@inlined
def _find_block(
    offsets: Integers,
    data: Bytes,
    rows: Codes,
    table: Words,
    hashes: Words,
    key_offsets: Integers,
    key_data: Bytes,
    count: int,
    slots: Codes,
    scratch: Words,
) -> int:
    """The slots of a few values of a column, those at `rows`.

    A table of a million keys is not in the processor's cache. The first loops fetch what the last one will look at, for
    all rows at once, so that it doesn't wait for memory row by row.
    """
    mask = np.uint64(len(table) - 1)
    for position in range(len(rows)):
        row = rows[position]
        hashed = _hash_of_bytes(data, np.uint64(offsets[row]), np.uint64(offsets[row + 1]))
        scratch[position] = hashed
    for position in range(len(rows)):
        hashed = scratch[position]
        entry = table[hashed & mask]
        candidate = np.uint64(0)
        if entry >> _HALF == hashed >> _HALF:
            candidate = (entry & _LOW) - np.uint64(1)
        scratch[BLOCK_ROWS + position] = candidate
    for position in range(len(rows)):
        scratch[BLOCK_ROWS + position] = np.uint64(key_offsets[scratch[BLOCK_ROWS + position]])
    fetched = np.uint64(0)
    for position in range(len(rows)):
        fetched += np.uint64(key_data[scratch[BLOCK_ROWS + position]])
    scratch[2 * BLOCK_ROWS] = fetched
    for position in range(len(rows)):
        row = rows[position]
        begin, end = np.uint64(offsets[row]), np.uint64(offsets[row + 1])
        slot = _slot_of_bytes(data, begin, end, scratch[position], table, hashes, key_offsets, key_data, count)
        if slot == count:
            count += 1
        slots[position] = slot
    return count


@inlined
def _slot_of_integer(value: np.int64, table: Words, hashes: Words, keys: Integers, count: int) -> int:
    hashed = _mixed(np.uint64(value))
    tag = hashed >> _HALF
    mask = np.uint64(len(table) - 1)
    place = hashed & mask
    while True:
        entry = table[place]
        if entry == np.uint64(0):
            break
        if entry >> _HALF == tag:
            slot = (entry & _LOW) - np.uint64(1)
            if keys[slot] == value:
                return int(slot)
        place = (place + np.uint64(1)) & mask
    table[place] = tag << _HALF | np.uint64(count + 1)
    hashes[count] = hashed
    keys[count] = value
    return count


@kernel
def find_texts(
    offsets: Integers,
    data: Bytes,
    table: Words,
    hashes: Words,
    key_offsets: Integers,
    key_data: Bytes,
    count: int,
    slots: Codes,
) -> int:
    """Writes each row's slot and adds the keys that are new; returns how many keys there are now."""
    scratch = np.empty(2 * BLOCK_ROWS + 1, dtype=np.uint64)
    rows = np.empty(BLOCK_ROWS, dtype=np.int32)
    for first in range(0, len(slots), BLOCK_ROWS):
        size = min(BLOCK_ROWS, len(slots) - first)
        for position in range(size):
            rows[position] = first + position
        count = _find_block(
            offsets, data, rows[:size], table, hashes, key_offsets, key_data, count, slots[first:], scratch
        )
    return count


@kernel
def find_coded_texts(
    codes: Codes,
    known: Codes,
    offsets: Integers,
    data: Bytes,
    table: Words,
    hashes: Words,
    key_offsets: Integers,
    key_data: Bytes,
    count: int,
    slots: Codes,
) -> int:
    """The same for a dictionary's codes; `known` remembers the slot of each code, UNKNOWN before it is needed."""
    wanted = np.empty(min(len(codes), len(known)), dtype=np.int32)
    missing = 0
    for row in range(len(codes)):
        code = codes[row]
        if known[code] == UNKNOWN:
            known[code] = _ASKED_FOR
            wanted[missing] = code
            missing += 1
    scratch = np.empty(2 * BLOCK_ROWS + 1, dtype=np.uint64)
    found = np.empty(BLOCK_ROWS, dtype=np.int32)
    for first in range(0, missing, BLOCK_ROWS):
        rows = wanted[first : min(first + BLOCK_ROWS, missing)]
        count = _find_block(offsets, data, rows, table, hashes, key_offsets, key_data, count, found, scratch)
        for position in range(len(rows)):
            known[rows[position]] = found[position]
    for row in range(len(codes)):
        slots[row] = known[codes[row]]
    return count


@kernel
def find_integers(values: Integers, table: Words, hashes: Words, keys: Integers, count: int, slots: Codes) -> int:
    """The same for whole numbers."""
    for row in range(len(slots)):
        slot = _slot_of_integer(values[row], table, hashes, keys, count)
        if slot == count:
            count += 1
        slots[row] = slot
    return count


@kernel
def refill(table: Words, hashes: Words, count: int) -> None:
    """Enters all keys into an empty, larger table."""
    mask = np.uint64(len(table) - 1)
    for slot in range(count):
        place = hashes[slot] & mask
        while table[place] != np.uint64(0):
            place = (place + np.uint64(1)) & mask
        table[place] = (hashes[slot] >> _HALF) << _HALF | np.uint64(slot + 1)


@kernel
def first_rows(ids: Codes, marks: Codes, rows: Codes) -> int:
    """The first row of each id, in order of appearance, into `rows`; how many. Renumbers `ids` from 0 on, in place.

    `marks`, UNKNOWN everywhere, has room for every id.
    """
    count = 0
    for row in range(len(ids)):
        number = marks[ids[row]]
        if number == UNKNOWN:
            number = count
            marks[ids[row]] = number
            rows[count] = row
            count += 1
        ids[row] = number
    return count
