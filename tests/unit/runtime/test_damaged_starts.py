"""From what does an attempt start, if what it was told to start from is damaged?"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from cutwater.errors import AttemptFencedError, RecoveryRefusedError
from cutwater.runtime.recovering import History, recover
from cutwater.snapshots.format import FORMAT_VERSION, Manifest
from cutwater.snapshots.storage import MemoryStorage
from cutwater.snapshots.store import SnapshotStore


def test_a_damaged_snapshot_that_was_named_is_refused_at_once() -> None:
    savepoints = MemoryStorage()
    savepoints.write("savepoint/manifest-a1.json", b"half a mani")
    store = SnapshotStore(MemoryStorage(), "job", open_other=lambda url: savepoints)
    plan: Any = SimpleNamespace(graph=SimpleNamespace(vertices=[]), job_id="job")
    with pytest.raises(RecoveryRefusedError, match='"memory://there/savepoint" is damaged') as refused:
        recover(plan, store, History(restore_path="memory://there/savepoint"))
    assert not refused.value.retryable


def test_a_driver_whose_snapshot_a_newer_one_has_deleted_does_not_fall_back_to_an_older_one() -> None:
    storage = MemoryStorage()
    earlier = SnapshotStore(storage, "job")
    earlier.claim_attempt("run")
    for checkpoint in (1, 2):
        earlier.publish(Manifest(FORMAT_VERSION, "job", "job", checkpoint, 1, "checkpoint", "", (), (), {}))

    class Hangs(SnapshotStore):
        """Between its claim and its look at the newest snapshot, another driver goes on, and deletes that."""

        def verify(self, checkpoint: int) -> str | None:
            if checkpoint == 2:
                SnapshotStore(storage, "job").claim_attempt("run")
                storage.delete_folder("job/chk-2")
            return super().verify(checkpoint)

    plan: Any = SimpleNamespace(graph=SimpleNamespace(vertices=[]), job_id="job")
    with pytest.raises(AttemptFencedError, match="superseded"):
        recover(plan, Hangs(storage, "job"), History(run="run"))
