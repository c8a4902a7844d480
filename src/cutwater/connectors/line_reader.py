"""How is a byte range of a text file read so that every line is read exactly once?

A line belongs to the range in which its first byte lies. A reader of a range that doesn't start the file therefore
looks for the first line that starts in it, and reads its last line to the end, beyond the range if need be. Lines end
with \\n or \\r\\n; the last one may have no end. A compressed file is one range: it is always read from its beginning.
"""

from __future__ import annotations

import io
import os
from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, BinaryIO, ClassVar, TypeVar

import msgspec

from cutwater.batches import Batch, ObjectBatch, rows_of
from cutwater.connectors.bases.decoding import Decoded, Place, ValueDecoder
from cutwater.connectors.contract import SplitReader, Unreadable
from cutwater.connectors.file_compression import Compression, decompressed
from cutwater.connectors.file_parts import FilePart, check_size, file_shrank
from cutwater.connectors.file_system import file_system_of
from cutwater.errors import StorageError

T = TypeVar("T")

#: Read ahead at a time; what bounds the memory, whatever the limit of records. Small enough for the processor's cache:
#: with 1 MiB a line takes half as long again.
_BLOCK_BYTES = 1 << 18


def _text(line: bytes) -> str:
    text = line.decode()
    return text[:-1].removesuffix("\r") if text.endswith("\n") else text


class PlainLines:
    """The lines of a range. They are read up to the size that the file had when it was discovered, so that a replay
    reads the same also when someone has appended to it.
    """

    def __init__(self, part: FilePart, position: int | None) -> None:
        self._part = part
        self._file = _opened(part)
        self.offset = self._first_line_start() if position is None else position
        self._file.seek(self.offset)

    def _first_line_start(self) -> int:
        start = self._part.start
        if start == 0:
            return 0
        self._file.seek(start - 1)  # if this byte is a \n, the line after it is ours
        skipped_bytes = len(self._file.readline())
        return min(start - 1 + skipped_bytes, self._part.size_bytes)

    def read_block(self) -> bytes:
        """The next lines that start in the range; empty: there are no more."""
        if self.offset >= self._part.end:
            return b""
        block = self._file.read(min(_BLOCK_BYTES, self._part.end - self.offset))
        if not block.endswith(b"\n"):
            block += self._file.readline()
        end = self.offset + len(block)
        if end < self._part.size_bytes and not block.endswith(b"\n"):
            raise file_shrank(self._part, self._file.seek(0, os.SEEK_END))
        if end > self._part.size_bytes:  # appended to after discovery, to a line without end
            block = block[: self._part.size_bytes - self.offset]
        self.offset += len(block)
        return block

    @property
    def ended(self) -> bool:
        return self.offset >= self._part.end

    def close(self) -> None:
        self._file.close()


class CompressedLines:
    """The lines of a compressed file. Offsets are those of the text: to go on at one, what comes before is read again.

    As of a plain file, what was appended after it was discovered is not read.
    """

    def __init__(self, part: FilePart, compression: Compression, position: int | None) -> None:
        self._part = part
        self._text = decompressed(_opened(part), compression, part.size_bytes)
        self.offset = 0
        self.ended = False
        while self.offset < (position or 0):
            skipped = self._guarded(lambda: self._text.read(min(_BLOCK_BYTES, (position or 0) - self.offset)))
            if not skipped:
                raise StorageError(
                    f"file {part.path!r} has changed",
                    detail=f"its text ends at byte {self.offset}, and was read up to {position} before",
                    hint="write new files instead of changing old ones",
                )
            self.offset += len(skipped)

    def read_block(self) -> bytes:
        block = self._guarded(lambda: self._text.read(_BLOCK_BYTES) + self._text.readline())
        self.offset += len(block)
        self.ended = not block
        return block

    def _guarded(self, read: Callable[[], T]) -> T:
        try:
            return read()
        except OSError as error:
            raise StorageError(
                f"file {self._part.path!r} can't be decompressed",
                detail=f"behind byte {self.offset} of its text: {error}",
                hint="files must appear complete; compression=… says what is in a file whose name doesn't tell",
            ) from error

    def close(self) -> None:
        self._text.close()


def _opened(part: FilePart) -> BinaryIO:
    check_size(part, may_grow=True)
    try:
        return file_system_of(part.path).open(part.path)
    except OSError as error:
        raise StorageError(f"file {part.path!r} can't be read", detail=str(error)) from error


