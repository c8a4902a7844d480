"""Which files of a checkpoint need not be uploaded again, and who says so?"""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from cutwater.protocol.ids import CheckpointId
from cutwater.snapshots.local_files import LocalFiles
from cutwater.state.contract import KeyedBackendSettings, StoredFile
from cutwater.state.rocksdb.backend import FrozenDatabase, RocksBackend


class Interrupting(int):
    """A checkpoint whose every comparison is interrupted by a background thread that has written another one."""

    frozen: FrozenDatabase

    def __gt__(self, other: int) -> bool:
        self.frozen.written(CheckpointId(int(self) + 10 + other), {})
        return int(self) > other


def backend_at(folder: Path) -> RocksBackend:
    return RocksBackend(KeyedBackendSettings(8, range(8), LocalFiles(str(folder), "job"), 8 << 20))


def stored(checkpoint: int) -> dict[str, StoredFile]:
    """The file as it was uploaded for this checkpoint."""
    return {"000017.sst": f"shared/c{checkpoint}-000017.sst"}


def test_files_of_the_last_completed_checkpoint_are_not_uploaded_again(tmp_path: Path) -> None:
    with closing(backend_at(tmp_path)) as backend:
        backend.freeze().written(CheckpointId(1), stored(1))
        before = backend.freeze().stored
        backend.checkpoint_completed(CheckpointId(1))
        assert (before, backend.freeze().stored) == ({}, stored(1))


def test_a_file_is_uploaded_again_if_a_later_snapshot_has_another_copy(tmp_path: Path) -> None:
    """That one may have completed before this task hears of it, and the older one may be deleted."""
    with closing(backend_at(tmp_path)) as backend:
        backend.freeze().written(CheckpointId(1), stored(1))
        backend.freeze().written(CheckpointId(2), stored(2))  # 1 has completed, but this task doesn't know it yet
        backend.checkpoint_completed(CheckpointId(1))
        assert backend.freeze().stored == {}


def test_a_file_that_later_snapshots_name_too_is_not_uploaded_again(tmp_path: Path) -> None:
    with closing(backend_at(tmp_path)) as backend:
        backend.freeze().written(CheckpointId(1), stored(1))
        backend.checkpoint_completed(CheckpointId(1))
        backend.freeze().written(CheckpointId(2), stored(1))
        assert backend.freeze().stored == stored(1)


def test_a_snapshot_that_is_written_when_a_later_one_has_completed_changes_nothing(tmp_path: Path) -> None:
    with closing(backend_at(tmp_path)) as backend:
        late = backend.freeze()
        backend.freeze().written(CheckpointId(2), stored(2))
        backend.checkpoint_completed(CheckpointId(2))
        late.written(CheckpointId(1), stored(1))
        assert backend.freeze().stored == stored(2)


def test_a_snapshot_may_be_written_while_another_one_completes(tmp_path: Path) -> None:
    backend = backend_at(tmp_path)
    frozen = backend.freeze()
    for checkpoint in range(1, 5):
        frozen.written(CheckpointId(checkpoint), {})
    completed = Interrupting(4)
    completed.frozen = frozen
    backend.checkpoint_completed(completed)  # type: ignore[arg-type]
    backend.close()
