"""What is in a snapshot?

A snapshot is a folder: one data file per task with state worth a file, and one manifest that names them all. Small
state travels inside the manifest. The manifest is versioned JSON and never contains a pickle of ours to be *read*
for its structure: state bytes inside it are opaque here.
"""

from __future__ import annotations

from typing import Literal

import msgspec

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


class DataFile(msgspec.Struct, frozen=True):
    """Bytes on storage. `path` is relative to the snapshot's folder."""

    path: str
    size_bytes: int
    checksum: str


class TaskSnapshot(msgspec.Struct, frozen=True):
    """What one task adds to a checkpoint: its parts and where their bytes are (inline, or one file)."""

    vertex: str
    subtask: int
    parts: tuple[StatePart, ...]
    inline: bytes | None = None
    file: DataFile | None = None
    sync_seconds: float = 0.0
    async_seconds: float = 0.0
    alignment_seconds: float = 0.0
    source_pause_seconds: float = 0.0
    """Sources only: the longest time without a turn, from the trigger until the snapshot was written."""

    @property
    def size_bytes(self) -> int:
        return self.file.size_bytes if self.file else len(self.inline or b"")


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

    @property
    def size_bytes(self) -> int:
        return sum(task.size_bytes for task in self.tasks)
