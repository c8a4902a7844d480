"""Does a job with a secret start only from what was signed with it?"""

from __future__ import annotations

from pathlib import Path

import pytest

from cutwater.config import JobOptions
from cutwater.errors import RecoveryRefusedError, SnapshotUntrustedError
from cutwater.graph.model import LogicalGraph
from cutwater.graph.plan import JobPlan
from cutwater.runtime.recovering import History, recover
from cutwater.signatures import Secret, secret_of
from cutwater.snapshots.format import FORMAT_VERSION, Manifest
from cutwater.snapshots.storage import MemoryStorage
from cutwater.snapshots.store import SnapshotStore

SECRET = secret_of("correct horse battery staple")
PLAN = JobPlan.of("job", "job", LogicalGraph(), JobOptions(), ())


def manifest_of(checkpoint: int, kind: str = "checkpoint") -> Manifest:
    return Manifest(FORMAT_VERSION, "job", "job", checkpoint, 1, kind, "2026-01-01", (), (), {})


def savepoint(folder: Path, secret: Secret | None) -> str:
    store = SnapshotStore(MemoryStorage(), "job", secret=secret)
    store.claim_attempt()
    store.publish_savepoint(f"{folder}/savepoint", manifest_of(7, "savepoint"))
    return f"{folder}/savepoint"


def test_a_snapshot_given_by_its_path_must_be_signed(tmp_path: Path):
    store = SnapshotStore(MemoryStorage(), "job", secret=SECRET)
    with pytest.raises(SnapshotUntrustedError, match="does not bear the signature"):
        recover(PLAN, store, History(restore_path=savepoint(tmp_path, None)))


def test_a_signed_one_is_restored_by_its_path(tmp_path: Path):
    store = SnapshotStore(MemoryStorage(), "job", secret=SECRET)
    restored = recover(PLAN, store, History(restore_path=savepoint(tmp_path, SECRET))).restored
    assert restored is not None
    assert restored.manifest.checkpoint == 7


def published(*forged: int) -> MemoryStorage:
    storage = MemoryStorage()
    store = SnapshotStore(storage, "job", secret=SECRET)
    store.claim_attempt()
    unsigned = SnapshotStore(MemoryStorage(), "job")
    unsigned.claim_attempt()
    for checkpoint in (6, 7):
        store.publish(manifest_of(checkpoint))
        unsigned.publish(manifest_of(checkpoint))
        if checkpoint in forged:
            path = f"job/chk-{checkpoint}/manifest-a1.json"
            storage.write(path, unsigned.storage.read(path))
    return storage


def test_an_older_signed_snapshot_takes_over_from_a_forged_one():
    recovered = recover(PLAN, SnapshotStore(published(7), "job", secret=SECRET), History())
    assert recovered.restored is not None
    assert recovered.restored.manifest.checkpoint == 6
    assert [checkpoint for checkpoint, _ in recovered.skipped] == [7]


def test_if_none_is_signed_the_job_does_not_start():
    with pytest.raises(RecoveryRefusedError) as refusal:
        recover(PLAN, SnapshotStore(published(6, 7), "job", secret=SECRET), History())
    assert "does not bear the signature" in refusal.value.detail
