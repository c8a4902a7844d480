"""`python -m benchmarks.report`: what does the last run show? A table of ratios, plots, and a part of a Markdown file.

The part between the two marks is replaced (or appended, if the file has none); the rest of the file stays as it is.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from rich.console import Console
from rich.table import Table

from benchmarks.contract import SETTLE_SECONDS
from benchmarks.cutwater_cases import BACKEND, PER_BATCH, PER_RECORD
from benchmarks.measurements import Failure, Measurement, load, load_failures, load_machine
from benchmarks.session import is_cutwater, overheads, typical
from benchmarks.workloads import TABLE, WORKLOADS

BEGIN = "<!-- benchmarks: begin. Written by benchmarks/report.py -->"
END = "<!-- benchmarks: end -->"
BATCH_SYSTEMS = ("Polars", "DuckDB")
#: Less than this is no steady state, and while others use more than this the figures are theirs as much as ours.
STEADY_SECONDS_MIN = 15.0
CORES_BUSY_ELSEWHERE_MAX = 0.3


@dataclass(frozen=True, slots=True)
class Goal:
    """At least so many times a peer; for memory at most that share of it."""

    workload: str
    variant: str
    system: str
    backend: str | None
    peer_variant: str
    factor: float
    memory: bool = False


GOALS = (
    Goal("W1", PER_RECORD, "Flink SQL", "hashmap", PER_RECORD, 10),
    Goal("W2", PER_RECORD, "Flink SQL", "rocksdb", PER_RECORD, 10),
    *(Goal(name, PER_BATCH, "Spark", "rocksdb", PER_BATCH, 3) for name in ("W1", "W2")),
    Goal("W3", "", "Spark", "rocksdb", "", 3),
    *(Goal(name, PER_BATCH, "Polars", None, "", 1 / 3) for name in ("W1", "W2")),
    Goal("W3", "", "Polars", None, "", 1 / 3),
    *(Goal("W4", PER_RECORD, system, None, PER_RECORD, 2) for system in ("Pathway", "Bytewax")),
    *(Goal("W4", PER_RECORD, system, "rocksdb", PER_RECORD, 2) for system in ("Spark", "PyFlink DataStream")),
    Goal("W4", PER_RECORD, "PyFlink DataStream", "rocksdb", "per record, threads", 2),
    *(Goal("W2", PER_RECORD, "Flink SQL", name, PER_RECORD, 1 / 3, memory=True) for name in ("hashmap", "rocksdb")),
)


@dataclass(frozen=True, slots=True)
class Run:
    """The measurements of one run, rounds already condensed."""

    measurements: Sequence[Measurement]
    failures: Sequence[Failure]
    machine: dict[str, object]

    @classmethod
    def last(cls) -> Run:
        return cls(load(), load_failures(), load_machine())

    def of(self, workload: str) -> list[Measurement]:
        """With a checkpoint every second (a batch query has none), fastest first."""
        groups: dict[str, list[Measurement]] = {}
        for one in self.measurements:
            in_the_table = one.more.get("part") is None and one.rows_per_second is not None
            if one.workload == workload and in_the_table:
                groups.setdefault(one.label, []).append(one)
        return sorted(map(typical, groups.values()), key=lambda one: -(one.rows_per_second or 0.0))

    def baseline_of(self, peer: Measurement) -> Measurement | None:
        """Cutwater's figure that gives what the peer gives; a batch query is compared with one result a batch."""
        own = [one for one in self.of(peer.workload) if is_cutwater(one)]
        wanted = PER_RECORD if peer.variant.startswith(PER_RECORD) else PER_BATCH
        return next((one for one in own if one.variant == wanted), own[0] if own else None)

    def find(self, workload: str, system: str, backend: str | None, variant: str) -> Measurement | None:
        for one in self.of(workload):
            if (one.system, one.backend, one.variant) == (system, backend, variant):
                return one
        return None


# ------------------------------------------------------------------------------------------------------- the terminal


