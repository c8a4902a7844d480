"""How does a job run in a process of its own, so that its driver can be killed?

The child gets the pickled job and the search path of its parent, and runs the job to its end.
"""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import cloudpickle

from cutwater.testing.connectors.jobs import JobUnderTest

CORES = 4
LOOK_SECONDS = 0.01


class DriverProcess:
    """The job, started in another process."""

    def __init__(self, job: JobUnderTest, folder: Path) -> None:
        script, self._log = folder / "job.pickle", folder / "driver.log"
        script.write_bytes(pickle.dumps(([*sys.path, os.getcwd()], cloudpickle.dumps(job))))
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-c", f"from {__name__} import run; run()", str(script)],
                env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
                stdin=subprocess.PIPE,  # which ends when this process does, however it ends
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @property
    def ended(self) -> str | None:
        """How it ended; None: it runs."""
        if self._process.poll() is None:
            return None
        said = self._log.read_text(errors="replace").splitlines()[-15:]
        return "\n".join([f"it ended with code {self._process.returncode}", *said])

    def kill(self) -> None:
        """Only the driver: what it has started must end by itself, and may do harm until then."""
        self._process.kill()

    def pause(self) -> None:
        """Only the driver: its slots go on until they miss it."""
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    @property
    def family(self) -> list[int]:
        """The processes that are left of it: the driver, Spark's, and the slots, which have groups of their own."""
        return [pid for pid in _processes() if _session_of(pid) == self._process.pid]

    def clean_up(self) -> None:
        """Kills all that is left of it; returns when it is gone."""
        while left := self.family:
            for pid in left:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(LOOK_SECONDS)
        self._process.wait()


def _processes() -> list[int]:
    return [int(entry.name) for entry in os.scandir("/proc") if entry.name.isdecimal()]


def _session_of(pid: int) -> int | None:
    """None: it has ended, though its parent may not have noticed."""
    try:
        state, _, _, session = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[:4]
    except OSError:
        return None
    return None if state == "Z" else int(session)


def run() -> None:
    """In that process."""
    from cutwater.deploy.session import embedded_context

    threading.Thread(target=_end_with_parent, name="cutwater-parent", daemon=True).start()
    path, pickled = pickle.loads(Path(sys.argv[1]).read_bytes())
    sys.path[:] = path
    job: Any = pickle.loads(pickled)
    job.submit(embedded_context(CORES)).wait()


def _end_with_parent() -> None:
    sys.stdin.read()
    os._exit(1)
