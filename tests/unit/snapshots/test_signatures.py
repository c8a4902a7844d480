"""Does a job with a secret restore only what was signed with it?"""

from __future__ import annotations

import copy
import dataclasses
import pickle
from collections.abc import Callable
from pathlib import Path

import cloudpickle
import msgspec
import pytest
from typer.testing import CliRunner

from cutwater.cli.main import app
from cutwater.config import Checkpoints, JobOptions
from cutwater.errors import ConfigurationError, InternalError, SnapshotDamagedError, SnapshotUntrustedError
from cutwater.operators.contract import FrozenList, OperatorSnapshot
from cutwater.protocol.ids import AttemptNumber, CheckpointId, TaskId
from cutwater.signatures import Secret, secret_of
from cutwater.snapshots import reader
from cutwater.snapshots.checksums import is_strong
from cutwater.snapshots.documents import seal
from cutwater.snapshots.format import FORMAT_VERSION, Manifest, TaskSnapshot
from cutwater.snapshots.storage import LocalStorage, MemoryStorage, Storage
from cutwater.snapshots.store import SnapshotStore
from cutwater.snapshots.tables import SavepointFolder
from cutwater.snapshots.writer import Destination, write_task_savepoint, write_task_snapshot

TEXT = "correct horse battery staple"
SECRET = secret_of(TEXT)
OTHER = secret_of("another secret that is long enough")
STATE = [("count", OperatorSnapshot(lists=(FrozenList("items", (b"one", b"two")),)))]
TASK = TaskId("count", 0)


def manifest_of(checkpoint: int, *tasks: TaskSnapshot, kind: str = "checkpoint") -> Manifest:
    return Manifest(FORMAT_VERSION, "job", "job", checkpoint, 1, kind, "2026-01-01", (), tasks, {})


def published(secret: Secret | None, *checkpoints: int) -> MemoryStorage:
    storage = MemoryStorage()
    store = SnapshotStore(storage, "job", secret=secret)
    attempt, _ = store.claim_attempt()
    for checkpoint in checkpoints:
        to = Destination(storage, "job", attempt, 0, strong_checksums=secret is not None)
        task = write_task_snapshot(to, CheckpointId(checkpoint), TASK, STATE)
        store.publish(manifest_of(checkpoint, task))
    return storage


def copied(storage: MemoryStorage) -> MemoryStorage:
    result = MemoryStorage()
    for path in storage.list(""):
        result.write(path, storage.read(path))
    return result


def test_what_a_job_with_a_secret_has_published_verifies_with_it_and_without():
    storage = published(SECRET, 7)
    assert SnapshotStore(storage, "job", secret=SECRET).verify(7) is None
    assert SnapshotStore(storage, "job").verify(7) is None


def test_a_journal_without_the_signature_is_refused_before_anything_is_restored():
    for storage, detail in ((published(None, 7), "it is not signed"), (published(OTHER, 7), "signed with another one")):
        with pytest.raises(SnapshotUntrustedError, match="journal/0000000001") as refusal:
            SnapshotStore(storage, "job", secret=SECRET).claim_attempt()
        assert detail in refusal.value.detail
        assert "cutwater state sign" in refusal.value.hint
        assert not refusal.value.retryable


def forge_manifest(storage: Storage) -> None:
    storage.write("job/chk-7/manifest-a1.json", seal(manifest_of(7)))


def sign_with_another(storage: Storage) -> None:
    storage.write("job/chk-7/manifest-a1.json", seal(manifest_of(7), about=reader.MANIFEST, secret=OTHER))


def repeat_an_older_one(storage: Storage) -> None:
    storage.write("job/chk-7/manifest-a1.json", storage.read("job/chk-6/manifest-a1.json"))


def repeat_a_journal_entry_as_manifest(storage: Storage) -> None:
    storage.write("job/chk-7/manifest-a1.json", storage.read("job/journal/0000000001.json"))


def exchange_a_file(storage: Storage) -> None:
    storage.write("job/chk-7/count-0-a1.state", b"onetwO")


@pytest.mark.parametrize(
    "attack",
    [forge_manifest, sign_with_another, repeat_an_older_one, repeat_a_journal_entry_as_manifest, exchange_a_file],
)
def test_a_changed_snapshot_does_not_verify_and_an_older_signed_one_does(attack: Callable[[Storage], None]):
    storage = copied(published(SECRET, 6, 7))
    attack(storage)
    store = SnapshotStore(storage, "job", secret=SECRET)
    assert store.verify(7) is not None
    assert store.verify(6) is None


def test_a_journal_entry_counts_only_in_its_place():
    storage = copied(published(SECRET, 6, 7))
    storage.write("job/journal/0000000003.json", storage.read("job/journal/0000000002.json"))
    with pytest.raises(SnapshotUntrustedError, match="0000000003"):
        SnapshotStore(storage, "job", secret=SECRET).journal()