def show(console: Console, run: Run | None = None) -> None:
    run = run or Run.last()
    for workload in _workloads_in(run):
        table = Table(title=f"{workload}: {WORKLOADS[workload].title}")
        for heading in SPEED_HEADINGS:
            table.add_column(heading, justify="left" if heading in ("system", "results") else "right")
        for one in run.of(workload):
            table.add_row(*_speed_row(run, one), style="bold" if is_cutwater(one) else "")
        console.print(table)
    for text, verdict in _goals(run):
        style = {"met": "green", "missed": "red"}.get(verdict, "yellow")
        console.print(f"{text}: [{style}]{verdict}[/]")
    for failure in run.failures:
        console.print(f"[red]{failure.workload} {failure.label}: {failure.reason}[/]")


# ------------------------------------------------------------------------------------------------------- the document


def write(document: Path, images: Path, run: Run | None = None) -> None:
    """Replaces the generated part of the document, and draws the plots."""
    from benchmarks import plots  # needs Matplotlib, which only the report does

    run = run or Run.last()
    images.mkdir(parents=True, exist_ok=True)
    drawn = plots.draw(run, images)
    generated = f"{BEGIN}\n\n{_document(run, _links(drawn, document))}\n{END}"
    before, after = document.read_text() if document.exists() else "", ""
    if BEGIN in before and END in before:
        before, rest = before.split(BEGIN, 1)
        after = rest.split(END, 1)[1]
    elif before and not before.endswith("\n\n"):
        before = before.rstrip("\n") + "\n\n"
    document.parent.mkdir(parents=True, exist_ok=True)
    document.write_text(before + generated + (after or "\n"))


SPEED_HEADINGS = ("system", "results", "rows/s", "Cutwater is", "rows", "steady", "start-up", "peak memory")


def _document(run: Run, images: dict[str, str]) -> str:
    parts = [_machine(run), *(_speed(run, workload) for workload in _workloads_in(run))]
    parts += [_image(images, "speed", "rows per second of each system, a panel a workload")]
    parts += [_goals_section(run), _checkpoints(run), _cold(run)]
    parts += [_latency(run), _image(images, "latency", "latency over time, with the checkpoints")]
    parts += [_growth(run), _image(images, "growth", "speed and memory against keys, speed against slots")]
    parts += [_failures(run)]
    return "\n".join(part for part in parts if part)


def _machine(run: Run) -> str:
    machine = run.machine
    versions = sorted({f"{one.system} {one.more['version']}" for one in run.measurements if one.more.get("version")})
    memory = machine.get("memory_bytes")
    gigabytes = f"{memory / 1e9:.0f} GB" if isinstance(memory, int) else "memory unknown"
    return (
        f"`{machine.get('command')}` on {machine.get('began')}: {machine.get('processor')}, {machine.get('cores')} "
        f"cores, {gigabytes}, {machine.get('system')}, Python {machine.get('python')}.\n\n"
        f"Versions: {', '.join(versions)}.\n"
    )


def _speed(run: Run, workload: str) -> str:
    rows = [_speed_row(run, one) for one in run.of(workload)]
    title = f"### {workload}: {WORKLOADS[workload].title}\n\n"
    return title + _markdown(SPEED_HEADINGS, rows) + _in_doubt(run.of(workload))


def _speed_row(run: Run, one: Measurement) -> list[str]:
    baseline = run.baseline_of(one)
    ratio = ""
    if not is_cutwater(one) and baseline is not None and baseline.rows_per_second and one.rows_per_second:
        ratio = f"{_ratio(baseline.rows_per_second / one.rows_per_second)} of it"
    start_up = one.more.get("startup_seconds")
    return [
        ", ".join(part for part in (one.system, one.backend) if part),
        "batch query" if one.system in BATCH_SYSTEMS else one.variant or "per window",
        _compact(one.rows_per_second),
        ratio,
        _compact(one.rows),
        "" if one.seconds is None else f"{one.seconds:.1f} s",
        "" if start_up is None else f"{start_up:.1f} s",
        _memory(one),
    ]


