"""How does a Python collection become a stream?"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any

from cutwater.batches import Batch, ObjectBatch
from cutwater.connectors.contract import Discovery, Source, SplitReader
from cutwater.connectors.pickling import pickle_values, unpickle_values
from cutwater.errors import ConfigurationError
from cutwater.protocol.splits import Split

#: The same at every parallelism, so that a job can be restored at another one.
_SPLITS_MAX = 16


def collection(values: Iterable[Any]) -> CollectionSource:
    """A bounded source of the values, for examples and tests.

    Replayable: each value is read exactly once, whatever crashes. Values keep their order within a split, and with
    parallelism 1 altogether; with more, tasks interleave. The values are taken and pickled now, travel with the job
    and lie in its snapshots: for more than some megabytes write files.
    """
    try:
        taken = list(values)
    except TypeError as error:
        raise ConfigurationError(
            "collection() needs something to iterate over",
            detail=f"it got {type(values).__name__}",
            hint="pass a list: collection([value])",
        ) from error
    return CollectionSource(taken)


class CollectionSource(Source):
    """The values in up to 16 splits; a split carries its values."""

    def __init__(self, values: list[Any]) -> None:
        self._count = len(values)
        parts = min(_SPLITS_MAX, self._count)
        bounds = [self._count * part // parts for part in range(parts + 1)] if parts else [0]
        self._chunks = [
            pickle_values(values[start:stop], owner="collection()") for start, stop in itertools.pairwise(bounds)
        ]

    @property
    def name(self) -> str:
        return f"collection({self._count} values)"

    def discover(self, parallelism: int) -> Discovery:
        parts = len(self._chunks)
        splits = tuple(Split(f"{part:02d}/{parts:02d}", chunk) for part, chunk in enumerate(self._chunks))
        return Discovery(splits, complete=True)

    def reader(self, split: Split, position: Any) -> SplitReader:
        return CollectionReader(unpickle_values(split.payload), 0 if position is None else position)


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
