"""How is a byte range of a text file read so that every line is read exactly once?

A line belongs to the range in which its first byte lies. A reader of a range that doesn't start the file therefore
looks for the first line that starts in it, and reads its last line to the end, beyond the range if need be. Lines end
with \\n or \\r\\n; the last one may have no end. A compressed file is one range: it is always read from its beginning.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any, BinaryIO, TypeVar

import msgspec

from cutwater.batches import Batch, ObjectBatch, rows_of
from cutwater.connectors.bases.decoding import Decoded, Place, ValueDecoder
from cutwater.connectors.contract import SplitReader, Unreadable
from cutwater.connectors.file_compression import Compression, decompressed
from cutwater.connectors.file_parts import FilePart, check_size, file_shrank
from cutwater.connectors.file_system import file_system_of
from cutwater.errors import StorageError

T = TypeVar("T")

#: Read ahead at a time; what bounds the memory, whatever the limit of records.
_BLOCK_BYTES = 1 << 20
_decode_json = msgspec.json.Decoder().decode


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

    def read_block(self) -> list[bytes]:
        """The next lines that start in the range; none: there are no more."""
        if self.offset >= self._part.end:
            return []
        lines = self._file.readlines(min(_BLOCK_BYTES, self._part.end - self.offset))
        end = self.offset + sum(map(len, lines))
        if end < self._part.size_bytes and not (lines and lines[-1].endswith(b"\n")):
            raise file_shrank(self._part, self._file.seek(0, os.SEEK_END))
        while end - len(lines[-1]) >= self._part.end:
            end -= len(lines.pop())
        if end > self._part.size_bytes:  # appended to after discovery, to a line without end
            lines[-1] = lines[-1][: self._part.size_bytes - end]
        self.offset = min(end, self._part.size_bytes)
        return lines

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

    def read_block(self) -> list[bytes]:
        lines = self._guarded(lambda: self._text.readlines(_BLOCK_BYTES))
        self.offset += sum(map(len, lines))
        self.ended = not lines
        return lines

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


class LineReader(SplitReader):
    """Gives each line as str. Position: the byte offset of the next line, in the text if the file is compressed."""

    def __init__(
        self,
        part: FilePart,
        position: int | None,
        compression: Compression = "none",
        *,
        tolerant: bool = False,
        decode_line: Callable[[bytes], Any] = _text,
    ) -> None:
        self._part = part
        self._one_by_one = ValueDecoder(decode_line, tolerant=tolerant)
        self._unreadable: Sequence[Unreadable] = ()
        self._source: PlainLines | CompressedLines = (
            PlainLines(part, position) if compression == "none" else CompressedLines(part, compression, position)
        )
        self._lines: list[bytes] = []
        self._next = 0
        self._offset = self._source.offset

    def read(self, limit: int, now_seconds: float) -> Batch | None:
        while not self.finished:
            if self._next == len(self._lines):
                self._lines = self._source.read_block()
                self._next = 0
            lines = self._lines[self._next : self._next + limit]
            if not lines:
                continue
            decoded = self.decode(lines)
            self._next += len(lines)
            self._offset += sum(map(len, lines))
            if decoded.batch is not None or decoded.unreadable:
                self._unreadable = decoded.unreadable
                return decoded.batch
        return None

    def take_unreadable(self) -> Sequence[Unreadable]:
        unreadable, self._unreadable = self._unreadable, ()
        return unreadable

    def decode(self, lines: list[bytes]) -> Decoded:
        """The values of the lines, which are the next ones to be read."""
        data = b"".join(lines)
        try:
            text = data.decode()
        except UnicodeDecodeError:
            return self._one_by_one.decode(lines, self._place(lines))
        values = text.split("\n")
        unended = values.pop()
        if "\r" in text:
            values = [value.removesuffix("\r") for value in values]
        if unended:
            values.append(unended)
        return Decoded(ObjectBatch(values))

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


class JsonLineReader(LineReader):
    """Gives the value of each line (a dict, for most); blank lines are skipped. Position: a byte offset."""

    def __init__(
        self, part: FilePart, position: int | None, compression: Compression = "none", *, tolerant: bool = False
    ) -> None:
        super().__init__(part, position, compression, tolerant=tolerant, decode_line=_decode_json)

    def decode(self, lines: list[bytes]) -> Decoded:
        place = self._place(lines)
        written = [index for index, line in enumerate(lines) if not line.isspace()]
        if not written:
            return Decoded(None)
        if len(written) < len(lines):
            lines, full = [lines[index] for index in written], place
            place = Place(full.told, lambda index: full.position(written[index]), lambda index: lines[index].strip())
        return self._one_by_one.decode(lines, place)


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
