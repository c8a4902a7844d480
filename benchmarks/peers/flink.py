"""How is Flink set up, and when do its tasks run?

Shared by the SQL and the DataStream peer: a mini-cluster in one Java process with Flink's own settings but for these.
Objects are reused between chained operators, RocksDB checkpoints are incremental and have 2 GB of managed memory, a
finished task doesn't wait for one more checkpoint (that wait would count as work). The Java heap is what the virtual
machine takes by default, a quarter of the memory. Input is CSV: the Parquet format is not part of PyFlink's package.
"""

from __future__ import annotations

import json
import socket
import sys
import threading
import time
import urllib.request
from typing import Any

from pyflink.common import Configuration

from benchmarks.contract import Settings

POLL_SECONDS = 0.05


def configuration(given: Settings, *, rest_port: int, more: dict[str, str]) -> Configuration:
    options = {
        "rest.port": str(rest_port),
        "rest.bind-port": str(rest_port),
        "parallelism.default": str(given.parallelism),
        "taskmanager.numberOfTaskSlots": str(given.parallelism),
        "taskmanager.memory.managed.size": "2048m",
        "taskmanager.memory.network.min": "128m",
        "taskmanager.memory.network.max": "128m",
        "execution.runtime-mode": "STREAMING",
        "pipeline.object-reuse": "true",
        "restart-strategy.type": "none",
        "execution.checkpointing.checkpoints-after-tasks-finish": "false",
        "execution.checkpointing.dir": f"file://{given.scratch}",
        # Else a worker is whatever `python` is on the PATH.
        "python.executable": sys.executable,
        "python.client.executable": sys.executable,
        **more,
    }
    if given.backend is not None:
        options |= {"state.backend.type": given.backend, "execution.checkpointing.incremental": "true"}
    if given.checkpoint_seconds is not None and not given.verify:  # results are collected only at checkpoints
        interval = f"{round(given.checkpoint_seconds * 1_000)} ms"
        options |= {"execution.checkpointing.interval": interval, "execution.checkpointing.mode": "EXACTLY_ONCE"}
    made = Configuration()
    for name, value in options.items():
        made.set_string(name, value)
    return made


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class JobWatch:
    """Asks the cluster's REST interface when all tasks run and which checkpoints completed.

    Start it after the job was submitted: a second Python thread that is alive while Flink plans a query may make the
    planner fail, as py4j then serves a call on another Java thread.
    """

    def __init__(self, rest_port: int) -> None:
        self._url = f"http://127.0.0.1:{rest_port}"
        self.running_at: float | None = None
        self._checkpoints: dict[str, Any] = {}
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def facts(self) -> dict[str, Any]:
        """What is known when the job has ended."""
        self._stopped.set()
        self._thread.join(1)
        counts = self._checkpoints.get("counts", {})
        durations = (self._checkpoints.get("summary") or {}).get("end_to_end_duration", {})
        sizes = (self._checkpoints.get("summary") or {}).get("state_size", {})
        return {
            "checkpoints": counts.get("completed"),
            "checkpoints_failed": counts.get("failed"),
            "checkpoint_ms_mean": durations.get("avg"),
            "checkpoint_ms_max": durations.get("max"),
            "checkpoint_bytes_max": sizes.get("max"),
        }

    def _watch(self) -> None:
        while not self._stopped.wait(POLL_SECONDS if self.running_at is None else 0.5):
            try:
                self._look()
            except OSError:  # not up yet, or gone already
                continue

    def _look(self) -> None:
        jobs = self._get("/jobs/overview")["jobs"]
        if not jobs:
            return
        job = f"/jobs/{jobs[0]['jid']}"
        if self.running_at is None:
            states = {vertex["status"] for vertex in self._get(job)["vertices"]}
            if states <= {"RUNNING", "FINISHED"}:
                self.running_at = time.time()
        else:
            self._checkpoints = self._get(f"{job}/checkpoints")

    def _get(self, path: str) -> Any:
        with urllib.request.urlopen(self._url + path, timeout=2) as response:
            return json.load(response)
