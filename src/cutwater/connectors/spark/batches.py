"""How do the micro-batches of a Structured Streaming query become splits?

The query writes each micro-batch as a folder of Parquet files, which appears whole or not at all:

    {staging}/{job id}/{uid}/{query}/checkpoint                       Spark's own, of the query
    {staging}/{job id}/{uid}/{query}/batch-0000000007/part-00000.parquet …

A batch that is there is never written again, though Spark may run it twice: it promises the same offsets for the same
number. The state of discovery is the query and the last batch that was found, so a restored job goes on with the very
query whose batches it has read, and with the first of them that no snapshot knows. A batch is deleted when a completed
checkpoint shows that all of it was read.
"""

from __future__ import annotations

import copy
import os
import re
import shutil
import uuid
from collections.abc import Set
from contextlib import suppress
from typing import Any, Protocol

import msgspec
import pyarrow as pa

from cutwater.connectors.contract import Discovery, DriverContext, ReaderContext, Source, SplitReader
from cutwater.connectors.file_parts import FilePart, as_split, part_of
from cutwater.connectors.file_source import cut_parquet, narrowed_parquet_schema
from cutwater.connectors.spark.folders import staging_folder
from cutwater.connectors.table_reader import ParquetReader
from cutwater.errors import ConfigurationError, OperationsError, StorageError
from cutwater.protocol.known_origins import KnownOrigins
from cutwater.protocol.splits import Split

_BATCH = re.compile(r"batch-(\d{10,})")
_SPLIT_BYTES = 64 << 20


class StagingQuery(Protocol):
    """A Structured Streaming query that stages its micro-batches. In the driver, off the coordinator's thread."""

    def start(self, folder: str) -> None:
        """Goes on with the query whose checkpoint and batches are in this folder; nothing if it runs already."""
        ...

    def is_over(self) -> bool:
        """It has ended well, and no batch will follow. Raises when it failed."""
        ...

    def stop(self) -> None:
        """Ends it soon, without waiting for it."""
        ...


class _Look(msgspec.Struct, frozen=True, array_like=True):
    """The state of discovery."""

    #: The name of the query's folder.
    query: str
    #: The last batch whose splits were found.
    batch: int


class StagedBatches(Source):
    """Reads the batches that a query stages. In payloads, paths are relative to the job's staging folder."""

    hears_of_checkpoints = True
    uses_spark = True
    discovery_interval_seconds = 0.2

    def __init__(self, query: StagingQuery | None, schema: pa.Schema, *, staging: str | None) -> None:
        self._query = query
        self._schema = schema
        self._staging = staging
        self._folder: str | None = None
        #: The folder of a query that begins; all attempts of one driver use the same.
        self._new_query = ""

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_query": None}  # it is in the driver

    @property
    def name(self) -> str:
        return "streaming dataframe"

    @property
    def schema(self) -> pa.Schema:
        return self._schema

    def narrowed(self, columns: frozenset[str], as_keys: frozenset[str]) -> Source:
        return self._with(schema=narrowed_parquet_schema(self._schema, columns, as_keys), folder=self._folder)

    def introduced(self, context: DriverContext) -> Source:
        source = self._with(schema=self._schema, folder=staging_folder(context, self._staging))
        source._new_query = f"query-{uuid.uuid4().hex[:12]}"
        return source

    def check(self) -> None:
        if self._folder is None:
            raise ConfigurationError(f"a {self.name} needs Spark", hint="run the job on Spark")

    def discover(self, parallelism: int) -> Discovery:
        return self.discover_new(parallelism, KnownOrigins())

    def discover_new(self, parallelism: int, known: KnownOrigins, state: bytes = b"") -> Discovery:
        look = msgspec.msgpack.decode(state, type=_Look) if state else _Look(self._new_query, -1)
        assert self._query is not None, "batches are looked for in the driver"
        self._check_is_there(look)
        self._query.start(self._path(look.query))
        over = self._query.is_over()  # before the list: no batch follows it
        batches = sorted(batch for batch in self._batches(look.query) if batch > look.batch)
        if batches and batches[0] != look.batch + 1:
            raise _batch_deleted(look, batches[0])
        splits = tuple(split for batch in batches for split in self._splits_of(look.query, batch))
        following = _Look(look.query, batches[-1] if batches else look.batch)
        # No look finds again what is at or before the batch of its state: none of it need be remembered.
        return Discovery(splits, complete=over, gone=known.digests.keys(), state=msgspec.msgpack.encode(following))

    def reader(self, split: Split, position: Any, context: ReaderContext) -> SplitReader:
        relative = part_of(split)
        part = FilePart(self._path(relative.path), relative.size_bytes, relative.start, relative.end)
        return ParquetReader(part, self._schema, position, include_path=False)

    def checkpoint_completed(self, unread: Set[str], state: bytes) -> None:
        if not state:
            return
        look = msgspec.msgpack.decode(state, type=_Look)
        needed = {split.partition("/part-")[0] for split in unread}
        for batch in self._batches(look.query):
            relative = _batch_path(look.query, batch)
            if batch <= look.batch and relative not in needed:
                shutil.rmtree(self._path(relative), ignore_errors=True)

    def job_ended(self) -> None:
        if self._query is not None:
            self._query.stop()

    def _with(self, *, schema: pa.Schema, folder: str | None) -> StagedBatches:
        other = copy.copy(self)
        other._query = self._query  # what pickles drop, copies lose
        other._schema = schema
        other._folder = folder
        return other

    def _check_is_there(self, look: _Look) -> None:
        if look.batch >= 0 and not os.path.isdir(self._path(look.query)):
            raise StorageError(
                "the streaming query that this job has read is gone",
                detail=f"there is no folder {self._path(look.query)!r}, though batch {look.batch} of it was read",
                hint="keep the staging folder together with the checkpoints; to read all again, start without restore",
            )

    def _batches(self, query: str) -> list[int]:
        with suppress(FileNotFoundError):
            found = map(_BATCH.fullmatch, os.listdir(self._path(query)))
            return [int(match[1]) for match in found if match is not None]
        return []

    def _splits_of(self, query: str, batch: int) -> list[Split]:
        relative = _batch_path(query, batch)
        names = sorted(name for name in os.listdir(self._path(relative)) if name.endswith(".parquet"))
        return [split for name in names for split in self._cut(f"{relative}/{name}")]

    def _cut(self, relative: str) -> list[Split]:
        parts = cut_parquet(self._path(relative), _SPLIT_BYTES)
        return [as_split(FilePart(relative, part.size_bytes, part.start, part.end)) for part in parts]

    def _path(self, relative: str) -> str:
        assert self._folder is not None, "the source was not introduced to its job"
        return os.path.join(self._folder, relative)


def batch_name(batch: int) -> str:
    return f"batch-{batch:010d}"


def _batch_path(query: str, batch: int) -> str:
    return f"{query}/{batch_name(batch)}"


def _batch_deleted(look: _Look, found: int) -> StorageError:
    return StorageError(
        "micro-batches that this job has to read again are gone",
        detail=f"batch {look.batch + 1} of {look.query} should follow, and the next one that is there is {found}",
        hint="a batch is deleted when a checkpoint shows that it was read: restore the newest checkpoint, not an older",
    )


def query_failed(message: str) -> OperationsError:
    return OperationsError("the streaming query that this job reads has failed", detail=message)
