"""How is a byte range of a text file read so that every line is read exactly once?

A line belongs to the range in which its first byte lies. A reader of a range that doesn't start the file therefore
looks for the first line that starts in it, and reads its last line to the end, beyond the range if need be. Lines end
with \\n or \\r\\n; the last one may have no end.
"""

from __future__ import annotations

import os
from typing import Any

import msgspec

from cutwater.batches import Batch, ObjectBatch
from cutwater.connectors.contract import SplitReader
from cutwater.connectors.file_parts import FilePart, check_size, file_shrank
from cutwater.connectors.file_system import file_system_of
from cutwater.errors import StorageError, UserError

#: Read ahead at a time; what bounds the memory, whatever the limit of records.
_BLOCK_BYTES = 1 << 20


class LineReader(SplitReader):
    """Gives each line as str. Position: the byte offset of the next line.

    The file is read up to the size it had when it was discovered, so that a replay reads the same also when someone
    has appended to it.
    """

    def __init__(self, part: FilePart, position: int | None) -> None:
        check_size(part, may_grow=True)
        self._part = part
        self._lines: list[bytes] = []
        self._next = 0
        try:
            self._file = file_system_of(part.path).open(part.path)
        except OSError as error:
            raise StorageError(f"file {part.path!r} can't be read", detail=str(error)) from error
        self._offset = self._first_line_start() if position is None else position
        self._file.seek(self._offset)

    def _first_line_start(self) -> int:
        start = self._part.start
        if start == 0:
            return 0
        self._file.seek(start - 1)  # if this byte is a \n, the line after it is ours
        skipped_bytes = len(self._file.readline())
        return min(start - 1 + skipped_bytes, self._part.size_bytes)

    def read(self, limit: int, now_seconds: float) -> Batch | None:
        while not self.finished:
            if self._next == len(self._lines):
                self._lines = self._read_block()
                self._next = 0
            lines = self._lines[self._next : self._next + limit]
            values = self.decode(lines)
            self._next += len(lines)
            self._offset += sum(map(len, lines))
            if values:
                return ObjectBatch(values)
        return None

    def _read_block(self) -> list[bytes]:
        """The next lines that start in the range: at least one."""
        lines = self._file.readlines(min(_BLOCK_BYTES, self._part.end - self._offset))
        end = self._offset + sum(map(len, lines))
        if end < self._part.size_bytes and not (lines and lines[-1].endswith(b"\n")):
            raise file_shrank(self._part, self._file.seek(0, os.SEEK_END))
        while end - len(lines[-1]) >= self._part.end:
            end -= len(lines.pop())
        if end > self._part.size_bytes:  # appended to after discovery, to a line without end
            lines[-1] = lines[-1][: self._part.size_bytes - end]
        return lines

    def decode(self, lines: list[bytes]) -> list[Any]:
        """The values of the lines, which are the next ones to be read."""
        data = b"".join(lines)
        try:
            text = data.decode()
        except UnicodeDecodeError as error:
            raise UserError(
                f"file {self._part.path!r} is not UTF-8 text",
                detail=f"byte {self._offset + error.start}: {error.reason}",
                hint="convert the file to UTF-8 first",
            ) from error
        values = text.split("\n")
        unended = values.pop()
        if "\r" in text:
            values = [value.removesuffix("\r") for value in values]
        if unended:
            values.append(unended)
        return values

    @property
    def position(self) -> int:
        return self._offset

    @property
    def finished(self) -> bool:
        return self._offset >= self._part.end

    def close(self) -> None:
        self._file.close()


class JsonLineReader(LineReader):
    """Gives the value of each line (a dict, for most); blank lines are skipped. Position: a byte offset."""

    def decode(self, lines: list[bytes]) -> list[Any]:
        decode = _DECODER.decode
        values = []
        for number, line in enumerate(lines):
            if line.isspace():
                continue
            try:
                values.append(decode(line))
            except (msgspec.DecodeError, UnicodeDecodeError) as error:
                offset = self._offset + sum(map(len, lines[:number]))
                raise UserError(
                    f"file {self._part.path!r} holds a line that is not JSON",
                    detail=f"line at byte {offset}: {error}: {line[:80]!r}",
                    hint="one JSON value a line; correct or remove the line",
                ) from error
        return values


_DECODER: msgspec.json.Decoder[Any] = msgspec.json.Decoder()


class WithPath(SplitReader):
    """Makes every value a pair (path, value)."""

    def __init__(self, reader: LineReader, path: str) -> None:
        self._reader = reader
        self._path = path

    def read(self, limit: int, now_seconds: float) -> Batch | None:
        batch = self._reader.read(limit, now_seconds)
        return None if batch is None else ObjectBatch([(self._path, value) for value in batch.values])

    @property
    def position(self) -> int:
        return self._reader.position

    @property
    def finished(self) -> bool:
        return self._reader.finished

    def close(self) -> None:
        self._reader.close()
