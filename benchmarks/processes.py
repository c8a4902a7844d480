"""What does a process and everything that it starts take: how much memory, and how much did others take meanwhile?"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil

SAMPLE_SECONDS = 0.2
#: The kernel walks through all pages for it.
PSS_EVERY_SAMPLES = 5


@dataclass(slots=True)
class Watched:
    """A finished process."""

    launched_at: float
    seconds: float
    timed_out: bool
    exit_code: int
    peak_rss_bytes: int
    #: The same with every page counted once that several processes of the family share.
    peak_pss_bytes: int
    #: Cores that were busy with something else, on average. Much of it makes a measurement worthless.
    cores_busy_elsewhere: float


@dataclass(slots=True)
class _Family:
    """A process and its descendants, also those that have since been adopted by another process."""

    root: psutil.Process
    seen: dict[int, psutil.Process] = field(default_factory=dict)
    cpu_seconds: dict[int, float] = field(default_factory=dict)
    peak_rss_bytes: int = 0
    peak_pss_bytes: int = 0
    samples: int = 0

    def sample(self) -> None:
        with suppress(psutil.NoSuchProcess):
            for process in (self.root, *self.root.children(recursive=True)):
                self.seen.setdefault(process.pid, process)
        rss_bytes = 0
        for process in self.seen.values():
            with suppress(psutil.Error):
                with process.oneshot():
                    rss_bytes += process.memory_info().rss
                    times = process.cpu_times()
                self.cpu_seconds[process.pid] = times.user + times.system
        self.peak_rss_bytes = max(self.peak_rss_bytes, rss_bytes)
        self.samples += 1
        if self.samples % PSS_EVERY_SAMPLES == 0:
            self.peak_pss_bytes = max(self.peak_pss_bytes, sum(map(_pss_bytes, self.seen)))

    def end(self) -> None:
        """Kills what is left of the family."""
        for process in self.seen.values():
            with suppress(psutil.Error):
                process.kill()


def watch(command: list[str], *, log: Path, variables: dict[str, str], timeout_seconds: float) -> Watched:
    """Runs a command to its end, its output into a file, and leaves nothing of it behind."""
    log.parent.mkdir(parents=True, exist_ok=True)
    busy_before = _busy_seconds()
    launched_at = time.time()
    timed_out = False
    with log.open("w") as output:
        process = subprocess.Popen(
            command, stdout=output, stderr=subprocess.STDOUT, env={**os.environ, **variables}, start_new_session=True
        )
    family = _Family(psutil.Process(process.pid))
    try:
        while process.poll() is None:
            family.sample()
            if time.time() - launched_at > timeout_seconds:
                timed_out = True
                os.killpg(process.pid, signal.SIGKILL)
            time.sleep(SAMPLE_SECONDS)
    finally:
        family.end()
        process.wait()
    seconds = time.time() - launched_at
    elsewhere = _busy_seconds() - busy_before - sum(family.cpu_seconds.values())
    return Watched(
        launched_at,
        seconds,
        timed_out,
        process.returncode,
        family.peak_rss_bytes,
        family.peak_pss_bytes,
        max(0.0, elsewhere / seconds),
    )


def _pss_bytes(pid: int) -> int:
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    return 0


def _busy_seconds() -> float:
    times = psutil.cpu_times()
    return float(times.user + times.nice + times.system + times.irq + times.softirq + times.steal)
