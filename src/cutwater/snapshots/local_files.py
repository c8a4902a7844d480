"""What does a slot keep on its local disk, and what of it helps the next attempt?

    {root}/{job_id}/{pid}-{slot}-{purpose}-…      folders of one slot: databases, frozen files
    {root}/{job_id}/{pid}-{slot}.lock             locked while the slot's process lives
    {root}/{job_id}/kept/{operator of a task}/…   copies of shared files, for any slot of the job on this host

A slot that restarts on the same host finds the files of the last checkpoint here and need not fetch them. Whatever a
process that is gone has left behind is removed by the next one.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import shutil
import tempfile
from collections.abc import Iterable
from functools import partial

from cutwater.snapshots.checksums import checksum_of_file
from cutwater.snapshots.format import SharedFile
from cutwater.snapshots.names import sanitise, split_shared_name
from cutwater.snapshots.owner_lock import OwnerLock, clean_up_if_dead

_OWNED = re.compile(r"^(\d+-[0-9a-f]{8})(?:-|\.lock$)")
_KEPT = "kept"


class LocalFiles:
    """The local folder of one job on one host. Safe to be used by several slots, and several threads, at a time."""

    def __init__(self, root: str | None, job_id: str) -> None:
        self._folder = os.path.join(root or _default_root(), sanitise(job_id))
        self._lock: OwnerLock | None = None
        # A process may host one slot after the other, or several in a test.
        self._owner = f"{os.getpid()}-{secrets.token_hex(4)}"

    def new_folder(self, purpose: str) -> str:
        """An empty folder that nobody else uses."""
        if self._lock is None:
            self._lock = self._take_lock()
            self._clean_up_behind_the_dead()
        return tempfile.mkdtemp(prefix=f"{self._owner}-{purpose}-", dir=self._folder)

    def keep(self, file: SharedFile, local: str) -> None:
        """Links a file that is on the storage, so that a restart finds it. If that can't be, a restart takes longer."""
        kept = self._kept(file)
        with contextlib.suppress(OSError):
            os.makedirs(os.path.dirname(kept), exist_ok=True)
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
            if checksum_of_file(kept) != (file.size_bytes, file.checksum):
                return False
            os.link(kept, target)
        except OSError:
            return False
        return True

    def remove(self, *, job_is_over: bool) -> None:
        """Deletes what this slot has here; the kept files only when no slot will need them any more."""
        self._remove_folders_of(self._owner)
        if self._lock is not None:
            self._lock.release()
            self._lock = None
        if job_is_over:
            shutil.rmtree(os.path.join(self._folder, _KEPT), ignore_errors=True)
        with contextlib.suppress(OSError):  # another slot's are still there
            os.rmdir(self._folder)

    def _kept(self, file: SharedFile) -> str:
        owner, name = split_shared_name(file.path)
        return os.path.join(self._folder, _KEPT, sanitise(owner), name)

    def _take_lock(self) -> OwnerLock:
        while True:
            os.makedirs(self._folder, exist_ok=True)
            with contextlib.suppress(FileNotFoundError):  # a slot that ended has just removed the empty folder
                return OwnerLock(self._lock_of(self._owner))

    def _clean_up_behind_the_dead(self) -> None:
        owners = {match[1] for name in os.listdir(self._folder) if (match := _OWNED.match(name))}
        for owner in owners - {self._owner}:
            clean_up_if_dead(self._lock_of(owner), partial(self._remove_folders_of, owner))

    def _lock_of(self, owner: str) -> str:
        return os.path.join(self._folder, f"{owner}.lock")

    def _remove_folders_of(self, owner: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            for name in os.listdir(self._folder):
                if name.startswith(f"{owner}-"):
                    shutil.rmtree(os.path.join(self._folder, name), ignore_errors=True)


def _default_root() -> str:
    return os.path.join(tempfile.gettempdir(), f"cutwater-{os.getuid()}")
