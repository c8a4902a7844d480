"""How are the records of any source counted and slowed down, so that a strike comes in the middle?

The source is read by its own readers, as the runtime would, only less at a time and not always at once. A position is
the reader's own with the number of records before it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from cutwater.batches import Batch
from cutwater.connectors.contract import Discovery, ReaderContext, Source, SplitReader, Unreadable
from cutwater.protocol.known_origins import KnownOrigins
from cutwater.protocol.splits import Split
from cutwater.testing.connectors.controls import RELEASED, Controls

ASK_AGAIN_SECONDS = 0.01


class MeteredSource(Source):
    """Another source, under the kit's control."""

    def __init__(self, source: Source, controls: Controls) -> None:
        self._source = source
        self._controls = controls
        self.replay = source.replay
        self.eager = source.eager
        self.discovery_interval_seconds = source.discovery_interval_seconds
        self.has_successors = source.has_successors
        self.can_tolerate = source.can_tolerate

    @property
    def name(self) -> str:
        return self._source.name

    @property
    def schema(self) -> pa.Schema | None:
        return self._source.schema

    def discover(self, parallelism: int) -> Discovery:
        return self._source.discover(parallelism)

    def discover_new(self, parallelism: int, known: KnownOrigins, state: bytes = b"") -> Discovery:
        return self._source.discover_new(parallelism, known, state)

    def check(self) -> None:
        self._source.check()

    def reader(self, split: Split, position: Any, context: ReaderContext) -> SplitReader:
        count, inner = (0, None) if position is None else position
        reader = self._source.reader(split, inner, context)
        kind = WakingMeteredReader if reader.wakes_loop else MeteredReader
        return kind(reader, split.id, count, self._controls)


class MeteredReader(SplitReader):
    """Position: [records before it, position of the reader within]."""

    def __init__(self, reader: SplitReader, split: str, count: int, controls: Controls) -> None:
        self._reader = reader
        self._count = count
        self._gauge = controls.gauge(split)
        self._gauge.write(count)
        self._quota = controls.quota()
        self._tick = 0
        #: While it is held back: when to look again.
        self._again_at_seconds: float | None = None

    def read(self, limit: int, now_seconds: float) -> Batch | None:
        tick, rows = self._quota.read()
        if tick != RELEASED:
            if tick == self._tick:
                self._again_at_seconds = now_seconds + ASK_AGAIN_SECONDS
                return None
            limit = min(limit, rows)
        self._again_at_seconds = None
        batch = self._reader.read(limit, now_seconds)
        if batch is not None:
            self._tick = tick
            self._note(batch.num_rows)
        return batch

    def take_unreadable(self) -> Sequence[Unreadable]:
        unreadable = self._reader.take_unreadable()
        self._note(len(unreadable))
        return unreadable

    def _note(self, records: int) -> None:
        self._count += records
        self._gauge.write(self._count)

    @property
    def position(self) -> list[Any]:
        return [self._count, self._reader.position]

    @property
    def finished(self) -> bool:
        return self._reader.finished

    @property
    def watermark_ms(self) -> int | None:
        return self._reader.watermark_ms

    @property
    def lag(self) -> int | None:
        return self._reader.lag

    def wake_at(self) -> float | None:
        return self._reader.wake_at() if self._again_at_seconds is None else self._again_at_seconds

    def checkpoint_completed(self, position: Any) -> None:
        self._reader.checkpoint_completed(position[1])

    def close(self) -> None:
        self._gauge.close()
        self._quota.close()
        self._reader.close()


class WakingMeteredReader(MeteredReader):
    """Of a reader that wakes the loop."""

    wakes_loop = True
