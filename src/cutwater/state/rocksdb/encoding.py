"""Which bytes stand for a key, and for an entry, in RocksDB?

    key group (2) · name length (1) · name · key length (4) · key · what tells apart the entries of the key

Ordered by key group first: a range of groups is a range of keys, which a change of parallelism cuts off as a whole.
Keys that Python calls equal have equal bytes (see `protocol.key_groups`). Some of them can't be read back from these
bytes (a float, an enum, a dataclass); such a key lies in front of its value once more, pickled.
"""

from __future__ import annotations

import pickle
import struct
from collections.abc import Callable
from typing import Any

from cutwater.errors import ConfigurationError
from cutwater.pickles import Loads
from cutwater.protocol.key_groups import canonical_bytes

NAME_BYTES_MAX = 255
_LENGTH = struct.Struct(">I")
_GROUP = struct.Struct(">H")
_PLAIN = b"\x00"
_WITH_KEYS = b"\x01"
_READABLE = (str, int, bytes, type(None))


def group_start(group: int) -> bytes:
    """The lowest key of a group; one above the last group is the end of all of them."""
    return _GROUP.pack(group)


def state_prefix(name: str) -> bytes:
    """What comes between the group and the key."""
    data = name.encode()
    if not 0 < len(data) <= NAME_BYTES_MAX:
        raise ConfigurationError(
            f'"{name[:40]}" can\'t be the name of a state', hint=f"use 1 to {NAME_BYTES_MAX} bytes of text"
        )
    return bytes([len(data)]) + data


def key_prefix(group: int, state: bytes, key: Any) -> bytes:
    """All entries of this key begin with it."""
    data = canonical_bytes(key)
    return _GROUP.pack(group) + state + _LENGTH.pack(len(data)) + data


def split(entry: bytes) -> tuple[int, str, bytes, bytes]:
    """Key group, name of the state, the key's bytes, and the rest, of an entry's key."""
    name_end = 3 + entry[2]
    key_start = name_end + 4
    key_end = key_start + _LENGTH.unpack_from(entry, name_end)[0]
    return _GROUP.unpack_from(entry)[0], entry[3:name_end].decode(), entry[key_start:key_end], entry[key_end:]


def is_readable(key: Any) -> bool:
    """Whether the key's bytes alone give back the very same key."""
    kind = type(key)
    return kind in _READABLE or (kind is tuple and all(map(is_readable, key)))


def packed(payload: bytes, *keys: Any) -> bytes:
    """A value as it is stored: with those of its keys that can't be read from their bytes."""
    if all(map(is_readable, keys)):
        return _PLAIN + payload
    data = pickle.dumps(keys, 5)
    return _WITH_KEYS + _LENGTH.pack(len(data)) + data + payload


def payload_of(stored: bytes) -> bytes:
    """What `packed` was given."""
    if stored[0] == 0:
        return stored[1:]
    return stored[5 + _LENGTH.unpack_from(stored, 1)[0] :]


def keys_of(stored: bytes, *encoded: bytes, loads: Loads = pickle.loads) -> tuple[Any, ...]:
    """The keys that `packed` was given, from their bytes or from the value."""
    if stored[0] == 0:
        return tuple(map(read_key, encoded))
    keys = loads(stored[5 : 5 + _LENGTH.unpack_from(stored, 1)[0]])
    return keys if type(keys) is tuple else (keys,) * len(encoded)  # none of them could be read


def read_key(data: bytes) -> Any:
    """The readable key that has these canonical bytes."""
    return _READERS[data[:1]](data[1:])


def _read_tuple(data: bytes) -> tuple[Any, ...]:
    parts, position = [], 0
    while position < len(data):
        start = position + 4
        position = start + _LENGTH.unpack_from(data, position)[0]
        parts.append(read_key(data[start:position]))
    return tuple(parts)


_READERS: dict[bytes, Callable[[bytes], Any]] = {
    b"0": lambda data: None,
    b"s": lambda data: data.decode("utf-8", "surrogatepass"),
    b"b": bytes,
    b"i": lambda data: int.from_bytes(data, "big", signed=True),
    b"t": _read_tuple,
}