def test_a_signature_covers_only_files_with_a_checksum_that_cant_be_forged():
    storage = MemoryStorage()
    store = SnapshotStore(storage, "job", secret=SECRET)
    store.claim_attempt()
    weak = write_task_snapshot(Destination(storage, "job", AttemptNumber(1), 0), CheckpointId(7), TASK, STATE)
    store.publish(manifest_of(7, weak))
    assert "does not cover all its files" in (store.verify(7) or "")


def test_every_file_of_a_signed_manifest_is_covered():
    """A kind of file that a manifest names and `Manifest.files` forgets would be unsigned."""
    named = msgspec.json.encode(msgspec.json.schema(Manifest)).count(b'"checksum":{"type":"string"}')
    assert named == 3, "DataFile, SharedFile and StateTable; a new one belongs into Manifest.files"


def test_without_a_secret_checksums_stay_cheap():
    storage = published(None, 7)
    (task,) = reader.load_manifest(storage, "job/chk-7").tasks
    assert task.file is not None
    assert not is_strong(task.file.checksum)


def savepoint(folder: Path, secret: Secret | None) -> str:
    storage = LocalStorage(str(folder))
    to = SavepointFolder(storage, "s", AttemptNumber(1), strong_checksums=secret is not None)
    task = write_task_savepoint(to, TASK, STATE)
    store = SnapshotStore(MemoryStorage(), "job", secret=secret)
    store.claim_attempt()
    store.publish_savepoint(f"{folder}/s", manifest_of(7, task, kind="savepoint"))
    return str(folder / "s")


def test_a_savepoint_that_is_trusted_can_be_signed(tmp_path: Path):
    path = savepoint(tmp_path, None)
    storage = LocalStorage(str(tmp_path))
    with pytest.raises(SnapshotUntrustedError):
        reader.load_manifest(storage, "s", secret=SECRET)
    secret_file = tmp_path / "secret.txt"
    secret_file.write_text(TEXT + "\n")
    result = CliRunner().invoke(app, ["state", "sign", path, "--secret-file", str(secret_file)])
    assert result.exit_code == 0, result.output
    manifest = reader.load_manifest(storage, "s", secret=SECRET)
    assert reader.verify(storage, "s", manifest) is None


def test_a_signed_savepoint_may_be_moved(tmp_path: Path):
    Path(savepoint(tmp_path, SECRET)).rename(tmp_path / "moved")
    assert reader.load_manifest(LocalStorage(str(tmp_path)), "moved", secret=SECRET).checkpoint == 7


def test_a_damaged_savepoint_is_not_signed(tmp_path: Path):
    path = Path(savepoint(tmp_path, None))
    (path / "count-0-a1.state").write_bytes(b"onetwO")
    (tmp_path / "secret.txt").write_text(TEXT)
    result = CliRunner().invoke(app, ["state", "sign", str(path), "--secret-file", str(tmp_path / "secret.txt")])
    assert isinstance(result.exception, SnapshotDamagedError) or result.exit_code != 0
    assert [file.name for file in path.glob("manifest*")] == ["manifest-a1.json"]


def test_the_secret_stays_in_the_driver_and_out_of_every_text(tmp_path: Path):
    (tmp_path / "secret.txt").write_text(TEXT)
    for checkpoints in (Checkpoints(secret=TEXT), Checkpoints(secret_file=str(tmp_path / "secret.txt"))):
        options = JobOptions(checkpoints=checkpoints)
        travels = pickle.dumps(options) + cloudpickle.dumps(options)
        assert TEXT.encode() not in travels
        assert TEXT not in f"{options!r} {options} {dataclasses.asdict(options)}"
        arrived = pickle.loads(pickle.dumps(options)).checkpoints.signing_secret
        assert arrived is not None, "a slot knows that there is one"
        with pytest.raises(InternalError):
            arrived.signature(b"", about="")


def test_a_copy_of_the_options_keeps_the_secret():
    checkpoints = dataclasses.replace(copy.deepcopy(Checkpoints(secret=TEXT)), retain=5)
    assert checkpoints.signing_secret is not None
    assert checkpoints.signing_secret.signature(b"x", about="y") == SECRET.signature(b"x", about="y")


@pytest.mark.parametrize(
    "options",
    [{"secret": "short"}, {"secret": 5}, {"secret_file": "/nowhere"}, {"secret": TEXT, "secret_file": "x"}],
    ids=str,
)
def test_a_secret_that_could_be_guessed_or_is_not_there_is_refused(options: dict[str, object]):
    with pytest.raises(ConfigurationError) as refusal:
        Checkpoints(**options)  # type: ignore[arg-type]
    assert TEXT not in str(refusal.value)
