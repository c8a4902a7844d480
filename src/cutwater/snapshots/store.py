"""Which snapshots does a job have, and who may add one?

    {job_id}/job.json                                        whose folder this is
    {job_id}/journal/0000000041.json …                       the order that all drivers agree on (see `journal`)
    {job_id}/chk-{checkpoint}/{task}-a{attempt}.state        data files of an attempt, and last of all
    {job_id}/chk-{checkpoint}/manifest-a{attempt}.json       what belongs together
    {job_id}/shared/{task}-…-c{checkpoint}-a{attempt}-{name} files of databases, first written for this checkpoint

An attempt first claims its number in the journal. A snapshot is complete when its entry is in there: whoever appends
one looks at every entry before it, so an attempt that was superseded meets the newer claim and publishes nothing.

Every file in a snapshot's folder bears the number of its attempt. So two attempts that use one checkpoint id never
touch each other's files: not one that died between manifest and journal, nor one that was thought dead and wakes up.

A shared file lives as long as a completed snapshot names it. Only files that a completed checkpoint named are named
again by a later one, and the newest completed one is never deleted: so nothing that is being written loses a file.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress

import msgspec

from cutwater.errors import AttemptFencedError, ConfigurationError, InternalError, SnapshotDamagedError, StorageError
from cutwater.protocol.ids import AttemptNumber, CheckpointId
from cutwater.protocol.recovery import AttemptClaimed, JournalEntry, SnapshotCompleted, may_append
from cutwater.snapshots import reader
from cutwater.snapshots.documents import seal, unseal
from cutwater.snapshots.format import FORMAT_VERSION, Manifest
from cutwater.snapshots.journal import Journal
from cutwater.snapshots.names import SHARED, manifest_name, snapshot_folder, writer_of_shared
from cutwater.snapshots.storage import Storage, open_storage, split_url

JOURNAL_LENGTH_MAX = 100
"""Files that a new driver may have to read before it knows where it stands."""

_FOLDER = re.compile(r"/chk-(\d+)/")
_OF_ATTEMPT = re.compile(r"-a(\d+)\.(?:state|json)$")


class _JobDocument(msgspec.Struct, frozen=True):
    job_id: str
    job_name: str


class SnapshotStore:
    """The snapshots of one job. Every method may block; background threads may call several at a time."""

    def __init__(
        self,
        storage: Storage,
        job_id: str,
        *,
        journal_length_max: int = JOURNAL_LENGTH_MAX,
        open_other: Callable[[str], Storage] = open_storage,
    ) -> None:
        """`open_other` opens the storages of savepoints, and of snapshots that are restored by their path."""
        if not job_id or "/" in job_id or job_id in (".", ".."):
            raise ConfigurationError(f'"{job_id}" can\'t be a job id', hint="use letters, digits, - and _")
        self.storage = storage
        self.job_id = job_id
        self.open_other = open_other
        self._journal = Journal(storage, f"{job_id}/journal")
        self._journal_length_max = journal_length_max
        self._journal_lock = threading.Lock()
        self._attempt: AttemptNumber | None = None
        #: An entry was to be appended, and nobody knows whether it will be.
        self._in_doubt = False
        #: Paths of the shared files that a manifest names, by checkpoint and attempt.
        self._shared: dict[tuple[int, int], set[str]] = {}

    def folder(self, checkpoint: int) -> str:
        return snapshot_folder(self.job_id, checkpoint)

    def check_owner(self, job_name: str) -> None:
        """Makes this the folder of the job of this name; raises `ConfigurationError` if it is another's."""
        path = f"{self.job_id}/job.json"
        if self.storage.create_if_absent(path, seal(_JobDocument(self.job_id, job_name))):
            return
        owner: _JobDocument = unseal(self.storage.read(path), _JobDocument, path=path)
        if owner.job_name != job_name:
            raise ConfigurationError(
                f'the checkpoints in "{self.job_id}" are of job "{owner.job_name}", not of "{job_name}"',
                detail=path,
                hint="choose another job id or another storage, or restore from one of its snapshots explicitly",
            )

    # The journal.

    def journal(self) -> list[JournalEntry]:
        """All entries that still matter, oldest first."""
        with self._journal_lock:
            self._journal.catch_up()
            return self._journal.entries.copy()

    def claim_attempt(self) -> tuple[AttemptNumber, list[JournalEntry]]:
        """Claims the next attempt number; from now on older attempts can publish nothing. With all entries before."""
        with self._journal_lock:
            self._journal.catch_up()
            while True:
                attempt = AttemptNumber((self._journal.newest_claim or 0) + 1)
                before = self._journal.entries.copy()
                if self._journal.append(AttemptClaimed(attempt)):
                    self._attempt = attempt
                    return attempt, before

    def next_checkpoint(self, entries: Sequence[JournalEntry]) -> CheckpointId:
        """The lowest id above all that have left a trace: in these entries, or as a folder."""
        completed = [entry.checkpoint for entry in entries if isinstance(entry, SnapshotCompleted)]
        begun = [int(match[1]) for path in self.storage.list(self.job_id) if (match := _FOLDER.search(path))]
        return CheckpointId(max([0, *completed, *begun]) + 1)

    def still_there(self, entries: Sequence[JournalEntry]) -> tuple[CheckpointId, ...]:
        """The checkpoints completed in these entries that nobody has deleted, oldest first."""
        there = set(self.storage.list(self.job_id))
        return tuple(sorted(entry.checkpoint for entry in _there(entries, there)))

    def publish(self, manifest: Manifest) -> None:
        """Makes the snapshot complete: its manifest, then its journal entry. To repeat it does no harm.

        Raises `AttemptFencedError` if a newer attempt has claimed the job. After a `StorageError` it may or may not
        have happened; the journal tells.
        """
        assert manifest.version == FORMAT_VERSION, manifest.version
        assert manifest.job_id == self.job_id, manifest.job_id
        folder = self.folder(manifest.checkpoint)
        entry = SnapshotCompleted(CheckpointId(manifest.checkpoint), AttemptNumber(manifest.attempt), folder)
        with self._journal_lock:
            self._journal.catch_up()
            self._refuse_fenced(entry)
            self._write_manifest(folder, manifest)
            while entry not in self._journal.entries:
                self._refuse_fenced(entry)
                self._in_doubt = True
                self._journal.append(entry)
            self._in_doubt = False
            self._shorten_journal()
        self._shared[entry.checkpoint, entry.attempt] = _shared_files(folder, manifest)

    def publish_savepoint(self, url: str, manifest: Manifest) -> None:
        """Makes a savepoint complete. It is its owner's, not part of the journal: no recovery looks for it."""
        root, folder = split_url(url)
        path = f"{folder}/{manifest_name(manifest.attempt)}"
        if not self.open_other(root).create_if_absent(path, seal(manifest)):
            raise InternalError(f'the savepoint "{url}" was published before')

    def discard_savepoint(self, url: str) -> None:
        """Deletes what is there of it."""
        root, folder = split_url(url)
        self.open_other(root).delete_folder(folder)

    # Snapshots.

    def read_manifest(self, checkpoint: int) -> Manifest:
        """The manifest of a completed checkpoint of this job."""
        completed = self._completed(checkpoint)
        return reader.load_manifest(self.storage, completed.path, completed.attempt)

    def load_manifest(self, path: str) -> Manifest:
        """The manifest of the snapshot in this folder, from the storage's root: of this job, or of any."""
        for entry in reversed(self.journal()):
            if isinstance(entry, SnapshotCompleted) and entry.path == path:
                return reader.load_manifest(self.storage, path, entry.attempt)
        return reader.load_manifest(self.storage, path)

    def verify(self, checkpoint: int) -> str | None:
        """None: the snapshot can be restored; else what is wrong, and with which file.

        Storage that can't be reached raises `StorageError`: that is no verdict on the snapshot.
        """
        try:
            manifest = self.read_manifest(checkpoint)
        except SnapshotDamagedError as error:
            return f"{error.fact}: {error.detail}"
        return self.verify_at(self._completed(checkpoint).path, manifest)

    def verify_at(self, path: str, manifest: Manifest) -> str | None:
        """The same for a snapshot in any folder of the storage."""
        return reader.verify(self.storage, path, manifest)

    def discard(self, checkpoint: int) -> None:
        """Deletes what is there of a checkpoint, complete or not. The manifest first: no half is taken for a whole.

        Files of newer attempts are left alone. So are, once there is a newer attempt, those of older ones and those
        of a completed checkpoint: the newer attempt may be restoring from them. The newest completed one always stays.
        """
        self._settle()
        entries = self.journal()
        mine = self._attempt
        if mine is None:
            raise InternalError(f"checkpoint {checkpoint} is to be discarded before an attempt was claimed")
        attempts = {int(match[1]) for path in self._files(checkpoint) if (match := _OF_ATTEMPT.search(path))}
        completed = [entry for entry in entries if isinstance(entry, SnapshotCompleted)]
        completed_by = {entry.attempt for entry in completed if entry.checkpoint == checkpoint}
        if not may_append(entries, mine):
            attempts = (attempts & {mine}) - completed_by
        if checkpoint == max((entry.checkpoint for entry in completed), default=None):
            # Given up by its coordinator, which did not hear that it was published; recovery would start from it.
            attempts -= completed_by
        mine_or_older = {attempt for attempt in attempts if attempt <= mine}
        named = {
            path
            for attempt in mine_or_older
            if self.storage.exists(f"{self.folder(checkpoint)}/{manifest_name(attempt)}")
            for path in self._named_by(checkpoint, attempt)
        }
        for attempt in sorted(mine_or_older):
            self._discard_attempt(checkpoint, attempt)
        if not may_append(entries, mine):
            named.clear()
        self._discard_shared(named, checkpoint, mine)

    def _settle(self) -> None:
        """An entry of which the storage said that it failed may still land, and would name what we delete.

        So its place in the journal is taken first, by our claim once more: an entry that changes nothing.
        """
        with self._journal_lock:
            if self._in_doubt:
                self._journal.catch_up()
                claims = [entry for entry in self._journal.entries if isinstance(entry, AttemptClaimed)]
                self._journal.append(max(claims, key=lambda claim: claim.attempt))
                self._in_doubt = False

    def discard_all(self) -> None:
        """Deletes every snapshot of the job, if no newer attempt has claimed it. The journal stays: ids go on."""
        mine = self._attempt
        if mine is None or not may_append(self.journal(), mine):
            return
        files = self.storage.list(self.job_id)
        manifests_first = sorted(files, key=lambda path: (not path.endswith(".json"), path))
        for path in manifests_first:
            if _FOLDER.search(path) or _is_shared(path):
                self.storage.delete(path)

    def sweep(self) -> None:
        """Deletes what earlier attempts have left behind unfinished: they can complete nothing any more."""
        files = self.storage.list(self.job_id)
        entries = self.journal()
        mine = self._attempt
        if mine is None or not may_append(entries, mine):
            return
        completed = {(entry.checkpoint, entry.attempt) for entry in entries if isinstance(entry, SnapshotCompleted)}
        for path in files:
            folder, of_attempt = _FOLDER.search(path), _OF_ATTEMPT.search(path)
            if folder is None or of_attempt is None or int(of_attempt[1]) >= mine:
                continue
            if (int(folder[1]), int(of_attempt[1])) not in completed:
                self.storage.delete(path)
        shared = [path for path in files if _is_shared(path) and writer_of_shared(path)[1] < mine]
        if shared:
            for path in sorted(set(shared) - self._shared_in_use()):
                self.storage.delete(path)

    def _discard_shared(self, named: set[str], checkpoint: int, mine: AttemptNumber) -> None:
        """Of the files that the discarded snapshot named, or was to name, those that no other one names."""
        shared = self.storage.list(f"{self.job_id}/{SHARED}")
        named |= {path for path in shared if writer_of_shared(path) == (checkpoint, mine)}
        if named:
            for path in sorted(named - self._shared_in_use()):
                self.storage.delete(path)

    def _shared_in_use(self) -> set[str]:
        """By the completed snapshots that are there.

        The files are listed before the journal is read: what a snapshot names that was completed in between is named
        by one of those listed too, or is its own.
        """
        there = set(self.storage.list(self.job_id))
        used: set[str] = set()
        for entry in _there(self.journal(), there):
            try:
                used |= self._named_by(entry.checkpoint, entry.attempt)
            except SnapshotDamagedError:
                # Discarded since the files were listed: it names nothing any more.
                if self.storage.exists(f"{entry.path}/{manifest_name(entry.attempt)}"):
                    raise
        return used

    def _named_by(self, checkpoint: int, attempt: int) -> set[str]:
        """The shared files that a manifest names."""
        folder = self.folder(checkpoint)
        known = self._shared.get((checkpoint, attempt))
        if known is None:
            known = _shared_files(folder, reader.load_manifest(self.storage, folder, attempt))
            self._shared[checkpoint, attempt] = known
        return known

    def _discard_attempt(self, checkpoint: int, attempt: int) -> None:
        self.storage.delete(f"{self.folder(checkpoint)}/{manifest_name(attempt)}")
        self._shared.pop((checkpoint, attempt), None)
        for path in self._files(checkpoint):
            match = _OF_ATTEMPT.search(path)
            if match and int(match[1]) == attempt:
                self.storage.delete(path)

    def _files(self, checkpoint: int) -> list[str]:
        return self.storage.list(self.folder(checkpoint))

    def _write_manifest(self, folder: str, manifest: Manifest) -> None:
        path = f"{folder}/{manifest_name(manifest.attempt)}"
        data = seal(manifest)
        if self.storage.create_if_absent(path, data):
            return
        there = reader.load_manifest(self.storage, folder, manifest.attempt)
        if msgspec.structs.replace(there, created_at=manifest.created_at) != manifest:
            raise InternalError(f'"{path}" was published before with other content', detail="one id was used twice")

    def _completed(self, checkpoint: int) -> SnapshotCompleted:
        for entry in reversed(self.journal()):
            if isinstance(entry, SnapshotCompleted) and entry.checkpoint == checkpoint:
                return entry
        raise SnapshotDamagedError(
            f"checkpoint {checkpoint} of job {self.job_id} was never completed", detail="the journal does not name it"
        )

    def _shorten_journal(self) -> None:
        """Under the lock. A failure is no harm: the next checkpoint tries again."""
        if self._journal.length > self._journal_length_max and self._journal.newest_claim == self._attempt:
            with suppress(StorageError):
                there = set(self.storage.list(self.job_id))
                self._journal.summarise(lambda entry: any(_there([entry], there)))

    def _refuse_fenced(self, entry: SnapshotCompleted) -> None:
        newest = self._journal.newest_claim
        if newest is None or newest < entry.attempt:
            raise InternalError(f"attempt {entry.attempt} publishes, but has not claimed its number")
        if newest > entry.attempt:
            raise self._fenced(entry.checkpoint, entry.attempt, newest)

    def _fenced(self, checkpoint: int, attempt: int, newest: int) -> AttemptFencedError:
        return AttemptFencedError(
            f"checkpoint {checkpoint} of attempt {attempt} was not published",
            detail=f"attempt {newest} has claimed job {self.job_id}",
            hint="another driver runs this job; this one should end",
        )


def _there(entries: Sequence[JournalEntry], files: set[str]) -> Iterator[SnapshotCompleted]:
    """The completed snapshots whose manifest is among these files."""
    for entry in entries:
        if isinstance(entry, SnapshotCompleted) and f"{entry.path}/{manifest_name(entry.attempt)}" in files:
            yield entry


def _shared_files(folder: str, manifest: Manifest) -> set[str]:
    return {reader.shared_path(folder, file) for file in manifest.shared_files}


def _is_shared(path: str) -> bool:
    return f"/{SHARED}/" in path
