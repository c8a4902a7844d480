"""Which snapshots are below a folder, and which files there belong to none?"""

from __future__ import annotations

import re
from collections import deque
from dataclasses import dataclass

from cutwater.errors import ConfigurationError, SnapshotDamagedError
from cutwater.inspection.snapshots import OpenSnapshot, open_snapshot
from cutwater.snapshots.names import SHARED, writer_of_shared
from cutwater.snapshots.reader import attached_files, shared_path, verify
from cutwater.snapshots.storage import absolute_url, open_storage

_MANIFEST = re.compile(r"^(?:(.*)/)?manifest-a\d+\.json$")
_CHECKPOINT = re.compile(r"^(.+)/chk-(\d+)/[^/]+$")
_JOURNAL = re.compile(r"^(.+)/(?:journal/\d+\.json|job\.json)$")


@dataclass(frozen=True, slots=True)
class FoundSnapshot:
    """A folder with a manifest, readable or not."""

    folder: str
    snapshot: OpenSnapshot | None
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Orphan:
    """A file of a job that no snapshot of it names."""

    path: str
    size_bytes: int


def snapshots_below(path: str) -> list[FoundSnapshot]:
    """All snapshots in a folder and its folders, oldest first."""
    url = absolute_url(path)
    folders = {match[1] or "" for file in open_storage(url).list("") if (match := _MANIFEST.match(file))}
    found = []
    for folder in folders:
        try:
            found.append(FoundSnapshot(folder, open_snapshot(f"{url}/{folder}".rstrip("/"))))
        except (SnapshotDamagedError, ConfigurationError) as error:
            found.append(FoundSnapshot(folder, None, f"{error.fact}: {error.detail}"))
    return sorted(found, key=_age)


def problem_of(snapshot: OpenSnapshot) -> str | None:
    """What is wrong with its files; None: they are all there. Of databases and tables it compares the sizes only."""
    problem = verify(snapshot.storage, snapshot.folder, snapshot.manifest)
    if problem is not None:
        return problem
    try:
        for uid in {file.operator for task in snapshot.manifest.tasks for file in task.attached}:
            for pieces in attached_files(snapshot.storage, snapshot.folder, snapshot.manifest.tasks, uid).values():
                deque(pieces(), maxlen=0)
    except SnapshotDamagedError as error:
        return f"{error.fact}: {error.detail}"
    return None


def orphans_below(path: str) -> list[Orphan]:
    """Files of jobs that no complete snapshot names: left by drivers that died. No job may be running there."""
    url = absolute_url(path)
    storage = open_storage(url)
    files = storage.list("")
    jobs = {match[1] for file in files if (match := _JOURNAL.match(file))}
    named: set[str] = set()
    unreadable: set[str] = set()
    for found in snapshots_below(path):
        if found.snapshot is None:
            unreadable.add(found.folder)
            continue
        manifest = found.snapshot.manifest
        named |= {f"{found.folder}/{task.file.path}" for task in manifest.tasks if task.file is not None}
        named |= {shared_path(found.folder, file) for file in manifest.shared_files}
    if unreadable:
        raise SnapshotDamagedError(
            f'the manifest in "{min(unreadable)}" can\'t be read',
            detail="so it is not known which files it names",
            hint="delete that folder first, if it is of no use any more",
        )
    return [
        Orphan(file, storage.size_bytes(file) or 0)
        for file in files
        if _is_of_a_job(file, jobs) and file not in named and not _MANIFEST.match(file)
    ]


def delete(path: str, orphans: list[Orphan]) -> None:
    storage = open_storage(absolute_url(path))
    for orphan in orphans:
        storage.delete(orphan.path)


def _is_of_a_job(file: str, jobs: set[str]) -> bool:
    """A data file of a checkpoint, or a shared file, of one of these jobs."""
    checkpoint = _CHECKPOINT.match(file)
    if checkpoint is not None:
        return checkpoint[1] in jobs
    job, _, rest = file.rpartition(f"/{SHARED}/")
    return job in jobs and writer_of_shared(rest) != (-1, -1)


def _age(found: FoundSnapshot) -> tuple[str, str]:
    return (found.snapshot.manifest.created_at if found.snapshot is not None else "", found.folder)
