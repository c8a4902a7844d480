"""How are text files compressed, and read again from any position?

A compressed file is a row of frames (gzip calls them members), each of which can be read on its own: two files, one
behind the other, are a file. Nothing in it can be found without reading what comes before.
"""

from __future__ import annotations

import io
from typing import Any, BinaryIO, Literal, Protocol

import pyarrow as pa

Compression = Literal["none", "gzip", "zstd"]
COMPRESSIONS = ("none", "gzip", "zstd")
#: What the names of such files end with.
SUFFIXES: dict[str, str] = {"none": "", "gzip": ".gz", "zstd": ".zst"}
_BLOCK_BYTES = 1 << 20


class OutputFile(Protocol):
    """As much of a file as an encoder needs."""

    def write(self, data: bytes) -> int: ...
    def tell(self) -> int: ...


def compression_of(path: str) -> Compression:
    """As the name tells it."""
    if path.endswith(".gz"):
        return "gzip"
    return "zstd" if path.endswith((".zst", ".zstd")) else "none"


class Frame:
    """Compresses what is written to it into one frame of a file. The file stays open."""

    def __init__(self, file: OutputFile, compression: Compression) -> None:
        self._stream: Any = file if compression == "none" else pa.CompressedOutputStream(_KeptOpen(file), compression)
        self._ends = compression != "none"

    def write(self, data: bytes) -> None:
        self._stream.write(data)

    def end(self) -> None:
        if self._ends:
            self._stream.close()


class _KeptOpen:
    """A file that Arrow writes to and believes to have closed."""

    def __init__(self, file: OutputFile) -> None:
        self._file = file
        self.closed = False

    def write(self, data: Any) -> int:
        return self._file.write(bytes(data))

    def tell(self) -> int:
        return self._file.tell()

    def flush(self) -> None:
        pass

    def close(self) -> None:
        self.closed = True


def decompressed(file: BinaryIO, compression: Compression, size_bytes: int) -> BinaryIO:
    """What is in the first bytes of the file, to be read from its beginning on. `OSError`: it is damaged."""
    limited = _Beginning(file, size_bytes)
    if compression == "none":
        return io.BufferedReader(limited, _BLOCK_BYTES)
    return io.BufferedReader(_Decompressing(limited, compression), _BLOCK_BYTES)


class _Beginning(io.RawIOBase):
    """The file as it was when it had this size: what was appended since is not read."""

    def __init__(self, file: BinaryIO, size_bytes: int) -> None:
        self._file = file
        self._left_bytes = size_bytes

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._file.read(min(len(buffer), self._left_bytes))
        buffer[: len(data)] = data
        self._left_bytes -= len(data)
        return len(data)

    def close(self) -> None:
        self._file.close()
        super().close()


class _Decompressing(io.RawIOBase):
    def __init__(self, file: _Beginning, compression: Compression) -> None:
        self._file = file
        self._stream: Any = pa.CompressedInputStream(io.BufferedReader(file, _BLOCK_BYTES), compression)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._stream.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        self._stream.close()
        self._file.close()
        super().close()
