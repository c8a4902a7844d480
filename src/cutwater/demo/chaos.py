"""When is which worker process killed?"""

from __future__ import annotations

import os
import random
import signal
from dataclasses import dataclass, field

from cutwater.protocol.lifecycle import JobState
from cutwater.status import JobStatus

#: Kill somewhere between two checkpoints, not always right behind one.
SECONDS_BETWEEN_KILLS = (1.5, 2.5)


@dataclass(slots=True)
class Chaos:
    """Kills one slot's Python process at a time, `kill -9`, while the job runs and has something to lose."""

    kills_wanted: int
    needs_checkpoints: bool
    generator: random.Random = field(default_factory=lambda: random.Random(7))
    killed_pids: list[int] = field(default_factory=list)
    _quiet_since_seconds: float | None = None
    _wait_seconds: float = SECONDS_BETWEEN_KILLS[0]
    _checkpoints_before: int = 0

    def watch(self, status: JobStatus, now_seconds: float) -> int | None:
        """Called again and again; returns the pid it has just killed, if any."""
        if status.state is not JobState.RUNNING or len(self.killed_pids) >= self.kills_wanted:
            self._quiet_since_seconds = None
            return None
        if self._quiet_since_seconds is None:
            self._quiet_since_seconds = now_seconds
            self._wait_seconds = self.generator.uniform(*SECONDS_BETWEEN_KILLS)
            self._checkpoints_before = status.checkpoints_completed
        rested = now_seconds - self._quiet_since_seconds >= self._wait_seconds
        covered = not self.needs_checkpoints or status.checkpoints_completed > self._checkpoints_before
        victims = [slot.pid for slot in status.slots if slot.tasks]
        if not (rested and covered and victims):
            return None
        pid = self.generator.choice(victims)
        os.kill(pid, signal.SIGKILL)
        self.killed_pids.append(pid)
        self._quiet_since_seconds = None
        return pid
