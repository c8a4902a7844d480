"""How does keyed state become the tables of a savepoint, and how is it read back?

One Parquet file or more per task and state; all files below `tables/{operator}/{state}/` are one table, for any reader
of Parquet. A file holds rows in the order of their key groups. Values of several types in one state can make the files'
schemas differ: each says for itself what its columns are (see `canonical`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from cutwater.canonical import GROUP, StateKind, StateRows, from_batch, to_stream
from cutwater.protocol.ids import AttemptNumber, TaskId
from cutwater.snapshots.checksums import checksum_of
from cutwater.snapshots.format import StateTable, TaskSnapshot
from cutwater.snapshots.names import table_name
from cutwater.snapshots.reader import read_checked
from cutwater.snapshots.redistribution import overlap
from cutwater.snapshots.storage import Storage

ROWS_MAX = 65_536
"""At once in memory as Python values."""
FILE_BYTES_MAX = 64 << 20


class FrozenTables(Protocol):
    """`state.contract.FrozenKeyedState`, as seen from here."""

    def tables(self, rows_max: int) -> Iterator[tuple[str, StateKind, pa.RecordBatch]]: ...


@dataclass(frozen=True, slots=True)
class SavepointFolder:
    """Where a savepoint is written."""

    storage: Storage
    folder: str
    attempt: AttemptNumber
    #: Checksums that a signature can rely on.
    strong_checksums: bool = False

    def write(self, path: str, data: bytes) -> None:
        self.storage.write(f"{self.folder}/{path}", data)


def write_tables(to: SavepointFolder, task: TaskId, operator: str, frozen: FrozenTables) -> list[StateTable]:
    """Writes the keyed state of one operator. On a background thread; blocks until the bytes are durable."""
    written: list[StateTable] = []
    open_files: dict[str, _OpenFile] = {}

    def finish(file: _OpenFile) -> None:
        number = sum(table.name == file.name for table in written)
        path = table_name(task, operator, file.name, number, to.attempt)
        written.append(file.finish(to, operator, path))

    for name, kind, batch in frozen.tables(ROWS_MAX):
        file = open_files.get(name)
        if file is not None and not file.takes(batch):
            finish(open_files.pop(name))
            file = None
        if file is None:
            file = open_files[name] = _OpenFile(name, kind, batch.schema)
        file.add(batch)
    for file in open_files.values():
        finish(file)
    return written


@dataclass(slots=True)
class _OpenFile:
    name: str
    kind: StateKind
    schema: pa.Schema
    rows: int = 0
    first_group: int = 1 << 30
    last_group: int = -1
    _sink: pa.BufferOutputStream = field(default_factory=pa.BufferOutputStream)
    _writer: pq.ParquetWriter | None = None

    def takes(self, batch: pa.RecordBatch) -> bool:
        return bool(batch.schema.equals(self.schema, check_metadata=True)) and self._sink.tell() < FILE_BYTES_MAX

    def add(self, batch: pa.RecordBatch) -> None:
        if self._writer is None:
            self._writer = pq.ParquetWriter(self._sink, self.schema)
        self._writer.write_batch(batch)
        groups = batch.column(GROUP).to_numpy()
        self.rows += batch.num_rows
        self.first_group = min(self.first_group, int(groups.min()))
        self.last_group = max(self.last_group, int(groups.max()))

    def finish(self, to: SavepointFolder, operator: str, path: str) -> StateTable:
        assert self._writer is not None
        self._writer.close()
        data = self._sink.getvalue()
        checksum = checksum_of(data, strong=to.strong_checksums)
        to.write(path, data)
        groups = self.first_group, self.last_group
        return StateTable(operator, self.name, self.kind, self.rows, *groups, path, len(data), checksum)


class TablesRestore:
    """The tables of one operator in these groups. Iterating may block, and raises `SnapshotDamagedError`."""

    def __init__(
        self, storage: Storage, folder: str, tasks: Sequence[TaskSnapshot], operator: str, groups: range
    ) -> None:
        self._storage = storage
        self._folder = folder
        self._groups = groups
        self._tables = [
            table
            for task in tasks
            for table in task.tables
            if table.operator == operator and overlap(table.groups, groups)
        ]

    def rows(self) -> Iterator[StateRows]:
        """Of states of Python values."""
        for table in self._tables:
            if table.kind != "columns":
                for batch in self._batches(table):
                    yield from_batch(batch, table.name, table.kind)

    def chunks(self) -> Iterator[tuple[str, int, bytes]]:
        """Of columnar states, as in a checkpoint: (state name, key group, an Arrow stream)."""
        for table in self._tables:
            if table.kind == "columns":
                for batch in self._batches(table):
                    groups = batch.column(GROUP).to_numpy()
                    rows = batch.drop_columns([GROUP])
                    for group in sorted(set(groups.tolist())):
                        yield table.name, group, to_stream(rows.filter(pa.array(groups == group)))

    def batches(self) -> Iterator[pa.RecordBatch]:
        """All rows, as they are in the files."""
        for table in self._tables:
            yield from self._batches(table)

    def _batches(self, table: StateTable) -> Iterable[pa.RecordBatch]:
        data = read_checked(self._storage, f"{self._folder}/{table.path}", table)
        file = pq.ParquetFile(pa.BufferReader(data))
        for batch in file.iter_batches(ROWS_MAX):
            groups = batch.column(GROUP).to_numpy()
            mine = (groups >= self._groups.start) & (groups < self._groups.stop)
            if mine.all():
                yield batch
            elif mine.any():
                yield batch.filter(pa.array(mine))
