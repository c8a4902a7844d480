"""Has the process run out of file descriptors?

Then anything fails, anywhere, and says so in its own words: a database, a storage, a socket. The person who runs the
job should read the reason, not the victim.
"""

from __future__ import annotations

import os
import resource
from errno import EMFILE

from cutwater.errors import OperationsError, UserError

#: Enough for large state in RocksDB; what the system allows a process to ask for is often far more.
FILES_WANTED = 65_536

_SAID_BY_THE_SYSTEM = os.strerror(EMFILE)


def allow_many_files() -> None:
    """Raises this process' limit as far as the system allows, up to what a slot can need."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    unlimited = resource.RLIM_INFINITY
    wanted = FILES_WANTED if hard == unlimited else min(FILES_WANTED, hard)
    if soft != unlimited and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def explained(error: Exception) -> Exception:
    """The error, or what is behind it. A user's function that opens too many files is named as it is."""
    if isinstance(error, UserError) or not _is_out_of_files(error):
        return error
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return OperationsError(
        f"a slot has no file descriptors left: its process may have {soft}",
        detail=str(error).replace("\n", " "),
        hint="raise the limit of the executors (ulimit -n, LimitNOFILE), or look for files that a function leaves open",
    )


def _is_out_of_files(error: BaseException | None) -> bool:
    while error is not None:
        if (isinstance(error, OSError) and error.errno == EMFILE) or _SAID_BY_THE_SYSTEM in f"{error}":
            return True
        error = error.__cause__ or error.__context__
    return False
