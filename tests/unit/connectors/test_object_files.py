"""Files in an object store: obstore's own, in memory."""

from __future__ import annotations

from typing import Any

import pytest

from cutwater.batches import ObjectBatch
from cutwater.connectors import file_system, object_files
from cutwater.connectors.contract import WriterContext
from cutwater.connectors.file_sink import FileSink, text
from cutwater.connectors.object_files import ObjectFiles
from cutwater.errors import StorageError
from cutwater.protocol.ids import AttemptNumber, CheckpointId

stores = pytest.importorskip("obstore.store")

ROOT = "objects://bucket"
OUT = f"{ROOT}/out"


@pytest.fixture
def files(monkeypatch: pytest.MonkeyPatch) -> ObjectFiles:
    """Not remote, so that the writer writes at once."""
    files = ObjectFiles(ROOT, stores.MemoryStore())
    monkeypatch.setattr(files, "is_remote", False, raising=False)
    monkeypatch.setitem(file_system._OTHERS, "objects", lambda: files)
    return files


def put(files: ObjectFiles, path: str, content: bytes = b"content") -> None:
    file = files.create(path)
    file.write(content)
    files.sync(file)


def read(files: ObjectFiles, path: str) -> bytes:
    with files.open(path) as file:
        return file.read()


def test_an_object_is_there_when_it_is_synced(files: ObjectFiles) -> None:
    file = files.create(f"{ROOT}/a")
    file.write(b"content")
    before = files.facts(f"{ROOT}/a")
    files.sync(file)
    assert (before, read(files, f"{ROOT}/a")) == (None, b"content")


def test_a_published_object_has_its_name_and_is_still_pending(files: ObjectFiles) -> None:
    put(files, f"{OUT}/.pending/a")
    files.publish(f"{OUT}/.pending/a", f"{OUT}/a")
    assert (read(files, f"{OUT}/a"), files.names(OUT)) == (b"content", [".pending", "a"])


def test_a_name_that_is_taken_is_not_published(files: ObjectFiles) -> None:
    put(files, f"{OUT}/.pending/a", b"new")
    put(files, f"{OUT}/a", b"old")
    with pytest.raises(FileExistsError):
        files.publish(f"{OUT}/.pending/a", f"{OUT}/a")
    assert read(files, f"{OUT}/a") == b"old"


class NoConditions:
    """A store that can copy, but not under a condition."""

    def __init__(self, obstore: Any) -> None:
        self._obstore = obstore

    def __getattr__(self, name: str) -> Any:
        return getattr(self._obstore, name)

    def copy(self, store: Any, source: str, target: str, *, overwrite: bool) -> None:
        if not overwrite:
            raise self._obstore.exceptions.NotSupportedError("no conditions here")
        self._obstore.copy(store, source, target)


def test_a_store_without_conditions_is_asked_before(files: ObjectFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "_obstore", NoConditions(files._obstore))
    put(files, f"{OUT}/.pending/a", b"new")
    files.publish(f"{OUT}/.pending/a", f"{OUT}/a")
    with pytest.raises(FileExistsError):
        files.publish(f"{OUT}/.pending/a", f"{OUT}/a")
    assert read(files, f"{OUT}/a") == b"new"


class CopiesLater:
    """A store as Azure's: a copy has its name at once, and its content when `finish` is called."""

    def __init__(self, obstore: Any) -> None:
        self._obstore = obstore
        self._begun: list[tuple[Any, str, str]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._obstore, name)

    def copy(self, store: Any, source: str, target: str, *, overwrite: bool) -> None:
        assert not overwrite
        self._obstore.put(store, target, b"", mode="create")
        self._begun.append((store, source, target))

    def finish(self) -> None:
        for store, source, target in self._begun:
            self._obstore.copy(store, source, target)


@pytest.fixture
def copies_later(monkeypatch: pytest.MonkeyPatch) -> tuple[ObjectFiles, CopiesLater]:
    files = ObjectFiles("az://container", stores.MemoryStore())
    store = CopiesLater(files._obstore)
    monkeypatch.setattr(files, "_obstore", store)
    return files, store


def test_a_name_that_azure_has_taken_is_published_when_it_has_its_content(
    copies_later: tuple[ObjectFiles, CopiesLater], monkeypatch: pytest.MonkeyPatch
) -> None:
    files, store = copies_later
    monkeypatch.setattr(object_files.time, "sleep", lambda seconds: store.finish())
    put(files, "az://container/.pending/a")
    files.publish("az://container/.pending/a", "az://container/a")
    assert read(files, "az://container/a") == b"content"


def test_a_copy_that_a_dead_process_began_is_waited_for(
    copies_later: tuple[ObjectFiles, CopiesLater], monkeypatch: pytest.MonkeyPatch
) -> None:
    files, store = copies_later
    monkeypatch.setattr(object_files.time, "sleep", lambda seconds: store.finish())
    put(files, "az://container/.pending/a")
    store.copy(files._store, ".pending/a", "a", overwrite=False)
    with pytest.raises(FileExistsError):
        files.publish("az://container/.pending/a", "az://container/a")
    assert read(files, "az://container/a") == b"content"


