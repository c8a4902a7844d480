"""What does a job read and write while it is simulated?

    orders = env.from_source(stand_in(sources.socket("shop:9999"), records=["7 ant", "2 bee"]), uid="orders")

On a cluster the job reads the socket; under `cutwater simulate` it reads these records. Sources that end by themselves
(a collection, a generator with a count, files that are not watched) need no stand-in. Every sink has one: what it
writes is kept in memory, and nothing outside is touched.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pyarrow as pa

from cutwater.batches import Batch, ObjectBatch
from cutwater.connectors.contract import Discovery, ReaderContext, SinkWriter, Source, SplitReader, WriterContext
from cutwater.errors import ConfigurationError
from cutwater.protocol.splits import Split
from cutwater.testing.simulation import registry
from cutwater.testing.simulation.connectors import SimulatedSink, SimulatedWriter
from cutwater.testing.simulation.copies import bytes_of

SPLITS = 3
_simulating: list[bool] = []


def simulating() -> bool:
    """Whether the program runs under `cutwater simulate`."""
    return bool(_simulating)


@contextmanager
def simulated() -> Iterator[None]:
    """Inside, `simulating()` holds."""
    _simulating.append(True)
    try:
        yield
    finally:
        _simulating.pop()


def stand_in(source: Source, records: Iterable[Any]) -> Source:
    """The source itself; while the job is simulated, a source of these records in its place.

    A typed source's records are dicts with its columns.
    """
    if not isinstance(source, Source):
        raise ConfigurationError(f"{source!r} is not a source", hint="give one of cw.sources, e.g. cw.sources.socket")
    return StandInSource(source.name, list(records), source.schema) if simulating() else source


class StandInSource(Source):
    """A few splits of records in memory, with an end."""

    def __init__(self, label: str, records: Sequence[Any], schema: pa.Schema | None) -> None:
        self._label = label
        self._records = records
        self._schema = schema

    @property
    def name(self) -> str:
        return self._label

    @property
    def schema(self) -> pa.Schema | None:
        return self._schema

    def discover(self, parallelism: int) -> Discovery:
        return Discovery(tuple(Split(str(split), b"") for split in range(SPLITS)), complete=True)

    def reader(self, split: Split, position: Any, context: ReaderContext) -> SplitReader:
        return StandInReader(self._records[int(split.id) :: SPLITS], self._schema, position or 0)


class StandInReader(SplitReader):
    """Position: the index of the next record in the split."""

    def __init__(self, records: Sequence[Any], schema: pa.Schema | None, index: int) -> None:
        self._records = records
        self._schema = schema
        self._index = index

    def read(self, limit: int, now_seconds: float) -> Batch | None:
        records = list(self._records[self._index : self._index + limit])
        self._index += len(records)
        if not records:
            return None
        if self._schema is None:
            return ObjectBatch(pickle.loads(bytes_of(records)))
        return pa.RecordBatch.from_pylist(records, schema=self._schema)

    @property
    def position(self) -> int:
        return self._index

    @property
    def finished(self) -> bool:
        return self._index >= len(self._records)


class StandInSink(SimulatedSink):
    """Keeps what was committed in the storage of the run."""

    def writer(self, context: WriterContext) -> SinkWriter:
        return StandInWriter(self, context)


class StandInWriter(SimulatedWriter):
    def write(self, batch: Batch) -> None:
        registry.current().touch("a sink")
        # A copy: what a function does to a record afterwards isn't written.
        self.take(pickle.loads(bytes_of(batch.values)) if isinstance(batch, ObjectBatch) else batch.to_pylist())
