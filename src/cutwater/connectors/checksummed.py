"""What was written to this file?"""

from __future__ import annotations

from typing import BinaryIO

import xxhash


class Checksummed:
    """A file that is written once, from its start, and knows what was written."""

    def __init__(self, file: BinaryIO) -> None:
        self.file = file
        self.size_bytes = 0
        self._hash = xxhash.xxh3_128()

    def write(self, data: bytes) -> int:
        self._hash.update(data)
        self.size_bytes += len(data)
        return self.file.write(data)

    def tell(self) -> int:
        return self.size_bytes

    def seekable(self) -> bool:
        return False

    def flush(self) -> None:
        self.file.flush()

    def close(self) -> None:
        self.file.close()

    @property
    def closed(self) -> bool:
        return self.file.closed

    def checksum(self) -> str:
        return self._hash.hexdigest()

    def __enter__(self) -> Checksummed:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