class _BlockReader(SplitReader):
    """Reads a block of lines at a time, and hands them out in batches.

    Position: the byte offset of the next line, in the text if the file is compressed.
    """

    decode_line: ClassVar[Callable[..., Any]]

    def __init__(
        self, part: FilePart, position: int | None, compression: Compression = "none", *, tolerant: bool = False
    ) -> None:
        self._part = part
        self._one_by_one = ValueDecoder(self.decode_line, tolerant=tolerant)
        self._unreadable: Sequence[Unreadable] = ()
        self._source: PlainLines | CompressedLines = (
            PlainLines(part, position) if compression == "none" else CompressedLines(part, compression, position)
        )
        #: Of the block that was read last.
        self._lines: list[Any] = []
        self._next = 0
        self._offset = self._source.offset

    def read(self, limit: int, now_seconds: float) -> Batch | None:
        while not self.finished:
            if self._next == len(self._lines):
                self._lines = self.split(self._source.read_block())
                self._next = 0
            lines = self._lines[self._next : self._next + limit]
            if not lines:
                continue
            decoded = self.decode(lines)
            self._next += len(lines)
            self._offset += self.size_bytes(lines)
            if decoded.batch is not None or decoded.unreadable:
                self._unreadable = decoded.unreadable
                return decoded.batch
        return None

    def take_unreadable(self) -> Sequence[Unreadable]:
        unreadable, self._unreadable = self._unreadable, ()
        return unreadable

    def split(self, block: bytes) -> list[Any]:
        """The lines of a block, as `decode` wants them."""
        return io.BytesIO(block).readlines()

    @abstractmethod
    def decode(self, lines: list[Any]) -> Decoded:
        """The values of the lines, which are the next ones to be read."""

    def size_bytes(self, lines: list[Any]) -> int:
        """Of lines that were decoded last, with their ends."""
        return sum(map(len, lines))

    def _place(self, lines: Sequence[bytes]) -> Place:
        first = self._offset

        def position(index: int) -> int:
            return first + sum(map(len, lines[:index]))

        return Place(
            lambda offset: f"the line at byte {offset} of file {self._part.path!r}",
            position,
            lambda index: lines[index].rstrip(b"\r\n"),
        )

    @property
    def position(self) -> int:
        return self._offset

    @property
    def finished(self) -> bool:
        return self._source.ended and self._next == len(self._lines)

    def close(self) -> None:
        self._source.close()


class JsonLineReader(_BlockReader):
    """Gives the value of each line (a dict, for most); blank lines are skipped."""

    decode_line = staticmethod(msgspec.json.Decoder().decode)

    def decode(self, lines: list[Any]) -> Decoded:
        place = self._place(lines)
        written = [index for index, line in enumerate(lines) if not line.isspace()]
        if not written:
            return Decoded(None)
        if len(written) < len(lines):
            lines, full = [lines[index] for index in written], place
            place = Place(full.told, lambda index: full.position(written[index]), lambda index: lines[index].strip())
        return self._one_by_one.decode(lines, place)


class LineReader(_BlockReader):
    """Gives each line as str. A block is decoded as a whole: the only object that a line costs is its text."""

    decode_line = staticmethod(_text)

    def split(self, block: bytes) -> list[Any]:
        """Texts without their ends; or, if not all can be decoded, bytes."""
        self._one_byte_each = block.isascii()
        self._has_returns = b"\r" in block
        self._last_has_end = block.endswith(b"\n")
        try:
            lines = block.decode().split("\n")
        except UnicodeDecodeError:
            return super().split(block)
        if not lines[-1]:
            lines.pop()
        return lines

    def decode(self, lines: list[Any]) -> Decoded:
        if isinstance(lines[0], bytes):
            return self._one_by_one.decode(lines, self._place(lines))
        if not self._has_returns:
            return Decoded(ObjectBatch(lines))
        values = [line.removesuffix("\r") for line in lines]
        if not self._last_has_end and self._next + len(lines) == len(self._lines):
            values[-1] = lines[-1]
        return Decoded(ObjectBatch(values))

    def size_bytes(self, lines: list[Any]) -> int:
        if isinstance(lines[0], bytes):
            return super().size_bytes(lines)
        without_end = not self._last_has_end and self._next == len(self._lines)
        texts_bytes = sum(map(len, lines)) if self._one_byte_each else len("".join(lines).encode())
        return texts_bytes + len(lines) - without_end


class WithPath(SplitReader):
    """Makes every value a pair (path, value)."""

    def __init__(self, reader: SplitReader, path: str) -> None:
        self._reader = reader
        self._path = path

    def read(self, limit: int, now_seconds: float) -> Batch | None:
        batch = self._reader.read(limit, now_seconds)
        return None if batch is None else ObjectBatch([(self._path, value) for value in rows_of(batch)])

    def take_unreadable(self) -> Sequence[Unreadable]:
        return self._reader.take_unreadable()

    @property
    def position(self) -> Any:
        return self._reader.position

    @property
    def finished(self) -> bool:
        return self._reader.finished

    def close(self) -> None:
        self._reader.close()
