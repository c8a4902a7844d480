"""How is a byte range of an Avro file read so that every record is read exactly once?

An Avro file is a header and blocks, with the same 16 bytes, which its header tells, behind each of them. A block
belongs to the range in which its first byte lies. A reader of a range in the middle looks for those bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any, BinaryIO

from cutwater.batches import Batch, ObjectBatch
from cutwater.connectors.avro_format import fastavro
from cutwater.connectors.contract import SplitReader
from cutwater.connectors.file_parts import FilePart, check_size, file_shrank
from cutwater.connectors.file_system import file_system_of
from cutwater.errors import StorageError

_SYNC_BYTES = 16
_BLOCK_BYTES = 1 << 20


class AvroReader(SplitReader):
    """Gives a dict for each record. Position: [where the block begins, how many of its records were read]."""

    def __init__(self, part: FilePart, position: tuple[int, int] | None) -> None:
        check_size(part, may_grow=True)
        self._part = part
        try:
            self._file = file_system_of(part.path).open(part.path)
            fastavro().block_reader(self._file)  # reads the header, and nothing else
            header_bytes = self._file.tell()
            self._file.seek(0)
            self._header = self._file.read(header_bytes)
            self._offset, self._row = position or (self._first_block(), 0)
        except Exception as error:
            raise _unreadable(part, error) from error
        self._blocks = self._blocks_from(self._offset)
        self._records: Iterator[Any] | None = None
        self._rows_left = 0
        self._next_offset = self._offset

    def read(self, limit: int, now_seconds: float) -> Batch | None:
        while not self.finished:
            try:
                if self._records is None:
                    self._open_block()
                assert self._records is not None
                values = list(islice(self._records, min(limit, self._rows_left)))
            except StorageError:
                raise
            except Exception as error:  # fastavro raises what its codecs and Python's decoders raise
                raise _unreadable(self._part, error) from error
            self._row += len(values)
            self._rows_left -= len(values)
            if not self._rows_left:
                self._offset, self._row, self._records = self._next_offset, 0, None
            if values:
                return ObjectBatch(values)
        return None

    def _open_block(self) -> None:
        block = next(self._blocks, None)
        if block is None:
            raise file_shrank(self._part, self._file.tell())
        self._next_offset = block.offset + block.size
        self._records = iter(block)
        self._rows_left = block.num_records - self._row
        for _ in range(self._row):
            next(self._records)

    def _first_block(self) -> int:
        if self._part.start <= len(self._header):
            return len(self._header)
        sync, at = self._header[-_SYNC_BYTES:], self._part.start - _SYNC_BYTES
        self._file.seek(at)
        window = b""
        while block := self._file.read(_BLOCK_BYTES):
            window += block
            found = window.find(sync)
            if found >= 0:
                return min(at + found + _SYNC_BYTES, self._part.size_bytes)
            at += len(window[: -_SYNC_BYTES + 1])
            window = window[-_SYNC_BYTES + 1 :]
        return self._part.size_bytes

    def _blocks_from(self, offset: int) -> Iterator[Any]:
        self._file.seek(offset)
        return iter(fastavro().block_reader(_FromBlock(self._header, self._file)))

    @property
    def position(self) -> tuple[int, int]:
        return self._offset, self._row

    @property
    def finished(self) -> bool:
        return self._offset >= self._part.end

    def close(self) -> None:
        self._file.close()


class _FromBlock:
    """The file as if its header stood right before one of its blocks."""

    def __init__(self, header: bytes, file: BinaryIO) -> None:
        self._header = header
        self._read_bytes = 0
        self._file = file

    def read(self, size: int) -> bytes:
        if self._read_bytes < len(self._header):
            data = self._header[self._read_bytes : self._read_bytes + size]
            self._read_bytes += len(data)
            return data
        return self._file.read(size)

    def tell(self) -> int:
        """As of the file itself."""
        return self._file.tell()


def _unreadable(part: FilePart, error: Exception) -> StorageError:
    return StorageError(
        f"file {part.path!r} can't be read as Avro",
        detail=f"{type(error).__name__}: {error}",
        hint="files must appear complete: write elsewhere, or under a name that starts with '.', then rename",
    )
