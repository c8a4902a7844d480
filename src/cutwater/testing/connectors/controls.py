"""How does the kit talk to the tasks of a job under test, in whatever process they are?

By small files in a folder. The kit says whether records may flow and whether checkpoints may complete; readers say how
many records of their split have been read, and the brake which checkpoint has reached it. So the kit knows how far the
job is also when the job's driver is another process, and nothing of it is lost with a process that is killed.
"""

from __future__ import annotations

import hashlib
import os
import struct
from dataclasses import dataclass
from pathlib import Path

_QUOTA = "quota"
_BRAKED = "braked"
_BARRIER = "barrier-"
_HELD = "held-"
_SEEN = "seen-"
_NUMBERS = struct.Struct("<qq")
#: The tick that never ends.
RELEASED = -1


@dataclass(frozen=True, slots=True)
class Controls:
    """Travels with the job; a folder on this machine."""

    folder: str

    def __post_init__(self) -> None:
        os.makedirs(self.folder, exist_ok=True)

    # ------------------------------------------------------------------------------------------------------ for the kit

    def let_flow(self, tick: int, *, rows: int) -> None:
        """Each reader may read so many rows, once for every tick."""
        with NumbersFile(self._path(_QUOTA)) as quota:
            quota.write(tick, rows)

    def release(self) -> None:
        """From now on nothing is slow."""
        self.let_flow(RELEASED, rows=0)

    def hold_checkpoints(self, holds: bool) -> None:
        """While it holds, the sinks prepare, and no checkpoint completes."""
        if holds:  # before the brake is on: nobody writes them then
            for path in Path(self.folder).glob(f"{_HELD}*"):
                path.unlink()
        self._set(_BRAKED, holds)

    @property
    def checkpoint_is_held(self) -> bool:
        """Since the last `hold_checkpoints(True)` a barrier has come to the sinks."""
        return any(Path(self.folder).glob(f"{_HELD}*"))

    @property
    def checkpoint_reached(self) -> int:
        """The newest checkpoint whose barrier has come to the sinks; 0: none."""
        return max(self._numbers(_BARRIER), default=0)

    @property
    def seen(self) -> int:
        """Records that were read, of all splits: those that an attempt has read again count once."""
        return sum(self._numbers(_SEEN))

    @property
    def splits(self) -> int:
        """Those that were opened."""
        return len(self._numbers(_SEEN))

    # ---------------------------------------------------------------------------------------------------- for the tasks

    @property
    def checkpoints_are_held(self) -> bool:
        return os.path.exists(self._path(_BRAKED))

    def barrier_came(self, checkpoint: int, *, subtask: int) -> bool:
        """Whether the checkpoint is to be held."""
        with NumbersFile(self._path(f"{_BARRIER}{subtask}")) as barrier:
            barrier.write(checkpoint)
        holds = self.checkpoints_are_held
        if holds:
            self._set(f"{_HELD}{subtask}", True)
        return holds

    def gauge(self, split: str) -> NumbersFile:
        """Tells how many records of this split have been read."""
        return NumbersFile(self._path(_SEEN + hashlib.sha1(split.encode()).hexdigest()))

    def quota(self) -> NumbersFile:
        """The tick, and how many rows may be read in it."""
        return NumbersFile(self._path(_QUOTA))

    def _path(self, name: str) -> str:
        return os.path.join(self.folder, name)

    def _set(self, name: str, there: bool) -> None:
        if there:
            Path(self._path(name)).touch()
        else:
            Path(self._path(name)).unlink(missing_ok=True)

    def _numbers(self, prefix: str) -> list[int]:
        numbers = []
        with os.scandir(self.folder) as entries:
            paths = [entry.path for entry in entries if entry.name.startswith(prefix)]
        for path in paths:
            with NumbersFile(path) as file:
                numbers.append(file.read()[0])
        return numbers


class NumbersFile:
    """Two numbers in a file, zero at first."""

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)

    def write(self, first: int, second: int = 0) -> None:
        os.pwrite(self._file, _NUMBERS.pack(first, second), 0)

    def read(self) -> tuple[int, int]:
        content = os.pread(self._file, _NUMBERS.size, 0)
        return _NUMBERS.unpack(content) if content else (0, 0)

    def close(self) -> None:
        os.close(self._file)

    def __enter__(self) -> NumbersFile:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
