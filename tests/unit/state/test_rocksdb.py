"""Which files of a database may a later snapshot refer to?"""

from __future__ import annotations

from pathlib import Path

from cutwater.operators.contract import OperatorSnapshot
from cutwater.protocol.ids import AttemptNumber, CheckpointId, TaskId
from cutwater.snapshots.format import TaskSnapshot
from cutwater.snapshots.local_files import LocalFiles
from cutwater.snapshots.reader import DatabaseRestore
from cutwater.snapshots.storage import MemoryStorage
from cutwater.snapshots.writer import Destination, write_task_snapshot
from cutwater.state.contract import KeyedBackendSettings, RestoredState
from cutwater.state.rocksdb.backend import RocksBackend

NO_INLINE_STATE = 0


class Databases:
    """One task's database, attempt by attempt. No state is small enough to travel in an acknowledgement."""

    def __init__(self, folder: Path) -> None:
        self._local = LocalFiles(str(folder), "job")
        self._storage = MemoryStorage()

    def backend(self, restored: TaskSnapshot | None = None) -> RocksBackend:
        made = RocksBackend(KeyedBackendSettings(4, range(4), self._local, 8 << 20))
        if restored is not None:
            (database,) = restored.databases
            files = DatabaseRestore(self._storage, "job/chk", database, None, is_ours=True)
            made.restore(RestoredState(databases=[files]))
        return made

    def snapshot(self, backend: RocksBackend, number: int) -> TaskSnapshot:
        to = Destination(self._storage, "job", AttemptNumber(number), NO_INLINE_STATE, self._local)
        state = OperatorSnapshot(keyed=backend.freeze())
        return write_task_snapshot(to, CheckpointId(number), TaskId("v", 0), [("op", state)])


def test_the_first_snapshot_after_a_restore_can_be_restored(tmp_path: Path) -> None:
    databases = Databases(tmp_path)
    first = databases.backend()
    first.set_current_key("a")
    first.value_state("seen").update(1)
    second = databases.backend(databases.snapshot(first, 1))
    first.close()
    third = databases.backend(databases.snapshot(second, 2))
    second.close()
    third.set_current_key("a")
    assert third.value_state("seen").value() == 1
    third.close()
