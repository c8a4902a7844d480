"""Does a savepoint hold what its sinks had prepared outside, and is a damage to it named?"""

from __future__ import annotations

from pathlib import Path

import pytest

from cutwater.connectors.contract import Attachment
from cutwater.errors import SnapshotDamagedError
from cutwater.operators.contract import OperatorSnapshot
from cutwater.protocol.ids import AttemptNumber, TaskId
from cutwater.snapshots import writer
from cutwater.snapshots.disposal import dispose
from cutwater.snapshots.documents import seal
from cutwater.snapshots.format import Manifest, TaskSnapshot
from cutwater.snapshots.reader import attached_files, verify
from cutwater.snapshots.storage import LocalStorage, MemoryStorage, Storage
from cutwater.snapshots.tables import SavepointFolder
from cutwater.snapshots.writer import write_task_savepoint

CONTENT = {"part-1": [b"abc", b"defg", b"h"], "part-2": [], "part-3": [b"x"]}


def savepoint(storage: Storage, subtask: int = 0, operator: str = "out") -> TaskSnapshot:
    given = [Attachment(f"{name}-{subtask}", lambda pieces=pieces: pieces) for name, pieces in CONTENT.items()]
    to = SavepointFolder(storage, "savepoint-1", AttemptNumber(2))
    return write_task_savepoint(to, TaskId("sink", subtask), [(operator, OperatorSnapshot(attachments=lambda: given))])


def manifest(*tasks: TaskSnapshot) -> Manifest:
    return Manifest(1, "job", "name", 1, 2, "savepoint", "", (), tasks, {})


def test_copies_come_back_whole_and_to_their_own_operator(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "ATTACHED_PIECE_BYTES", 4)
    storage = MemoryStorage()
    tasks = [savepoint(storage, 0), savepoint(storage, 1), savepoint(storage, 2, "another")]
    found = attached_files(storage, "savepoint-1", tasks, "out")
    expected = {f"{name}-{subtask}": b"".join(pieces) for name, pieces in CONTENT.items() for subtask in (0, 1)}
    assert {name: b"".join(pieces()) for name, pieces in found.items()} == expected
    assert tasks[0].size_bytes == tasks[0].new_bytes == 9
    assert len(tasks[0].attached[0].pieces) == 2


def test_a_copy_that_is_missing_makes_the_savepoint_damaged() -> None:
    storage = MemoryStorage()
    task = savepoint(storage)
    assert verify(storage, "savepoint-1", manifest(task)) is None
    storage.delete(f"savepoint-1/{task.attached[0].pieces[0].path}")
    assert "missing" in (verify(storage, "savepoint-1", manifest(task)) or "")


def test_a_copy_that_is_not_as_written_is_never_handed_out() -> None:
    storage = MemoryStorage()
    task = savepoint(storage)
    storage.write(f"savepoint-1/{task.attached[0].pieces[0].path}", b"abcdefgX")
    with pytest.raises(SnapshotDamagedError, match="checksum"):
        list(attached_files(storage, "savepoint-1", [task], "out")["part-1-0"]())


def test_the_copies_go_with_the_savepoint(tmp_path: Path) -> None:
    storage = LocalStorage(str(tmp_path))
    task = savepoint(storage)
    storage.write("savepoint-1/manifest-a2.json", seal(manifest(task)))
    dispose(str(tmp_path / "savepoint-1"))
    assert storage.list("") == []
