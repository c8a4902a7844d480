"""How does the run look? One PNG for speed, one for latency over time, one for growth."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
from matplotlib.ticker import FuncFormatter

from benchmarks.cutwater_cases import PER_BATCH, PER_RECORD
from benchmarks.session import is_cutwater
from benchmarks.workloads import TABLE, WORKLOADS

if TYPE_CHECKING:
    from benchmarks.measurements import Measurement
    from benchmarks.report import Run

OWN_COLOUR = "#0b6e8f"
PEER_COLOUR = "#9aa4ad"
BATCH_COLOUR = "#c9a94f"
RULE_COLOUR = "#eceff1"
MARK_COLOUR = "#d1495b"
INK = "#30363c"
DPI = 140


def draw(run: Run, folder: Path) -> dict[str, Path]:
    """The plots for which there are measurements, by name."""
    plt.rcParams.update({"font.size": 9, "text.color": INK, "axes.labelcolor": INK, "axes.edgecolor": PEER_COLOUR})
    plt.rcParams.update({"axes.spines.top": False, "axes.spines.right": False, "xtick.color": INK, "ytick.color": INK})
    figures = {"speed": _speed(run), "latency": _latency(run), "growth": _growth(run)}
    drawn = {}
    for name, figure in figures.items():
        if figure is not None:
            path = folder / f"benchmark-{name}.png"
            figure.savefig(path, dpi=DPI, bbox_inches="tight")
            plt.close(figure)
            drawn[name] = path
    return drawn


def _speed(run: Run) -> Any:
    panels = [(name, run.of(name)) for name in TABLE if run.of(name)]
    if not panels:
        return None
    speeds = [one.rows_per_second or 1.0 for _, found in panels for one in found]
    heights = [len(found) + 1.5 for _, found in panels]
    figure, axes = plt.subplots(
        len(panels), 1, figsize=(8.5, 0.27 * sum(heights) + 0.6), squeeze=False, height_ratios=heights, sharex=True
    )
    for axis, (workload, found) in zip(axes[:, 0], panels, strict=True):
        _dots(axis, found)
        axis.set_title(f"{workload}: {WORKLOADS[workload].title}", loc="left", fontsize=10, fontweight="bold")
    # The panels share one axis, so it must hold the slowest and the fastest of them all, and the label behind it.
    axes[-1, 0].set_xlim(left=min(speeds) / 2, right=max(speeds) * 6)
    axes[-1, 0].set_xlabel("rows per second (logarithmic)")
    figure.tight_layout()
    return figure


def _dots(axis: Any, found: list[Measurement]) -> None:
    """Dots, since the length of a bar means nothing on a logarithmic axis."""
    axis.set_xscale("log")
    for index, one in enumerate(found):
        speed = one.rows_per_second or 1.0
        colour = OWN_COLOUR if is_cutwater(one) else BATCH_COLOUR if one.checkpoint_seconds is None else PEER_COLOUR
        weight = "bold" if is_cutwater(one) else "normal"
        axis.axhline(index, color=RULE_COLOUR, linewidth=0.8, zorder=0)
        axis.plot(speed, index, marker="o", markersize=8, color=colour)
        axis.text(
            speed * 1.25, index, _short(speed), va="center", fontsize=8, fontweight=weight, backgroundcolor="white"
        )
    axis.set_yticks(range(len(found)), [_named(one) for one in found])
    axis.set_ylim(len(found) - 0.5, -0.5)
    axis.tick_params(axis="y", length=0)
    axis.xaxis.set_major_formatter(FuncFormatter(lambda value, _: _short(value)))
    axis.spines["left"].set_visible(False)


def _named(one: Measurement) -> str:
    return f"{one.label} (batch query)" if one.checkpoint_seconds is None and not is_cutwater(one) else one.label


def _latency(run: Run) -> Any:
    found = [one for one in run.measurements if one.workload == "latency" and one.more.get("series_file")]
    found = [one for one in found if Path(one.more["series_file"]).exists()]
    if not found:
        return None
    figure, axes = plt.subplots(len(found), 1, figsize=(8.5, 2.1 * len(found)), squeeze=False, sharex=True)
    for axis, one in zip(axes[:, 0], found, strict=True):
        kept = json.loads(Path(one.more["series_file"]).read_text())
        seconds, middle, high, _ = zip(*kept["series"], strict=True)
        for at, duration in kept["checkpoint_times"]:
            axis.axvspan(at - duration, at, color=MARK_COLOUR, alpha=0.18, linewidth=0)
        axis.plot(seconds, high, color=OWN_COLOUR, linewidth=1.0)
        axis.plot(seconds, middle, color=INK, linewidth=1.0)
        axis.set_yscale("log")
        axis.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axis.set_ylabel("ms")
        rate = one.more["records_per_second_offered"]
        title = one.variant if "records/s" in one.variant else f"{one.variant}, {_short(rate)} records/s"
        axis.set_title(title, loc="left", fontsize=10, fontweight="bold")
        end = seconds[-1] + 0.2
        axis.text(end, high[-1], "p99", color=OWN_COLOUR, va="bottom", fontsize=8)
        axis.text(end, middle[-1], "p50", color=INK, va="top", fontsize=8)
    axes[-1, 0].set_xlabel("seconds since the first record; shaded: a checkpoint, from its trigger to its completion")
    figure.tight_layout()
    return figure


def _growth(run: Run) -> Any:
    keys = [one for one in run.measurements if one.workload == "growth-keys" and one.rows_per_second]
    slots = [one for one in run.measurements if one.workload == "growth-parallelism" and one.rows_per_second]
    if not keys and not slots:
        return None
    figure, (speed, memory, scaling) = plt.subplots(1, 3, figsize=(10.5, 3.0))
    for variant, colour in ((PER_RECORD, INK), (PER_BATCH, OWN_COLOUR)):
        points = sorted(
            ((one.more["distinct_keys"], one) for one in keys if one.variant == variant), key=lambda point: point[0]
        )
        if points:
            counts = [count for count, _ in points]
            speeds = [(one.rows_per_second or 0.0) / 1e6 for _, one in points]
            speed.plot(counts, speeds, color=colour, marker="o", markersize=4, label=variant)
            sizes = [(one.memory_bytes or 0) / 1e9 for _, one in points]
            memory.plot(counts, sizes, color=colour, marker="o", markersize=4, label=variant)
    for axis, title in ((speed, "million rows/s"), (memory, "peak memory, GB")):
        axis.set_xscale("log")
        axis.set_ylim(0, axis.get_ylim()[1] * 1.2)
        axis.legend(frameon=False, fontsize=8, loc="upper right", ncols=2)
        axis.set_xlabel("distinct keys")
        axis.set_title(title, loc="left", fontsize=10, fontweight="bold")
    slots.sort(key=lambda one: one.parallelism or 0)
    positions = range(len(slots))
    scaling.bar(positions, [(one.rows_per_second or 0.0) / 1e6 for one in slots], color=OWN_COLOUR, width=0.6)
    for position, one in zip(positions, slots, strict=True):
        scaling.text(
            position,
            (one.rows_per_second or 0.0) / 1e6,
            _short(one.rows_per_second or 0.0),
            ha="center",
            va="bottom",
            fontsize=8,
        )
    scaling.set_ylim(0, scaling.get_ylim()[1] * 1.1)
    scaling.set_xticks(positions, [str(one.parallelism) for one in slots])
    scaling.set_xlabel("slots")
    scaling.set_title("million rows/s, per record", loc="left", fontsize=10, fontweight="bold")
    figure.tight_layout()
    return figure


def _short(number: float) -> str:
    for size, unit in ((1e6, " M"), (1e3, " k")):
        if number >= size:
            return f"{number / size:.3g}{unit}"
    return f"{number:.3g}"
