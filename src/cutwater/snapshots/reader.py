"""How does state come back from a snapshot, and how do we know that it is what was written?"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from typing import ParamSpec, TypeVar

from cutwater.errors import SnapshotDamagedError, SnapshotUntrustedError, StorageError
from cutwater.signatures import Secret
from cutwater.snapshots.checksums import checksum_of, checksum_of_file, is_strong
from cutwater.snapshots.documents import unseal
from cutwater.snapshots.format import (
    AttachedFile,
    DatabaseFiles,
    DataFile,
    Manifest,
    SharedFile,
    StatePart,
    StateTable,
    TaskSnapshot,
)
from cutwater.snapshots.local_files import LocalFiles
from cutwater.snapshots.manifest_names import misplaced_name
from cutwater.snapshots.names import manifest_name
from cutwater.snapshots.redistribution import in_order
from cutwater.snapshots.storage import Storage

#: What the signature of a manifest is about. Not its folder: a savepoint may be moved.
MANIFEST = "manifest"
_NAME_LENGTH_MAX = 200
Arguments = ParamSpec("Arguments")
Read = TypeVar("Read")
_MANIFEST = re.compile(r"(?:^|/)manifest-a(\d+)\.json$")


def _read_again(read: Callable[Arguments, Read]) -> Callable[Arguments, Read]:
    """What was read wrong is read once more: bytes that were lost on the way are no verdict on the snapshot.

    A snapshot that is given up must stay given up, as what it had prepared is rolled back.
    """

    @wraps(read)
    def reads(*arguments: Arguments.args, **options: Arguments.kwargs) -> Read:
        try:
            return read(*arguments, **options)
        except SnapshotDamagedError:
            return read(*arguments, **options)

    return reads


def read_parts(storage: Storage | None, folder: str, task: TaskSnapshot) -> bytes:
    """All bytes of a task's parts. May block. Raises `SnapshotDamagedError` naming the file that isn't as written."""
    if task.file is None:
        return task.inline or b""
    assert storage is not None, "a snapshot with files needs a storage"
    return read_checked(storage, _in_folder(folder, task.file.path), task.file)


@_read_again
def download_shared(storage: Storage, folder: str, file: SharedFile, local: str) -> None:
    """Brings a file here that the snapshot in this folder shares with others. May block, and raises the same."""
    path = shared_path(folder, file)
    with _told_if_missing(storage, path):
        storage.download(path, local)
    try:
        _check(path, file, *checksum_of_file(local, strong=is_strong(file.checksum)))
    except SnapshotDamagedError:
        os.unlink(local)
        raise


def shared_path(folder: str, file: SharedFile) -> str:
    """From the storage's root. `folder` is that of a snapshot."""
    return _in_folder(folder.rpartition("/")[0], file.path)


@_read_again
def read_checked(storage: Storage, path: str, file: DataFile | SharedFile | StateTable) -> bytes:
    """A file, if it is as it was written. May block. `path` is from the storage's root."""
    data = _read(storage, path)
    _check(path, file, len(data), checksum_of(data, strong=is_strong(file.checksum)))
    return data


def _check(path: str, file: DataFile | SharedFile | StateTable, size_bytes: int, checksum: str) -> None:
    if size_bytes != file.size_bytes:
        raise _damaged(path, f"its size differs (expected {file.size_bytes} bytes, found {size_bytes})")
    if checksum != file.checksum:
        raise _damaged(path, f"its checksum differs (expected {file.checksum}, found {checksum})")


