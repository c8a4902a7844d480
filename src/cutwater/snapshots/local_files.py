"""What does a slot keep on its local disk, and what of it helps the next attempt?

    {root}/{job_id}/{pid}-{slot}-{purpose}-…      folders of one slot: databases, frozen files
    {root}/{job_id}/kept/{operator of a task}/…   copies of shared files, for any slot of the job on this host

The root is the user's own: in a temporary folder that all users share, others could otherwise read the state there, or
put something else in its place.

A slot that restarts on the same host finds the files of the last checkpoint here and need not fetch them. Whatever a
process that is gone has left behind is removed by the next one.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterable

from cutwater.errors import StorageError
from cutwater.snapshots.checksums import checksum_of_file, is_strong
from cutwater.snapshots.format import SharedFile
from cutwater.snapshots.names import sanitise, split_shared_name

_OF_PROCESS = re.compile(r"^(\d+)-")
_KEPT = "kept"


class LocalFiles:
    """The local folder of one job on one host. Safe to be used by several slots, and several threads, at a time."""

    def __init__(self, root: str | None, job_id: str) -> None:
        self._root = root
        self._folder = os.path.join(root or _default_root(), sanitise(job_id))
        self._cleaned = False
        # A process may host one slot after the other, or several in a test.
        self._owner = f"{os.getpid()}-{secrets.token_hex(4)}"

    def new_folder(self, purpose: str) -> str:
        """An empty folder that nobody else uses."""
        if not self._cleaned:
            self._cleaned = True
            self._remove_folders(_is_of_a_dead_process)
        while True:
            self._make_private()
            with contextlib.suppress(FileNotFoundError):  # a slot that ended has just removed the empty folder
                return tempfile.mkdtemp(prefix=f"{self._owner}-{purpose}-", dir=self._folder)

    def keep(self, file: SharedFile, local: str) -> None:
        """Links a file that is on the storage, so that a restart finds it. If that can't be, a restart takes longer."""
        kept = self._kept(file)
        with contextlib.suppress(OSError):
            os.makedirs(os.path.dirname(kept), mode=0o700, exist_ok=True)
            os.link(local, kept)

    def keep_only(self, files: Iterable[SharedFile]) -> None:
        """Drops the other files of the same operators and tasks: no checkpoint needs them any more."""
        kept = {self._kept(file) for file in files}
        for folder in {os.path.dirname(path) for path in kept}:
            with contextlib.suppress(FileNotFoundError):
                for name in os.listdir(folder):
                    path = os.path.join(folder, name)
                    if path not in kept:
                        with contextlib.suppress(FileNotFoundError):
                            os.unlink(path)

    def link(self, file: SharedFile, target: str) -> bool:
        """Puts a kept file where it is wanted; False: there is none that is as it was written."""
        kept = self._kept(file)
        try:
            if checksum_of_file(kept, strong=is_strong(file.checksum)) != (file.size_bytes, file.checksum):
                return False
            os.link(kept, target)
        except OSError:
            return False
        return True

    def remove(self, *, job_is_over: bool) -> None:
        """Deletes what this slot has here; the kept files only when no slot will need them any more."""
        self._remove_folders(lambda name: name.startswith(self._owner))
        if job_is_over:
            shutil.rmtree(os.path.join(self._folder, _KEPT), ignore_errors=True)
        with contextlib.suppress(OSError):  # another slot's are still there
            os.rmdir(self._folder)

    def _make_private(self) -> None:
        """Makes the job's folder, which none but this user may enter. Raises `StorageError` if it is another's."""
        if self._root is None:
            _make_own(os.path.dirname(self._folder))
        else:
            os.makedirs(self._root, exist_ok=True)
        _make_own(self._folder)

    def _kept(self, file: SharedFile) -> str:
        owner, name = split_shared_name(file.path)
        return os.path.join(self._folder, _KEPT, sanitise(owner), name)

    def _remove_folders(self, is_wanted: Callable[[str], bool]) -> None:
        with contextlib.suppress(FileNotFoundError):
            for name in os.listdir(self._folder):
                if is_wanted(name):
                    shutil.rmtree(os.path.join(self._folder, name), ignore_errors=True)


def _make_own(folder: str) -> None:
    with contextlib.suppress(FileExistsError):
        os.mkdir(folder, 0o700)
    with contextlib.suppress(FileNotFoundError):  # just removed by a slot that ended; the next try makes it again
        found = os.lstat(folder)
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
            raise StorageError(
                f'"{folder}" is not a folder of this user\'s',
                detail="what lies there could be read, or exchanged, by others",
                hint="delete it, or name another folder: local_folder=…",
            )
        if found.st_mode & 0o077:
            os.chmod(folder, 0o700)


def _default_root() -> str:
    return os.path.join(tempfile.gettempdir(), f"cutwater-{os.geteuid()}")


def _is_of_a_dead_process(name: str) -> bool:
    match = _OF_PROCESS.match(name)
    if match is None:
        return False
    try:
        os.kill(int(match[1]), 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        pass
    return False
