"""What is in a snapshot?

A snapshot is a folder: one data file per task with state worth a file, and one manifest that names them all. Small
state travels inside the manifest. Files of databases lie beside the folder, because several snapshots share them. The
manifest is versioned JSON and never contains a pickle of ours to be *read*
for its structure: state bytes inside it are opaque here.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import msgspec

from cutwater.canonical import StateKind

FORMAT_VERSION = 1

PartKind = Literal["keyed", "split", "union"]


class Chunk(msgspec.Struct, frozen=True, array_like=True):
    """A run of bytes in a task's data: of one key group (keyed), or one item of operator state (group = index)."""

    group: int
    offset: int
    length: int


class StatePart(msgspec.Struct, frozen=True):
    """One named state of one operator in one task."""

    operator: str
    name: str
    kind: PartKind
    chunks: tuple[Chunk, ...]
    form: str = ""
    """Keyed state: whether it is a value, a list, a map, … (see `canonical`)."""


class DataFile(msgspec.Struct, frozen=True):
    """Bytes on storage. `path` is relative to the snapshot's folder."""

    path: str
    size_bytes: int
    checksum: str


class SharedFile(msgspec.Struct, frozen=True):
    """A file of a database. `path` is relative to the folder that the snapshot's folder is in."""

    name: str
    path: str
    size_bytes: int
    checksum: str


class DatabaseFiles(msgspec.Struct, frozen=True):
    """The keyed state of one operator in one task as the files of a database."""

    operator: str
    first_group: int
    last_group: int
    files: tuple[SharedFile, ...]
    small: dict[str, bytes]
    """Files that travel in the manifest."""
    kinds: dict[str, str] = {}
    """What each state in it is, by name."""

    @property
    def groups(self) -> range:
        return range(self.first_group, self.last_group + 1)

    @property
    def size_bytes(self) -> int:
        return sum(file.size_bytes for file in self.files) + sum(map(len, self.small.values()))


class StateTable(msgspec.Struct, frozen=True):
    """A Parquet file of a savepoint: rows of one keyed state of one task. `path` is relative to the folder."""

    operator: str
    name: str
    kind: StateKind
    rows: int
    first_group: int
    last_group: int
    path: str
    size_bytes: int
    checksum: str

    @property
    def groups(self) -> range:
        return range(self.first_group, self.last_group + 1)


class AttachedFile(msgspec.Struct, frozen=True):
    """What a sink had prepared outside, as a copy in a savepoint: its pieces, in their order."""

    operator: str
    name: str
    pieces: tuple[DataFile, ...]

    @property
    def size_bytes(self) -> int:
        return sum(piece.size_bytes for piece in self.pieces)


class TaskSnapshot(msgspec.Struct, frozen=True):
    """What one task adds to a checkpoint: its parts and where their bytes are (inline, or one file)."""

    vertex: str
    subtask: int
    parts: tuple[StatePart, ...]
    inline: bytes | None = None
    file: DataFile | None = None
    databases: tuple[DatabaseFiles, ...] = ()
    tables: tuple[StateTable, ...] = ()
    attached: tuple[AttachedFile, ...] = ()
    pickled: tuple[tuple[str, str, str], ...] = ()
    """(operator, state, class): state that can be read only as long as the class keeps its name and fields."""
    layouts: dict[str, tuple[tuple[str, str], ...]] = {}
    """What the keyed state of an operator consists of (see `protocol.state_layout`), where the operator says so."""
    new_bytes: int = 0
    """What was written for this snapshot; the rest of its size lies there since earlier ones."""
    sync_seconds: float = 0.0
    async_seconds: float = 0.0
    alignment_seconds: float = 0.0
    start_delay_seconds: float = 0.0
    """From the trigger until the first barrier was here."""
    source_pause_seconds: float = 0.0
    """Sources only: the longest time without a turn, from the trigger until the snapshot was written."""

    @property
    def size_bytes(self) -> int:
        own = self.file.size_bytes if self.file else len(self.inline or b"")
        databases = sum(database.size_bytes for database in self.databases)
        attached = sum(file.size_bytes for file in self.attached)
        return own + databases + sum(table.size_bytes for table in self.tables) + attached


class VertexShape(msgspec.Struct, frozen=True):
    """How a chain was laid out when the snapshot was taken."""

    vertex: str
    operators: tuple[str, ...]
    parallelism: int
    max_parallelism: int


class Manifest(msgspec.Struct, frozen=True):
    """A complete snapshot. Published last; what it doesn't name does not exist."""

    version: int
    job_id: str
    job_name: str
    checkpoint: int
    attempt: int
    kind: str
    created_at: str
    vertices: tuple[VertexShape, ...]
    tasks: tuple[TaskSnapshot, ...]
    sources: dict[str, bytes]
    """Split assigner of each source operator, msgpack."""
    duration_seconds: float = 0.0
    """From the trigger until every task had written its part."""
    committed_in_driver: int = 0
    """Sinks that commit in the driver have committed everything up to this checkpoint, also where a task still has it
    as prepared."""

    @property
    def size_bytes(self) -> int:
        return sum(task.size_bytes for task in self.tasks)

    @property
    def new_bytes(self) -> int:
        return sum(task.new_bytes for task in self.tasks)

    @property
    def files(self) -> Iterator[DataFile | SharedFile | StateTable]:
        """All files but the manifest itself."""
        for task in self.tasks:
            if task.file is not None:
                yield task.file
            yield from task.tables
            for attached in task.attached:
                yield from attached.pieces
        yield from self.shared_files

    @property
    def shared_files(self) -> Iterator[SharedFile]:
        for task in self.tasks:
            for database in task.databases:
                yield from database.files
