"""What can go wrong with the files of a connector?

`FileSystem` for paths "simulated-files://…": one file system that all processes of the run see, with hard links. What a
process has written, but not yet flushed, vanishes with it. The faults are those of the storage: an operation may take
time, fail before or after it had its effect, have it long after it failed, or take its process with it.
"""

from __future__ import annotations

import errno
import io
import re
from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase
from typing import BinaryIO, cast

from cutwater.connectors import file_system
from cutwater.connectors.file_system import FileFacts, FoundFile
from cutwater.connectors.globs import is_unfinished
from cutwater.errors import StorageError
from cutwater.testing.simulation import registry
from cutwater.testing.simulation.conditions import StorageFault
from cutwater.testing.simulation.storage import OF_DELETE, OF_LOOK, SimulatedStorage
from cutwater.testing.simulation.world import Crashed, Process, World

SCHEME = "simulated-files"
_OF_CREATE = OF_LOOK | {StorageFault.CRASH_AFTER, StorageFault.LOST_ANSWER}
_OF_SYNC = _OF_CREATE | {StorageFault.HALF, StorageFault.HALF_CRASH}
_OF_SYNC_FOLDER = OF_LOOK - {StorageFault.FAIL}
_OF_LINK = _OF_CREATE | {StorageFault.DENIED_ANSWER, StorageFault.DELAYED}
#: Such names are drawn at random, by no seed of ours: a trace leaves them out.
_UNIQUE = re.compile("[0-9a-f]{32}")


