"""What do checkpoints cost a keyed count?

Rounds of all settings in turn, so that a noisy moment hits them alike; the overhead is the median of the ratios
within the rounds.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.table import Table

import cutwater as cw
from benchmarks.measurements import Measurement, keep
from benchmarks.measuring import median
from cutwater.durations import parse_duration

KEYS = 1_000
SETTINGS: dict[str, str | None] = {"off": None, "every 1 s": "1s", "every 100 ms": "100ms"}


@dataclass(frozen=True)
class Run:
    seconds: float
    checkpoints: int


def key_of(index: int) -> str:
    return f"user_{index % KEYS}"


def run(spark: Any, every: str | None, records: int) -> Run:
    """Seconds from the start of the tasks to the end of their input, without the start of Spark and slots."""
    with tempfile.TemporaryDirectory(prefix="cutwater-bench-") as folder:
        checkpoints = cw.Checkpoints(mode="none")
        if every is not None:
            checkpoints = cw.Checkpoints(every=every, storage=f"file://{folder}")
        env = cw.Environment(
            spark=spark, parallelism=2, checkpoints=checkpoints, state_backend="filesystem", restart=cw.restart.none()
        )
        source = cw.sources.generator(key_of, count=records)
        env.from_source(source, uid="keys").key_by(str).count(uid="count").sink_to(cw.sinks.discard(), uid="end")
        result = env.submit("benchmark").wait()
        return Run(result.status.running_seconds, result.checkpoints_completed)


def measure(spark: Any, console: Console, *, records: int, rounds: int) -> None:
    runs: dict[str, list[Run]] = {name: [] for name in SETTINGS}
    run(spark, None, records // 4)  # warm up: imports and the page cache
    order = list(SETTINGS)
    for _ in range(rounds):
        for name in order:
            runs[name].append(run(spark, SETTINGS[name], records))
        order = order[1:] + order[:1]  # so that no setting always follows the same one
    table = Table(title=f"keyed count, {records:,} records, {KEYS:,} keys, 2 slots, one shuffle; {rounds} rounds")
    for heading in ("checkpoints", "records/s, median", "overhead, median", "overhead, range", "taken"):
        table.add_column(heading, justify="right")
    for name, measured in runs.items():
        speed = records / median(one.seconds for one in measured)
        overheads = [one.seconds / off.seconds - 1 for one, off in zip(measured, runs["off"], strict=True)]
        spread = f"{min(overheads):+.1%} to {max(overheads):+.1%}"
        taken = median(one.checkpoints for one in measured)
        table.add_row(name, f"{speed:,.0f}", f"{median(overheads):+.1%}", spread, f"{taken:.0f}")
        keep(
            Measurement(
                workload="throughput",
                system="Cutwater",
                backend="filesystem",
                checkpoint_seconds=None if (every := SETTINGS[name]) is None else parse_duration(every),
                parallelism=2,
                rows=records,
                seconds=records / speed,
                more={"variant": "objects", "overhead": median(overheads), "rounds": rounds},
            )
        )
    console.print(table)
