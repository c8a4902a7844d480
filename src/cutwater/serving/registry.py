"""How is a running job found from another shell?

Each job leaves a file in a folder of its user: where its control service is, and with which token. The driver holds a
lock on a second file for as long as it lives; the kernel lets go of it whatever kills the process. So a registration
whose lock is free belongs to a job whose driver is gone, and stays for a while to say so.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import socket
import stat
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec

from cutwater.snapshots.owner_lock import OwnerLock, is_held

FOLDER_VARIABLE = "CUTWATER_JOBS_FOLDER"
#: Of a driver without a terminal: the file that has its output.
LOG_VARIABLE = "CUTWATER_LOG_FILE"
_LOCK = ".lock"
_SUFFIX = ".json"
#: How long it is remembered that a driver was killed.
REMEMBERED_SECONDS = 7 * 24 * 3600.0


class Registration(msgspec.Struct, frozen=True):
    """What another process of the same user must know to talk to a job."""

    job_id: str
    name: str
    #: For processes of this machine.
    address: str
    token: str
    host: str
    pid: int
    started_at_ms: int
    #: Of the service's certificate: SHA-256, in hexadecimal. None: it speaks HTTP.
    fingerprint: str | None = None
    #: The file with the driver's output, if it has no terminal.
    log: str | None = None
    #: For browsers, also those of other machines.
    page: str = ""

    def __repr__(self) -> str:
        return f"Registration({self.job_id!r}, {self.address!r}, process {self.pid} on {self.host})"


class Registered:
    """A job's entry, from its making until `withdraw` or the end of the process."""

    def __init__(self, path: Path, lock: OwnerLock) -> None:
        self._path = path
        self._lock = lock

    def withdraw(self) -> None:
        """The job ended in an orderly way: nobody needs to hear of it."""
        self._path.unlink(missing_ok=True)
        self._lock.release()


def jobs_folder() -> Path:
    """Of this user."""
    given = os.environ.get(FOLDER_VARIABLE)
    if given:
        return Path(given)
    state = os.environ.get("XDG_STATE_HOME")
    return (Path(state) if state else Path.home() / ".local" / "state") / "cutwater" / "jobs"


def private_folder() -> Path:
    """`jobs_folder`, made if it isn't there. Raises `OSError` where it can't be, or is another user's."""
    folder = jobs_folder()
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    _check_private(folder)
    return folder


def register(registration: Registration) -> Registered:
    """Raises `OSError` where nothing can be written."""
    folder = private_folder()
    path = folder / f"{registration.job_id[:100]}-{secrets.token_hex(6)}{_SUFFIX}"
    lock = OwnerLock(str(path) + _LOCK)
    # Created for us alone, before anything is in it.
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(msgspec.json.encode(registration))
    _forget_dead(folder, registration.job_id)
    return Registered(path, lock)


def registrations() -> Iterator[tuple[Registration, bool]]:
    """Those of this user, the newest first, and whether the driver lives."""
    folder = jobs_folder()
    found = [(path, read) for path in folder.glob(f"*{_SUFFIX}") if (read := _read(path)) is not None]
    for path, registration in sorted(found, key=lambda each: -each[1].started_at_ms):
        yield registration, _lives(path, registration)


def this_host() -> str:
    return socket.gethostname()


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def _lives(path: Path, registration: Registration) -> bool:
    """A lock of another machine can't be asked for: then it is taken to live."""
    return registration.host != this_host() or is_held(str(path) + _LOCK)


def _read(path: Path) -> Registration | None:
    """None: someone else's, or not written yet, or gone since."""
    with contextlib.suppress(OSError, msgspec.DecodeError):
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
        with os.fdopen(descriptor, "rb") as file:
            status = os.fstat(file.fileno())
            if status.st_uid == os.getuid() and stat.S_ISREG(status.st_mode):
                return msgspec.json.decode(file.read(), type=Registration)
    return None


def _forget_dead(folder: Path, job_id: str) -> None:
    """Of this job, and of all whose end was long ago."""
    oldest_ms = now_ms() - int(REMEMBERED_SECONDS * 1000)
    for path in folder.glob(f"*{_SUFFIX}"):
        known = _read(path)
        if known is None or _lives(path, known):
            continue
        if known.job_id == job_id or known.started_at_ms < oldest_ms:
            path.unlink(missing_ok=True)
            Path(str(path) + _LOCK).unlink(missing_ok=True)


def _check_private(folder: Path) -> None:
    status = folder.stat()
    if status.st_uid != os.getuid():
        raise PermissionError(f'"{folder}" belongs to another user')
    if status.st_mode & 0o077:
        folder.chmod(0o700)