class SimulatedFiles:
    """Those of one run. Outside of any process nothing goes wrong: there a person looks."""

    is_remote = False

    def __init__(self, world: World, storage: SimulatedStorage) -> None:
        self._world = world
        self._storage = storage
        self._names: dict[str, _File] = {}
        #: Called when a file gets another name, before it is there.
        self.linked: Callable[[str], None] = lambda name: None

    # The seam.

    def create(self, path: str) -> BinaryIO:
        fault = self._begin("create", path, _OF_CREATE)
        if path in self._names:
            raise FileExistsError(errno.EEXIST, "exists", path)
        file = self._names[path] = _File(self._now_ns)
        self._end(fault, path)
        return cast(BinaryIO, _Writing(file, path, self._world.current))

    def sync(self, file: BinaryIO) -> None:
        writing = cast(_Writing, file)
        fault = self._begin("sync", writing.path, _OF_SYNC)
        if fault in (StorageFault.HALF, StorageFault.HALF_CRASH):
            writing.flush(self._world.random.random())
            self._end(StorageFault.CRASH_AFTER if fault is StorageFault.HALF_CRASH else None, writing.path)
            raise OSError(errno.ENOSPC, "no space left, the simulator says")
        writing.flush()
        self._end(fault, writing.path)

    def sync_folder(self, folder: str) -> None:
        self._begin("sync", folder, _OF_SYNC_FOLDER)

    def make_folder(self, folder: str) -> None:
        pass

    def open(self, path: str) -> BinaryIO:
        self._begin("read", path, OF_LOOK)
        return io.BytesIO(self._file(path).content)

    def publish(self, path: str, name: str) -> None:
        fault = self._begin("link", name, _OF_LINK)
        if fault is StorageFault.DELAYED:
            self._later(name, lambda: self._link_late(path, name))
        self._link(path, name)
        self._end(fault, name)
        if fault is StorageFault.DENIED_ANSWER:  # as NFS does, when it asks again because the first answer was lost
            raise FileExistsError(errno.EEXIST, "exists", name)

    def same(self, path: str, other: str) -> bool:
        self._begin("compare", path, OF_LOOK)
        return self._file(path) is self._file(other)

    def delete(self, path: str) -> None:
        fault = self._begin("delete", path, OF_DELETE)
        if fault is StorageFault.DELAYED:
            self._later(path, lambda: self._names.pop(path, None))
        self._names.pop(path, None)
        self._end(fault, path)

    def facts(self, path: str) -> FileFacts | None:
        self._begin("look at", path, OF_LOOK)
        file = self._names.get(path)
        return None if file is None else FileFacts(len(file.content), file.modified_ns)

    def names(self, folder: str) -> list[str]:
        """In the order in which they came to be: no order that anyone can rely on."""
        self._begin("list", folder, OF_LOOK)
        return self.inside(folder)

    def is_folder(self, path: str) -> bool:
        return any(name.startswith(f"{path}/") for name in self._names)

    def matching(self, pattern: str) -> Iterator[FoundFile]:
        self._begin("list", pattern, OF_LOOK)
        folder, _, wanted = pattern.rpartition("/")
        if pattern in self._names:
            yield FoundFile(pattern)
            return
        if self.is_folder(pattern):
            folder, wanted = pattern, "*"
        for name in self.inside(folder):
            path = f"{folder}/{name}"
            if path in self._names and fnmatchcase(name, wanted) and not is_unfinished(name):
                yield FoundFile(path)

    # For those who know the truth.

    def put(self, path: str, content: bytes) -> None:
        """A finished file is moved there, unless it is there already."""
        if path not in self._names:
            file = self._names[path] = _File(modified_ns=0)
            file.content = content

    def inside(self, folder: str) -> list[str]:
        inside = [path[len(folder) + 1 :] for path in self._names if path.startswith(f"{folder}/")]
        return list(dict.fromkeys(name.partition("/")[0] for name in inside))

    def content(self, path: str) -> bytes | None:
        file = self._names.get(path)
        return None if file is None else file.content

    # How it goes wrong.

    @property
    def _now_ns(self) -> int:
        return self._world.wall_ms() * 1_000_000

    def _file(self, path: str) -> _File:
        if path not in self._names:
            raise FileNotFoundError(errno.ENOENT, "no such file", path)
        return self._names[path]

    def _link(self, path: str, name: str) -> None:
        file = self._file(path)
        if name in self._names:
            raise FileExistsError(errno.EEXIST, "exists", name)
        self.linked(name)
        self._names[name] = file

    def _link_late(self, path: str, name: str) -> None:
        if path in self._names and name not in self._names:
            self._link(path, name)

    def _begin(self, verb: str, path: str, possible: frozenset[StorageFault]) -> StorageFault | None:
        process = self._world.current
        if process is None:
            return None
        if not process.alive:  # what stands in a `finally`
            raise Crashed
        try:
            return self._storage.begin(verb, _shown(path), possible)
        except StorageError as error:
            raise OSError(errno.EIO, str(error)) from error

    def _end(self, fault: StorageFault | None, path: str) -> None:
        try:
            self._storage.end(fault, _shown(path))
        except StorageError as error:
            raise OSError(errno.EIO, str(error)) from error

    def _later(self, path: str, effect: Callable[[], object]) -> None:
        try:
            self._storage.later(_shown(path), effect)
        except StorageError as error:
            raise OSError(errno.EIO, str(error)) from error


class _File:
    """What names stand for."""

    def __init__(self, modified_ns: int) -> None:
        self.content = b""
        self.modified_ns = modified_ns


class _Writing:
    """A file that one process writes, from its start."""

    def __init__(self, file: _File, path: str, process: Process | None) -> None:
        self._file = file
        self.path = path
        self._process = process
        self._buffer = bytearray()
        self.closed = False

    def write(self, data: bytes) -> int:
        self._buffer += data
        return len(data)

    def flush(self, share: float = 1.0) -> None:
        """`share`: how much of what was written gets there."""
        if self._process is None or self._process.alive:
            self._file.content += bytes(self._buffer[: int(len(self._buffer) * share)])
            self._buffer.clear()

    def close(self) -> None:
        if not self.closed:
            self.flush()
            self.closed = True


def _shown(path: str) -> str:
    return _UNIQUE.sub("*", path)


def _of_this_run() -> SimulatedFiles:
    return registry.current().files


file_system.register(SCHEME, _of_this_run)
