"""How is a system run on a workload in a fresh process, and what comes back? The same way for every system.

A `Subject` is a system: its program, its Python, the layout of its files. A `Case` is one of its rows in the table: a
workload, a backend, a checkpoint interval, a variant. `measure` runs a case once; `measure_steadily` gives it so many
rows that it is busy for the time asked for.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from benchmarks import data
from benchmarks.contract import MARK, Answer, Result, Settings
from benchmarks.data import Layout
from benchmarks.measurements import Failure, Measurement
from benchmarks.peers.environments import Unavailable, python_of
from benchmarks.processes import Watched, watch
from benchmarks.workloads import WORKLOADS

LOGS = Path("build/bench-logs")
#: A run may take so many times its target before it is given up, and some for its start-up.
PATIENCE = 6.0
START_UP_SECONDS_MAX = 120.0
#: A run that was this much shorter than asked for is repeated with more rows.
SHORT = 0.75
ROWS_MIN = 200_000
#: Of one batch query.
BATCH_ROWS_MAX = 100_000_000


@dataclass(frozen=True, slots=True)
class Subject:
    """A system."""

    system: str
    module: str
    #: The peer's environment; None: our own Python.
    environment: str | None = None
    layout: Layout = "parquet"
    #: The layout for workloads in which event time matters.
    layout_in_time: Layout = "parquet"
    variables: dict[str, str] = field(default_factory=dict)
    #: One batch query is short: the program asks it again until the time is up.
    repeats_itself: bool = False


@dataclass(frozen=True, slots=True)
class Case:
    """A row in the table."""

    subject: Subject
    workload: str
    #: A guess of its speed, to choose the number of rows; corrected by the first run.
    rows_per_second: float
    backend: str | None = None
    checkpoint_seconds: float | None = 1.0
    parallelism: int = 2
    variant: str = ""
    #: Other keys than the workload's own, for measurements of growth.
    keys: int | None = None
    warm_up: bool = True

    @property
    def label(self) -> str:
        return ", ".join(part for part in (self.subject.system, self.backend, self.variant) if part)


def measure(
    case: Case, *, rows: int, target_seconds: float = 0.0, verify: bool = False, log_name: str | None = None
) -> Measurement | Failure:
    """One run in a fresh process."""
    try:
        python = sys.executable if case.subject.environment is None else str(python_of(case.subject.environment))
    except Unavailable as reason:
        return Failure(case.workload, case.label, f"not available here: {reason}")
    workload = WORKLOADS[case.workload]
    keys = case.keys or workload.keys
    rows_made = rows
    files = ""
    dataset = None
    if keys is not None:
        dataset = data.prepare(rows=rows, keys=keys, advancing=workload.advancing, even=workload.even)
        rows_made = dataset.rows
        layout = case.subject.layout_in_time if workload.advancing else case.subject.layout
        files = str(dataset.layout(layout))
    scratch = tempfile.mkdtemp(prefix="cutwater-bench-")
    settings = Settings(
        workload=case.workload,
        files=files,
        rows=rows_made,
        scratch=scratch,
        backend=case.backend,
        checkpoint_seconds=case.checkpoint_seconds,
        parallelism=case.parallelism,
        variant=case.variant,
        verify=verify,
        target_seconds=target_seconds,
        warm_up=case.warm_up,
    )
    log = LOGS / f"{log_name or _file_name(case)}.log"
    try:
        watched = watch(
            [python, "-m", case.subject.module, settings.to_json()],
            log=log,
            variables=case.subject.variables,
            timeout_seconds=START_UP_SECONDS_MAX + PATIENCE * max(target_seconds, 20.0),
        )
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    result = _result_in(log)
    if result is None:
        return Failure(case.workload, case.label, _why(watched, log))
    if verify and dataset is not None:  # a story checks its answer itself
        complaint = "it gave no answer"
        if result.answer is not None:
            complaint = data.check(result.answer, dataset.truth, windowed=workload.advancing) or ""
        if complaint:
            return Failure(case.workload, case.label, f"the answer is wrong: {complaint}")
    return _measurement(case, result, watched, None if dataset is None else dataset.truth["distinct_keys"])


def measure_steadily(
    case: Case, *, seconds: float, rows: int | None = None, note: Callable[[str], None] = lambda text: None
) -> Measurement | Failure:
    """A run that is steady for about so long: the first is repeated with more rows if it turns out to be short.

    `rows` fixes the input instead, whatever the time that takes.
    """
    wanted = rows or _rounded(case.rows_per_second * seconds)
    if rows is None and case.subject.repeats_itself:
        wanted = min(wanted, BATCH_ROWS_MAX)
    for _ in range(3):
        note(f"{wanted:,} rows")
        found = measure(case, rows=wanted, target_seconds=seconds)
        if rows is not None or case.subject.repeats_itself or isinstance(found, Failure):
            return found
        assert found.seconds is not None and found.rows is not None  # noqa: PT018
        if found.seconds >= SHORT * seconds:
            return found
        wanted = _rounded(found.rows * min(20.0, 1.1 * seconds / found.seconds))
    return found


def with_guess(case: Case, found: Measurement) -> Case:
    """The case with the speed that was measured, so that the next round needs no correction."""
    return case if found.rows_per_second is None else replace(case, rows_per_second=found.rows_per_second)


def _measurement(case: Case, result: Result, watched: Watched, distinct_keys: int | None) -> Measurement:
    start_up = result.ended_at - watched.launched_at - result.seconds - result.warm_up_seconds
    more = {
        "variant": case.variant,
        "keys": case.keys or WORKLOADS[case.workload].keys,
        "distinct_keys": distinct_keys,
        "startup_seconds": round(start_up, 3),
        "wall_seconds": round(result.ended_at - watched.launched_at, 3),
        "version": result.version,
        "peak_pss_bytes": watched.peak_pss_bytes,
        "cores_busy_elsewhere": round(watched.cores_busy_elsewhere, 2),
        **result.facts,
    }
    return Measurement(
        workload=case.workload,
        system=case.subject.system,
        backend=case.backend,
        checkpoint_seconds=case.checkpoint_seconds,
        parallelism=case.parallelism,
        rows=result.rows,
        seconds=round(result.seconds, 4),
        peak_rss_bytes=watched.peak_rss_bytes,
        p50_ms=result.p50_ms,
        p99_ms=result.p99_ms,
        more=more,
    )


def _result_in(log: Path) -> Result | None:
    for line in reversed(log.read_text(errors="replace").splitlines()):
        if line.startswith(MARK):
            values = json.loads(line.removeprefix(MARK))
            if values["answer"] is not None:
                values["answer"] = Answer(**values["answer"])
            return Result(**values)
    return None


def _why(watched: Watched, log: Path) -> str:
    if watched.timed_out:
        return f"not done after {watched.seconds:.0f} s"
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()]
    said = lines[-1][:300] if lines else "no message"
    return f"exit code {watched.exit_code}: {said} (more in {log})"


def _rounded(rows: float) -> int:
    """Whole laps, or below a lap two digits, so that data sets are shared."""
    if rows >= data.LAP_ROWS:
        return round(rows / data.LAP_ROWS) * data.LAP_ROWS
    step: int = 10 ** max(0, len(str(int(rows))) - 2)
    return max(ROWS_MIN, round(rows / step) * step)


def _file_name(case: Case) -> str:
    checkpoints = "off" if case.checkpoint_seconds is None else f"{case.checkpoint_seconds:g}s"
    label = case.label.replace(", ", "-").replace(" ", "_")
    return f"{case.workload}-{label}-{checkpoints}-x{case.parallelism}"
