"""What is one measurement, and where is it kept?

`build/bench.jsonl` holds the measurements of the last run, one JSON object a line; older ones are moved to
`build/bench-history.jsonl`. What could not be measured is in `build/bench-failures.jsonl`, with the reason.
"""

from __future__ import annotations

import json
import os
import platform
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

BUILD = Path("build")
RESULTS = BUILD / "bench.jsonl"
HISTORY = BUILD / "bench-history.jsonl"
FAILURES = BUILD / "bench-failures.jsonl"
MACHINE = BUILD / "bench-machine.json"
#: The fields that every line has, in this order; more may follow.
FIELDS = (
    "workload",
    "system",
    "backend",
    "checkpoint_seconds",
    "parallelism",
    "rows",
    "seconds",
    "rows_per_second",
    "peak_rss_bytes",
    "p50_ms",
    "p99_ms",
)


@dataclass(frozen=True, slots=True)
class Measurement:
    """One run of one system. What was not measured is None."""

    workload: str
    system: str
    backend: str | None = None
    #: None: no checkpoints.
    checkpoint_seconds: float | None = None
    parallelism: int | None = None
    rows: int | None = None
    #: The steady part, without start-up.
    seconds: float | None = None
    peak_rss_bytes: int | None = None
    p50_ms: float | None = None
    p99_ms: float | None = None
    more: dict[str, Any] = field(default_factory=dict)

    @property
    def rows_per_second(self) -> float | None:
        return self.rows / self.seconds if self.rows and self.seconds else None

    @property
    def memory_bytes(self) -> int | None:
        """What all processes together had in memory: a page that several of them share counts once."""
        shared_once: int | None = self.more.get("peak_pss_bytes")
        return shared_once or self.peak_rss_bytes

    @property
    def variant(self) -> str:
        variant: str = self.more.get("variant", "")
        return variant

    @property
    def label(self) -> str:
        """The system with all that tells it apart from its neighbours."""
        return ", ".join(part for part in (self.system, self.backend, self.variant) if part)

    def to_json(self) -> str:
        return json.dumps({**{name: getattr(self, name) for name in FIELDS}, **self.more})


@dataclass(frozen=True, slots=True)
class Failure:
    """A run that gave no measurement."""

    workload: str
    label: str
    reason: str


def begin_run(command: str) -> None:
    """Makes room for the measurements of a new run, and notes the machine."""
    BUILD.mkdir(exist_ok=True)
    if RESULTS.exists():
        with HISTORY.open("a") as history:
            history.write(RESULTS.read_text())
    RESULTS.write_text("")
    FAILURES.write_text("")
    MACHINE.write_text(json.dumps({"command": command, "began": time.strftime("%Y-%m-%d %H:%M"), **_machine()}))


def keep(found: Measurement | Failure) -> None:
    if isinstance(found, Failure):
        line = json.dumps({"workload": found.workload, "label": found.label, "reason": found.reason})
        path = FAILURES
    else:
        line, path = found.to_json(), RESULTS
    path.parent.mkdir(exist_ok=True)
    with path.open("a") as file:
        file.write(line + "\n")


def load(path: Path = RESULTS) -> list[Measurement]:
    return [_measurement(json.loads(line)) for line in _lines(path)]


def load_failures(path: Path = FAILURES) -> list[Failure]:
    return [Failure(**json.loads(line)) for line in _lines(path)]


def load_machine(path: Path = MACHINE) -> dict[str, Any]:
    machine: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    return machine


def _lines(path: Path) -> Iterable[str]:
    return [line for line in path.read_text().splitlines() if line.strip()] if path.exists() else []


def _measurement(values: dict[str, Any]) -> Measurement:
    known = {name: values.pop(name) for name in FIELDS}
    known.pop("rows_per_second")  # it follows from the others
    return Measurement(**known, more=values)


def _machine() -> dict[str, Any]:
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    names = (line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.machine())
