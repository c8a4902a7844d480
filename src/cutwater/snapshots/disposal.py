"""How is a snapshot deleted that is no longer, or never was, among those that a job retains?"""

from __future__ import annotations

import re

from cutwater.errors import ConfigurationError, SnapshotDamagedError
from cutwater.snapshots.reader import shared_path, unseal_manifest
from cutwater.snapshots.storage import Storage, open_storage, split_url

_MANIFEST = re.compile(r"^([^/]+)/manifest-a\d+\.json$")


def dispose(url: str) -> int:
    """Deletes the snapshot in this folder, and of the files beside it those that only it named; their number.

    A damaged one too: then shared files that nobody else names are left, for `cutwater state gc`. May block.
    """
    root, folder = split_url(url)
    storage = open_storage(root)
    files = storage.list(folder)
    if not any(map(_MANIFEST.match, files)):
        raise ConfigurationError(
            f'"{url}" is no snapshot',
            detail="there is no manifest in it",
            hint="name the folder of a savepoint or a checkpoint (…/chk-7); cutwater state list shows them",
        )
    only_here = _shared_by(storage, files)
    for path in sorted(files, key=lambda path: (_MANIFEST.match(path) is None, path)):
        storage.delete(path)
    if only_here:
        only_here -= _shared_by(storage, storage.list(""), must_be_readable=True)
    for path in sorted(only_here):
        storage.delete(path)
    return len(files) + len(only_here)


def _shared_by(storage: Storage, files: list[str], *, must_be_readable: bool = False) -> set[str]:
    """The files beside the folders of snapshots that the manifests among these files name."""
    named: set[str] = set()
    for path in files:
        match = _MANIFEST.match(path)
        if match is None:
            continue
        try:
            manifest = unseal_manifest(storage.read(path), path=path)
        except SnapshotDamagedError:
            if must_be_readable:
                raise
            continue
        named |= {shared_path(match[1], file) for file in manifest.shared_files}
    return named
