"""What becomes of a folder whose files come one after the other?

The real source of files, on simulated files: it looks into the folder again and again, cuts what is new into splits,
and reads lines of JSON. A folder has all of its files some time; then the source is complete, so that runs end.
"""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import accumulate
from typing import Any

from cutwater.batches import Batch
from cutwater.connectors.contract import Discovery, ReaderContext, SplitReader
from cutwater.connectors.file_parts import FilePart, as_split, part_of
from cutwater.connectors.file_source import FileSource
from cutwater.connectors.line_reader import JsonLineReader
from cutwater.protocol.known_origins import KnownOrigins
from cutwater.protocol.splits import Split
from cutwater.testing.simulation import registry
from cutwater.testing.simulation.connectors import Hiccups
from cutwater.testing.simulation.files import SCHEME
from cutwater.testing.simulation.pipelines.rows import Row


class WatchedFolder(FileSource):
    """Files by their names, in the order in which they come."""

    def __init__(
        self, label: str, files: dict[str, list[Row]], *, grows_every: float, split_bytes: int, batch: int
    ) -> None:
        folder = f"{SCHEME}://in-{label}"
        super().__init__([folder], "json", watch=True, schema=None, include_path=False, split_bytes=split_bytes)
        self.discovery_interval_seconds = 0.01
        self._contents = {f"{folder}/{name}": list(map(_line, rows)) for name, rows in files.items()}
        self._grows_every_seconds = grows_every
        self._batch = batch
        self._origins: dict[str, str] = {}
        self._starts: dict[str, list[int]] = {}
        self.splits: dict[str, list[Row]] = {}
        for (path, lines), rows in zip(self._contents.items(), files.values(), strict=True):
            self._cut_up(path, lines, rows)

    # What the checkers ask.

    def origin_of(self, split: str) -> str:
        return self._origins[split]

    def read_before(self, split: str, position: int) -> list[Row]:
        return [row for row, start in zip(self.splits[split], self._starts[split], strict=True) if start < position]

    def _cut_up(self, path: str, lines: list[bytes], rows: list[Row]) -> None:
        """A line is of the part in which its first byte lies."""
        ends = list(accumulate(map(len, lines)))
        placed = list(zip((0, *ends), rows, strict=False))
        for part in self._cut(path, ends[-1] if ends else 0):
            split = as_split(part, modified_ns=0).id
            inside = [(start, row) for start, row in placed if part.start <= start < part.end]
            self._origins[split] = path
            self._starts[split] = [start for start, _ in inside]
            self.splits[split] = [row for _, row in inside]

    # The source.

    def discover_new(self, parallelism: int, known: KnownOrigins, state: bytes = b"") -> Discovery:
        run = registry.current()
        run.touch("discovery")
        come = min(len(self._contents), 1 + int(run.world.now / self._grows_every_seconds))
        for path, lines in list(self._contents.items())[:come]:
            run.files.put(path, b"".join(lines))
        return replace(super().discover_new(parallelism, known, state), complete=come == len(self._contents))

    def reader(self, split: Split, position: Any, context: ReaderContext) -> SplitReader:
        return HesitantLines(part_of(split), position, self._batch)


class HesitantLines(JsonLineReader):
    """Has nothing now and then, as the conditions say, and few lines at once."""

    def __init__(self, part: FilePart, position: int | None, batch: int) -> None:
        super().__init__(part, position)
        self._hiccups = Hiccups()
        self._batch = batch

    def read(self, limit: int, now_seconds: float) -> Batch | None:
        return None if self._hiccups.has_one(now_seconds) else super().read(min(limit, self._batch), now_seconds)

    def wake_at(self) -> float | None:
        return self._hiccups.ends_at


def _line(row: Row) -> bytes:
    return json.dumps(row._asdict()).encode() + b"\n"
