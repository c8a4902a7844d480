"""Connectors that the kit must pass, and connectors with a planted fault that it must catch."""

from __future__ import annotations

import json
import os
import shutil
import uuid
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import cutwater as cw
from cutwater.batches import Batch, ObjectBatch
from cutwater.connectors.contract import (
    Delivery,
    Discovery,
    ReaderContext,
    Sink,
    SinkWriter,
    Source,
    SplitReader,
    WriterContext,
)
from cutwater.protocol.ids import CheckpointId
from cutwater.protocol.splits import Split
from cutwater.testing.connectors import SinkSubject, SourceSubject


class FilesWritten(SinkSubject):
    """The built-in file sink."""

    def __init__(self, root: Path) -> None:
        self._folder = root / "out"

    def sink(self) -> Sink:
        return cw.sinks.json_lines(self._folder)

    def received(self) -> Sequence[int]:
        return [json.loads(line)["n"] for path in self._folder.glob("*.jsonl") for line in path.open()]

    def pending(self) -> Sequence[str]:
        return [path.name for path in self._folder.glob(".pending/*")]

    def clear(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)


class FilesRead(SourceSubject):
    """The built-in file source; four files."""

    def __init__(self, root: Path) -> None:
        self._folder = root / "in"

    def fill(self, numbers: Iterable[int]) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)
        self._folder.mkdir()
        lines = [f'{{"n": {number}}}\n' for number in numbers]
        for part in range(4):
            (self._folder / f"{part}.jsonl").write_text("".join(lines[part::4]))

    def source(self) -> Source:
        return cw.sources.files(f"{self._folder}/*.jsonl", format="json")

    @staticmethod
    def number_of(record: Any) -> int:
        return int(record["n"])

    def poison(self) -> None:
        with (self._folder / "2.jsonl").open("a") as file:
            file.write("{no JSON\n")


def append_lines(path: str, records: list[Any]) -> None:
    with open(path, "ab", buffering=0) as file:
        file.write("".join(f"{record['n']}\n" for record in records).encode())


class LinesAppended(SinkSubject):
    """A function that can't take back what it has done; `claim`: what it says of itself."""

    def __init__(self, root: Path, *, claims_idempotence: bool = False) -> None:
        self._path = root / "lines.txt"
        self._claims_idempotence = claims_idempotence

    def sink(self) -> Sink:
        return cw.sinks.function(partial(append_lines, str(self._path)), idempotent=self._claims_idempotence)

    def received(self) -> Sequence[int]:
        return [int(line) for line in self._path.read_text().splitlines()] if self._path.exists() else []

    def clear(self) -> None:
        self._path.unlink(missing_ok=True)


# ----------------------------------------------------------------------------------------------------- planted in sinks


class ShelfSink(Sink):
    """Transactional in a folder: `pending-…` files are renamed to `done-…` when they are committed.

    `fault`: "" for none, "commits at prepare", "forgets to roll back", "appends again".
    """

    delivery = Delivery.TRANSACTIONAL

    def __init__(self, folder: Path, fault: str) -> None:
        self.folder = folder
        self.fault = fault

    @property
    def name(self) -> str:
        return f"shelf({self.fault or 'sound'})"

    def writer(self, context: WriterContext) -> SinkWriter:
        return ShelfWriter(self)

    def commit(self, committables: Sequence[bytes]) -> None:
        for name in map(bytes.decode, committables):
            pending, done = self.folder / f"pending-{name}", self.folder / f"done-{name}"
            if self.fault == "appends again":  # the prepared file is kept, and each commit takes another name
                shutil.copy(pending, self.folder / f"done-{uuid.uuid4().hex}")
            elif pending.exists():
                os.replace(pending, done)

    def recover(self, *, committables: Sequence[bytes], **_: Any) -> None:
        self.commit(committables)
        if self.fault not in ("forgets to roll back", "appends again"):
            for path in self.folder.glob("pending-*"):
                path.unlink()


class ShelfWriter(SinkWriter):
    def __init__(self, sink: ShelfSink) -> None:
        super().__init__(sink)
        self._shelf = sink
        self._numbers: list[int] = []

    def write(self, batch: Batch) -> None:
        assert isinstance(batch, ObjectBatch)
        self._numbers.extend(record["n"] for record in batch.values)

    def prepare(self, checkpoint: CheckpointId) -> list[bytes]:
        if not self._numbers:
            return []
        name = uuid.uuid4().hex
        (self._shelf.folder / f"pending-{name}").write_text("\n".join(map(str, self._numbers)))
        self._numbers = []
        if self._shelf.fault == "commits at prepare":
            self._shelf.commit([name.encode()])
        return [name.encode()]


class Shelf(SinkSubject):
    def __init__(self, root: Path, fault: str = "") -> None:
        self._folder = root / "shelf"
        self._fault = fault

    def sink(self) -> Sink:
        return ShelfSink(self._folder, self._fault)

    def received(self) -> Sequence[int]:
        return [int(line) for path in self._folder.glob("done-*") for line in path.read_text().split()]

    def pending(self) -> Sequence[str]:
        # The sink that appends again needs them: its fault is to be found in what was received.
        return () if self._fault == "appends again" else [path.name for path in self._folder.glob("pending-*")]

    def clear(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)
        self._folder.mkdir()


# --------------------------------------------------------------------------------------------------- planted in sources


class CountingSource(Source):
    """Four splits of numbers. `fault`: "" for none, "behind", "ahead", "forgets"."""

    eager = True

    def __init__(self, count: int, fault: str) -> None:
        self._count = count
        self._fault = fault

    @property
    def name(self) -> str:
        return f"counting({self._fault or 'sound'})"

    def discover(self, parallelism: int) -> Discovery:
        return Discovery(tuple(Split(str(first), b"") for first in range(4)), complete=True)

    def reader(self, split: Split, position: Any, context: ReaderContext) -> SplitReader:
        return CountingReader(range(int(split.id), self._count, 4), position or 0, self._fault)


class CountingReader(SplitReader):
    def __init__(self, numbers: range, index: int, fault: str) -> None:
        self._numbers = numbers
        self._index = index
        self._last_rows = 0
        self._fault = fault

    def read(self, limit: int, now_seconds: float) -> Batch | None:
        values = list(self._numbers[self._index : self._index + limit])
        self._index += len(values)
        self._last_rows = len(values)
        return ObjectBatch(values) if values else None

    @property
    def position(self) -> int:
        match self._fault:
            case "behind":
                return self._index - self._last_rows
            case "ahead":
                return self._index + self._last_rows
            case "forgets":
                return 0
            case _:
                return self._index

    @property
    def finished(self) -> bool:
        return self._index >= len(self._numbers)


class Counting(SourceSubject):
    def __init__(self, fault: str = "") -> None:
        self._fault = fault
        self._count = 0

    def fill(self, numbers: Iterable[int]) -> None:
        self._count = len(list(numbers))

    def source(self) -> Source:
        return CountingSource(self._count, self._fault)

    @staticmethod
    def number_of(record: Any) -> int:
        return int(record)
