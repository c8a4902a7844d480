"""What can go wrong with a file?

All files of the run are in one place that every process sees at once. An operation may take time, fail before or after
it had its effect, leave half of a file behind, or take its process with it.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from cutwater.errors import StorageError
from cutwater.snapshots.storage import MemoryStorage
from cutwater.testing.simulation.conditions import StorageFault
from cutwater.testing.simulation.world import Crashed, Process, World

_OF_WRITE = frozenset(StorageFault) - {StorageFault.LOST_ANSWER, StorageFault.DENIED_ANSWER}
_OF_CREATE = frozenset(StorageFault) - {StorageFault.HALF, StorageFault.HALF_CRASH}
_OF_READ = frozenset({StorageFault.FAIL, StorageFault.SLOW, StorageFault.CRASH_BEFORE, StorageFault.CUT_OFF})
_OF_DELETE = _OF_READ | {StorageFault.CRASH_AFTER, StorageFault.LOST_ANSWER}
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
        #: Called when a file was created by `create_if_absent`.
        self.created: Callable[[str], None] = lambda path: None
        #: Called when a process is to be taken for dead.
        self.cut_off: Callable[[Process], None] = lambda process: None
        #: Every path of which all bytes were once there.
        self.ever_whole: set[str] = set()
        self._world = world

    def write(self, path: str, data: bytes) -> None:
        fault = self._begin("write", path, _OF_WRITE)
        if fault in (StorageFault.HALF, StorageFault.HALF_CRASH):
            self.files.write(path, data[: self._world.random.randrange(len(data) + 1)])
            if fault is StorageFault.HALF_CRASH:
                self._crash("write")
            self._end(StorageFault.LOST_ANSWER, path)
        self.files.write(path, data)
        self.ever_whole.add(path)
        self._end(fault, path)

    def create_if_absent(self, path: str, data: bytes) -> bool:
        fault = self._begin("create", path, _OF_CREATE)
        created = self.files.create_if_absent(path, data)
        if created:
            self.ever_whole.add(path)
            self.created(path)
        self._end(fault, path)
        return created and fault is not StorageFault.DENIED_ANSWER

    def read(self, path: str) -> bytes:
        self._begin("read", path, _OF_READ)
        return self.files.read(path)

    def upload(self, path: str, local: str) -> None:
        self.write(path, Path(local).read_bytes())

    def download(self, path: str, local: str) -> None:
        Path(local).write_bytes(self.read(path))

    def exists(self, path: str) -> bool:
        self._begin("look for", path, _OF_READ)
        return self.files.exists(path)

    def size_bytes(self, path: str) -> int | None:
        self._begin("look at", path, _OF_READ)
        return self.files.size_bytes(path)

    def list(self, prefix: str) -> list[str]:
        self._begin("list", prefix, _OF_READ)
        return self.files.list(prefix)

    def delete(self, path: str) -> None:
        fault = self._begin("delete", path, _OF_DELETE)
        self.files.delete(path)
        self._end(fault, path)

    def delete_folder(self, path: str) -> None:
        """Not one step: what is deleted before a crash stays deleted."""
        for file in self.files.list(path):
            self.delete(file)

    def check_writable(self) -> None:
        pass

    def _begin(self, verb: str, path: str, possible: frozenset[StorageFault]) -> StorageFault | None:
        world, conditions = self._world, self._world.conditions
        fault: StorageFault | None = None
        rate = conditions.storage_fault_rate
        if possible is _OF_CREATE:
            rate = min(rate * _CREATE_IS_WORSE, max(rate, _CREATE_RATE_MAX))
        if rate and world.stormy and world.random.random() < rate:
            drawn = world.random.choice(conditions.storage_faults)
            fault = drawn if drawn in possible else None
        elif rate and world.stormy and self._may_cut_off and world.random.random() < _CUT_OFF_RATE:
            fault = StorageFault.CUT_OFF
        who = world.current.name if world.current is not None else "nobody"
        world.note("%s: %s %s%s", who, verb, path, "" if fault is None else f" ({fault})")
        if fault is StorageFault.CUT_OFF and world.current is not None:
            self.cut_off(world.current)
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

    @property
    def _may_cut_off(self) -> bool:
        process = self._world.current
        return process is not None and process.leads and StorageFault.CUT_OFF in self._world.conditions.storage_faults

    def _end(self, fault: StorageFault | None, path: str) -> None:
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
