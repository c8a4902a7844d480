"""Can another user of the machine read, or exchange, what a slot or a driver leaves on its disk?"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from cutwater.errors import StorageError
from cutwater.snapshots.local_files import LocalFiles
from cutwater.snapshots.storage import LocalStorage


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for everybody, like /tmp."""
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path))
    tmp_path.chmod(0o1777)
    return tmp_path


def mode_of(path: str | Path) -> int:
    return stat.S_IMODE(os.lstat(path).st_mode)


@pytest.fixture
def open_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.mark.usefixtures("open_umask")
def test_only_the_user_may_enter_the_folders_of_a_slot(temporary: Path):
    folder = LocalFiles(None, "payroll").new_folder("frozen")
    root = temporary / f"cutwater-{os.geteuid()}"
    assert [mode_of(path) for path in (root, root / "payroll", folder)] == [0o700, 0o700, 0o700]


@pytest.mark.usefixtures("open_umask")
def test_a_folder_of_the_users_choice_is_left_as_it_is_and_the_jobs_in_it_are_closed(tmp_path: Path):
    LocalFiles(str(tmp_path / "state"), "payroll").new_folder("frozen")
    assert (mode_of(tmp_path / "state"), mode_of(tmp_path / "state" / "payroll")) == (0o777, 0o700)


def test_an_open_folder_of_ones_own_is_closed(temporary: Path):
    root = temporary / f"cutwater-{os.geteuid()}"
    root.mkdir()
    root.chmod(0o777)
    LocalFiles(None, "payroll").new_folder("frozen")
    assert mode_of(root) == 0o700


def test_a_folder_that_another_user_has_made_first_is_refused(temporary: Path, monkeypatch: pytest.MonkeyPatch):
    (temporary / "cutwater-12345").mkdir()
    monkeypatch.setattr("os.geteuid", lambda: 12345)
    with pytest.raises(StorageError, match="is not a folder of this user's") as refusal:
        LocalFiles(None, "payroll").new_folder("frozen")
    assert "local_folder=" in refusal.value.hint


def test_a_link_in_the_place_of_the_folder_is_refused(temporary: Path):
    (temporary / "trap").mkdir()
    (temporary / f"cutwater-{os.geteuid()}").symlink_to(temporary / "trap")
    with pytest.raises(StorageError, match="is not a folder of this user's"):
        LocalFiles(None, "payroll").new_folder("frozen")
    assert list((temporary / "trap").iterdir()) == []


@pytest.mark.parametrize(("umask", "files", "folders"), [(0o077, 0o600, 0o700), (0o027, 0o640, 0o750)])
def test_who_may_read_a_snapshot_on_a_local_disk_is_what_the_umask_says(
    tmp_path: Path, umask: int, files: int, folders: int
):
    (tmp_path / "source").write_bytes(b"x")
    before = os.umask(umask)
    try:
        storage = LocalStorage(str(tmp_path / "root"))
        storage.write("job/chk-1/a.state", b"x")
        storage.create_if_absent("job/journal/0.json", b"x")
        storage.upload("job/shared/a", str(tmp_path / "source"))
    finally:
        os.umask(before)
    paths = [tmp_path / "root" / path for path in ("job/chk-1/a.state", "job/journal/0.json", "job/shared/a")]
    assert {mode_of(path) for path in paths} == {files}
    assert {mode_of(path.parent) for path in paths} == {folders}
