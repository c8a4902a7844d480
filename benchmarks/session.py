"""How does a list of cases become measurements, with something to look at meanwhile?

A case that fails is noted with its reason, and the run goes on. What was measured is kept at once, so that an
interrupted run is not lost.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from statistics import median

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from benchmarks.cutwater_cases import (
    BACKEND,
    CHECKPOINT_SECONDS,
    CUTWATER,
    LATENCY,
    OTHER_BACKENDS,
    cold_cases,
    growth_cases,
    own_cases,
)
from benchmarks.measurements import BUILD, Failure, Measurement, keep
from benchmarks.subjects import Case, measure, measure_steadily, with_guess

COLD_ROWS = 10_000_000
LATENCY_PER_SECOND = 10_000
LATENCY_SERIES = BUILD / "bench-latency"
#: To find the highest rate of the latency job.
FLAT_OUT_ROWS = {"typed": 20_000_000, "objects": 2_000_000}
GROWTH_SECONDS_MAX = 10.0
VERIFIED_ROWS = 200_000


class Session:
    """One run of the suite. `rows` fixes every input; otherwise each system gets what keeps it busy for `seconds`."""

    def __init__(self, console: Console, *, seconds: float, rows: int | None, rounds: int) -> None:
        self._console = console
        self._seconds = seconds
        self._rows = rows
        self._rounds = rounds
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=console,
            transient=True,
        )
        self._task = self._progress.add_task("", total=0)

    def __enter__(self) -> Session:
        self._progress.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._progress.stop()

    # ------------------------------------------------------------------------------------------------------- the parts

    def table(self, cases: Sequence[Case]) -> None:
        """Each case in each round; the order moves on, so that no system always follows the same one."""
        cases = list(cases)
        self._expect(len(cases) * self._rounds)
        for number in range(self._rounds):
            for index in _rotated(len(cases), number):
                found = self._run(cases[index], round=number)
                if isinstance(found, Measurement):
                    cases[index] = with_guess(cases[index], found)

    def checkpoints(self, workloads: Sequence[str]) -> None:
        """Off, every second, every tenth of a second; and the other backends. All with the same rows."""
        settings = [(BACKEND, seconds) for seconds in CHECKPOINT_SECONDS] + [(name, 1.0) for name in OTHER_BACKENDS]
        cases = own_cases(list(workloads))
        self._expect(len(cases) * len(settings) * self._rounds)
        for case in cases:
            rows = self._rows
            for number in range(self._rounds):
                for index in _rotated(len(settings), number):
                    backend, seconds = settings[index]
                    one = replace(case, backend=backend, checkpoint_seconds=seconds)
                    found = self._run(one, rows=rows, round=number, part="checkpoints")
                    if rows is None and isinstance(found, Measurement):
                        rows = found.rows

    def cold_start(self, peers: Sequence[Case] = ()) -> None:
        """From the start of the process to the result; nothing is warmed up."""
        cases = [*cold_cases(), *(replace(case, workload="cold", warm_up=False) for case in peers)]
        self._expect(len(cases) * self._rounds)
        for number in range(self._rounds):
            for index in _rotated(len(cases), number):
                self._describe(cases[index])
                found = measure(cases[index], rows=min(COLD_ROWS, self._rows or COLD_ROWS))
                if isinstance(found, Measurement):
                    found = replace(found, seconds=found.more["wall_seconds"])
                self._keep(found, round=number)

    def latency(self) -> None:
        """At a fixed rate, and at half of the highest one."""
        self._expect(3 * len(FLAT_OUT_ROWS))
        for kind, rows in FLAT_OUT_ROWS.items():
            fixed = Case(LATENCY, "latency", 0, backend=BACKEND, variant=f"{kind}, {LATENCY_PER_SECOND:,} records/s")
            self._timed(fixed, per_second=LATENCY_PER_SECOND)
            flat_out = replace(fixed, variant=f"{kind}, flat out")
            self._describe(flat_out)
            found = measure(flat_out, rows=rows)
            if isinstance(found, Measurement):
                # Without a timetable latency means nothing.
                found = replace(found, p50_ms=None, p99_ms=None, more=_without_latency(found))
            self._keep(found)
            if isinstance(found, Measurement) and found.rows_per_second is not None:
                half = replace(fixed, variant=f"{kind}, half of the maximum")
                self._timed(half, per_second=round(found.rows_per_second / 2))

    def growth(self) -> None:
        """More keys, more slots. Enough rows that every key occurs."""
        cases = growth_cases()
        self._expect(len(cases))
        for case in cases:
            self._run(case, seconds=min(self._seconds, GROWTH_SECONDS_MAX))

    def verify(self, cases: Sequence[Case], *, rows: int | None = None) -> None:
        """Is every answer right? With few rows: the results are collected."""
        self._expect(len(cases))
        for case in cases:
            self._describe(case)
            found = measure(case, rows=rows or VERIFIED_ROWS, verify=True, log_name=f"verify-{case.workload}")
            self._progress.advance(self._task)
            if isinstance(found, Failure):
                keep(found)
            verdict = found.reason if isinstance(found, Failure) else "the answer is right"
            style = "red" if isinstance(found, Failure) else "green"
            self._console.print(f"{case.workload:8} {case.label:44} [{style}]{verdict}[/]")

    # ------------------------------------------------------------------------------------------------------ one of them

    def _timed(self, case: Case, *, per_second: int) -> None:
        self._describe(case)
        found = measure(case, rows=round(per_second * self._seconds), target_seconds=self._seconds)
        if isinstance(found, Measurement):
            found = replace(found, more=_with_series_in_a_file(found, per_second))
        self._keep(found)

    def _run(
        self,
        case: Case,
        *,
        round: int = 0,  # noqa: A002 — as the field is called
        rows: int | None = None,
        seconds: float | None = None,
        part: str | None = None,
    ) -> Measurement | Failure:
        found = measure_steadily(
            case,
            seconds=seconds or self._seconds,
            rows=rows or self._rows,
            note=lambda text: self._describe(case, text),
        )
        self._keep(found, round=round, part=part)
        return found

    def _expect(self, runs: int) -> None:
        self._progress.update(self._task, total=(self._progress.tasks[0].total or 0) + runs)

    def _describe(self, case: Case, text: str = "") -> None:
        self._progress.update(self._task, description=f"{case.workload} {case.label} {text}")

    def _keep(self, found: Measurement | Failure, *, round: int = 0, part: str | None = None) -> None:  # noqa: A002
        if isinstance(found, Measurement):
            more = {**found.more, "round": round} | ({} if part is None else {"part": part})
            found = replace(found, more=more)
        keep(found)
        self._progress.advance(self._task)
        self._console.print(_line(found))


def _line(found: Measurement | Failure) -> str:
    if isinstance(found, Failure):
        return f"{found.workload:8} {found.label:44} [red]{found.reason}[/]"
    every = "off" if found.checkpoint_seconds is None else f"{found.checkpoint_seconds:g} s"
    parts = [f"{found.workload:8} {found.label:44} {every:>6}"]
    if found.rows_per_second is not None:
        parts.append(f"{found.rows_per_second:>14,.0f} rows/s in {found.seconds:6.1f} s")
    if found.p50_ms is not None:
        parts.append(f"p50 {found.p50_ms:.1f} ms, p99 {found.p99_ms:.1f} ms, p99.9 {found.more['p999_ms']:.1f} ms")
    if found.peak_rss_bytes is not None:
        parts.append(f"{found.peak_rss_bytes / 1e9:5.2f} GB")
    parts.append(f"start-up {found.more['startup_seconds']:.1f} s")
    if found.more["cores_busy_elsewhere"] > 0.3:
        parts.append(f"[yellow]others used {found.more['cores_busy_elsewhere']:.1f} cores[/]")
    return "  ".join(parts)


def _rotated(count: int, by: int) -> list[int]:
    return [(index + by) % count for index in range(count)]


def _without_latency(found: Measurement) -> dict[str, object]:
    left_out = ("series", "checkpoint_times", "p999_ms", "max_ms")
    return {name: value for name, value in found.more.items() if name not in left_out}


def _with_series_in_a_file(found: Measurement, per_second: int) -> dict[str, object]:
    """A series is too long for a line."""
    LATENCY_SERIES.mkdir(parents=True, exist_ok=True)
    path = LATENCY_SERIES / f"{found.variant.replace(', ', '-').replace(' ', '_').replace('/', '_per_')}.json"
    path.write_text(json.dumps({name: found.more[name] for name in ("series", "checkpoint_times")}))
    more: dict[str, object] = {
        name: value for name, value in found.more.items() if name not in ("series", "checkpoint_times")
    }
    return more | {"records_per_second_offered": per_second, "series_file": str(path)}


def overheads(measurements: Sequence[Measurement]) -> dict[tuple[str, str, float], list[float]]:
    """By workload, variant and interval: what checkpoints cost in each round, as a share of the run without any."""
    part = [one for one in measurements if one.more.get("part") == "checkpoints" and one.backend == BACKEND]
    without = {
        (one.workload, one.variant, one.more["round"]): one.seconds for one in part if one.checkpoint_seconds is None
    }
    found: dict[tuple[str, str, float], list[float]] = {}
    for one in part:
        base = without.get((one.workload, one.variant, one.more["round"]))
        if one.checkpoint_seconds is not None and base and one.seconds:
            found.setdefault((one.workload, one.variant, one.checkpoint_seconds), []).append(one.seconds / base - 1)
    return found


def typical(measurements: Sequence[Measurement]) -> Measurement:
    """Of several rounds the one in the middle."""
    speed = median(one.rows_per_second or 0.0 for one in measurements)
    return min(measurements, key=lambda one: abs((one.rows_per_second or 0.0) - speed))


def is_cutwater(measurement: Measurement) -> bool:
    return measurement.system == CUTWATER.system
