"""How is a Python data source for Spark's streaming read without Spark's streaming?

The driver asks it for its latest offset and plans partitions from the last offset to that one: they are the splits. The
state of discovery is the last planned offset, so no range is planned twice and none is left out. Slots read partitions
row by row; a position is the number of rows read, and a partition that is read again skips them: it must give the same
rows in the same order, as Spark demands, too. A range is committed when a completed checkpoint shows that all of its
partitions, and of those before it, were read to their end.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence, Set
from typing import Any, Protocol

import msgspec
import pyarrow as pa

from cutwater.connectors.bases.fetching import Fetched, Fetcher, FetchingReader
from cutwater.connectors.contract import Discovery, ReaderContext, Source, SplitReader
from cutwater.connectors.pickling import pickle_values, unpickle_values
from cutwater.protocol.known_origins import KnownOrigins
from cutwater.protocol.splits import Split

Offset = dict[str, Any]


class OffsetReader(Protocol):
    """A stream reader of a data source. In the driver, but for `read`; may block. Pickled on its way to the slots."""

    def initial_offset(self) -> Offset: ...

    def latest_offset(self, start: Offset) -> Offset: ...

    def partitions(self, start: Offset, end: Offset) -> Sequence[Any]: ...

    def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
        """In a slot: batches of the source's schema, none of them large."""
        ...

    def commit(self, end: Offset) -> None: ...

    def stop(self) -> None: ...


class _Look(msgspec.Struct, frozen=True, array_like=True):
    """The state of discovery; offsets are JSON."""

    offset: str
    #: The number of the next range.
    next_range: int = 0
    #: Ranges that may not have been committed, with their ends.
    ranges: tuple[tuple[int, str], ...] = ()


class OffsetSource(Source):
    """The rows of a data source."""

    hears_of_checkpoints = True
    discovery_interval_seconds = 0.5

    def __init__(self, name: str, reader: OffsetReader, schema: pa.Schema) -> None:
        self._name = name
        self._reader = reader
        self._schema = schema
        self._committed_range = -1

    @property
    def name(self) -> str:
        return f"spark_data_source({self._name})"

    @property
    def schema(self) -> pa.Schema:
        return self._schema

    def discover(self, parallelism: int) -> Discovery:
        return self.discover_new(parallelism, KnownOrigins())

    def discover_new(self, parallelism: int, known: KnownOrigins, state: bytes = b"") -> Discovery:
        reader = self._reader
        look = msgspec.msgpack.decode(state, type=_Look) if state else _Look(_spelled(reader.initial_offset()))
        start = json.loads(look.offset)
        end = reader.latest_offset(start)
        splits: tuple[Split, ...] = ()
        if _spelled(end) != look.offset:
            number = look.next_range
            splits = tuple(
                Split(f"{number}.{index}", pickle_values([partition], owner=self.name))
                for index, partition in enumerate(reader.partitions(start, end))
            )
            pending = tuple(found for found in look.ranges if found[0] > self._committed_range)
            look = _Look(_spelled(end), number + 1, (*pending, (number, _spelled(end))))
        # No look finds a range again: none need be remembered.
        return Discovery(splits, complete=False, gone=known.digests.keys(), state=msgspec.msgpack.encode(look))

    def reader(self, split: Split, position: Any, context: ReaderContext) -> SplitReader:
        fetcher = _PartitionFetcher(self._reader, split)
        return FetchingReader(fetcher, position, context, name=f"{self.name} partition {split.id}")

    def checkpoint_completed(self, unread: Set[str], state: bytes) -> None:
        if not state:
            return
        first_unread = min((int(split.partition(".")[0]) for split in unread), default=None)
        done = [
            found
            for found in msgspec.msgpack.decode(state, type=_Look).ranges
            if found[0] > self._committed_range and (first_unread is None or found[0] < first_unread)
        ]
        if done:
            number, end = done[-1]
            self._reader.commit(json.loads(end))
            self._committed_range = number

    def job_ended(self) -> None:
        self._reader.stop()


class _PartitionFetcher(Fetcher):
    """Position: the number of rows read."""

    def __init__(self, reader: OffsetReader, split: Split) -> None:
        self._reader = reader
        self._payload = split.payload
        self._rows = 0
        self._skip = 0
        self._batches: Iterator[pa.RecordBatch] = iter(())

    def connect(self, position: Any) -> None:
        self._rows = self._skip = position or 0
        (partition,) = unpickle_values(self._payload)
        self._batches = self._reader.read(partition)

    def fetch(self, limit: int) -> Fetched | None:
        for batch in self._batches:
            rest = batch.slice(min(self._skip, batch.num_rows))
            self._skip -= batch.num_rows - rest.num_rows
            if rest.num_rows:
                self._rows += rest.num_rows
                return Fetched(self._rows, rest)
        return Fetched(self._rows, ends_split=True)


def _spelled(offset: Offset) -> str:
    return json.dumps(offset, sort_keys=True)
