"""What can go wrong with a file?

All files of the run are in one place that every process sees at once. An operation may take time, fail before or after
it had its effect, have its effect long after it failed, leave half of a file behind, or take its process with it. What
is read of a snapshot may differ from what was written, once or for ever.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

from cutwater.errors import StorageError
from cutwater.snapshots.storage import MemoryStorage, Storage
from cutwater.testing.simulation.conditions import StorageFault
from cutwater.testing.simulation.world import Crashed, Process, World

OF_LOOK = frozenset({StorageFault.FAIL, StorageFault.SLOW, StorageFault.CRASH_BEFORE, StorageFault.CUT_OFF})
_OF_READ = OF_LOOK | {StorageFault.DAMAGED_READ}
OF_DELETE = OF_LOOK | {StorageFault.CRASH_AFTER, StorageFault.LOST_ANSWER, StorageFault.DELAYED}
_OF_WRITE = frozenset(StorageFault) - {
    StorageFault.LOST_ANSWER,
    StorageFault.DENIED_ANSWER,
    StorageFault.DAMAGED_READ,
}
_OF_CREATE = frozenset(StorageFault) - {StorageFault.HALF, StorageFault.HALF_CRASH, StorageFault.DAMAGED_READ}
#: What has checksums: the files of checkpoints and savepoints.
OF_SNAPSHOT = re.compile(r"(^|/)(chk-\d+|savepoint-[^/]*|shared)/")
#: The journal is made of created files: there everything is decided, so there most goes wrong.
_CREATE_IS_WORSE = 4.0
_CREATE_RATE_MAX = 0.1
#: Few operations are a coordinator's, so it draws once more.
_CUT_OFF_RATE = 0.02
_SLOW_SECONDS_MAX = 1.0


class SimulatedStorage:
    """`Storage` with faults. `files` is the truth behind it, without any."""

    def __init__(self, world: World) -> None:
        self.files = MemoryStorage()
        #: What the job calls it, if that isn't a simulated URL.
        self.root: str | None = None
        #: Called when a file was created by `create_if_absent`.
        self.created: Callable[[str], None] = lambda path: None
        #: Called when a process is to be taken for dead; says whether it is.
        self.cut_off: Callable[[Process], bool] = lambda process: False
        #: Every path of which all bytes were once there.
        self.ever_whole: set[str] = set()
        self._world = world
        self._damaged: set[str] = set()
        self._deletions = 0

    def write(self, path: str, data: bytes) -> None:
        fault = self.begin("write", path, _OF_WRITE)
        if fault is StorageFault.DELAYED:
            self.later(path, lambda: self._written(path, data))
        if fault in (StorageFault.HALF, StorageFault.HALF_CRASH):
            self.files.write(path, data[: self._world.random.randrange(len(data) + 1)])
            if fault is StorageFault.HALF_CRASH:
                self._crash("write")
            self.end(StorageFault.LOST_ANSWER, path)
        self._written(path, data)
        self.end(fault, path)

    def create_if_absent(self, path: str, data: bytes) -> bool:
        fault = self.begin("create", path, _OF_CREATE)
        if fault is StorageFault.DELAYED:
            self.later(path, lambda: self._created(path, data))
        created = self._created(path, data)
        self.end(fault, path)
        return created and fault is not StorageFault.DENIED_ANSWER

    def read(self, path: str) -> bytes:
        fault = self.begin("read", path, _OF_READ if OF_SNAPSHOT.search(path) else OF_LOOK)
        data = self.files.read(path)
        return damaged(data, self._world) if fault is StorageFault.DAMAGED_READ else data

    def upload(self, path: str, local: str) -> None:
        self.write(path, Path(local).read_bytes())

    def download(self, path: str, local: str) -> None:
        Path(local).write_bytes(self.read(path))

    def exists(self, path: str) -> bool:
        self.begin("look for", path, OF_LOOK)
        return self.files.exists(path)

    def size_bytes(self, path: str) -> int | None:
        self.begin("look at", path, OF_LOOK)
        return self.files.size_bytes(path)

    def list(self, prefix: str) -> list[str]:
        self.begin("list", prefix, OF_LOOK)
        return self.files.list(prefix)

    def delete(self, path: str) -> None:
        fault = self.begin("delete", path, OF_DELETE)
        if fault is StorageFault.DELAYED:
            self.later(path, lambda: self.files.delete(path))
        self.files.delete(path)
        self.end(fault, path)

    def delete_folder(self, path: str) -> None:
        """Not one step: what is deleted before a crash stays deleted."""
        for file in self.files.list(path):
            self.delete(file)

    def check_writable(self) -> None:
        pass

    def at(self, url: str) -> Storage:
        """The storage that a URL names: "simulated://place/job" is the folder "job", "simulated://place" all there is.

        For those who restore from a path or write a savepoint.
        """
        return below(self, url, self.root)

    def forget(self, folder: str) -> None:
        """A person deletes a folder, and waits before that until nothing more can land in it."""
        self._deletions += 1
        self.files.delete_folder(folder)

    def _written(self, path: str, data: bytes) -> None:
        self.files.write(path, data)
        self.ever_whole.add(path)

    def _created(self, path: str, data: bytes) -> bool:
        created = self.files.create_if_absent(path, data)
        if created:
            self.ever_whole.add(path)
            self.created(path)
        return created

    def later(self, path: str, effect: Callable[[], object]) -> NoReturn:
        """It has failed, as far as anybody knows."""
        world = self._world

        deletions = self._deletions

        def lands() -> None:
            if self._deletions > deletions:
                return
            world.note("what was asked of %s lands", path)
            effect()

        world.after(world.delay(world.conditions.slow_seconds), lands)
        raise StorageError(f'no answer about "{path}"', detail="the simulator says so, and lets it land later")

    def begin(self, verb: str, path: str, possible: frozenset[StorageFault]) -> StorageFault | None:
        world, conditions = self._world, self._world.conditions
        fault: StorageFault | None = None
        rate = conditions.storage_fault_rate
        if possible is _OF_CREATE:
            rate = min(rate * _CREATE_IS_WORSE, max(rate, _CREATE_RATE_MAX))
        if rate and world.stormy and world.random.random() < rate:
            drawn = world.random.choice(conditions.storage_faults)
            fault = drawn if drawn in possible and not self._was_damaged(drawn, path) else None
        elif rate and world.stormy and self._may_cut_off and world.random.random() < _CUT_OFF_RATE:
            fault = StorageFault.CUT_OFF
        if fault is StorageFault.CUT_OFF and (world.current is None or not self.cut_off(world.current)):
            fault = StorageFault.SLOW
        who = world.current.name if world.current is not None else "nobody"
        world.note("%s: %s %s%s", who, verb, path, "" if fault is None else f" ({fault})")
        if fault is not None:
            world.inject(fault)
        if fault in (StorageFault.SLOW, StorageFault.CUT_OFF):
            seconds = world.delay(conditions.slow_seconds) * (2.0 if fault is StorageFault.CUT_OFF else 1.0)
            world.pause(min(seconds, _SLOW_SECONDS_MAX))
        elif conditions.interleaving and world.random.random() < conditions.interleaving:
            world.pause(world.delay(conditions.operation_seconds))
        if fault is StorageFault.CRASH_BEFORE:
            self._crash(verb)
        if fault is StorageFault.FAIL:
            raise StorageError(f'can\'t {verb} "{path}"', detail="the simulator says so")
        return fault

    def _was_damaged(self, fault: StorageFault, path: str) -> bool:
        """What is read wrong once is read right the next time; else it would be damage at rest, another fault."""
        if fault is not StorageFault.DAMAGED_READ:
            return False
        was = path in self._damaged
        self._damaged.add(path)
        return was

    @property
    def _may_cut_off(self) -> bool:
        process = self._world.current
        return process is not None and process.leads and StorageFault.CUT_OFF in self._world.conditions.storage_faults

    def end(self, fault: StorageFault | None, path: str) -> None:
        if fault is StorageFault.CRASH_AFTER:
            self._crash("write")
        if fault is StorageFault.LOST_ANSWER:
            raise StorageError(f'no answer about "{path}"', detail="the simulator says so")

    def _crash(self, verb: str) -> None:
        process = self._world.current
        assert process is not None
        if process.mortal:
            process.end(f"crashed in {verb}")
            raise Crashed


def damaged(data: bytes, world: World) -> bytes:
    """One byte is another, or the end is missing."""
    if not data:
        return b"?"
    index = world.random.randrange(len(data))
    if world.random.random() < 0.3:
        return data[:index]
    return data[:index] + bytes([data[index] ^ (1 << world.random.randrange(8))]) + data[index + 1 :]


def below(storage: Storage, url: str, root: str | None = None) -> Storage:
    """The folder that a URL names in this storage; `root` is the URL of all of it."""
    if root is not None and f"{url}/".startswith(f"{root}/"):
        folder = url[len(root) + 1 :]
    else:
        folder = url.partition("://")[2].partition("/")[2]
    return Below(storage, folder) if folder else storage


class Below:
    """A folder of a storage, as a storage."""

    def __init__(self, storage: Storage, folder: str) -> None:
        self._storage = storage
        self._folder = folder

    def write(self, path: str, data: bytes) -> None:
        self._storage.write(self._full(path), data)

    def create_if_absent(self, path: str, data: bytes) -> bool:
        return self._storage.create_if_absent(self._full(path), data)

    def read(self, path: str) -> bytes:
        return self._storage.read(self._full(path))

    def upload(self, path: str, local: str) -> None:
        self._storage.upload(self._full(path), local)

    def download(self, path: str, local: str) -> None:
        self._storage.download(self._full(path), local)

    def exists(self, path: str) -> bool:
        return self._storage.exists(self._full(path))

    def size_bytes(self, path: str) -> int | None:
        return self._storage.size_bytes(self._full(path))

    def list(self, prefix: str) -> list[str]:
        return [path.removeprefix(f"{self._folder}/") for path in self._storage.list(self._full(prefix))]

    def delete(self, path: str) -> None:
        self._storage.delete(self._full(path))

    def delete_folder(self, path: str) -> None:
        self._storage.delete_folder(self._full(path))

    def check_writable(self) -> None:
        self._storage.check_writable()

    def _full(self, path: str) -> str:
        return f"{self._folder}/{path}" if path else self._folder
