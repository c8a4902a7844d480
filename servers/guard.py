"""Who ends a server whose tests were killed?

A process of its own, started beside each server. It reads the server's process ids from its standard input, line by
line; when the tests are gone, however they ended, the input ends, and the guard kills those processes and removes the
folder. It imports the standard library only, so that it starts in a few milliseconds.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path


def main() -> None:
    folder, roots = sys.argv[1], set[int]()
    for line in sys.stdin:
        roots = {int(word) for word in line.split()}
    kill_families(roots)
    shutil.rmtree(folder, ignore_errors=True)


def kill_families(roots: Iterable[int], *, seconds: float = 10.0) -> None:
    """Ends processes with everything that they started, also what is stopped by a signal.

    They are stopped first: what can't run can't start another process that would be overlooked.
    """
    roots = set(roots)
    signal_all(families(roots), signal.SIGSTOP)
    everyone = families(roots)
    signal_all(everyone, signal.SIGKILL)
    deadline = time.monotonic() + seconds
    while any(is_running(process) for process in everyone) and time.monotonic() < deadline:
        time.sleep(0.005)


def families(roots: Iterable[int]) -> set[int]:
    """The running processes among `roots`, and those in their sessions, in their groups, or started by any of these.

    The parent alone isn't enough: an orphan loses it. Neither is the group: each backend of PostgreSQL has its own.
    """
    roots = set(roots)
    processes = _processes()
    found = {process for process, (_, group, session) in processes.items() if {process, group, session} & roots}
    while True:
        children = {process for process, (parent, _, _) in processes.items() if parent in found} - found
        if not children:
            return found
        found |= children


def signal_all(processes: Iterable[int], number: signal.Signals) -> None:
    for process in processes:
        with suppress(ProcessLookupError):
            os.kill(process, number)


def is_running(process: int) -> bool:
    return process in _processes()


def _processes() -> dict[int, tuple[int, int, int]]:
    """Parent, group and session of each process that is not yet dead."""
    result = {}
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        with suppress(OSError):
            # After the name, which may hold any character: state, parent, group, session.
            state, *numbers = Path("/proc", entry, "stat").read_text().rpartition(")")[2].split()[:4]
            if state not in "ZX":
                result[int(entry)] = (int(numbers[0]), int(numbers[1]), int(numbers[2]))
    return result


if __name__ == "__main__":
    main()