class KeyedRestore:
    """The keyed state of one operator in these groups: an iterable of (state name, key group, bytes).

    Reads one task's file at a time, and only files that hold some of these groups. Iterating may block.
    """

    def __init__(
        self, storage: Storage | None, folder: str, tasks: Sequence[TaskSnapshot], operator: str, groups: range
    ) -> None:
        self._storage = storage
        self._folder = folder
        self._tasks = tasks
        self._operator = operator
        self._groups = groups

    def __iter__(self) -> Iterator[tuple[str, int, bytes]]:
        for task in in_order(self._tasks):
            wanted = [
                (part.name, chunk)
                for part in task.parts
                if part.operator == self._operator and part.kind == "keyed"
                for chunk in part.chunks
                if chunk.group in self._groups
            ]
            if wanted:
                data = read_parts(self._storage, self._folder, task)
                for name, chunk in wanted:
                    yield name, chunk.group, data[chunk.offset : chunk.offset + chunk.length]


class DatabaseRestore:
    """The database of one operator in one former task: a `RestoredDatabase`."""

    def __init__(
        self, storage: Storage, folder: str, database: DatabaseFiles, local: LocalFiles | None, *, is_ours: bool
    ) -> None:
        self._storage = storage
        self._folder = folder
        self._database = database
        self._local = local
        self.groups = database.groups
        self.kinds = database.kinds
        #: Files of a snapshot that belongs to someone else may be gone tomorrow: they are brought to us once more.
        self.stored = {file.name: file for file in database.files} if is_ours else {}

    def fetch(self, folder: str) -> None:
        """Links what lies on this host since the last checkpoint, and reads the rest from the storage. May block."""
        for name, data in self._database.small.items():
            _write_local(os.path.join(folder, name), data)
        for file in self._database.files:
            target = os.path.join(folder, file.name)
            if self._local is None or not self._local.link(file, target):
                download_shared(self._storage, self._folder, file, target)


def _write_local(path: str, data: bytes) -> None:
    with open(path, "xb") as file:
        file.write(data)


def list_items(
    storage: Storage | None,
    folder: str,
    tasks: Sequence[TaskSnapshot],
    operator: str,
    *,
    subtask: int,
    parallelism: int,
    old_parallelism: int,
) -> dict[str, list[bytes]]:
    """The items of each operator state of one operator that belong to this subtask, by state name. May block."""
    restored: dict[str, list[bytes]] = {}
    counted: dict[str, int] = {}
    for task in in_order(tasks):
        parts = [part for part in task.parts if part.operator == operator and part.kind != "keyed"]
        if not parts:
            continue
        data = read_parts(storage, folder, task)
        for part in parts:
            items = _items(data, part)
            first = counted.get(part.name, 0)
            counted[part.name] = first + len(items)
            mine = restored.setdefault(part.name, [])
            if part.kind == "union":
                mine += items
            elif parallelism == old_parallelism:
                mine += items if task.subtask == subtask else []
            else:
                mine += items[(subtask - first) % parallelism :: parallelism]
    return restored


def list_items_of(
    storage: Storage | None, folder: str, tasks: Sequence[TaskSnapshot], operator: str, name: str
) -> list[bytes]:
    """All items of one operator state, of all subtasks in their order. May block."""
    items: list[bytes] = []
    for task in in_order(tasks):
        parts = [part for part in task.parts if (part.operator, part.name) == (operator, name) and part.kind != "keyed"]
        if parts:
            data = read_parts(storage, folder, task)
            for part in parts:
                items += _items(data, part)
    return items


def attached_files(
    storage: Storage, folder: str, tasks: Sequence[TaskSnapshot], operator: str
) -> dict[str, Callable[[], Iterator[bytes]]]:
    """What the savepoint in this folder holds for a sink, by name. Reading may block, and raises the same."""

    def reader_of(file: AttachedFile) -> Callable[[], Iterator[bytes]]:
        return lambda: (read_checked(storage, _in_folder(folder, piece.path), piece) for piece in file.pieces)

    return {file.name: reader_of(file) for task in tasks for file in task.attached if file.operator == operator}


