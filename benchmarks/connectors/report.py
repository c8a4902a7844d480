"""How are ratios shown: a line while they are measured, and tables for people who were not there?"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median

from benchmarks.connectors.counting import Counted
from benchmarks.connectors.ratios import Comparison, Run, Spread

BEGIN = "<!-- measured by make bench-connectors -->"
END = "<!-- end of what was measured -->"
OURS = "Cutwater"


def line(found: Comparison) -> str:
    """For the terminal."""
    style = "green" if found.is_met else "red"
    asked = "" if found.asked is None else f", asked {found.asked}"
    return (
        f"{found.kind:6} {found.name:30} bare {_speed(found.bare):>12}/s  ours {_speed(found.ours):>12}/s  "
        f"[{style}]ratio {found.ratio}{asked}[/]  of CPU {found.cpu_ratio}"
    )


def write(
    path: Path, comparisons: Sequence[Comparison], counts: Sequence[Counted], missing: Mapping[str, str], command: str
) -> None:
    """Replaces what stands between the marks of the page."""
    page = path.read_text()
    before, rest = page.split(BEGIN)
    _, after = rest.split(END)
    path.write_text(before + BEGIN + "\n" + text(comparisons, counts, missing, command) + END + after)


def text(comparisons: Sequence[Comparison], counts: Sequence[Counted], missing: Mapping[str, str], command: str) -> str:
    parts = [f"\n`{command}`, {time.strftime('%Y-%m-%d')}, {os.cpu_count()} cores.\n"]
    for kind in ("source", "sink"):
        chosen = [found for found in comparisons if found.kind == kind]
        if chosen:
            parts.append(_table(kind, chosen))
    if counts:
        parts.append(_counts_table(counts))
    parts += [f"\n{name} was not measured: {reason}\n" for name, reason in missing.items()]
    return "".join(parts)


def _table(kind: str, comparisons: Sequence[Comparison]) -> str:
    heads = (kind, "bare client", "its records/s", "Cutwater's", "ratio (range)", "of CPU time", "asked", "rounds")
    rows = [
        (
            found.name,
            found.bare_does,
            _speed(found.bare),
            _speed(found.ours),
            str(found.ratio),
            str(found.cpu_ratio),
            "" if found.asked is None else f"{found.asked} {'✓' if found.is_met else '✗'}",
            str(len(found.ours)),
        )
        for found in comparisons
    ]
    return _markdown(heads, rows)


def _counts_table(counts: Sequence[Counted]) -> str:
    heads = ("Kafka → count → Kafka", "results", "messages/s", "CPU µs a message", "Cutwater is faster by", "guarantee")
    rows = []
    for one in counts:
        if one.complaint:
            rows.append((one.system.name, one.system.variant, one.complaint, "", "", one.system.guarantee))
            continue
        cpu = f"{median(run.cpu_us_per_row for run in one.runs):.2f}"
        ahead = ahead_of(one, counts)
        shown = "" if ahead is None else f"{ahead}"
        rows.append((one.system.name, one.system.variant, _speed(one.runs), cpu, shown, one.system.guarantee))
    return _markdown(heads, rows)


def ahead_of(peer: Counted, counts: Sequence[Counted]) -> Spread | None:
    """How many times as fast Cutwater is with results of the same kind, round by round."""
    ours = [one for one in counts if one.system.name == OURS and one.system.variant == peer.system.variant]
    if peer.system.name == OURS or not ours or not ours[0].runs:
        return None
    pairs = zip(ours[0].runs, peer.runs, strict=False)
    return Spread.of([mine.rows_per_second / theirs.rows_per_second for mine, theirs in pairs])


def save(path: Path, comparisons: Sequence[Comparison], counts: Sequence[Counted]) -> None:
    """Every run, one JSON object a line."""
    path.parent.mkdir(exist_ok=True)
    with path.open("w") as file:
        for found in comparisons:
            for side, runs in (("bare", found.bare), ("cutwater", found.ours)):
                for number, run in enumerate(runs):
                    file.write(_json(run, connector=found.name, kind=found.kind, side=side, round=number))
        for one in counts:
            for number, run in enumerate(one.runs):
                file.write(
                    _json(run, connector="kafka count", kind=one.system.variant, side=one.system.name, round=number)
                )


def _json(run: Run, **more: object) -> str:
    return json.dumps({**more, "rows": run.rows, "seconds": run.seconds, "cpu_seconds": run.cpu_seconds}) + "\n"


def _speed(runs: Sequence[Run]) -> str:
    return f"{median(run.rows_per_second for run in runs):,.0f}"


def _markdown(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n" + "".join(f"| {' | '.join(cells)} |\n" for cells in lines)
