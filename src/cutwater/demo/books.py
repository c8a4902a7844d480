"""Which text does the demo count, and how fast does it arrive?"""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa

from cutwater.batches import Batch
from cutwater.connectors.contract import Discovery, ReaderContext, Source, SplitReader
from cutwater.protocol.known_origins import KnownOrigins
from cutwater.protocol.splits import Split

BOOKS = 8
WORDS = """
river bridge pier water stone arch current barrier stream record window state key group slot task channel cut
snapshot driver spark flink python arrow flight clock timer source sink commit journal attempt checkpoint
"""
VOCABULARY = WORDS.split()
#: A line that takes long to work on, in the first book only: its reader falls behind the others, so that barriers
#: arrive at different times, as they do in real jobs.
HEAVY_LINE = "chapter"


def write_books(folder: Path, *, lines_per_book: int) -> Counter[str]:
    """Writes the books, the same every time, and returns the count of every word in them."""
    folder.mkdir(parents=True, exist_ok=True)
    counts: Counter[str] = Counter()
    for book in range(BOOKS):
        generator = random.Random(book)
        lines = []
        for number in range(lines_per_book):
            words = generator.choices(VOCABULARY, k=8)
            if book == 0 and number % 100 == 99:
                words.insert(0, HEAVY_LINE)
            counts.update(words)
            lines.append(" ".join(words))
        (folder / f"book-{book}.txt").write_text("\n".join(lines) + "\n")
    return counts


class Paced(Source):
    """Another source, but each split gives at most so many records a second: a stream rather than a heap."""

    eager = True

    def __init__(self, source: Source, per_second: float) -> None:
        self._source = source
        self._per_second = per_second

    @property
    def name(self) -> str:
        return self._source.name

    @property
    def schema(self) -> pa.Schema | None:
        return self._source.schema

    def narrowed(self, columns: frozenset[str], as_keys: frozenset[str]) -> Source:
        return Paced(self._source.narrowed(columns, as_keys), self._per_second)

    def discover(self, parallelism: int) -> Discovery:
        return self._source.discover(parallelism)

    def discover_new(self, parallelism: int, known: KnownOrigins, state: bytes = b"") -> Discovery:
        return self._source.discover_new(parallelism, known, state)

    def reader(self, split: Split, position: Any, context: ReaderContext) -> SplitReader:
        return _PacedReader(self._source.reader(split, position, context), self._per_second)


class _PacedReader(SplitReader):
    def __init__(self, reader: SplitReader, per_second: float) -> None:
        self._reader = reader
        self._per_second = per_second
        self._next_at_seconds: float | None = None

    def read(self, limit: int, now_seconds: float) -> Batch | None:
        if self._next_at_seconds is None:
            self._next_at_seconds = now_seconds
        due = int((now_seconds - self._next_at_seconds) * self._per_second)
        if due < 1:
            return None
        batch = self._reader.read(min(limit, due), now_seconds)
        if batch is not None:
            self._next_at_seconds += batch.num_rows / self._per_second
        return batch

    @property
    def position(self) -> Any:
        return self._reader.position

    @property
    def finished(self) -> bool:
        return self._reader.finished

    @property
    def watermark_ms(self) -> int | None:
        return self._reader.watermark_ms

    def wake_at(self) -> float | None:
        # A hundredth of a second's worth at a time: a wake-up for every single line would cost more than the line.
        return None if self._next_at_seconds is None else self._next_at_seconds + max(0.01, 1 / self._per_second)

    def close(self) -> None:
        self._reader.close()
