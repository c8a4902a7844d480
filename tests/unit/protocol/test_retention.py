"""Which files may be deleted, and in which order?"""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from cutwater.protocol.ids import AttemptNumber, CheckpointId
from cutwater.protocol.recovery import AttemptClaimed, JournalEntry, SnapshotCompleted
from cutwater.protocol.retention import (
    Delete,
    Deletion,
    DiscardCheckpoint,
    DiscardEverything,
    FileKind,
    FilesListed,
    JournalRead,
    ListFiles,
    ManifestsRead,
    ReadJournal,
    ReadManifests,
    Request,
    SnapshotKey,
    StoredFile,
    SweepLeftovers,
)


def claim(attempt: int) -> AttemptClaimed:
    return AttemptClaimed(AttemptNumber(attempt))


def complete(checkpoint: int, attempt: int = 1) -> SnapshotCompleted:
    return SnapshotCompleted(CheckpointId(checkpoint), AttemptNumber(attempt), f"job/chk-{checkpoint}")


def manifest(checkpoint: int, attempt: int = 1) -> StoredFile:
    return StoredFile(f"m{checkpoint}-{attempt}", FileKind.MANIFEST, SnapshotKey(checkpoint, attempt))


def state(checkpoint: int, attempt: int = 1) -> StoredFile:
    return StoredFile(f"s{checkpoint}-{attempt}", FileKind.STATE, SnapshotKey(checkpoint, attempt))


def shared(name: str, checkpoint: int, attempt: int = 1) -> StoredFile:
    return StoredFile(name, FileKind.SHARED, SnapshotKey(checkpoint, attempt))


def decided(
    request: Request,
    files: list[StoredFile],
    entries: list[JournalEntry],
    named: Mapping[SnapshotKey, set[str] | None] | None = None,
    mine: int = 1,
) -> Delete | None:
    """What is deleted by attempt `mine`; `named` are shared files by snapshot."""
    deletion = Deletion(request, AttemptNumber(mine))
    assert deletion.start() == [ListFiles()]
    assert deletion.handle(FilesListed(files)) == [ReadJournal()]
    effects = deletion.handle(JournalRead(entries))
    match effects:
        case [ReadManifests(snapshots)]:
            effects = deletion.handle(ManifestsRead({key: (named or {}).get(key, set()) for key in snapshots}))
    match effects:
        case [Delete() as delete]:
            return delete
        case []:
            return None
        case _:
            pytest.fail(f"unexpected: {effects}")


ONE, TWO, THREE = (SnapshotKey(number, 1) for number in (1, 2, 3))
FILES = [manifest(1), state(1), manifest(2), state(2), shared("a", 1), shared("b", 1), shared("c", 2)]
ENTRIES: list[JournalEntry] = [claim(1), complete(1), complete(2)]


def test_a_manifest_goes_first_and_with_it_what_no_other_snapshot_names():
    delete = decided(DiscardCheckpoint(1), FILES, ENTRIES, {ONE: {"a", "b"}, TWO: {"b", "c"}})
    assert delete == Delete((ONE,), ("s1-1", "a"))


def test_the_newest_completed_snapshot_stays_even_if_its_coordinator_has_given_it_up():
    assert decided(DiscardCheckpoint(2), FILES, ENTRIES, {ONE: {"a"}, TWO: {"b", "c"}}) is None


def test_of_an_aborted_checkpoint_everything_goes():
    files = [*FILES, state(3), shared("d", 3)]
    assert decided(DiscardCheckpoint(3), files, ENTRIES, {TWO: {"b"}}) == Delete((THREE,), ("s3-1", "d"))


def test_of_an_aborted_checkpoint_that_has_only_shared_files_those_go():
    assert decided(DiscardCheckpoint(3), [*FILES, shared("d", 3)], ENTRIES) == Delete((THREE,), ("d",))


def test_a_driver_that_was_superseded_deletes_only_what_it_never_completed():
    entries = [*ENTRIES, claim(2)]
    assert decided(DiscardCheckpoint(1), FILES, entries, {TWO: {"b"}}) is None
    files = [*FILES, state(3), shared("d", 3), state(3, 2)]
    assert decided(DiscardCheckpoint(3), files, entries, {TWO: {"b"}}) == Delete((THREE,), ("s3-1", "d"))
    assert decided(SweepLeftovers(), FILES, entries) is None
    assert decided(DiscardEverything(), FILES, entries) is None


def test_files_of_a_newer_attempt_are_left_alone():
    files = [state(3), manifest(3, 2), state(3, 2), *FILES]
    assert decided(DiscardCheckpoint(3), files, ENTRIES) == Delete((THREE,), ("s3-1",))


def test_while_a_manifest_cant_be_read_no_shared_file_goes():
    delete = decided(DiscardCheckpoint(1), FILES, ENTRIES, {ONE: {"a", "b"}, TWO: None})
    assert delete == Delete((ONE,), ("s1-1",))


def test_of_a_snapshot_whose_own_manifest_cant_be_read_the_rest_goes():
    assert decided(DiscardCheckpoint(1), FILES, ENTRIES, {ONE: None, TWO: {"b"}}) == Delete((ONE,), ("s1-1", "a"))


def test_a_sweep_takes_what_earlier_attempts_never_completed_and_what_nothing_names():
    files = [*FILES, manifest(3), state(3), shared("d", 3), state(4, 2), shared("e", 4, 2)]
    delete = decided(SweepLeftovers(), files, [*ENTRIES, claim(2)], {ONE: {"a"}, TWO: {"b", "c"}}, mine=2)
    assert delete == Delete((THREE,), ("s3-1", "d"))


def test_a_job_that_is_over_deletes_everything():
    delete = decided(DiscardEverything(), FILES, ENTRIES)
    assert delete == Delete((ONE, TWO), ("s1-1", "s2-1", "a", "b", "c"))