def _memory(one: Measurement) -> str:
    if one.memory_bytes is None or one.peak_rss_bytes is None:
        return ""
    return f"{one.memory_bytes / 1e9:.2f} GB ({one.peak_rss_bytes / 1e9:.2f})"


def doubts(one: Measurement) -> str:
    """Why nothing should be concluded from a measurement; empty: it is sound."""
    found = []
    steady = one.workload in TABLE and one.system not in BATCH_SYSTEMS
    if steady and (one.seconds or 0.0) < STEADY_SECONDS_MIN:
        found.append(f"{one.label} ran for only {one.seconds:.1f} s")
    elsewhere = one.more.get("cores_busy_elsewhere", 0.0)
    if elsewhere > CORES_BUSY_ELSEWHERE_MAX:
        found.append(f"others used {elsewhere:.1f} cores during {one.label}")
    return "; ".join(found)


def _in_doubt(found: Sequence[Measurement]) -> str:
    texts = dict.fromkeys(text for one in found if (text := doubts(one)))
    return f"\nIn doubt: {'; '.join(texts)}.\n" if texts else ""


def _goals(run: Run) -> list[tuple[str, str]]:
    """What was compared, and the verdict. There is none on figures that are in doubt."""
    found = []
    for goal in GOALS:
        own = run.find(goal.workload, "Cutwater", BACKEND, goal.variant)
        peer = run.find(goal.workload, goal.system, goal.backend, goal.peer_variant)
        if own is None or peer is None:
            continue
        name = f"{goal.workload}{', ' + goal.variant if goal.variant else ''} against {peer.label}"
        if goal.memory:
            if own.memory_bytes and peer.memory_bytes and own.peak_rss_bytes and peer.peak_rss_bytes:
                share = own.memory_bytes / peer.memory_bytes
                summed = own.peak_rss_bytes / peer.peak_rss_bytes
                text = f"{name}: {share:.2f} of its memory, {summed:.2f} as a sum (asked: {goal.factor:.2f} or less)"
                found.append((text, _verdict(share <= goal.factor, own, peer)))
        elif own.rows_per_second and peer.rows_per_second:
            ratio = own.rows_per_second / peer.rows_per_second
            text = f"{name}: {_ratio(ratio)} (asked: {_ratio(goal.factor)})"
            found.append((text, _verdict(ratio >= goal.factor, own, peer)))
    return found


def _verdict(met: bool, own: Measurement, peer: Measurement) -> str:
    doubt = "; ".join(text for text in (doubts(own), doubts(peer)) if text)
    return f"no verdict: {doubt}" if doubt else "met" if met else "missed"


def _goals_section(run: Run) -> str:
    goals = _goals(run)
    if not goals:
        return ""
    return "### Asked for and reached\n\n" + _markdown(
        ("comparison", ""), [[text, f"**{verdict}**" if verdict == "missed" else verdict] for text, verdict in goals]
    )


def _checkpoints(run: Run) -> str:
    rows = [
        [
            workload,
            variant or "per window",
            f"{seconds:g} s",
            f"{median(found):+.1%}",
            f"{min(found):+.1%} to {max(found):+.1%}" if len(found) > 1 else "",
            str(len(found)),
        ]
        for (workload, variant, seconds), found in sorted(overheads(run.measurements).items())
    ]
    if not rows:
        return ""
    headings = ("workload", "results", "checkpoint every", "overhead, median", "range", "rounds")
    part = [one for one in run.measurements if one.more.get("part") == "checkpoints"]
    text = "### What checkpoints cost\n\nAgainst the run without checkpoints in the same round.\n\n"
    return text + _markdown(headings, rows) + _in_doubt(part)


