"""Which snapshots does a job have, and who may add one?

    {job_id}/job.json                                        whose folder this is
    {job_id}/journal/0000000041.json …                       the order that all drivers agree on (see `journal`)
    {job_id}/chk-{checkpoint}/{task}-a{attempt}.state        data files of an attempt, and last of all
    {job_id}/chk-{checkpoint}/manifest-a{attempt}.json       what belongs together
    {job_id}/shared/{task}-…-c{checkpoint}-a{attempt}-{name} files of databases, first written for this checkpoint

An attempt first claims its number in the journal. A snapshot is complete when its entry is in there: whoever appends
one looks at every entry before it, so an attempt that was superseded meets the newer claim and publishes nothing. A
savepoint has no entry, but who publishes one looks, too.

Every file in a snapshot's folder bears the number of its attempt. So two attempts that use one checkpoint id never
touch each other's files: not one that died between manifest and journal, nor one that was thought dead and wakes up.

A shared file lives as long as a completed snapshot names it. What is deleted when, `protocol.retention` decides; the
store only lists, reads and deletes.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress

import msgspec

from cutwater.errors import AttemptFencedError, ConfigurationError, InternalError, SnapshotDamagedError, StorageError
from cutwater.protocol.checkpoint_events import CheckpointKind
from cutwater.protocol.ids import AttemptNumber, CheckpointId
from cutwater.protocol.recovery import AttemptClaimed, JournalEntry, SnapshotCompleted, is_taken_over
from cutwater.protocol.retention import DiscardCheckpoint, DiscardEverything, FileKind, SweepLeftovers, restorable
from cutwater.signatures import Secret
from cutwater.snapshots import reader
from cutwater.snapshots.deletions import Deletions
from cutwater.snapshots.documents import seal, unseal
from cutwater.snapshots.format import FORMAT_VERSION, Manifest
from cutwater.snapshots.journal import Journal
from cutwater.snapshots.names import manifest_name, snapshot_folder
from cutwater.snapshots.paths import is_below_root
from cutwater.snapshots.storage import Storage, open_storage, split_url

JOURNAL_LENGTH_MAX = 100
"""Files that a new driver may have to read before it knows where it stands."""


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
        secret: Secret | None = None,
        driver: str | None = None,
    ) -> None:
        """`open_other` opens the storages of savepoints, and of snapshots that are restored by their path.

        `secret` signs what is written, and checks what is read. `driver`: a name that no other driver has; left out, a
        random one.
        """
        if not job_id or "/" in job_id or not is_below_root(job_id):
            raise ConfigurationError(f'"{job_id}" can\'t be a job id', hint="use letters, digits, - and _")
        self.storage = storage
        self.job_id = job_id
        self.secret = secret
        self.open_other = open_other
        self._journal = Journal(storage, f"{job_id}/journal", secret)
        self._journal_length_max = journal_length_max
        self._journal_lock = threading.Lock()
        self._driver = secrets.token_hex(8) if driver is None else driver
        self._attempt: AttemptNumber | None = None
        #: An entry was to be appended, and nobody knows whether it will be.
        self._in_doubt = False
        self._deletions = Deletions(storage, job_id, secret, self.journal)

    def folder(self, checkpoint: int) -> str:
        return snapshot_folder(self.job_id, checkpoint)

    def check_owner(self, job_name: str) -> None:
        """Makes this the folder of the job of this name; raises `ConfigurationError` if it is another's."""
        path = f"{self.job_id}/job.json"
        if self.storage.create_if_absent(
            path, seal(_JobDocument(self.job_id, job_name), about=path, secret=self.secret)
        ):
            return
        data = self.storage.read(path)
        owner: _JobDocument = unseal(data, _JobDocument, path=path, about=path, secret=self.secret)
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

    def claim_attempt(self, run: str = "0") -> tuple[AttemptNumber, list[JournalEntry]]:
        """Claims the next attempt number; from now on older attempts can publish nothing. With all entries before.

        Raises `AttemptFencedError` if another driver has claimed the job since we did.
        """
        with self._journal_lock:
            self._journal.catch_up()
            while True:
                attempt = AttemptNumber((self._journal.newest_claim or 0) + 1)
                before = self._journal.entries.copy()
                if self._attempt is not None and is_taken_over(before, attempt=self._attempt, driver=self._driver):
                    raise AttemptFencedError(
                        f"job {self.job_id} was started again elsewhere",
                        detail=f"attempt {attempt - 1} of another driver has claimed it since attempt {self._attempt}",
                        hint="of the drivers with one job id on one storage the last one counts; give others an id",
                    )
                if self._journal.append(AttemptClaimed(attempt, run, self._driver)):
                    self._attempt = attempt
                    return attempt, before

    def next_checkpoint(self, entries: Sequence[JournalEntry]) -> CheckpointId:
        """The lowest id above all that have left a trace: in these entries, or as a folder."""
        completed = [entry.checkpoint for entry in entries if isinstance(entry, SnapshotCompleted)]
        begun = [file.owner.checkpoint for file in self._deletions.files() if file.kind is not FileKind.SHARED]
        return CheckpointId(max([0, *completed, *begun]) + 1)

    def still_there(self, entries: Sequence[JournalEntry]) -> tuple[CheckpointId, ...]:
        """The checkpoints completed in these entries that nobody has deleted, oldest first."""
        return tuple(sorted(CheckpointId(key.checkpoint) for key in restorable(entries, self._deletions.files())))

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
            self._refuse_fenced(manifest)
            self._write_manifest(folder, manifest)
            while entry not in self._journal.entries:
                self._refuse_fenced(manifest)
                self._in_doubt = True
                self._journal.append(entry)
            self._in_doubt = False
            self._shorten_journal()
        self._deletions.published(manifest)

    def publish_savepoint(self, url: str, manifest: Manifest) -> None:
        """Makes a savepoint complete. It is its owner's, not part of the journal: no recovery looks for it.

        Raises `AttemptFencedError` if a newer attempt has claimed the job. That one went back to a checkpoint, and its
        output may be visible already: with this savepoint, what both have read would come twice. A claim behind this
        look does no harm: then the savepoint is older than the attempt that claims.
        """
        with self._journal_lock:
            self._journal.catch_up()
            self._refuse_fenced(manifest)
        root, folder = split_url(url)
        path = f"{folder}/{manifest_name(manifest.attempt)}"
        if not self.open_other(root).create_if_absent(path, self._sealed(manifest)):
            raise InternalError(f'the savepoint "{url}" was published before')

    def discard_savepoint(self, url: str) -> None:
        """Deletes what is there of it."""
        root, folder = split_url(url)
        self.open_other(root).delete_folder(folder)

    # Snapshots.

    def read_manifest(self, checkpoint: int) -> Manifest:
        """The manifest of a completed checkpoint of this job."""
        entry = self._completed(checkpoint)
        manifest = reader.load_manifest(self.storage, entry.path, entry.attempt, secret=self.secret)
        found = manifest.job_id, manifest.checkpoint, manifest.attempt
        if found != (self.job_id, entry.checkpoint, entry.attempt):
            raise SnapshotDamagedError(
                f'the manifest in "{entry.path}" is of another snapshot',
                detail="it is of job {}, checkpoint {}, attempt {}".format(*found),
            )
        return manifest

    def load_manifest(self, path: str) -> Manifest:
        """The manifest of the snapshot in this folder, from the storage's root: of this job, or of any."""
        for entry in reversed(self.journal()):
            if isinstance(entry, SnapshotCompleted) and entry.path == path:
                return reader.load_manifest(self.storage, path, entry.attempt, secret=self.secret)
        return reader.load_manifest(self.storage, path, secret=self.secret)

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

    # What is deleted when: `protocol.retention` decides.

    def discard(self, checkpoint: int) -> None:
        """Deletes what is there of a checkpoint, complete or not, unless it is the newest or a newer attempt's."""
        self._settle()
        if self._attempt is None:
            raise InternalError(f"checkpoint {checkpoint} is to be discarded before an attempt was claimed")
        self._deletions.execute(DiscardCheckpoint(checkpoint), self._attempt)

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
        if self._attempt is not None:
            self._deletions.execute(DiscardEverything(), self._attempt)

    def sweep(self) -> None:
        """Deletes what earlier attempts have left behind unfinished: they can complete nothing any more."""
        if self._attempt is not None:
            self._deletions.execute(SweepLeftovers(), self._attempt)

    def _write_manifest(self, folder: str, manifest: Manifest) -> None:
        path = f"{folder}/{manifest_name(manifest.attempt)}"
        data = self._sealed(manifest)
        if self.storage.create_if_absent(path, data):
            return
        there = reader.load_manifest(self.storage, folder, manifest.attempt, secret=self.secret)
        if msgspec.structs.replace(there, created_at=manifest.created_at) != manifest:
            raise InternalError(f'"{path}" was published before with other content', detail="one id was used twice")

    def _sealed(self, manifest: Manifest) -> bytes:
        return seal(manifest, about=reader.MANIFEST, secret=self.secret)

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
                there = restorable(self._journal.entries, self._deletions.files())
                self._journal.summarise(lambda entry: (entry.checkpoint, entry.attempt) in there)

    def check_not_superseded(self) -> None:
        """Raises `AttemptFencedError` if a newer attempt has claimed the job since ours. May block."""
        self.journal()
        newest, mine = self._journal.newest_claim, self._attempt
        if mine is not None and newest is not None and newest > mine:
            raise AttemptFencedError(
                f"attempt {mine} of job {self.job_id} is superseded",
                detail=f"attempt {newest} has claimed the job, and may have deleted what this one was to start from",
                hint="another driver runs this job; this one should end",
            )

    def _refuse_fenced(self, manifest: Manifest) -> None:
        newest = self._journal.newest_claim
        if newest is None or newest < manifest.attempt:
            raise InternalError(f"attempt {manifest.attempt} publishes, but has not claimed its number")
        if newest > manifest.attempt:
            what = "savepoint" if manifest.kind == CheckpointKind.SAVEPOINT else "checkpoint"
            raise AttemptFencedError(
                f"{what} {manifest.checkpoint} of attempt {manifest.attempt} was not published",
                detail=f"attempt {newest} has claimed job {self.job_id}",
                hint="another driver runs this job; this one should end",
            )
