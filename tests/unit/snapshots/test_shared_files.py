"""Are files that snapshots share there as long as one names them, and gone when none does?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from cutwater.errors import ConfigurationError, SnapshotDamagedError
from cutwater.operators.contract import OperatorSnapshot
from cutwater.protocol.ids import AttemptNumber, CheckpointId, TaskId
from cutwater.snapshots.checksums import checksum_of
from cutwater.snapshots.format import FORMAT_VERSION, Manifest, SharedFile, TaskSnapshot
from cutwater.snapshots.local_files import LocalFiles
from cutwater.snapshots.reader import DatabaseRestore, download_shared
from cutwater.snapshots.storage import LocalStorage, MemoryStorage, Storage
from cutwater.snapshots.store import SnapshotStore
from cutwater.snapshots.writer import Destination, write_task_snapshot

TASK = TaskId("vertex", 0)


class Files:
    """A frozen database of some files; what is not said to be stored is uploaded."""

    def __init__(self, folder: Path, contents: Mapping[str, bytes], stored: Mapping[str, Any]) -> None:
        self.groups = range(4)
        self.kinds = {"count": "value"}
        self.stored = stored
        self.now_stored: dict[str, Any] = {}
        self.discarded = False
        self._paths = {}
        for name, data in contents.items():
            (folder / name).write_bytes(data)
            self._paths[name] = str(folder / name)

    @property
    def database(self) -> Files:
        return self

    def chunks(self) -> Iterator[tuple[str, int, bytes]]:
        return iter(())

    def tables(self, rows_max: int) -> Iterator[Any]:
        return iter(())

    def files(self) -> dict[str, str]:
        return self._paths

    def written(self, checkpoint: CheckpointId, files: Mapping[str, Any]) -> None:
        self.now_stored = dict(files)

    def discard(self) -> None:
        self.discarded = True


class Job:
    """A job with one task that takes checkpoints of changing files."""

    def __init__(self, folder: Path, storage: Storage | None = None) -> None:
        self.storage = storage or MemoryStorage()
        folder.mkdir(exist_ok=True)
        self.folder = folder
        self.local = LocalFiles(str(folder / "local"), "job")
        self.stored: dict[str, Any] = {}
        self.start()

    def start(self) -> None:
        """A new driver."""
        self.store = SnapshotStore(self.storage, "job")
        self.attempt, _ = self.store.claim_attempt()

    def write(self, checkpoint: int, *names: str) -> TaskSnapshot:
        frozen = Files(self.folder, {name: name.encode() * 10 for name in names}, self.stored)
        to = Destination(self.storage, "job", AttemptNumber(self.attempt), 0, self.local)
        snapshot = write_task_snapshot(to, CheckpointId(checkpoint), TASK, [("op", OperatorSnapshot(keyed=frozen))])
        assert frozen.discarded
        self.now_stored = frozen.now_stored
        return snapshot

    def checkpoint(self, checkpoint: int, *names: str) -> TaskSnapshot:
        snapshot = self.write(checkpoint, *names)
        self.store.publish(manifest_of(checkpoint, self.attempt, snapshot))
        self.stored = self.now_stored
        return snapshot

    def shared(self) -> list[str]:
        return [path.removeprefix("job/shared/vertex-0-0-") for path in self.storage.list("job/shared")]


def manifest_of(checkpoint: int, attempt: int, *tasks: TaskSnapshot) -> Manifest:
    return Manifest(FORMAT_VERSION, "job", "job", checkpoint, attempt, "checkpoint", "", (), tasks, {})


@pytest.fixture
def job(tmp_path: Path) -> Job:
    return Job(tmp_path)


def test_only_new_files_are_uploaded(job: Job) -> None:
    first, second = job.checkpoint(1, "1.sst", "2.sst"), job.checkpoint(2, "2.sst", "3.sst")
    assert job.shared() == ["c1-a1-1.sst", "c1-a1-2.sst", "c2-a1-3.sst"]
    assert (first.new_bytes, second.new_bytes, second.size_bytes) == (100, 50, 100)


def test_a_shared_file_goes_with_the_last_snapshot_that_names_it(job: Job) -> None:
    job.checkpoint(1, "1.sst", "2.sst")
    job.checkpoint(2, "2.sst", "3.sst")
    job.checkpoint(3, "3.sst")
    job.store.discard(1)
    assert job.shared() == ["c1-a1-2.sst", "c2-a1-3.sst"]
    job.store.discard(2)
    assert job.shared() == ["c2-a1-3.sst"]
    assert job.store.verify(3) is None


def test_what_an_aborted_checkpoint_uploaded_goes_and_what_it_only_named_stays(job: Job) -> None:
    job.checkpoint(1, "1.sst")
    job.write(2, "1.sst", "2.sst")
    job.store.discard(2)
    assert job.shared() == ["c1-a1-1.sst"]


def test_a_new_attempt_sweeps_what_the_last_one_left_unfinished(job: Job) -> None:
    job.checkpoint(1, "1.sst")
    job.write(2, "1.sst", "2.sst")
    job.start()
    job.store.sweep()
    assert job.shared() == ["c1-a1-1.sst"]
    job.checkpoint(3, "1.sst", "3.sst")
    job.store.discard(1)
    assert job.shared() == ["c1-a1-1.sst", "c3-a2-3.sst"]
    assert job.store.verify(3) is None


def test_a_superseded_attempt_sweeps_and_discards_nothing_of_others(job: Job) -> None:
    job.checkpoint(1, "1.sst")
    zombie = job.store
    job.start()
    job.checkpoint(2, "1.sst", "2.sst")
    zombie.sweep()
    zombie.discard(1)
    zombie.discard(2)
    assert job.shared() == ["c1-a1-1.sst", "c2-a2-2.sst"]


def test_all_snapshots_can_go_at_once_but_not_by_a_superseded_attempt(job: Job) -> None:
    job.checkpoint(1, "1.sst")
    job.checkpoint(2, "1.sst", "2.sst")
    zombie = job.store
    job.start()
    zombie.discard_all()
    assert len(job.shared()) == 2
    job.store.discard_all()
    assert [path for path in job.storage.list("job") if "/journal/" not in path] == []
    assert job.store.next_checkpoint(job.store.journal()) == 3


def test_a_missing_or_shorter_shared_file_is_named(job: Job) -> None:
    job.checkpoint(1, "1.sst")
    path = "job/shared/vertex-0-0-c1-a1-1.sst"
    job.storage.write(path, b"short")
    assert job.store.verify(1) == f'"{path}" is damaged: its size differs (expected 50 bytes, found 5)'
    job.storage.delete(path)
    assert job.store.verify(1) == f'"{path}" is damaged: it is missing'


def test_a_file_that_changed_is_never_read(job: Job, tmp_path: Path) -> None:
    snapshot = job.checkpoint(1, "1.sst")
    job.storage.write("job/shared/vertex-0-0-c1-a1-1.sst", b"x" * 50)
    (tmp_path / "target").mkdir()
    restore = DatabaseRestore(job.storage, "job/chk-1", snapshot.databases[0], None, is_ours=True)
    with pytest.raises(SnapshotDamagedError, match="checksum differs"):
        restore.fetch(str(tmp_path / "target"))


def test_files_that_are_still_on_this_host_are_linked_if_they_are_whole(job: Job, tmp_path: Path) -> None:
    snapshot = job.checkpoint(1, "1.sst", "2.sst")
    for path in job.storage.list("job/shared"):
        job.storage.delete(path)  # so what is found comes from the local disk
    target = tmp_path / "target"
    target.mkdir()
    restore = DatabaseRestore(job.storage, "job/chk-1", snapshot.databases[0], job.local, is_ours=True)
    restore.fetch(str(target))
    assert {path.name: path.read_bytes() for path in target.iterdir()} == {
        "1.sst": b"1.sst" * 10,
        "2.sst": b"2.sst" * 10,
    }
    kept = next((tmp_path / "local").rglob("*-1.sst"))
    kept.unlink()
    kept.write_bytes(b"damaged")
    (tmp_path / "again").mkdir()
    with pytest.raises(SnapshotDamagedError, match="it is missing"):
        restore.fetch(str(tmp_path / "again"))


def test_local_copies_of_files_that_no_checkpoint_needs_are_dropped(job: Job, tmp_path: Path) -> None:
    job.checkpoint(1, "1.sst", "2.sst")
    job.checkpoint(2, "2.sst")
    job.checkpoint(3, "2.sst", "3.sst")
    kept = {path.name for path in (tmp_path / "local").rglob("*.sst")}
    assert kept == {"c1-a1-2.sst", "c3-a1-3.sst"}


def test_files_need_a_storage(tmp_path: Path) -> None:
    frozen = Files(tmp_path, {"1.sst": b"x"}, {})
    to = Destination(None, "job", AttemptNumber(1), 0)
    with pytest.raises(ConfigurationError, match="needs a storage"):
        write_task_snapshot(to, CheckpointId(1), TASK, [("op", OperatorSnapshot(keyed=frozen))])
    assert frozen.discarded


def test_a_file_that_was_changed_on_the_disk_is_damaged_however_often_it_is_fetched(tmp_path: Path) -> None:
    storage = LocalStorage(str(tmp_path / "storage"))
    storage.write("job/shared/count-0-0-c1-a1-1.sst", b"changed")
    file = SharedFile("1.sst", "shared/count-0-0-c1-a1-1.sst", 7, checksum_of(b"written"))
    with pytest.raises(SnapshotDamagedError, match="checksum"):
        download_shared(storage, "job/chk-1", file, str(tmp_path / "1.sst"))