@_read_again
def load_manifest(
    storage: Storage, folder: str, attempt: int | None = None, *, secret: Secret | None = None
) -> Manifest:
    """The manifest that this attempt published in this folder. Raises `SnapshotDamagedError` naming it. May block.

    Without a number, for a folder whose journal isn't at hand: the newest attempt's. With a secret: only one that was
    signed with it, and that covers every file; then what the slots read is what a driver with this secret published.
    """
    if attempt is None:
        found = [int(match[1]) for path in storage.list(folder) if (match := _MANIFEST.search(path))]
        if not found:
            raise SnapshotDamagedError(f'"{folder}" is no snapshot', detail="there is no manifest in it")
        attempt = max(found)
    path = _in_folder(folder, manifest_name(attempt))
    data = _read(storage, path)
    return unseal_manifest(data, path=path, secret=secret)


def unseal_manifest(data: bytes, *, path: str, secret: Secret | None = None) -> Manifest:
    """A manifest whose names can be used as paths. Raises `SnapshotDamagedError`."""
    manifest: Manifest = unseal(data, Manifest, path=path, about=MANIFEST, secret=secret)
    misplaced = misplaced_name(manifest)
    if misplaced is not None:
        raise SnapshotDamagedError(
            f'"{path}" names a file that can\'t be part of a snapshot', detail=repr(misplaced[:_NAME_LENGTH_MAX])
        )
    if secret is not None:
        _check_covered(manifest, path)
    return manifest


def _check_covered(manifest: Manifest, path: str) -> None:
    for file in manifest.files:
        if not is_strong(file.checksum):
            raise SnapshotUntrustedError(
                f'the signature of "{path}" does not cover all its files',
                detail=f'"{file.path}" has a checksum that can be forged',
                hint="restore another snapshot",
            )


def verify(storage: Storage | None, folder: str, manifest: Manifest) -> str | None:
    """None: every file is there as it was written; else what is wrong, and with which file. May block.

    Of files of databases, tables and copies of output only the sizes are compared: restoring checks what it reads. A
    storage that can't be reached is no verdict on the snapshot: its `StorageError` is raised.
    """
    for task in manifest.tasks:
        try:
            data = read_parts(storage, folder, task)
            for database in task.databases:
                for file in database.files:
                    _check_there(storage, shared_path(folder, file), file)
            for table in task.tables:
                _check_there(storage, _in_folder(folder, table.path), table)
            for attached in task.attached:
                for piece in attached.pieces:
                    _check_there(storage, _in_folder(folder, piece.path), piece)
        except SnapshotDamagedError as error:
            return f"{error.fact}: {error.detail}"
        end = max((chunk.offset + chunk.length for part in task.parts for chunk in part.chunks), default=0)
        if end > len(data):
            return f"the index of {task.vertex}[{task.subtask}] ends at byte {end}, its data at {len(data)}"
    return None


def _check_there(storage: Storage | None, path: str, file: DataFile | SharedFile | StateTable) -> None:
    assert storage is not None, "a snapshot with files needs a storage"
    size_bytes = storage.size_bytes(path)
    if size_bytes is None:
        raise _damaged(path, "it is missing")
    if size_bytes != file.size_bytes:
        raise _damaged(path, f"its size differs (expected {file.size_bytes} bytes, found {size_bytes})")


def _items(data: bytes, part: StatePart) -> list[bytes]:
    return [data[chunk.offset : chunk.offset + chunk.length] for chunk in part.chunks]


def _read(storage: Storage, path: str) -> bytes:
    with _told_if_missing(storage, path):
        return storage.read(path)


@contextmanager
def _told_if_missing(storage: Storage, path: str) -> Iterator[None]:
    """A file that is not there is a damage; a storage that can't be reached is none."""
    try:
        yield
    except StorageError as error:
        if storage.exists(path):
            raise
        raise _damaged(path, "it is missing") from error


def _in_folder(folder: str, path: str) -> str:
    return f"{folder}/{path}" if folder else path


def _damaged(path: str, detail: str) -> SnapshotDamagedError:
    return SnapshotDamagedError(
        f'"{path}" is damaged', detail=detail, hint="restore from an older snapshot, the newest that verifies"
    )
