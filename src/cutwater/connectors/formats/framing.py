"""How does a message say which schema it was written with?

As Confluent's serializers do: a zero byte and the id of the schema in four bytes, big-endian, come before the value. In
front of a Protobuf message stands also which message of the schema's file it is, as a list of indexes.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

_MAGIC = 0
_HEADER = struct.Struct(">BI")
HEADER_BYTES = _HEADER.size
#: A path of more messages inside messages is no path.
_INDEXES_MAX = 64


def header(schema_id: int) -> bytes:
    return _HEADER.pack(_MAGIC, schema_id)


def schema_id_of(message: bytes) -> int:
    """Raises ValueError when there is none."""
    if len(message) < HEADER_BYTES:
        raise ValueError(f"{len(message)} bytes are too few for the id of a schema")
    magic, schema_id = _HEADER.unpack_from(message)
    if magic != _MAGIC:
        raise ValueError(f"it begins with byte {magic:#04x}, not with 0x00 and the id of a schema")
    return int(schema_id)


def packed_indexes(indexes: Sequence[int]) -> bytes:
    """The first message of a file, which most are, is a single zero."""
    if list(indexes) == [0]:
        return b"\0"
    return b"".join(map(_varint, (len(indexes), *indexes)))


def skip_indexes(message: bytes, start: int) -> int:
    """Where the value begins."""
    count, at = _read_varint(message, start)
    if not 0 <= count <= _INDEXES_MAX:
        raise ValueError(f"{count} can't be the number of its indexes")
    for _ in range(count):
        _, at = _read_varint(message, at)
    return at


def _varint(number: int) -> bytes:
    """Zigzag: small numbers of either sign are short."""
    rest = number << 1 if number >= 0 else (-number << 1) - 1
    packed = bytearray()
    while rest > 0x7F:
        packed.append(rest & 0x7F | 0x80)
        rest >>= 7
    packed.append(rest)
    return bytes(packed)


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        if at >= len(data) or shift > 63:
            raise ValueError("its indexes break off")
        byte = data[at]
        number |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return (number >> 1) ^ -(number & 1), at
