"""Local files beside Python's own files, msgspec and PyArrow."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import msgspec
import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq

import cutwater as cw
from benchmarks.connectors.cases import EPOCH_SECONDS, Case, SinkCase, SourceCase
from benchmarks.connectors.ratios import Run, Stopwatch
from cutwater.connectors.contract import Sink, Source

FILES = 4
READ_BYTES = 1 << 20
ROWS_PER_WRITE = 10_000
MAKE_ROWS = 100_000


def cases(folder: Path) -> list[Case]:
    sources: tuple[type[FilesSource], ...] = (TextSource, JsonSource, CsvSource, ParquetSource)
    sinks: tuple[type[FilesSink], ...] = (TextSink, JsonSink, ParquetSink)
    return [*(kind(folder) for kind in sources), *(kind(folder) for kind in sinks)]


def record(index: int) -> dict[str, Any]:
    return {
        "id": index,
        "key": f"user_{index % 1000}",
        "value": index * 7 % 1000,
        "text": "streams carry what they get",
    }


def line(index: int) -> str:
    return f"{index} user_{index % 1000} {index * 7 % 1000} streams carry what they are given"


class FilesSource(SourceCase):
    asked = 0.7
    format: ClassVar[str]

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @property
    def _place(self) -> Path:
        return self.folder / f"{self.format}-{self.rows}"

    def fill(self) -> None:
        if self._place.exists():
            return
        self._place.mkdir()
        share = -(-self.rows // FILES)
        for number in range(FILES):
            first = number * share
            self.write(self._place / f"part-{number}.{self.format}", range(first, min(first + share, self.rows)))

    def source(self) -> Source:
        return cw.sources.files(f"{self._place}/*", format=self.format)  # type: ignore[arg-type]

    def bare(self) -> Run:
        watch = Stopwatch(self.rows)
        for path in sorted(self._place.iterdir()):
            for rows in self.read(path):
                if watch.saw(rows):
                    return watch.end()
        raise AssertionError("there were fewer rows")

    def write(self, path: Path, numbers: range) -> None:
        raise NotImplementedError

    def read(self, path: Path) -> Iterator[int]:
        raise NotImplementedError


class TextSource(FilesSource):
    name = "files, text"
    format = "text"
    bare_does = "readlines of 1 MiB"
    make: ClassVar[Callable[[int], str]] = staticmethod(line)

    def write(self, path: Path, numbers: range) -> None:
        with path.open("w") as file:
            file.writelines(self.make(number) + "\n" for number in numbers)

    def read(self, path: Path) -> Iterator[int]:
        with path.open(encoding="utf-8") as file:
            while lines := file.readlines(READ_BYTES):
                yield len(lines)


class JsonSource(TextSource):
    name = "files, JSON lines"
    format = "json"
    bare_does = "readlines of 1 MiB, msgspec for each line"
    make = staticmethod(lambda index: msgspec.json.encode(record(index)).decode())

    def read(self, path: Path) -> Iterator[int]:
        decode = msgspec.json.Decoder().decode
        with path.open("rb") as file:
            while lines := file.readlines(READ_BYTES):
                yield len([decode(each) for each in lines])


class CsvSource(FilesSource):
    name = "files, CSV"
    format = "csv"
    rows_share = 5.0
    bare_does = "pyarrow.csv.open_csv"

    def write(self, path: Path, numbers: range) -> None:
        pc.write_csv(table_of(numbers), path)

    def read(self, path: Path) -> Iterator[int]:
        for batch in pc.open_csv(path):
            yield batch.num_rows


class ParquetSource(FilesSource):
    name = "files, Parquet"
    format = "parquet"
    rows_share = 10.0
    bare_does = "ParquetFile.iter_batches"

    def write(self, path: Path, numbers: range) -> None:
        pq.write_table(table_of(numbers), path, row_group_size=131_072)

    def read(self, path: Path) -> Iterator[int]:
        for batch in pq.ParquetFile(path).iter_batches():
            yield batch.num_rows


def table_of(numbers: range) -> pa.Table:
    """The same rows, made a million at a time."""
    parts = [numbers[first : first + MAKE_ROWS] for first in range(0, len(numbers), MAKE_ROWS)]
    return pa.concat_tables([pa.Table.from_pylist([record(number) for number in part]) for part in parts])


class FilesSink(SinkCase):
    asked = 0.7
    format: ClassVar[str]
    record = staticmethod(record)

    def __init__(self, folder: Path) -> None:
        self.target = folder / f"out-{self.format}"

    def clear(self) -> None:
        shutil.rmtree(self.target, ignore_errors=True)

    def sink(self) -> Sink:
        return cw.sinks.files(str(self.target), format=self.format)  # type: ignore[arg-type]

    def bare(self) -> Run:
        """A file a second, which gets its name when it is complete and on disk."""
        self.target.mkdir()
        watch = Stopwatch(self.rows)
        watch.begin()
        number = index = 0
        while index < self.rows:
            path = self.target / f"part-{number}"
            due_seconds = time.monotonic() + EPOCH_SECONDS
            with (self.target / ".part").open("wb") as file:
                with self.opened(file) as write:
                    while index < self.rows and time.monotonic() < due_seconds:
                        end = min(index + ROWS_PER_WRITE, self.rows)
                        write([self.record(each) for each in range(index, end)])
                        index = end
                file.flush()
                os.fsync(file.fileno())
            (self.target / ".part").rename(path)
            number += 1
        return watch.end()

    def opened(self, file: Any) -> Any:
        raise NotImplementedError

    def received(self) -> int | None:
        return sum(path.read_bytes().count(b"\n") for path in self.target.rglob("part-*"))


class _Lines:
    """Writes what a function makes of the records."""

    def __init__(self, file: Any, encode: Callable[[list[Any]], bytes]) -> None:
        self._file = file
        self._encode = encode

    def __enter__(self) -> Callable[[list[Any]], None]:
        return self._write

    def __exit__(self, *exception: object) -> None:
        pass

    def _write(self, records: list[Any]) -> None:
        self._file.write(self._encode(records))


class TextSink(FilesSink):
    name = "files, text"
    format = "text"
    bare_does = "a file a second: join, write, fsync, rename"
    record = staticmethod(line)

    def opened(self, file: Any) -> Any:
        return _Lines(file, lambda records: "\n".join([*records, ""]).encode())


class JsonSink(FilesSink):
    name = "files, JSON lines"
    format = "json"
    bare_does = "the same with msgspec's encode_lines"

    def opened(self, file: Any) -> Any:
        return _Lines(file, msgspec.json.Encoder().encode_lines)


class ParquetSink(FilesSink):
    name = "files, Parquet"
    format = "parquet"
    bare_does = "the same with Table.from_pylist and ParquetWriter"

    def opened(self, file: Any) -> Any:
        return _ParquetFile(file)

    def received(self) -> int | None:
        return sum(pq.ParquetFile(path).metadata.num_rows for path in self.target.rglob("part-*"))


class _ParquetFile:
    """One row group a file, as the connector's files have."""

    def __init__(self, file: Any) -> None:
        self._file = file
        self._tables: list[pa.Table] = []

    def __enter__(self) -> Callable[[list[Any]], None]:
        return lambda records: self._tables.append(pa.Table.from_pylist(records))

    def __exit__(self, *exception: object) -> None:
        pq.write_table(pa.concat_tables(self._tables), self._file)
