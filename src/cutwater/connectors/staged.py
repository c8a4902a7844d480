"""How does a batch DataFrame become a stream while Spark is still computing it?

Spark's tasks write one Parquet file per partition into a staging folder that the driver and all slots see; finished
files become splits at once. The steps:

1. a Spark task calls `write_partition`: the rows go to a hidden file, which then appears as `part-N.parquet`, whole and
   only if it isn't there: of a task that was retried or ran twice, the first result stands;
2. the driver calls `mark_complete` with the number of parts when Spark is done, or `mark_failed`;
3. `StagedFiles` lists the parts until all are there.

Replayable as long as the folder is kept: the rows are read from the files, never from Spark again.
"""

from __future__ import annotations

import copy
import os
import re
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from cutwater.batches import Batch
from cutwater.connectors.contract import Discovery, ReaderContext, Source, SplitReader
from cutwater.connectors.file_parts import FilePart, as_split, part_of
from cutwater.connectors.file_source import cut_parquet, narrowed_parquet_schema
from cutwater.connectors.settings import mounted_path
from cutwater.connectors.table_reader import ParquetReader
from cutwater.errors import OperationsError, StorageError
from cutwater.protocol.splits import Split

COMPLETE = "_COMPLETE"
FAILED = "_FAILED"
_PART = re.compile(r"part-\d{5,}\.parquet")


def write_partition(batches: Iterable[pa.RecordBatch], folder: str, partition_index: int, *, schema: pa.Schema) -> int:
    """Writes one partition, also an empty one, and makes it appear. In a Spark task. The number of rows."""
    rows = 0
    path = os.path.join(folder, f"part-{partition_index:05d}.parquet")
    with _appearing(path) as hidden, pq.ParquetWriter(hidden, schema) as writer:
        for batch in batches:
            writer.write_batch(batch if batch.schema.equals(schema) else batch.select(schema.names).cast(schema))
            rows += batch.num_rows
    return rows


def mark_complete(folder: str, parts: int) -> None:
    """All partitions were written. In the driver, after Spark's job succeeded."""
    _mark(folder, COMPLETE, msgspec.json.encode(parts))


def mark_failed(folder: str, message: str) -> None:
    """No more parts will come. In the driver, after Spark's job failed."""
    _mark(folder, FAILED, message.encode())


class StagedFiles(Source):
    """Reads the parts of a staging folder. In payloads, paths are relative to it: it may be moved between attempts."""

    discovery_interval_seconds = 0.2

    def __init__(self, folder: str, schema: pa.Schema, *, split_bytes: int = 64 << 20) -> None:
        self._folder = mounted_path(folder)
        self._schema = schema
        self._split_bytes = split_bytes
        self._splits: dict[str, list[Split]] = {}

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_splits": {}}  # the slots have no use for the list

    @property
    def name(self) -> str:
        return "dataframe"

    @property
    def schema(self) -> pa.Schema:
        return self._schema

    def narrowed(self, columns: frozenset[str], as_keys: frozenset[str]) -> Source:
        narrow = copy.copy(self)
        narrow._schema = narrowed_parquet_schema(self._schema, columns, as_keys)
        return narrow

    def discover(self, parallelism: int) -> Discovery:
        self._raise_if_failed()
        parts = self._read_mark(COMPLETE)  # before the list: no part follows it
        names = sorted(name for name in self._list() if _PART.fullmatch(name))
        for name in names:
            if name not in self._splits:
                self._splits[name] = self._cut(name)
        splits = tuple(split for name in names for split in self._splits[name])
        if parts is None:
            return Discovery(splits, complete=False)
        expected = msgspec.json.decode(parts, type=int)
        if len(names) != expected:
            raise StorageError(
                f"the staged DataFrame in {self._folder!r} is damaged",
                detail=f"{expected} parts were written, {len(names)} are there",
                hint="driver and slots must all see the folder, and no other program may write to it",
            )
        return Discovery(splits, complete=True)

    def reader(self, split: Split, position: Any, context: ReaderContext) -> SplitReader:
        relative = part_of(split)
        part = FilePart(os.path.join(self._folder, relative.path), relative.size_bytes, relative.start, relative.end)

        def open_when_there() -> SplitReader | None:
            if not os.path.exists(part.path) and self._read_mark(COMPLETE) is None:
                self._raise_if_failed()
                return None
            return ParquetReader(part, self._schema, position, include_path=False)

        return _PartReader(open_when_there, position)

    def _cut(self, name: str) -> list[Split]:
        parts = cut_parquet(os.path.join(self._folder, name), self._split_bytes)
        return [as_split(FilePart(name, part.size_bytes, part.start, part.end)) for part in parts]

    def _raise_if_failed(self) -> None:
        failure = self._read_mark(FAILED)
        if failure is not None:
            raise OperationsError(
                "Spark failed to compute the DataFrame that this job reads",
                detail=failure.decode(errors="replace"),
            )

    def _list(self) -> list[str]:
        with suppress(FileNotFoundError):  # no task has started yet
            return os.listdir(self._folder)
        return []

    def _read_mark(self, name: str) -> bytes | None:
        with suppress(FileNotFoundError), open(os.path.join(self._folder, name), "rb") as file:
            return file.read()
        return None


class _PartReader(SplitReader):
    """A part that Spark may still have to write: a restored job knows its splits before a new folder has them."""

    def __init__(self, open_when_there: Callable[[], SplitReader | None], position: Any) -> None:
        self._open = open_when_there
        self._position = position
        self._reader = open_when_there()

    def read(self, limit: int, now_seconds: float) -> Batch | None:
        if self._reader is None:
            self._reader = self._open()
        return None if self._reader is None else self._reader.read(limit, now_seconds)

    @property
    def position(self) -> Any:
        return self._position if self._reader is None else self._reader.position

    @property
    def finished(self) -> bool:
        return self._reader is not None and self._reader.finished

    def close(self) -> None:
        if self._reader is not None:
            self._reader.close()


def _mark(folder: str, name: str, content: bytes) -> None:
    with _appearing(os.path.join(folder, name)) as hidden, open(hidden, "wb") as file:
        file.write(content)


@contextmanager
def _appearing(path: str) -> Iterator[str]:
    """A hidden name to write to; afterwards the file appears at the path, whole, unless one is there already."""
    folder, name = os.path.split(path)
    os.makedirs(folder, exist_ok=True)
    hidden = os.path.join(folder, f".{name}-{uuid.uuid4().hex}.tmp")
    try:
        yield hidden
        with open(hidden, "rb") as file:
            os.fsync(file.fileno())
        with suppress(FileExistsError):
            os.link(hidden, path)
    except OSError as error:
        raise StorageError(f"{path!r} can't be written", detail=str(error)) from error
    finally:
        with suppress(FileNotFoundError):
            os.unlink(hidden)
