"""Can two drivers ever disagree on what a job's snapshots are?"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from unittest.mock import ANY

import pytest

from cutwater.errors import (
    AttemptFencedError,
    ConfigurationError,
    InternalError,
    SnapshotDamagedError,
    StorageError,
)
from cutwater.operators.contract import FrozenList, OperatorSnapshot
from cutwater.protocol.ids import AttemptNumber, CheckpointId, TaskId
from cutwater.protocol.recovery import AttemptClaimed, SnapshotCompleted, newest_claim, run_of
from cutwater.runtime.recovering import history_of
from cutwater.snapshots.checksums import checksum_of
from cutwater.snapshots.format import FORMAT_VERSION, DatabaseFiles, Manifest, SharedFile, TaskSnapshot
from cutwater.snapshots.storage import LocalStorage, MemoryStorage
from cutwater.snapshots.store import SnapshotStore
from cutwater.snapshots.writer import Destination, write_task_snapshot


class Interrupted(MemoryStorage):
    """Calls `before` ahead of the next creation of a file whose path matches; then never again."""

    def __init__(self) -> None:
        super().__init__()
        self._pattern = ""
        self._before: Callable[[], object] | None = None

    def interrupt(self, pattern: str, before: Callable[[], object]) -> None:
        self._pattern, self._before = pattern, before

    def create_if_absent(self, path: str, data: bytes) -> bool:
        before = self._before
        if before is not None and re.search(self._pattern, path):
            self._before = None
            before()
        return super().create_if_absent(path, data)


def manifest_of(checkpoint: int, attempt: int, *tasks: TaskSnapshot, kind: str = "checkpoint") -> Manifest:
    return Manifest(
        FORMAT_VERSION,
        "job",
        "word count",
        checkpoint,
        attempt,
        kind,
        "2026-01-01",
        (),
        tasks,
        {"src": b"\x00"},
    )


def write_task(store: SnapshotStore, checkpoint: int, attempt: int) -> TaskSnapshot:
    state = OperatorSnapshot(lists=(FrozenList("items", (b"one", b"two")),))
    to = Destination(store.storage, store.job_id, AttemptNumber(attempt), inline_bytes_max=0)
    return write_task_snapshot(to, CheckpointId(checkpoint), TaskId("count", 0), [("count", state)])


def claimed(attempt: int) -> AttemptClaimed:
    """By any driver."""
    return AttemptClaimed(AttemptNumber(attempt), driver=ANY)


def completed(checkpoint: int, attempt: int) -> SnapshotCompleted:
    return SnapshotCompleted(CheckpointId(checkpoint), AttemptNumber(attempt), f"job/chk-{checkpoint}")


def raise_storage_error() -> None:
    raise StorageError("the network is gone")


@pytest.fixture
def storage() -> Interrupted:
    return Interrupted()


@pytest.fixture
def store(storage: Interrupted) -> SnapshotStore:
    return SnapshotStore(storage, "job")


def test_attempts_are_numbered_and_see_all_before_them(store: SnapshotStore, storage: Interrupted):
    first = store.claim_attempt()
    store.publish(manifest_of(1, 1))
    assert first == (1, [])
    assert SnapshotStore(storage, "job").claim_attempt() == (2, [claimed(1), completed(1, 1)])


def test_of_two_that_claim_at_once_each_has_its_own_number(store: SnapshotStore, storage: Interrupted):
    other = SnapshotStore(storage, "job")
    storage.interrupt("journal/0000000000", other.claim_attempt)
    assert store.claim_attempt() == (2, [claimed(1)])


def test_a_published_snapshot_can_be_read_and_verifies(tmp_path: Path):
    store = SnapshotStore(LocalStorage(str(tmp_path)), "job")
    store.claim_attempt()
    manifest = manifest_of(7, 1, write_task(store, 7, 1))
    store.publish(manifest)
    again = SnapshotStore(LocalStorage(str(tmp_path)), "job")
    assert (again.read_manifest(7), again.load_manifest("job/chk-7"), again.verify(7)) == (manifest, manifest, None)


def test_a_manifest_can_be_read_by_people(store: SnapshotStore, storage: Interrupted):
    store.claim_attempt()
    store.publish(manifest_of(7, 1))
    assert b'\n "job_name": "word count",\n' in storage.read("job/chk-7/manifest-a1.json")


def test_a_retained_snapshot_can_be_opened_from_its_own_folder(tmp_path: Path):
    store = SnapshotStore(LocalStorage(str(tmp_path)), "job")
    store.claim_attempt()
    manifest = manifest_of(7, 1, write_task(store, 7, 1))
    store.publish(manifest)
    elsewhere = SnapshotStore(LocalStorage(str(tmp_path / "job" / "chk-7")), "another")
    assert elsewhere.load_manifest("") == manifest
    assert elsewhere.verify_at("", manifest) is None


def test_an_older_attempt_publishes_nothing(store: SnapshotStore, storage: Interrupted):
    store.claim_attempt()
    SnapshotStore(storage, "job").claim_attempt()
    with pytest.raises(AttemptFencedError, match="checkpoint 7 of attempt 1"):
        store.publish(manifest_of(7, 1))
    assert store.journal() == [claimed(1), claimed(2)]


@pytest.mark.parametrize("moment", ["manifest", "journal"])
def test_an_attempt_that_is_superseded_in_the_act_publishes_nothing(
    store: SnapshotStore, storage: Interrupted, moment: str
):
    store.claim_attempt()
    newer = SnapshotStore(storage, "job")
    storage.interrupt(moment, newer.claim_attempt)
    with pytest.raises(AttemptFencedError):
        store.publish(manifest_of(7, 1))
    assert newer.journal() == [claimed(1), claimed(2)]


def test_an_attempt_that_was_superseded_publishes_no_savepoint(storage: Interrupted) -> None:
    others = MemoryStorage()
    store = SnapshotStore(storage, "job", open_other=lambda url: others)
    store.claim_attempt()
    SnapshotStore(storage, "job").claim_attempt()
    with pytest.raises(AttemptFencedError, match="savepoint 7 of attempt 1 was not published"):
        store.publish_savepoint("memory://savepoints/s", manifest_of(7, 1, kind="savepoint"))
    assert list(others.list("")) == []


def test_a_manifest_without_its_journal_entry_is_in_nobodys_way(store: SnapshotStore, storage: Interrupted):
    store.claim_attempt()
    storage.interrupt("journal", raise_storage_error)
    with pytest.raises(StorageError):
        store.publish(manifest_of(7, 1))
    newer = SnapshotStore(storage, "job")
    newer.claim_attempt()
    newer.publish(manifest_of(7, 2))
    assert newer.load_manifest("job/chk-7") == manifest_of(7, 2)


def test_a_manifest_that_never_got_into_the_journal_was_never_completed(store: SnapshotStore, storage: Interrupted):
    store.claim_attempt()
    storage.interrupt("journal", raise_storage_error)
    with pytest.raises(StorageError):
        store.publish(manifest_of(7, 1))
    assert store.verify(7) == "checkpoint 7 of job job was never completed: the journal does not name it"
    with pytest.raises(SnapshotDamagedError, match="never completed"):
        store.read_manifest(7)


def test_to_publish_again_does_no_harm(store: SnapshotStore):
    store.claim_attempt()
    store.publish(manifest_of(7, 1))
    store.publish(manifest_of(7, 1))
    assert store.journal() == [claimed(1), completed(7, 1)]


def test_one_id_is_not_used_for_two_snapshots(store: SnapshotStore):
    store.claim_attempt()
    store.publish(manifest_of(7, 1))
    with pytest.raises(InternalError, match="other content"):
        store.publish(manifest_of(7, 1, write_task(store, 7, 1)))


def test_nobody_publishes_without_a_claim(store: SnapshotStore):
    with pytest.raises(InternalError, match="has not claimed"):
        store.publish(manifest_of(7, 1))


def test_the_next_checkpoint_is_above_every_trace_of_one(store: SnapshotStore):
    store.claim_attempt()
    first = store.next_checkpoint(store.journal())
    store.publish(manifest_of(7, 1))
    second = store.next_checkpoint(store.journal())
    write_task(store, 11, 1)
    assert (first, second, store.next_checkpoint(store.journal())) == (1, 8, 12)


def test_damage_to_a_data_file_is_named(store: SnapshotStore, storage: Interrupted):
    store.claim_attempt()
    store.publish(manifest_of(7, 1, write_task(store, 7, 1)))
    storage.write("job/chk-7/count-0-a1.state", b"oneTwo")
    assert (store.verify(7) or "").startswith('"job/chk-7/count-0-a1.state" is damaged: its checksum differs')


@pytest.mark.parametrize("length", [0, 1, 100, -2])
def test_half_a_manifest_is_named(store: SnapshotStore, storage: Interrupted, length: int):
    store.claim_attempt()
    store.publish(manifest_of(7, 1))
    storage.write("job/chk-7/manifest-a1.json", storage.read("job/chk-7/manifest-a1.json")[:length])
    assert '"job/chk-7/manifest-a1.json" is damaged' in (store.verify(7) or "")


def test_a_manifest_whose_inline_state_was_changed_is_named(store: SnapshotStore, storage: Interrupted):
    store.claim_attempt()
    store.publish(manifest_of(7, 1))
    whole = storage.read("job/chk-7/manifest-a1.json")
    storage.write("job/chk-7/manifest-a1.json", whole.replace(b'"AA=="', b'"AQ=="'))
    assert "its checksum differs" in (store.verify(7) or "")


def test_a_missing_manifest_is_named(store: SnapshotStore, storage: Interrupted):
    store.claim_attempt()
    store.publish(manifest_of(7, 1))
    storage.delete("job/chk-7/manifest-a1.json")
    assert store.verify(7) == '"job/chk-7/manifest-a1.json" is damaged: it is missing'


def test_a_folder_without_a_manifest_is_no_snapshot(store: SnapshotStore):
    with pytest.raises(SnapshotDamagedError, match='"job/chk-3" is no snapshot'):
        store.load_manifest("job/chk-3")


def test_another_format_version_is_said_to_be_one(store: SnapshotStore, storage: Interrupted):
    store.claim_attempt()
    store.publish(manifest_of(7, 1))
    whole = storage.read("job/chk-7/manifest-a1.json")
    storage.write("job/chk-7/manifest-a1.json", whole.replace(b'{"version":1', b'{"version":2'))
    with pytest.raises(ConfigurationError, match="format version 2"):
        store.verify(7)


def test_a_damaged_journal_is_named(store: SnapshotStore, storage: Interrupted):
    store.claim_attempt()
    storage.write("job/journal/0000000000.json", b'{"version": 1, "che')
    with pytest.raises(SnapshotDamagedError, match=r"journal/0000000000\.json"):
        SnapshotStore(storage, "job").journal()


def test_a_gap_in_the_journal_is_named(store: SnapshotStore, storage: Interrupted):
    store.claim_attempt()
    store.publish(manifest_of(7, 1))
    storage.delete("job/journal/0000000000.json")
    with pytest.raises(SnapshotDamagedError, match=r'journal/0000000000\.json" is missing'):
        SnapshotStore(storage, "job").journal()


def test_a_discarded_checkpoint_leaves_nothing(store: SnapshotStore, storage: Interrupted):
    store.claim_attempt()
    store.publish(manifest_of(7, 1, write_task(store, 7, 1)))
    store.publish(manifest_of(8, 1))
    store.discard(7)
    store.discard(7)
    assert storage.list("job/chk-7") == []


def test_the_newest_completed_checkpoint_is_never_discarded(store: SnapshotStore):
    store.claim_attempt()
    store.publish(manifest_of(7, 1, write_task(store, 7, 1)))
    store.discard(7)  # its coordinator never heard that it was published, and has given it up
    assert store.verify(7) is None


def test_an_aborted_checkpoint_is_discarded_too(store: SnapshotStore, storage: Interrupted):
    store.claim_attempt()
    write_task(store, 7, 1)
    store.discard(7)
    assert storage.list("job/chk-7") == []


class AnswersTooEarly(MemoryStorage):
    """Says once that a journal entry could not be created, and creates it later."""

    def __init__(self) -> None:
        super().__init__()
        self.lands: Callable[[], object] | None = None
        self.is_armed = False

    def create_if_absent(self, path: str, data: bytes) -> bool:
        if self.is_armed and "/journal/" in path:
            self.is_armed = False
            self.lands = lambda: super(AnswersTooEarly, self).create_if_absent(path, data)
            raise StorageError("no answer")
        return super().create_if_absent(path, data)


def test_a_discarded_checkpoint_never_becomes_complete_by_an_entry_that_lands_late():
    storage = AnswersTooEarly()
    store = SnapshotStore(storage, "job")
    store.claim_attempt()
    storage.is_armed = True
    with pytest.raises(StorageError, match="no answer"):
        store.publish(manifest_of(7, 1, write_task(store, 7, 1)))
    store.discard(7)
    assert storage.lands is not None
    storage.lands()
    assert [entry for entry in SnapshotStore(storage, "job").journal() if isinstance(entry, SnapshotCompleted)] == []


def test_a_checkpoint_whose_entry_has_landed_is_complete_and_stays():
    storage = AnswersTooEarly()
    store = SnapshotStore(storage, "job")
    store.claim_attempt()
    storage.is_armed = True
    with pytest.raises(StorageError, match="no answer"):
        store.publish(manifest_of(7, 1, write_task(store, 7, 1)))
    assert storage.lands is not None
    storage.lands()
    store.discard(7)
    assert store.verify(7) is None


class LosesBytesOnce(MemoryStorage):
    """The first time that a file is read its end is missing."""

    def __init__(self) -> None:
        super().__init__()
        self._read: set[str] = set()

    def read(self, path: str) -> bytes:
        data = super().read(path)
        if path in self._read or "/chk-" not in path:
            return data
        self._read.add(path)
        return data[:-1]


def test_bytes_that_are_lost_on_the_way_are_no_verdict_on_a_snapshot():
    store = SnapshotStore(LosesBytesOnce(), "job")
    store.claim_attempt()
    store.publish(manifest_of(7, 1, write_task(store, 7, 1)))
    assert store.verify(7) is None


def test_a_driver_that_wakes_up_does_not_discard_what_a_newer_attempt_has(store: SnapshotStore, storage: Interrupted):
    store.claim_attempt()
    store.publish(manifest_of(6, 1, write_task(store, 6, 1)))
    write_task(store, 7, 1)
    newer = SnapshotStore(storage, "job")
    newer.claim_attempt()
    newer.publish(manifest_of(7, 2, write_task(newer, 7, 2)))
    store.discard(6)
    store.discard(7)
    assert (newer.verify(6), newer.verify(7)) == (None, None)
    assert not storage.exists("job/chk-7/count-0-a1.state")


def test_what_a_newer_attempt_wrote_is_kept_even_by_one_that_has_not_seen_its_claim(
    store: SnapshotStore, storage: Interrupted
):
    store.claim_attempt()
    write_task(store, 7, 1)
    write_task(store, 7, 2)
    store.discard(7)
    assert storage.list("job/chk-7") == ["job/chk-7/count-0-a2.state"]


def test_a_newer_attempt_discards_what_older_ones_left(store: SnapshotStore, storage: Interrupted):
    store.claim_attempt()
    store.publish(manifest_of(6, 1, write_task(store, 6, 1)))
    newer = SnapshotStore(storage, "job")
    newer.claim_attempt()
    newer.publish(manifest_of(7, 2))
    newer.discard(6)
    assert storage.list("job/chk-6") == []


def test_a_folder_has_one_owner(store: SnapshotStore):
    store.check_owner("word count")
    store.check_owner("word count")
    with pytest.raises(ConfigurationError, match='are of job "word count", not of "other"'):
        store.check_owner("other")


@pytest.mark.parametrize("job_id", ["", "a/b", ".."])
def test_a_job_id_is_one_folder_name(job_id: str):
    with pytest.raises(ConfigurationError, match="job id"):
        SnapshotStore(MemoryStorage(), job_id)


def test_the_run_of_a_job_is_known_to_later_drivers_also_from_a_summary(storage: Interrupted) -> None:
    store = SnapshotStore(storage, "job", journal_length_max=2)
    store.claim_attempt("first")
    assert run_of(SnapshotStore(storage, "job").journal()) == "first"
    for checkpoint in range(1, 6):
        store.publish(manifest_of(checkpoint, 1))
    assert run_of(SnapshotStore(storage, "job").journal()) == "first"


def test_a_run_that_another_one_has_taken_over_claims_nothing_more(storage: Interrupted) -> None:
    first, second = SnapshotStore(storage, "job"), SnapshotStore(storage, "job")
    first.claim_attempt("first")
    second.claim_attempt("second")
    with pytest.raises(AttemptFencedError, match="started again"):
        first.claim_attempt("first")
    assert second.claim_attempt("second")[0] == 3


def test_a_driver_that_was_replaced_claims_nothing_more_though_its_successor_goes_on_with_the_run(
    storage: Interrupted,
) -> None:
    first, second = SnapshotStore(storage, "job"), SnapshotStore(storage, "job")
    first.claim_attempt("run")
    second.claim_attempt("run")
    with pytest.raises(AttemptFencedError, match="started again"):
        first.claim_attempt("run")
    assert second.claim_attempt("run")[0] == 3


@pytest.mark.parametrize("told", [StorageError("timeout"), None])
def test_a_claim_that_was_told_to_have_failed_does_not_stop_its_driver(
    storage: Interrupted, told: StorageError | None
) -> None:
    store = SnapshotStore(storage, "job", driver="A")
    store.claim_attempt("run")

    def claim_before() -> None:  # the file is there, and the answer is lost; or the client tried again, and met it
        SnapshotStore(storage, "job", driver="A").claim_attempt("run")
        if told is not None:
            raise told

    storage.interrupt("journal/0000000001", claim_before)
    with suppress(StorageError):
        store.claim_attempt("run")
    assert store.claim_attempt("run")[0] == (3 if told else 4)


def test_who_has_claimed_is_in_the_summary_too(storage: Interrupted) -> None:
    store = SnapshotStore(storage, "job", driver="A", journal_length_max=2)
    store.claim_attempt("run")
    for checkpoint in range(1, 6):
        store.publish(manifest_of(checkpoint, 1))
    assert newest_claim(SnapshotStore(storage, "job").journal()) == AttemptClaimed(AttemptNumber(1), "run", "A")


def test_a_journal_of_a_version_without_runs_begins_a_new_one(storage: Interrupted) -> None:
    old = b'{"entry": "attempt_claimed", "attempt": 4}'
    sealed = b'{"version": 1, "checksum": "%s", "body": %s}' % (checksum_of(old).encode(), old)
    storage.write("job/journal/0000000000.json", sealed)
    store = SnapshotStore(storage, "job")
    history = history_of("latest", store, new_run=lambda: "fresh")
    assert (history.run, store.claim_attempt("fresh")[0]) == ("fresh", 5)


class Reentrant(MemoryStorage):
    """While it lists the job's files, something else happens once."""

    def __init__(self) -> None:
        super().__init__()
        self.meanwhile: Callable[[], object] | None = None

    def list(self, prefix: str) -> list[str]:
        files = super().list(prefix)
        meanwhile, self.meanwhile = self.meanwhile, None
        if meanwhile is not None:
            meanwhile()
        return files