def test_a_copy_that_azure_never_makes_is_an_error(
    copies_later: tuple[ObjectFiles, CopiesLater], monkeypatch: pytest.MonkeyPatch
) -> None:
    files, _ = copies_later
    clock = iter(range(0, 1_000, 60))
    monkeypatch.setattr(object_files.time, "monotonic", lambda: float(next(clock)))
    monkeypatch.setattr(object_files.time, "sleep", lambda seconds: None)
    put(files, "az://container/.pending/a")
    with pytest.raises(OSError, match=r"\.pending/a was not copied within 90 s"):
        files.publish("az://container/.pending/a", "az://container/a")


def test_what_is_not_there_can_neither_be_opened_nor_published_but_deleted(files: ObjectFiles) -> None:
    files.delete(f"{ROOT}/a")
    with pytest.raises(FileNotFoundError):
        files.open(f"{ROOT}/a")
    with pytest.raises(FileNotFoundError):
        files.publish(f"{ROOT}/a", f"{ROOT}/b")


def test_a_folder_is_what_keys_have_in_common(files: ObjectFiles) -> None:
    put(files, f"{ROOT}/a/b/c")
    assert [files.is_folder(f"{ROOT}{path}") for path in ("", "/a", "/a/b", "/a/b/c", "/a/")] == [
        True,
        True,
        True,
        False,
        True,
    ]


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("in", ["in/a.txt", "in/b.csv"]),
        ("in/a.txt", ["in/a.txt"]),
        ("in/*.txt", ["in/a.txt"]),
        ("in/**/*.txt", ["in/a.txt", "in/deep/er/c.txt"]),
        ("*/deep/*", []),
        ("*/deep/*/*", ["in/deep/er/c.txt"]),
        ("nothing", []),
    ],
)
def test_patterns_name_finished_files_with_their_sizes(files: ObjectFiles, pattern: str, expected: list[str]) -> None:
    for name in ("a.txt", "b.csv", "deep/er/c.txt", ".pending/d.txt", "deep/_e.txt", "f.tmp"):
        put(files, f"{ROOT}/in/{name}")
    found = {each.path: each.facts for each in files.matching(f"{ROOT}/{pattern}")}
    sizes = {path.removeprefix(f"{ROOT}/"): facts and facts.size_bytes for path, facts in found.items()}
    assert sizes == dict.fromkeys(expected, 7)


# The sink on it.


def prepared(sink: FileSink, *, attempt: int = 1) -> list[bytes]:
    writer = sink.writer(WriterContext("job", "out", 0, 1, AttemptNumber(attempt)))
    writer.write(ObjectBatch([1, 2]))
    committables = writer.prepare(CheckpointId(1))
    assert isinstance(committables, list)
    return committables


def published(files: ObjectFiles) -> list[bytes]:
    return [read(files, found.path) for found in files.matching(OUT)]


def test_what_was_prepared_appears_when_it_is_committed_and_once(files: ObjectFiles) -> None:
    sink = text(OUT)
    committables = prepared(sink)
    before = published(files)
    sink.commit(committables)
    sink.commit(committables)
    assert (before, published(files), files.names(f"{OUT}/.pending")) == ([], [b"1\n2\n"], [])


def test_a_copy_that_was_made_before_a_crash_is_recognised(files: ObjectFiles) -> None:
    sink = text(OUT)
    committables = prepared(sink)
    (pending,) = files.names(f"{OUT}/.pending")
    sink.commit(committables)
    (final,) = (found.path for found in files.matching(OUT))
    put(files, f"{OUT}/.pending/{pending}", b"1\n2\n")  # it was not deleted: the process died between copy and delete
    sink.recover(job_id="job", uid="out", committables=committables, attempt=AttemptNumber(2))
    assert (read(files, final), files.names(f"{OUT}/.pending")) == (b"1\n2\n", [])


def test_recovery_deletes_what_the_snapshot_does_not_name(files: ObjectFiles) -> None:
    sink = text(OUT)
    prepared(sink)
    sink.recover(job_id="job", uid="out", committables=[], attempt=AttemptNumber(2))
    assert (published(files), files.names(f"{OUT}/.pending")) == ([], [])


def test_a_name_with_other_content_is_refused(files: ObjectFiles) -> None:
    sink = text(OUT)
    committables = prepared(sink)
    sink.commit(committables)
    (final,) = (found.path for found in files.matching(OUT))
    files.delete(final)
    put(files, final, b"foreign")
    again = prepared(sink)  # the same attempt again, so the same name
    with pytest.raises(StorageError, match="is taken"):
        sink.commit(again)