def _cold(run: Run) -> str:
    found = run.of("cold")
    if not found:
        return ""
    rows = [[one.label, _compact(one.rows), f"{one.seconds:.1f} s"] for one in found]
    text = "### From a cold start\n\nW1, from the start of the process to the result.\n\n"
    return text + _markdown(("system", "rows", "seconds"), rows) + _in_doubt(found)


def _latency(run: Run) -> str:
    found = [one for one in run.measurements if one.workload == "latency" and one.p50_ms is not None]
    if not found:
        return ""
    rows = [
        [
            one.variant,
            f"{one.more['records_per_second_offered']:,}",
            f"{one.p50_ms:.1f} ms",
            f"{one.p99_ms:.1f} ms",
            f"{one.more['p999_ms']:.1f} ms",
            f"{one.more['max_ms']:.1f} ms",
        ]
        for one in found
    ]
    return (
        "### Latency\n\nFrom the moment a record is due to its result at the sink (no coordinated omission), two "
        "slots, one shuffle, a checkpoint every second. The plot shows all of a run; the figures leave out its first "
        f"{SETTLE_SECONDS:g} s.\n\n"
        + _markdown(("records", "offered per second", "p50", "p99", "p99.9", "longest"), rows)
        + _in_doubt(found)
    )


def _growth(run: Run) -> str:
    found = [one for one in run.measurements if one.workload.startswith("growth-")]
    rows = [
        [
            f"{one.more['distinct_keys']:,}",
            str(one.parallelism),
            one.variant,
            _compact(one.rows_per_second),
            _memory(one),
            "" if one.more.get("checkpoint_bytes_max") is None else f"{one.more['checkpoint_bytes_max'] / 1e6:.1f} MB",
        ]
        for one in found
    ]
    if not rows:
        return ""
    headings = ("distinct keys", "slots", "results", "rows/s", "peak memory", "largest checkpoint")
    return "### Growth\n\n" + _markdown(headings, rows) + _in_doubt(found)


def _failures(run: Run) -> str:
    if not run.failures:
        return ""
    rows = [[failure.workload, failure.label, failure.reason] for failure in run.failures]
    return "### Not measured\n\n" + _markdown(("workload", "system", "reason"), rows)


# ----------------------------------------------------------------------------------------------------------- the words


def _workloads_in(run: Run) -> list[str]:
    seen = {one.workload for one in run.measurements}
    others = sorted(seen - set(TABLE) - {"cold", "latency", "throughput", "pauses", "recovery"})
    return [name for name in (*TABLE, *others) if name in seen and not name.startswith("growth-") and run.of(name)]


def _markdown(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(headings)} |", "|" + "---|" * len(headings)]
    lines += [f"| {' | '.join(cell.replace('|', '/') for cell in row)} |" for row in rows]
    return "\n".join(lines) + "\n"


def _links(drawn: dict[str, Path], document: Path) -> dict[str, str]:
    folder = document.parent.resolve()
    return {
        name: str(path.resolve().relative_to(folder)) if path.resolve().is_relative_to(folder) else str(path)
        for name, path in drawn.items()
    }


def _image(images: dict[str, str], name: str, text: str) -> str:
    return f"![{text}]({images[name]})\n" if name in images else ""


def _compact(number: float | None) -> str:
    """Three digits that matter."""
    if number is None:
        return ""
    for size, unit in ((1e9, " G"), (1e6, " M"), (1e3, " k")):
        if number >= size:
            return f"{number / size:.3g}{unit}"
    return f"{number:.3g}"


def _ratio(number: float) -> str:
    return f"{number:.0f}×" if number >= 20 else f"{number:.1f}×" if number >= 2 else f"{number:.2f}×"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.report", description=__doc__.splitlines()[0])
    parser.add_argument("--document", type=Path, help="a Markdown file; left out: only the table on the terminal")
    parser.add_argument("--images", type=Path, help="left out: images/ beside the document")
    options = parser.parse_args()
    if options.document is not None:
        write(options.document, options.images or options.document.parent / "images")
    show(Console(width=170))


if __name__ == "__main__":
    main()