def shared_by(checkpoint: int, *names: str) -> TaskSnapshot:
    files = tuple(SharedFile(name, f"shared/t-0-0-c1-a1-{name}", 1, "x") for name in names)
    return TaskSnapshot("t", 0, (), inline=b"", databases=(DatabaseFiles("t", 0, 1, files, {}),))


def test_two_discards_at_once_leave_no_file_that_only_they_named_and_take_none_of_others():
    storage = Reentrant()
    store = SnapshotStore(storage, "job")
    store.claim_attempt()
    for name in "abc":
        storage.write(f"job/shared/t-0-0-c1-a1-{name}", b"x")
    for checkpoint, names in ((1, "ab"), (2, "ab"), (3, "bc")):
        store.publish(manifest_of(checkpoint, 1, shared_by(checkpoint, *names)))
    storage.meanwhile = lambda: store.discard(2)
    store.discard(1)
    assert storage.list("job/shared") == ["job/shared/t-0-0-c1-a1-b", "job/shared/t-0-0-c1-a1-c"]
    assert [path for path in storage.list("job") if "/chk-" in path] == ["job/chk-3/manifest-a1.json"]


def test_a_discard_that_fails_does_not_stop_the_one_that_waits():
    storage = Reentrant()
    store = SnapshotStore(storage, "job")
    store.claim_attempt()
    for checkpoint in (1, 2, 3):
        store.publish(manifest_of(checkpoint, 1))

    def interrupted() -> None:
        store.discard(2)
        raise_storage_error()

    storage.meanwhile = interrupted
    with pytest.raises(StorageError):
        store.discard(1)
    assert [path for path in storage.list("job") if "/chk-2" in path] == []
    store.discard(1)
    assert store.still_there(store.journal()) == (3,)


def test_a_manifest_that_cant_be_read_is_reported_and_keeps_what_it_may_name():
    storage = MemoryStorage()
    store = SnapshotStore(storage, "job")
    store.claim_attempt()
    storage.write("job/shared/t-0-0-c1-a1-a", b"x")
    for checkpoint in (1, 2):
        store.publish(manifest_of(checkpoint, 1, shared_by(checkpoint, "a")))
    storage.write("job/chk-2/manifest-a1.json", b"{}")
    again = SnapshotStore(storage, "job")
    again.claim_attempt()
    with pytest.raises(SnapshotDamagedError, match="job/chk-2/manifest-a1"):
        again.discard(1)
    assert storage.list("job/shared") == ["job/shared/t-0-0-c1-a1-a"]
    assert storage.list("job/chk-1") == []


def test_a_manifest_in_the_folder_of_another_checkpoint_does_not_verify(store: SnapshotStore, storage: Interrupted):
    store.claim_attempt()
    store.publish(manifest_of(6, 1))
    store.publish(manifest_of(7, 1))
    storage.write("job/chk-7/manifest-a1.json", storage.read("job/chk-6/manifest-a1.json"))
    assert "is of another snapshot" in (store.verify(7) or "")
