"""Which files of a checkpoint need not be uploaded again, and who says so?"""

from __future__ import annotations

from pathlib import Path

from cutwater.protocol.ids import CheckpointId
from cutwater.snapshots.local_files import LocalFiles
from cutwater.state.contract import KeyedBackendSettings
from cutwater.state.rocksdb.backend import FrozenDatabase, RocksBackend


class Interrupting(int):
    """A checkpoint whose every comparison is interrupted by a background thread that has written another one."""

    frozen: FrozenDatabase

    def __gt__(self, other: int) -> bool:
        self.frozen.written(CheckpointId(int(self) + 10 + other), {})
        return int(self) > other


def test_a_snapshot_may_be_written_while_another_one_completes(tmp_path: Path) -> None:
    backend = RocksBackend(KeyedBackendSettings(8, range(8), LocalFiles(str(tmp_path), "job"), 8 << 20))
    frozen = backend.freeze()
    for checkpoint in range(1, 5):
        frozen.written(CheckpointId(checkpoint), {})
    completed = Interrupting(4)
    completed.frozen = frozen
    backend.checkpoint_completed(completed)  # type: ignore[arg-type]
    backend.close()
