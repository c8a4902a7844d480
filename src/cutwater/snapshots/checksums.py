"""Is a file what it was? Told by its length and a checksum, without having all of it in memory."""

from __future__ import annotations

import hashlib
import os

import xxhash


def checksum_of(data: bytes) -> str:
    return xxhash.xxh3_128_hexdigest(data)


def checksum_of_file(path: str) -> tuple[int, str]:
    """How long the local file is, and its checksum; raises `OSError`."""
    with open(path, "rb") as file:
        return os.fstat(file.fileno()).st_size, hashlib.file_digest(file, xxhash.xxh3_128).hexdigest()
