"""What if two checkpoints are discarded at once?"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial

import pytest

from cutwater.snapshots.format import FORMAT_VERSION, DatabaseFiles, Manifest, SharedFile, TaskSnapshot
from cutwater.snapshots.storage import MemoryStorage
from cutwater.snapshots.store import SnapshotStore


class Interrupted(MemoryStorage):
    """While the first thread holds the n-th list of files that it asked for, another one discards."""

    def __init__(self) -> None:
        super().__init__()
        self.lists_until_interrupted = 0
        self.interrupt: Callable[[], None] = lambda: None
        self.other: threading.Thread | None = None

    def list(self, prefix: str) -> list[str]:
        listed = super().list(prefix)
        if self.lists_until_interrupted and threading.current_thread() is threading.main_thread():
            self.lists_until_interrupted -= 1
            if not self.lists_until_interrupted:
                self.other = threading.Thread(target=self.interrupt, daemon=True)
                self.other.start()
                self.other.join(timeout=0.5)  # it may have to wait for us
        return listed


def checkpoint(storage: MemoryStorage, store: SnapshotStore, number: int, attempt: int) -> None:
    file = SharedFile(f"{number}.sst", f"shared/t-0-0-c{number}-a{attempt}-{number}.sst", 1, "x")
    storage.write(f"job/{file.path}", b"x")
    task = TaskSnapshot("t", 0, (), inline=b"", databases=(DatabaseFiles("t", 0, 1, (file,), {}, {}),))
    store.publish(Manifest(FORMAT_VERSION, "job", "job", number, attempt, "checkpoint", "", (), (task,), {}))


@pytest.mark.parametrize("moment", range(1, 6))
def test_two_discards_at_once_leave_what_the_newest_checkpoint_names(moment: int) -> None:
    storage = Interrupted()
    store = SnapshotStore(storage, "job")
    attempt, _ = store.claim_attempt()
    for number in (1, 2, 3):
        checkpoint(storage, store, number, int(attempt))
    storage.lists_until_interrupted, storage.interrupt = moment, partial(store.discard, 2)
    store.discard(1)
    storage.lists_until_interrupted = 0
    store.discard(2)
    if storage.other is not None:  # what was queued behind it, it does
        storage.other.join()
    assert storage.list("job/shared") == ["job/shared/t-0-0-c3-a1-3.sst"]
