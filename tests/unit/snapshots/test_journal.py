"""Does the journal stay short, and nobody who missed that do harm?"""

from __future__ import annotations

import pytest

from cutwater.errors import AttemptFencedError, StorageError
from cutwater.snapshots.storage import MemoryStorage
from cutwater.snapshots.store import SnapshotStore

from .test_store import Interrupted, claimed, completed, manifest_of

LENGTH_MAX = 4


def driver(storage: MemoryStorage) -> SnapshotStore:
    store = SnapshotStore(storage, "job", journal_length_max=LENGTH_MAX)
    store.claim_attempt()
    return store


def files(storage: MemoryStorage) -> list[int]:
    return [int(path[-15:-5]) for path in storage.list("job/journal")]


@pytest.fixture
def storage() -> Interrupted:
    return Interrupted()


def run(store: SnapshotStore, checkpoints: range, attempt: int, *, retained: int = 2) -> None:
    for checkpoint in checkpoints:
        store.publish(manifest_of(checkpoint, attempt))
        if checkpoint - retained >= checkpoints.start:
            store.discard(checkpoint - retained)


def test_a_long_chain_of_checkpoints_is_a_few_files(storage: Interrupted) -> None:
    store = driver(storage)
    run(store, range(1, 201), 1)
    assert len(files(storage)) <= LENGTH_MAX + 1
    assert [entry for entry in store.journal() if entry == completed(200, 1)]
    again = SnapshotStore(storage, "job")
    assert again.journal() == store.journal()
    assert again.claim_attempt()[0] == 2
    assert again.next_checkpoint(again.journal()) == 201


def test_a_driver_that_hung_while_the_journal_was_shortened_publishes_nothing(storage: Interrupted) -> None:
    hung = driver(storage)
    run(hung, range(1, 3), 1)
    newer = driver(storage)
    run(newer, range(3, 30), 2)
    before = newer.journal()
    with pytest.raises(AttemptFencedError):
        hung.publish(manifest_of(99, 1))
    assert newer.journal() == before
    assert SnapshotStore(storage, "job").journal() == before


@pytest.mark.parametrize("moment", range(2, 12))
def test_one_that_hangs_in_the_act_publishes_nothing_wherever_the_summary_lies(
    storage: Interrupted, moment: int
) -> None:
    hung = driver(storage)

    def take_over() -> None:
        run(driver(storage), range(2, 2 + moment), 2)

    storage.interrupt("journal/0000000001", take_over)
    with pytest.raises(AttemptFencedError):
        hung.publish(manifest_of(1, 1))
    entries = SnapshotStore(storage, "job").journal()
    assert completed(1, 1) not in entries
    assert completed(1 + moment, 2) in entries
    run(driver(storage), range(50, 60), 3)
    assert len(files(storage)) <= LENGTH_MAX + 1, "what it left in the hole is gone"


def test_a_hung_driver_deletes_nothing_of_its_successor(storage: Interrupted) -> None:
    hung = driver(storage)
    hung.publish(manifest_of(1, 1))
    newer = driver(storage)
    run(newer, range(2, 20), 2)
    there = storage.list("job/chk-19")
    hung.discard(19)
    hung.discard_all()
    hung.sweep()
    assert storage.list("job/chk-19") == there


def test_an_interrupted_shortening_is_no_harm_and_made_good(storage: Interrupted) -> None:
    store = driver(storage)
    delete, storage.delete = storage.delete, _refuse  # type: ignore[method-assign]
    for checkpoint in range(1, 8):
        store.publish(manifest_of(checkpoint, 1))
    assert len(files(storage)) > LENGTH_MAX + 2
    assert SnapshotStore(storage, "job").journal() == store.journal()
    storage.delete = delete  # type: ignore[method-assign]
    run(store, range(8, 20), 1)
    assert len(files(storage)) <= LENGTH_MAX + 1


def _refuse(path: str) -> None:
    raise StorageError(f"{path} can't be deleted")


def test_a_file_that_goes_while_it_is_read_is_not_missed(storage: Interrupted) -> None:
    store = driver(storage)
    store.publish(manifest_of(1, 1))
    reader = SnapshotStore(storage, "job")
    read = storage.read

    def read_late(path: str) -> bytes:
        storage.read = read  # type: ignore[method-assign]
        run(store, range(2, 12), 1)
        return read(path)

    storage.read = read_late  # type: ignore[method-assign]
    assert reader.journal() == store.journal()


def test_a_job_whose_snapshots_were_all_deleted_is_not_one_that_never_had_any(storage: Interrupted) -> None:
    store = driver(storage)
    for checkpoint in range(1, 12):
        store.publish(manifest_of(checkpoint, 1))
        storage.delete_folder(f"job/chk-{checkpoint}")
    entries = SnapshotStore(storage, "job").journal()
    assert claimed(1) in entries
    assert completed(11, 1) in entries
