"""How are the files of a snapshot called?

Every name bears the number of the attempt that wrote the file, so that no two attempts ever write the same one.
"""

from __future__ import annotations

import re
from urllib.parse import quote

import xxhash

from cutwater.protocol.ids import AttemptNumber, CheckpointId, TaskId
from cutwater.protocol.retention import FileKind, SnapshotKey, StoredFile

#: The folder of a job's files that several snapshots share.
SHARED = "shared"
_NAME_LENGTH_MAX = 160
_SNAPSHOT_FILE = re.compile(r"/chk-(\d+)/([^/]*)-a(\d+)\.(?:state|json)$")
_SHARED_NAME = re.compile(r"^(.*)-c(\d+)-a(\d+)-([^/]+)$")


def snapshot_folder(job_id: str, checkpoint: int) -> str:
    """Where a snapshot lies, from the storage's root. Slots write there, the coordinator publishes there."""
    return f"{job_id}/chk-{checkpoint}"


def manifest_name(attempt: int) -> str:
    return f"manifest-a{attempt}.json"


def state_name(task: TaskId, attempt: AttemptNumber) -> str:
    """Of the data file of a task."""
    return f"{_task_name(task)}-a{attempt}.state"


def shared_name(task: TaskId, operator: int, checkpoint: CheckpointId, attempt: AttemptNumber, name: str) -> str:
    """Of a file of the database of the chain's n-th operator, first written for this checkpoint."""
    return f"{SHARED}/{_task_name(task)}-{operator}-c{checkpoint}-a{attempt}-{name}"


def split_shared_name(path: str) -> tuple[str, str]:
    """Whose file it is (operator and task), and the rest."""
    match = _SHARED_NAME.match(path)
    assert match is not None, path
    return match[1], path[match.end(1) + 1 :]


def writer_of_shared(path: str) -> tuple[int, int]:
    """The checkpoint and the attempt that a shared file was first written for."""
    match = _SHARED_NAME.match(path)
    return (int(match[2]), int(match[3])) if match else (-1, -1)


def stored_file(path: str) -> StoredFile | None:
    """What a file in the folder of a job is; None: no part of a snapshot."""
    if f"/{SHARED}/" in path:
        return StoredFile(path, FileKind.SHARED, SnapshotKey(*writer_of_shared(path)))
    match = _SNAPSHOT_FILE.search(path)
    if match is None:
        return None
    kind = FileKind.MANIFEST if match[2] == "manifest" else FileKind.STATE
    return StoredFile(path, kind, SnapshotKey(int(match[1]), int(match[3])))


def table_name(task: TaskId, operator: str, state: str, number: int, attempt: AttemptNumber) -> str:
    """Of a file of a savepoint; all files of a folder are parts of one table."""
    return f"tables/{sanitise(operator)}/{sanitise(state)}/{_task_name(task)}-{number}-a{attempt}.parquet"


def attached_name(task: TaskId, number: int, piece: int, attempt: AttemptNumber) -> str:
    """Of a piece of a file that a savepoint holds for a sink; the number is that of the file."""
    return f"attached/{_task_name(task)}-{number}-{piece}-a{attempt}.bin"


def savepoint_name(job_id: str, checkpoint: int, token: str) -> str:
    """The token makes it unlike that of any other driver: only who writes a savepoint may ever delete of it."""
    return f"savepoint-{job_id}-{checkpoint}-{token}"


def sanitise(name: str) -> str:
    """A file name for any text; different texts have different names."""
    quoted = quote(name, safe="")
    if len(quoted) <= _NAME_LENGTH_MAX:
        return quoted
    # A "+" is never left by `quote`, so no short name can look like this one.
    return f"{quoted[:100]}+{xxhash.xxh3_128_hexdigest(name.encode('utf-8', 'surrogatepass'))}"


def _task_name(task: TaskId) -> str:
    return f"{sanitise(task.vertex)}-{task.subtask}"
