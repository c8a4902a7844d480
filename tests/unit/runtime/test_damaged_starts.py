"""From what does an attempt start, if what it was told to start from is damaged?"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from cutwater.errors import RecoveryRefusedError
from cutwater.runtime.recovering import History, recover
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
