"""What have all drivers of a job agreed on, and in which order?

    {folder}/0000000041.json …   one entry each, created if absent: an index has one entry for ever

Now and then whoever holds the newest claim appends a summary of all before it, and deletes that. Reading goes from the
newest file back to the newest summary, so what lies below one doesn't count. A driver that hung meanwhile, and creates
a file in the hole below, looks once more before it believes in it, and finds the summary.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from typing import assert_never

import msgspec

from cutwater.errors import SnapshotDamagedError, StorageError
from cutwater.protocol.ids import AttemptNumber, CheckpointId
from cutwater.protocol.recovery import AttemptClaimed, JournalEntry, SnapshotCompleted, newest_claim
from cutwater.signatures import Secret
from cutwater.snapshots.documents import seal, unseal
from cutwater.snapshots.paths import is_below_root
from cutwater.snapshots.storage import Storage

_FILE = re.compile(r"/(\d+)\.json$")
_READS_MAX = 10
"""Each is repeated only if another driver has summarised meanwhile."""


class _Claim(msgspec.Struct, frozen=True, tag_field="entry", tag="attempt_claimed"):
    attempt: int
    run: str = ""
    """Empty: written by a version that had no runs."""
    driver: str = ""


class _Completed(msgspec.Struct, frozen=True, tag_field="entry", tag="snapshot_completed"):
    checkpoint: int
    attempt: int
    path: str


class _Summary(msgspec.Struct, frozen=True, tag_field="entry", tag="summary"):
    """All that still matters of the entries before: the newest claim, and the snapshots that are there."""

    attempt: int
    completed: tuple[tuple[int, int, str], ...]
    run: str = ""
    driver: str = ""


_Document = _Claim | _Completed | _Summary


class Journal:
    """The entries as last read. Every method may block; by one thread at a time."""

    def __init__(self, storage: Storage, folder: str, secret: Secret | None = None) -> None:
        self._storage = storage
        self._secret = secret
        self._folder = folder
        self.entries: list[JournalEntry] = []
        #: Index of the newest summary; below it there is nothing.
        self._base = 0
        self._next = 0

    @property
    def length(self) -> int:
        """How many files there are, but for leftovers."""
        return self._next - self._base

    @property
    def newest_claim(self) -> AttemptNumber | None:
        claim = newest_claim(self.entries)
        return None if claim is None else claim.attempt

    def catch_up(self) -> None:
        """Reads what others have appended."""
        self._read({})

    def append(self, entry: JournalEntry) -> bool:
        """True: the entry is next in the journal. False: another one is. What is there now has been read."""
        return self._append(_document(entry))

    def summarise(self, is_kept: Callable[[SnapshotCompleted], bool]) -> None:
        """Puts one file in the place of all; of completed snapshots it names those that are kept, and the newest.

        The newest always: a job whose snapshots were all deleted by somebody must not start as if it had had none.
        """
        completed = [entry for entry in self.entries if isinstance(entry, SnapshotCompleted)]
        newest = max(completed, key=lambda entry: entry.checkpoint, default=None)
        kept = [entry for entry in completed if entry is newest or is_kept(entry)]
        named = tuple((entry.checkpoint, entry.attempt, entry.path) for entry in kept)
        claim = newest_claim(self.entries) or AttemptClaimed(AttemptNumber(0), "")
        index = self._next
        if self._append(_Summary(claim.attempt, named, claim.run, claim.driver)) and self._base == index:
            for older in self._indexes():
                if older < index:
                    self._storage.delete(self._path(older))

    def _append(self, document: _Document) -> bool:
        index = self._next
        created = self._storage.create_if_absent(self._path(index), self._sealed(index, document))
        self._read({index: document} if created else {})
        return created and self._base <= index

    def _read(self, known: dict[int, _Document]) -> None:
        for _ in range(_READS_MAX):
            with suppress(_GoneMeanwhile):
                self._read_back(known)
                return
        raise StorageError(f'"{self._folder}" changes faster than it can be read')

    def _read_back(self, known: dict[int, _Document]) -> None:
        """From the newest file back to where we were, or to the newest summary."""
        indexes = self._indexes()
        if not indexes or indexes[-1] < self._next:
            return
        there = set(indexes)
        found: list[JournalEntry] = []
        for index in range(indexes[-1], -1, -1):
            if index < self._next:
                found = [*self.entries, *reversed(found)]
                break
            if index not in there:
                above = self._path(index + 1)
                raise SnapshotDamagedError(
                    f'"{self._path(index)}" is missing from the journal', detail=f'the next one is "{above}"'
                )
            document = known.get(index) or self._load(index)
            if isinstance(document, _Summary):
                found = [*_entries_of(document), *reversed(found)]
                self._base = index
                break
            found.append(_entry(document))
        else:
            found.reverse()
        self.entries, self._next = found, indexes[-1] + 1

    def _load(self, index: int) -> _Document:
        path = self._path(index)
        try:
            data = self._storage.read(path)
        except StorageError as error:
            if self._storage.exists(path):
                raise
            raise _GoneMeanwhile from error
        document: _Document = unseal(data, _Document, path=path, about=path, secret=self._secret)
        _check_paths(document, path)
        return document

    def _sealed(self, index: int, document: _Document) -> bytes:
        """An entry is signed for its place: it can't be repeated in another one, or in another job."""
        return seal(document, about=self._path(index), secret=self._secret)

    def _indexes(self) -> list[int]:
        found = (_FILE.search(path) for path in self._storage.list(self._folder))
        return sorted(int(match[1]) for match in found if match)

    def _path(self, index: int) -> str:
        return f"{self._folder}/{index:010d}.json"


class _GoneMeanwhile(Exception):
    """A file that was listed is no longer there."""


def _check_paths(document: _Document, path: str) -> None:
    match document:
        case _Completed():
            named = [document.path]
        case _Summary():
            named = [folder for _, _, folder in document.completed]
        case _:
            named = []
    for folder in named:
        if not is_below_root(folder):
            raise SnapshotDamagedError(f'"{path}" is damaged', detail=f"it names {folder!r}, which is no folder here")


def _document(entry: JournalEntry) -> _Document:
    match entry:
        case AttemptClaimed(attempt, run, driver):
            return _Claim(attempt, run, driver)
        case SnapshotCompleted(checkpoint, attempt, path):
            return _Completed(checkpoint, attempt, path)
        case _:
            assert_never(entry)


def _entry(document: _Claim | _Completed) -> JournalEntry:
    match document:
        case _Claim(attempt=attempt, run=run, driver=driver):
            return AttemptClaimed(AttemptNumber(attempt), run, driver)
        case _Completed(checkpoint=checkpoint, attempt=attempt, path=path):
            return SnapshotCompleted(CheckpointId(checkpoint), AttemptNumber(attempt), path)
        case _:
            assert_never(document)


def _entries_of(summary: _Summary) -> list[JournalEntry]:
    """The claim comes last: it is not older than any of the snapshots."""
    completed = [
        SnapshotCompleted(CheckpointId(checkpoint), AttemptNumber(attempt), path)
        for checkpoint, attempt, path in summary.completed
    ]
    return [*completed, AttemptClaimed(AttemptNumber(summary.attempt), summary.run, summary.driver)]
