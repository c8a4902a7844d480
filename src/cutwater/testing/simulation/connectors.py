"""Sources and sinks of simulated jobs, on the real contracts.

The sink keeps its files in the simulated storage:

    out/{uid}/pending/{life}.{attempt}-{subtask}-{part}      written, perhaps prepared
    out/{uid}/committed/{life}.{attempt}-{subtask}-{part}    visible

A life rolls back nothing that another one has written: a snapshot of that one may name it. What a savepoint prepared is
in the savepoint itself, so it can be restored whatever was rolled back since.
"""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from typing import Any

from cutwater.batches import Batch, ObjectBatch, rows_of
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
from cutwater.protocol.ids import AttemptNumber, CheckpointId
from cutwater.protocol.splits import Split
from cutwater.testing.simulation import registry
from cutwater.testing.simulation.copies import bytes_of
from cutwater.testing.simulation.event_time import QuietReader

#: Records that a writer holds before it writes them to a file.
RECORDS_PER_PART = 6


class SimulatedSource(Source):
    """Lists of records by split; a split may be found only after some time."""

    def __init__(
        self,
        label: str,
        splits: dict[str, list[Any]],
        *,
        eager: bool,
        late_seconds: float,
        steady: bool = False,
        quiet_until_ms: int | None = None,
    ) -> None:
        """`steady`: its readers never lack a record. `quiet_until_ms`: splits without one last until that time."""
        self.splits = splits
        self._steady = steady
        self._quiet_until_ms = quiet_until_ms
        self.eager = eager
        self.discovery_interval_seconds = 0.01
        self._label = label
        self._late_seconds = late_seconds

    @property
    def name(self) -> str:
        return self._label

    def discover(self, parallelism: int) -> Discovery:
        registry.current().touch("discovery")
        names = sorted(self.splits)
        complete = registry.current().world.now >= self._late_seconds
        found = names if complete else names[: len(names) // 2]
        return Discovery(tuple(Split(name, b"") for name in found), complete)

    def origin_of(self, split: str) -> str:
        return split

    def read_before(self, split: str, position: int) -> list[Any]:
        return self.splits[split][:position]

    def reader(self, split: Split, position: Any, context: ReaderContext) -> SplitReader:
        records = self.splits[split.id]
        if not records and self._quiet_until_ms is not None:
            return QuietReader(self._quiet_until_ms)
        return SimulatedReader(records, 0 if position is None else position, steady=self._steady)


class Hiccups:
    """Now and then, as the conditions say, a reader has nothing for a while."""

    def __init__(self, *, never: bool = False) -> None:
        self._never = never
        #: None: it has none now.
        self.ends_at: float | None = None

    def has_one(self, now_seconds: float) -> bool:
        world = registry.current().world
        if self.ends_at is None and not self._never and world.random.random() < world.conditions.hiccups:
            self.begin(now_seconds, world.conditions.hiccup_seconds)
        if self.ends_at is not None and now_seconds >= self.ends_at:
            self.ends_at = None
        return self.ends_at is not None

    def begin(self, now_seconds: float, mean_seconds: float) -> None:
        self.ends_at = now_seconds + registry.current().world.delay(mean_seconds)


class SimulatedReader(SplitReader):
    """Has hiccups, unless it is steady."""

    def __init__(self, records: list[Any], index: int, *, steady: bool) -> None:
        self._records = records
        self._index = index
        self._hiccups = Hiccups(never=steady)

    def read(self, limit: int, now_seconds: float) -> Batch | None:
        if self._hiccups.has_one(now_seconds):
            return None
        records = self._records[self._index : self._index + limit]
        self._index += len(records)
        return ObjectBatch(records) if records else None

    @property
    def position(self) -> int:
        return self._index

    @property
    def finished(self) -> bool:
        return self._index >= len(self._records)

    def wake_at(self) -> float | None:
        return self._hiccups.ends_at


class SimulatedSink(Sink):
    """Files that are renamed when they are committed."""

    delivery = Delivery.TRANSACTIONAL

    def __init__(self, uid: str) -> None:
        self.uid = uid

    @property
    def name(self) -> str:
        return f"sink({self.uid})"

    def writer(self, context: WriterContext) -> SinkWriter:
        return SimulatedWriter(self, context)

    def commit(self, committables: Sequence[bytes]) -> None:
        run = registry.current()
        for committable in committables:
            name, records = pickle.loads(committable)
            pending, committed = f"out/{self.uid}/pending/{name}", f"out/{self.uid}/committed/{name}"
            if run.storage.exists(pending):
                run.checker.commits(self.uid, name)
                run.storage.create_if_absent(committed, run.storage.read(pending))
                run.storage.delete(pending)
            elif not run.storage.exists(committed):
                run.checker.finds_nothing_to_commit(self.uid, name)
                run.storage.create_if_absent(committed, bytes_of(records))

    def recover(
        self, *, job_id: str, uid: str, committables: Sequence[bytes], attempt: AttemptNumber | None = None, **_: Any
    ) -> None:
        run = registry.current()
        self.commit(committables)
        for path in run.storage.list(f"out/{self.uid}/pending"):
            if owner_of(path) == run.owner and (attempt is None or attempt_of(path) < attempt):
                run.storage.delete(path)


class SimulatedWriter(SinkWriter):
    """Writes part files as it goes; a part belongs to the checkpoint that comes next."""

    def __init__(self, sink: SimulatedSink, context: WriterContext) -> None:
        super().__init__(sink)
        self._uid = sink.uid
        self._prefix = f"{registry.current().owner:02d}.{context.attempt:04d}-{context.subtask}"
        self._part = 0
        self._records: list[Any] = []
        self._written: list[bytes] = []

    def write(self, batch: Batch) -> None:
        self.take(rows_of(batch))

    def take(self, records: Sequence[Any]) -> None:
        self._records += records
        if len(self._records) >= RECORDS_PER_PART:
            self._write_part()

    def prepare(self, checkpoint: CheckpointId) -> list[bytes]:
        if self._records:
            self._write_part()
        prepared, self._written = self._written, []
        return prepared

    def _write_part(self) -> None:
        name = f"{self._prefix}-{self._part:04d}"
        registry.current().storage.write(f"out/{self._uid}/pending/{name}", bytes_of(self._records))
        self._part += 1
        self._written.append(bytes_of((name, self._records)))
        self._records = []


class PlainSink(Sink):
    """Records are visible as soon as they are written; what is read again is written again."""

    delivery = Delivery.PLAIN

    def __init__(self, uid: str) -> None:
        self.uid = uid

    @property
    def name(self) -> str:
        return f"plain({self.uid})"

    def writer(self, context: WriterContext) -> SinkWriter:
        return PlainWriter(self, context)


class PlainWriter(SinkWriter):
    """Writes a file whenever it is told to."""

    def __init__(self, sink: PlainSink, context: WriterContext) -> None:
        super().__init__(sink)
        name = f"{registry.current().owner:02d}.{context.attempt:04d}-{context.subtask}"
        self._prefix = f"out/{sink.uid}/committed/{name}"
        self._part = 0
        self._records: list[Any] = []

    def write(self, batch: Batch) -> None:
        self._records += rows_of(batch)

    def flush(self) -> None:
        if self._records:
            registry.current().storage.create_if_absent(f"{self._prefix}-{self._part:04d}", bytes_of(self._records))
            self._part += 1
            self._records = []


def attempt_of(path: str) -> int:
    """Which attempt wrote this file of a sink."""
    return int(path.rpartition("/")[2].partition(".")[2].partition("-")[0])


def owner_of(path: str) -> int:
    """Which life wrote it."""
    return int(path.rpartition("/")[2].partition(".")[0])


def part_of(committable: bytes) -> str:
    """Its name."""
    name: str = pickle.loads(committable)[0]
    return name
