"""How are the files of snapshots deleted? `protocol.retention` decides which; this lists, reads and deletes."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import assert_never

from cutwater.errors import CutwaterError, SnapshotDamagedError
from cutwater.protocol.ids import AttemptNumber
from cutwater.protocol.recovery import JournalEntry
from cutwater.protocol.retention import (
    Delete,
    Deletion,
    Effect,
    Event,
    FilesListed,
    JournalRead,
    ListFiles,
    ManifestsRead,
    ReadJournal,
    ReadManifests,
    Request,
    SnapshotKey,
    StoredFile,
)
from cutwater.signatures import Secret
from cutwater.snapshots import reader
from cutwater.snapshots.format import Manifest
from cutwater.snapshots.names import manifest_name, snapshot_folder, stored_file
from cutwater.snapshots.storage import Storage


class Deletions:
    """Of one job, in one driver. Every method may block; several threads may call them at a time."""

    def __init__(
        self, storage: Storage, job_id: str, secret: Secret | None, journal: Callable[[], Sequence[JournalEntry]]
    ) -> None:
        self._storage = storage
        self._job_id = job_id
        self._secret = secret
        self._journal = journal
        #: One at a time: of two, the later one sees what the earlier one has left.
        self._waiting: deque[Deletion] = deque()
        self._busy = False
        self._lock = threading.Lock()
        #: Paths of the shared files that each manifest names.
        self._named: dict[SnapshotKey, frozenset[str]] = {}

    def files(self) -> list[StoredFile]:
        """All files of the job that are part of a snapshot, or were to be."""
        return [file for path in self._storage.list(self._job_id) if (file := stored_file(path)) is not None]

    def published(self, manifest: Manifest) -> None:
        """This one need not be read again."""
        self._named[SnapshotKey(manifest.checkpoint, manifest.attempt)] = self._shared_files(manifest)

    def execute(self, request: Request, attempt: AttemptNumber) -> None:
        """Deletes; or, if another thread does, lets that one do it next, and report what fails.

        Raises `SnapshotDamagedError`, after what can be deleted was, if a manifest can't be read.
        """
        with self._lock:
            self._waiting.append(Deletion(request, attempt))
            if self._busy:
                return
            self._busy = True
        failures: list[CutwaterError] = []
        while (deletion := self._next()) is not None:
            try:
                self._carry_out(deletion, failures)
            except CutwaterError as error:
                failures.append(error)
            except BaseException:
                self._busy = False  # the next one asked for goes on with those that wait
                raise
        if failures:
            raise failures[0]

    def _next(self) -> Deletion | None:
        with self._lock:
            self._busy = bool(self._waiting)
            return self._waiting.popleft() if self._busy else None

    def _carry_out(self, deletion: Deletion, failures: list[CutwaterError]) -> None:
        effects = deletion.start()
        while effects:
            (effect,) = effects
            event = self._executed(effect, failures)
            effects = [] if event is None else deletion.handle(event)

    def _executed(self, effect: Effect, failures: list[CutwaterError]) -> Event | None:
        match effect:
            case ListFiles():
                return FilesListed(self.files())
            case ReadJournal():
                return JournalRead(self._journal())
            case ReadManifests(snapshots):
                return ManifestsRead({key: self._named_by(key, failures) for key in sorted(snapshots)})
            case Delete(manifests, files):
                for key in manifests:
                    self._storage.delete(self._manifest_path(key))
                    self._named.pop(key, None)
                for path in files:
                    self._storage.delete(path)
                return None
            case _:
                assert_never(effect)

    def _named_by(self, key: SnapshotKey, failures: list[CutwaterError]) -> frozenset[str] | None:
        if key not in self._named:
            folder = snapshot_folder(self._job_id, key.checkpoint)
            try:
                manifest = reader.load_manifest(self._storage, folder, key.attempt, secret=self._secret)
            except SnapshotDamagedError as error:
                if not self._storage.exists(self._manifest_path(key)):
                    return frozenset()
                failures.append(error)
                return None
            self._named[key] = self._shared_files(manifest)
        return self._named[key]

    def _shared_files(self, manifest: Manifest) -> frozenset[str]:
        return frozenset(f"{self._job_id}/{file.path}" for file in manifest.shared_files)

    def _manifest_path(self, key: SnapshotKey) -> str:
        return f"{snapshot_folder(self._job_id, key.checkpoint)}/{manifest_name(key.attempt)}"
