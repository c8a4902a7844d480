"""Does a disposed snapshot go, with all that is only its own, and nothing of anyone else's?"""

from __future__ import annotations

from pathlib import Path

import pytest

from cutwater.errors import ConfigurationError, SnapshotDamagedError
from cutwater.snapshots.disposal import dispose
from cutwater.snapshots.storage import LocalStorage

from .test_shared_files import Job


@pytest.fixture
def job(tmp_path: Path) -> Job:
    made = Job(tmp_path / "work", LocalStorage(str(tmp_path / "storage")))
    made.checkpoint(1, "1.sst", "2.sst")
    made.checkpoint(2, "2.sst", "3.sst")
    return made


def url(tmp_path: Path, folder: str) -> str:
    return f"file://{tmp_path}/storage/job/{folder}"


def test_files_that_another_snapshot_names_stay(job: Job, tmp_path: Path) -> None:
    assert dispose(url(tmp_path, "chk-1")) == 2, "its manifest, and the one file that was only its own"
    assert job.shared() == ["c1-a1-2.sst", "c2-a1-3.sst"]
    assert job.store.verify(2) is None
    dispose(url(tmp_path, "chk-2"))
    assert job.shared() == []


def test_a_savepoint_goes_with_its_folder_and_its_neighbours_stay(tmp_path: Path) -> None:
    storage = LocalStorage(str(tmp_path))
    for path in ("one/manifest-a1.json", "one/tables/op/count/0.parquet", "two/manifest-a1.json"):
        storage.write(path, b"{}")
    assert dispose(f"file://{tmp_path}/one") == 2
    assert storage.list("") == ["two/manifest-a1.json"]


def test_a_folder_without_a_manifest_is_left_alone(job: Job, tmp_path: Path) -> None:
    before = job.storage.list("")
    with pytest.raises(ConfigurationError, match="is no snapshot"):
        dispose(url(tmp_path, "shared"))
    assert job.storage.list("") == before


def test_no_shared_file_goes_while_a_neighbours_manifest_cant_be_read(job: Job, tmp_path: Path) -> None:
    job.storage.write("job/chk-2/manifest-a1.json", b"no manifest")
    with pytest.raises(SnapshotDamagedError, match="chk-2"):
        dispose(url(tmp_path, "chk-1"))
    assert job.shared() == ["c1-a1-1.sst", "c1-a1-2.sst", "c2-a1-3.sst"]


def test_a_snapshot_whose_manifest_is_damaged_can_be_disposed_of(job: Job, tmp_path: Path) -> None:
    job.storage.write("job/chk-1/manifest-a1.json", b"no manifest")
    dispose(url(tmp_path, "chk-1"))
    assert job.storage.list("job/chk-1") == []
    assert len(job.shared()) == 3, "nobody knows which of them were only its own"
