"""Is the process that made some local folders still there?

Its number is no answer: in another container the same number means another process, or none. So each owner holds a lock
on a file of its own for as long as its process lives; the kernel lets go of it, whatever kills the process. Containers
that share a disk share its locks.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Callable


class OwnerLock:
    """Held from its making until `release`, or the end of the process: also when the object itself is forgotten."""

    def __init__(self, path: str) -> None:
        """The file's folder must be there."""
        self._path = path
        self._descriptor = _lock(path)

    def release(self) -> None:
        """Everything that it stood for is gone."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._path)
        os.close(self._descriptor)


def is_held(path: str) -> bool:
    """Whether the owner of this lock lives; where there are no locks, or it can't be asked, it is taken to."""
    try:
        descriptor = os.open(path, os.O_RDWR)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    else:
        return False
    finally:
        os.close(descriptor)


def clean_up_if_dead(path: str, clean_up: Callable[[], None]) -> None:
    """Cleans up behind the owner of this lock if it is gone. Two may try at a time."""
    try:
        descriptor = os.open(path, os.O_RDWR)
    except FileNotFoundError:
        clean_up()  # an owner has its lock before anything else
        return
    except OSError:
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:  # it lives, or the file system has no locks: then nothing is deleted that may be in use
        pass
    else:
        clean_up()
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
    finally:
        os.close(descriptor)


def _lock(path: str) -> int:
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_at(path, descriptor):
                return descriptor
        except BlockingIOError:
            pass
        except OSError:  # a file system without locks
            return descriptor
        # Taken for dead in the moment before it was locked: the other one deletes the file.
        os.close(descriptor)


def _is_at(path: str, descriptor: int) -> bool:
    try:
        return os.path.samestat(os.stat(path), os.fstat(descriptor))
    except FileNotFoundError:
        return False
