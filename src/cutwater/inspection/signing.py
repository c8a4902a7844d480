"""How does a savepoint get a signature that was taken, or made, without a secret?

By whoever knows the secret, and knows where the savepoint comes from: its files are read, compared with the checksums
that it has, and get such as a signature can rely on.
"""

from __future__ import annotations

from typing import TypeVar

import msgspec

from cutwater.errors import ConfigurationError
from cutwater.inspection.snapshots import OpenSnapshot, open_snapshot
from cutwater.protocol.checkpoint_events import CheckpointKind
from cutwater.signatures import Secret
from cutwater.snapshots.checksums import checksum_of
from cutwater.snapshots.documents import seal
from cutwater.snapshots.format import DataFile, Manifest, StateTable, TaskSnapshot
from cutwater.snapshots.names import manifest_name
from cutwater.snapshots.reader import MANIFEST, read_checked

File = TypeVar("File", DataFile, StateTable)


def sign(path: str, secret: Secret) -> Manifest:
    """Adds a signed manifest to the savepoint at this path. Reads all of it; may block."""
    snapshot = open_snapshot(path)
    if snapshot.manifest.kind != CheckpointKind.SAVEPOINT:
        raise ConfigurationError(
            f'"{path}" is a checkpoint, and only savepoints can be signed',
            hint="restore it by a job without a secret, and take a savepoint of that",
        )
    manifest = msgspec.structs.replace(
        snapshot.manifest,
        attempt=snapshot.manifest.attempt + 1,
        tasks=tuple(_covered(snapshot, task) for task in snapshot.manifest.tasks),
    )
    name = f"{snapshot.folder}/{manifest_name(manifest.attempt)}"
    if not snapshot.storage.create_if_absent(name, seal(manifest, about=MANIFEST, secret=secret)):
        raise ConfigurationError(f'"{path}" was changed meanwhile', hint="look at it, and do it again")
    return manifest


def _covered(snapshot: OpenSnapshot, task: TaskSnapshot) -> TaskSnapshot:
    file = None if task.file is None else _with_strong_checksum(snapshot, task.file)
    tables = tuple(_with_strong_checksum(snapshot, table) for table in task.tables)
    attached = tuple(
        msgspec.structs.replace(copy, pieces=tuple(_with_strong_checksum(snapshot, piece) for piece in copy.pieces))
        for copy in task.attached
    )
    return msgspec.structs.replace(task, file=file, tables=tables, attached=attached)


def _with_strong_checksum(snapshot: OpenSnapshot, file: File) -> File:
    data = read_checked(snapshot.storage, f"{snapshot.folder}/{file.path}", file)
    return msgspec.structs.replace(file, checksum=checksum_of(data, strong=True))
