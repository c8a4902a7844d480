"""How is a file read that can only be fetched in ranges?

Each fetch is a question to a server. Who reads on where the last read ended gets a window ahead with it; who jumps, as
a reader of Parquet does, gets what was asked for.
"""

from __future__ import annotations

import io
import os
from collections.abc import Callable
from typing import BinaryIO

#: Of those that read one piece after the other.
WINDOW_BYTES = 8 << 20
#: What a jump fetches at least, with the buffer above.
BUFFER_BYTES = 128 << 10

Fetch = Callable[[int, int], bytes]
"""Bytes from this offset on, so many, all of which are in the file. May block, raises `OSError`."""


def open_ranged(fetch: Fetch, size_bytes: int) -> BinaryIO:
    """A file to read from, with `seek` and `readline`. For one thread at a time."""
    return io.BufferedReader(RangedReader(fetch, size_bytes), BUFFER_BYTES)


class RangedReader(io.RawIOBase):
    def __init__(self, fetch: Fetch, size_bytes: int) -> None:
        self._fetch = fetch
        self._size_bytes = size_bytes
        self._position = 0
        self._window = memoryview(b"")
        self._window_starts = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self._size_bytes}[whence]
        self._position = max(0, base + offset)
        return self._position

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        wanted = min(len(buffer), self._size_bytes - self._position)
        if wanted <= 0:
            return 0
        if not self._window_starts <= self._position < self._window_ends:
            self._fetch_from(self._position, wanted)
        found = self._window[self._position - self._window_starts :][:wanted]
        buffer[: len(found)] = found
        self._position += len(found)
        return len(found)

    @property
    def _window_ends(self) -> int:
        return self._window_starts + len(self._window)

    def _fetch_from(self, start: int, wanted: int) -> None:
        """One fetch more than a jump needs is the price for not asking again and again."""
        reads_on = start > 0 and start == self._window_ends
        length = min(max(wanted, WINDOW_BYTES) if reads_on else wanted, self._size_bytes - start)
        data = self._fetch(start, length)
        if not data:
            raise OSError(f"nothing came from byte {start} of {self._size_bytes}: the file has changed")
        self._window, self._window_starts = memoryview(data), start
