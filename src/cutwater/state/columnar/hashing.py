"""Which key group does every row belong to?

Bit by bit the same answer as `protocol.key_groups.key_group` gives for one key, so that typed streams, streams of
Python values and snapshots of both agree: CRC-32 over the key's canonical bytes, then Murmur3's finaliser.
"""

from __future__ import annotations

import zlib

import numpy as np
import numpy.typing as npt

from cutwater.state.columnar.compiling import inlined, kernel

Bytes = npt.NDArray[np.uint8]
Crcs = npt.NDArray[np.uint32]


def _crc_table() -> npt.NDArray[np.uint32]:
    """The polynomial's table, one entry per byte."""
    table = np.zeros(256, dtype=np.uint32)
    for byte in range(256):
        value = byte
        for _ in range(8):
            value = (value >> 1) ^ 0xEDB88320 if value & 1 else value >> 1
        table[byte] = value
    return table


_TABLE = _crc_table()


@inlined
def _add_byte(crc: np.uint32, byte: np.uint8) -> np.uint32:
    return np.uint32(_TABLE[(crc ^ byte) & np.uint32(0xFF)] ^ (crc >> np.uint32(8)))


@inlined
def _add_length(crc: np.uint32, length: int) -> np.uint32:
    for shift in (24, 16, 8, 0):
        crc = _add_byte(crc, np.uint8((length >> shift) & 0xFF))
    return crc


def start(rows: int, prefix: bytes) -> Crcs:
    """The unfinished checksum of each row, after these first bytes."""
    return np.full(rows, zlib.crc32(prefix) ^ 0xFFFFFFFF, dtype=np.uint32)


@kernel
def add_bytes(crcs: Crcs, offsets: npt.NDArray[np.int64], data: Bytes, prefix: int, framed: bool) -> None:
    """Each row's string or binary value behind its prefix; in a tuple, the length of both comes first (`framed`)."""
    for row in range(len(crcs)):
        begin, end = offsets[row], offsets[row + 1]
        crc = crcs[row]
        if framed:
            crc = _add_length(crc, end - begin + 1)
        crc = _add_byte(crc, np.uint8(prefix))
        for position in range(begin, end):
            crc = _add_byte(crc, data[position])
        crcs[row] = crc


@kernel
def add_integers(crcs: Crcs, values: npt.NDArray[np.int64], prefixes: Bytes, framed: bool) -> None:
    """Each row's whole number: the fewest bytes that hold it with its sign, highest first."""
    for row in range(len(crcs)):
        value = values[row]
        magnitude = value if value >= 0 else -value  # of the lowest number it stays negative: 64 bits then
        bits = 0
        if magnitude < 0:
            bits = 64
        else:
            while magnitude:
                bits += 1
                magnitude >>= 1
        length = (bits + 8) // 8
        crc = crcs[row]
        if framed:
            crc = _add_length(crc, length + len(prefixes))
        for position in range(len(prefixes)):
            crc = _add_byte(crc, prefixes[position])
        for place in range(length - 1, -1, -1):
            shift = 8 * place
            byte = (value >> shift) & 0xFF if shift < 64 else (np.int64(0xFF) if value < 0 else np.int64(0))
            crc = _add_byte(crc, np.uint8(byte))
        crcs[row] = crc


@kernel
def finish(crcs: Crcs, max_parallelism: int) -> npt.NDArray[np.int32]:
    """The key group of each row."""
    groups = np.empty(len(crcs), dtype=np.int32)
    for row in range(len(crcs)):
        value = crcs[row] ^ np.uint32(0xFFFFFFFF)
        value ^= value >> np.uint32(16)
        value = np.uint32(value * np.uint32(0x85EBCA6B))
        value ^= value >> np.uint32(13)
        value = np.uint32(value * np.uint32(0xC2B2AE35))
        value ^= value >> np.uint32(16)
        groups[row] = value % np.uint32(max_parallelism)
    return groups
