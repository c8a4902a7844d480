"""Does every storage keep the same promises?"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from cutwater.errors import ConfigurationError, InternalError, StorageError
from cutwater.snapshots.storage import ArrowStorage, LocalStorage, MemoryStorage, Storage, open_storage


@pytest.fixture(params=["local", "memory", "arrow"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Storage:
    match request.param:
        case "local":
            return LocalStorage(str(tmp_path / "root"))
        case "memory":
            return MemoryStorage()
        case _:
            return ArrowStorage(f"file://{tmp_path}/root")


def test_what_was_written_is_read(storage: Storage):
    storage.write("a/b/c", b"one")
    storage.write("a/b/c", b"two")
    assert (storage.read("a/b/c"), storage.exists("a/b/c"), storage.exists("a/b")) == (b"two", True, False)


def test_a_local_file_goes_up_and_comes_down_whole(storage: Storage, tmp_path: Path):
    content = bytes(range(256)) * 10_000
    (tmp_path / "here").write_bytes(content)
    storage.upload("folder/there", str(tmp_path / "here"))
    assert storage.read("folder/there") == content
    storage.download("folder/there", str(tmp_path / "back"))
    assert (tmp_path / "back").read_bytes() == content
    with pytest.raises(StorageError, match="missing-one"):
        storage.download("folder/missing-one", str(tmp_path / "nothing"))


def test_only_the_first_creates(storage: Storage):
    created = (storage.create_if_absent("a/x", b"one"), storage.create_if_absent("a/x", b"two"))
    assert (created, storage.read("a/x"), storage.list("")) == ((True, False), b"one", ["a/x"])


def test_a_file_that_is_not_there_is_named(storage: Storage):
    with pytest.raises(StorageError, match=r'a/nothing" does not exist'):
        storage.read("a/nothing")


def test_a_folder_lists_all_files_below_it_from_the_root(storage: Storage):
    for path in ("a/2", "a/b/1", "ab/3", "c"):
        storage.write(path, b"")
    assert storage.list("a") == ["a/2", "a/b/1"]
    assert storage.list("") == ["a/2", "a/b/1", "ab/3", "c"]
    assert storage.list("nowhere") == []


def test_to_delete_twice_is_no_error(storage: Storage):
    storage.write("a/b", b"")
    storage.write("a/c", b"")
    storage.delete("a/b")
    storage.delete("a/b")
    storage.delete_folder("a")
    storage.delete_folder("a")
    assert storage.list("") == []


@pytest.mark.parametrize("path", ["../a", "a/../../b", "/etc/passwd"])
def test_no_path_leaves_the_root(storage: Storage, path: str):
    with pytest.raises(InternalError, match="below the storage's root"):
        storage.write(path, b"")


def test_a_writable_storage_says_so_and_keeps_no_trace(storage: Storage):
    storage.check_writable()
    assert storage.list("") == []


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path):
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StorageError) as caught:
        LocalStorage(str(tmp_path / "file" / "below")).check_writable()
    assert str(tmp_path / "file") in caught.value.fact
    assert caught.value.detail
    assert caught.value.hint


def test_of_many_threads_one_creates_and_its_content_is_whole(tmp_path: Path):
    storage = LocalStorage(str(tmp_path))
    contents = [bytes([number]) * 10_000 for number in range(8)]
    created: list[int] = []
    start = threading.Barrier(len(contents))

    def create(number: int) -> None:
        start.wait()
        if storage.create_if_absent("a/x", contents[number]):
            created.append(number)

    threads = [threading.Thread(target=create, args=(number,)) for number in range(len(contents))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [storage.read("a/x")] == [contents[number] for number in created]


def test_a_file_and_the_folders_above_it_are_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    synced: list[str] = []
    monkeypatch.setattr(os, "fsync", lambda descriptor: synced.append(os.readlink(f"/proc/self/fd/{descriptor}")))
    LocalStorage(str(tmp_path)).write("a/x", b"one")
    assert synced == [str(tmp_path), f"{tmp_path}/a/x", f"{tmp_path}/a"]


def test_a_leftover_of_a_crash_is_not_listed(tmp_path: Path):
    (tmp_path / ".x.0123.tmp").write_bytes(b"half")
    assert LocalStorage(str(tmp_path)).list("") == []


def test_a_url_opens_its_storage(tmp_path: Path):
    open_storage(f"file://{tmp_path}/with%20space").write("a", b"1")
    assert open_storage(f"{tmp_path}/with space").read("a") == b"1"


def test_one_memory_url_is_one_storage():
    open_storage("memory://one").write("a", b"1")
    assert open_storage("memory://one").exists("a")
    assert not open_storage("memory://other").exists("a")


@pytest.mark.parametrize("url", ["file://host/path", "carrier-pigeon://loft"])
def test_a_url_that_means_nothing_is_refused(url: str):
    with pytest.raises(ConfigurationError, match=url):
        open_storage(url)


def test_of_a_driver_that_is_killed_while_it_creates_a_file_nothing_is_left(tmp_path: Path):
    script = f"""
import os
from cutwater.snapshots.storage import LocalStorage
os.link = lambda *_, **__: os.kill(os.getpid(), 9)
LocalStorage({str(tmp_path)!r}).create_if_absent("job/file", b"content")
"""
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == -9
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_a_file_system_that_has_no_nameless_files_creates_all_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delattr(os, "O_TMPFILE")
    storage = LocalStorage(str(tmp_path))
    assert (storage.create_if_absent("file", b"one"), storage.create_if_absent("file", b"two")) == (True, False)
    assert os.listdir(tmp_path) == ["file"]
    assert storage.read("file") == b"one"
