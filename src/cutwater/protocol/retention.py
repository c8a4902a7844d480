"""Which files of a job may be deleted, and in which order?

A snapshot can be restored as long as the journal names it and its manifest is there. Two promises: no file is deleted
that such a snapshot names, whatever happens in between; and what no snapshot names goes, at the latest when the next
attempt sweeps.

So a manifest goes first: what is left of its snapshot is no snapshot any more, should the driver die meanwhile. Files
are listed before the journal is read: a snapshot that is completed in between names, besides its own files, only such
as the newest one before it names. The newest completed one is therefore never deleted.

A driver that was superseded deletes only what it wrote itself and never completed: its successor may be restoring the
rest. One deletion at a time in a driver; those of several drivers may overlap.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple, assert_never

from cutwater.protocol.ids import AttemptNumber
from cutwater.protocol.recovery import JournalEntry, SnapshotCompleted, may_append


class SnapshotKey(NamedTuple):
    """Two attempts may use one checkpoint id; they never write the same file."""

    checkpoint: int
    attempt: int


class FileKind(Enum):
    MANIFEST = "manifest"
    STATE = "state"
    #: May be named by other snapshots than the one it was written for.
    SHARED = "shared"


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file that is there, and the snapshot that it was written for."""

    path: str
    kind: FileKind
    owner: SnapshotKey


# What is asked for.


@dataclass(frozen=True, slots=True)
class DiscardCheckpoint:
    """Delete what is there of a checkpoint, complete or not."""

    checkpoint: int


@dataclass(frozen=True, slots=True)
class DiscardEverything:
    """Delete all snapshots of the job."""


@dataclass(frozen=True, slots=True)
class SweepLeftovers:
    """Delete what earlier attempts left unfinished: they can complete nothing any more."""


Request = DiscardCheckpoint | DiscardEverything | SweepLeftovers


# What was seen.


@dataclass(frozen=True, slots=True)
class FilesListed:
    files: Sequence[StoredFile]


@dataclass(frozen=True, slots=True)
class JournalRead:
    entries: Sequence[JournalEntry]


@dataclass(frozen=True, slots=True)
class ManifestsRead:
    """The shared files that each manifest names. None: it can't be read; empty if it is no longer there."""

    named: Mapping[SnapshotKey, Collection[str] | None]


Event = FilesListed | JournalRead | ManifestsRead


# What is to be done.


@dataclass(frozen=True, slots=True)
class ListFiles:
    pass


@dataclass(frozen=True, slots=True)
class ReadJournal:
    pass


@dataclass(frozen=True, slots=True)
class ReadManifests:
    snapshots: frozenset[SnapshotKey]


@dataclass(frozen=True, slots=True)
class Delete:
    """First these manifests, whether they were listed or not; then the files, in this order."""

    manifests: tuple[SnapshotKey, ...]
    files: tuple[str, ...]


Effect = ListFiles | ReadJournal | ReadManifests | Delete


def restorable(entries: Iterable[JournalEntry], files: Iterable[StoredFile]) -> set[SnapshotKey]:
    """The snapshots that the journal names and whose manifest is there."""
    there = {file.owner for file in files if file.kind is FileKind.MANIFEST}
    return completed(entries) & there


def completed(entries: Iterable[JournalEntry]) -> set[SnapshotKey]:
    return {SnapshotKey(entry.checkpoint, entry.attempt) for entry in entries if isinstance(entry, SnapshotCompleted)}


class Deletion:
    """The decisions of one deletion, by the driver of this attempt."""

    def __init__(self, request: Request, mine: AttemptNumber) -> None:
        self._request = request
        self._mine = mine
        self._files: Sequence[StoredFile] = ()
        #: Snapshots of which nothing shall stay, but for files that others name.
        self._going: set[SnapshotKey] = set()
        #: Snapshots that can be restored, and that stay.
        self._staying: set[SnapshotKey] = set()
        self._holds_claim = False

    def start(self) -> list[Effect]:
        """Called once, first."""
        return [ListFiles()]

    def handle(self, event: Event) -> list[Effect]:
        """The answer to the effect before. No effect: there is nothing to be deleted."""
        match event:
            case FilesListed(files):
                self._files = files
                return [ReadJournal()]
            case JournalRead(entries):
                return self._choose(entries)
            case ManifestsRead(named):
                return self._delete(self._shared_to_delete(named))
            case _:
                assert_never(event)

    def _choose(self, entries: Sequence[JournalEntry]) -> list[Effect]:
        self._holds_claim = may_append(entries, self._mine)
        there = restorable(entries, self._files)
        self._going = self._snapshots_to_delete(completed(entries))
        self._staying = there - self._going
        if isinstance(self._request, DiscardEverything):
            return self._delete({file.path for file in self._shared()} if self._holds_claim else set())
        if not self._shared():
            return self._delete(set())
        manifests = {file.owner for file in self._files if file.kind is FileKind.MANIFEST}
        return [ReadManifests(frozenset(self._staying | (self._going & manifests)))]

    def _snapshots_to_delete(self, done: set[SnapshotKey]) -> set[SnapshotKey]:
        written = {file.owner for file in self._files if file.kind is not FileKind.SHARED}
        match self._request:
            case DiscardCheckpoint(checkpoint):
                own = SnapshotKey(checkpoint, self._mine)
                if any(file.owner == own for file in self._shared()):
                    written.add(own)
                if not self._holds_claim:
                    return (written & {own}) - done
                going = {owner for owner in written if owner.checkpoint == checkpoint and owner.attempt <= self._mine}
                newest = max((key.checkpoint for key in done), default=None)
                # Its coordinator may have given it up without having heard that it was published.
                return going - done if checkpoint == newest else going
            case SweepLeftovers():
                return {owner for owner in written - done if owner.attempt < self._mine} if self._holds_claim else set()
            case DiscardEverything():
                return written if self._holds_claim else set()
            case _:
                assert_never(self._request)

    def _shared_to_delete(self, named: Mapping[SnapshotKey, Collection[str] | None]) -> set[str]:
        in_use: set[str] = set()
        for key in self._staying:
            names = named.get(key)
            if names is None:
                return set()  # it may name any of them: they stay until it is gone, and are swept then
            in_use.update(names)
        return self._shared_of_going(named) - in_use

    def _shared_of_going(self, named: Mapping[SnapshotKey, Collection[str] | None]) -> set[str]:
        shared = self._shared()
        if isinstance(self._request, SweepLeftovers):
            return {file.path for file in shared if file.owner.attempt < self._mine} if self._holds_claim else set()
        written_for = {file.path for file in shared if file.owner in self._going and file.owner.attempt == self._mine}
        return written_for.union(*(named.get(key) or () for key in self._going))

    def _shared(self) -> list[StoredFile]:
        return [file for file in self._files if file.kind is FileKind.SHARED]

    def _delete(self, shared: set[str]) -> list[Effect]:
        state = [file.path for file in self._files if file.kind is FileKind.STATE and file.owner in self._going]
        if not self._going and not shared:
            return []
        return [Delete(tuple(sorted(self._going)), (*state, *sorted(shared)))]
