"""Is a file what it was? Told by its length and a checksum, without having all of it in memory.

XXH3 finds damage, and takes 0.02 ns per byte. It doesn't find intent: another content of the same XXH3 is easily made.
So the files of signed snapshots have a SHA-256, 0.7 ns per byte (BLAKE2b: 1.6 ns); the name is in front of it.
"""

from __future__ import annotations

import hashlib
import os

import xxhash

_STRONG = "sha256:"


class Checksum:
    """Of data that comes in portions."""

    def __init__(self, *, strong: bool) -> None:
        self._prefix = _STRONG if strong else ""
        self._hash = hashlib.sha256() if strong else xxhash.xxh3_128()
        self.update = self._hash.update

    def text(self) -> str:
        return self._prefix + self._hash.hexdigest()


def checksum_of(data: bytes, *, strong: bool = False) -> str:
    return _STRONG + hashlib.sha256(data).hexdigest() if strong else xxhash.xxh3_128_hexdigest(data)


def checksum_of_file(path: str, *, strong: bool = False) -> tuple[int, str]:
    """How long the local file is, and its checksum; raises `OSError`."""
    with open(path, "rb") as file:
        size_bytes = os.fstat(file.fileno()).st_size
        if strong:
            return size_bytes, _STRONG + hashlib.file_digest(file, "sha256").hexdigest()
        return size_bytes, hashlib.file_digest(file, xxhash.xxh3_128).hexdigest()


def is_strong(checksum: str) -> bool:
    return checksum.startswith(_STRONG)
