"""How does a Python collection become a stream?"""

from __future__ import annotations

import itertools
from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from cutwater.batches import Batch, ObjectBatch, viewless
from cutwater.canonical import to_stream
from cutwater.connectors.contract import Discovery, ReaderContext, Source, SplitReader
from cutwater.connectors.pickling import pickle_values, unpickle_values
from cutwater.errors import ConfigurationError
from cutwater.protocol.splits import Split

#: The same at every parallelism, so that a job can be restored at another one.
_SPLITS_MAX = 16


def collection(values: Any) -> CollectionSource | TableSource:
    """A bounded source of the values, for examples and tests; of a table (pandas, Polars, PyArrow), its rows.

    Replayable: each value is read exactly once, whatever crashes. Values keep their order within a split, and with
    parallelism 1 altogether; with more, tasks interleave. The values are taken and pickled now, travel with the job
    and lie in its snapshots: for more than some megabytes write files. The stream of a table is typed.
    """
    table = _table_of(values)
    if table is not None:
        return TableSource(table)
    if isinstance(values, str | bytes | Mapping):
        raise ConfigurationError(
            f"collection() would take a {type(values).__name__} apart",
            detail="its values would be single characters" if isinstance(values, str) else "its values would be parts",
            hint="pass a list: collection([value])",
        )
    try:
        taken = list(values)
    except TypeError as error:
        raise ConfigurationError(
            "collection() needs something to iterate over",
            detail=f"it got {type(values).__name__}",
            hint="pass a list: collection([value])",
        ) from error
    return CollectionSource(taken)


def _table_of(values: Any) -> pa.Table | None:
    """The table that this is; None: it is none. Libraries of tables are not imported here."""
    if isinstance(values, pa.Table):
        return values
    if isinstance(values, pa.RecordBatch):
        return pa.Table.from_batches([values])
    library = type(values).__module__.partition(".")[0]
    if type(values).__name__ != "DataFrame":
        return None
    if library == "pandas":
        return pa.Table.from_pandas(values, preserve_index=False).replace_schema_metadata(None)
    if library == "pyspark":
        raise ConfigurationError("a DataFrame of Spark is no collection", hint="use env.from_dataframe(df)")
    return pa.table(values) if hasattr(values, "__arrow_c_stream__") else None


class _SplitSource(Source):
    """Rows in up to 16 splits; a split carries its part."""

    def __init__(self, count: int) -> None:
        self._count = count
        parts = min(_SPLITS_MAX, count)
        bounds = [count * part // parts for part in range(parts + 1)] if parts else [0]
        self._chunks = [self._packed(start, stop) for start, stop in itertools.pairwise(bounds)]

    @abstractmethod
    def _packed(self, start: int, stop: int) -> bytes:
        """The rows from here to there."""

    def discover(self, parallelism: int) -> Discovery:
        parts = len(self._chunks)
        splits = tuple(Split(f"{part:02d}/{parts:02d}", chunk) for part, chunk in enumerate(self._chunks))
        return Discovery(splits, complete=True)


class CollectionSource(_SplitSource):
    """Python values, pickled."""

    def __init__(self, values: list[Any]) -> None:
        self._values = values
        super().__init__(len(values))
        del self._values  # the splits have them

    @property
    def name(self) -> str:
        return f"collection({self._count} values)"

    def _packed(self, start: int, stop: int) -> bytes:
        return pickle_values(self._values[start:stop], owner="collection()")

    def reader(self, split: Split, position: Any, context: ReaderContext) -> SplitReader:
        return CollectionReader(unpickle_values(split.payload), 0 if position is None else position)


class TableSource(_SplitSource):
    """The rows of a table, as Arrow."""

    def __init__(self, table: pa.Table) -> None:
        kinds = [field.with_type(viewless(field.type)) for field in table.schema]
        self._schema = pa.schema(kinds, metadata=table.schema.metadata)
        self._table = table.cast(self._schema).combine_chunks()
        super().__init__(table.num_rows)
        del self._table

    @property
    def name(self) -> str:
        return f"collection({self._count} rows)"

    @property
    def schema(self) -> pa.Schema:
        return self._schema

    def _packed(self, start: int, stop: int) -> bytes:
        (batch,) = self._table.slice(start, stop - start).to_batches()
        return to_stream(batch)

    def reader(self, split: Split, position: Any, context: ReaderContext) -> SplitReader:
        with pa.ipc.open_stream(split.payload) as stream:
            return TableReader(stream.read_next_batch(), 0 if position is None else position)


class TableReader(SplitReader):
    """Position: the index of the next row in the split."""

    def __init__(self, rows: pa.RecordBatch, index: int) -> None:
        self._rows = rows
        self._index = index

    def read(self, limit: int, now_seconds: float) -> Batch | None:
        rows = self._rows.slice(self._index, limit)
        self._index += rows.num_rows
        return rows if rows.num_rows else None

    @property
    def position(self) -> int:
        return self._index

    @property
    def finished(self) -> bool:
        return bool(self._index >= self._rows.num_rows)


class CollectionReader(SplitReader):
    """Position: the index of the next value in the split."""

    def __init__(self, values: list[Any], index: int) -> None:
        self._values = values
        self._index = index

    def read(self, limit: int, now_seconds: float) -> Batch | None:
        values = self._values[self._index : self._index + limit]
        self._index += len(values)
        return ObjectBatch(values) if values else None

    @property
    def position(self) -> int:
        return self._index

    @property
    def finished(self) -> bool:
        return self._index >= len(self._values)
