"""Does a checkpoint halt the sources?"""

from __future__ import annotations

import tempfile
from typing import Any

from rich.console import Console
from rich.table import Table

import cutwater as cw
from benchmarks.measurements import Measurement, keep
from benchmarks.measuring import median

KEYS = 100_000


def key_of(index: int) -> int:
    return index * 2_654_435_761 % KEYS


def measure(spark: Any, console: Console, *, records: int) -> None:
    with tempfile.TemporaryDirectory(prefix="cutwater-bench-") as folder:
        env = cw.Environment(
            spark=spark,
            parallelism=2,
            checkpoints=cw.Checkpoints(every="500ms", storage=f"file://{folder}"),
            state_backend="filesystem",
        )
        source = cw.sources.generator(key_of, count=records)
        env.from_source(source, uid="keys").key_by(lambda key: key).count(uid="count").sink_to(
            cw.sinks.discard(), uid="end"
        )
        status = env.submit("benchmark pauses").wait().status
    full = [one for one in status.checkpoints if one.completed and one.kind == "checkpoint"][1:]
    if not full:
        console.print(f"pauses: {records:,} records were over before a second checkpoint; give more (--records)")
        return
    table = Table(title=f"{len(full)} checkpoints of {KEYS:,} keys under full load")
    for heading in ("", "median", "max"):
        table.add_column(heading, justify="right")
    rows = {
        "longest pause of a source": [one.source_pause_seconds_max for one in full],
        "synchronous part": [one.sync_seconds_max for one in full],
        "alignment": [one.alignment_seconds_max for one in full],
        "asynchronous part": [one.async_seconds_max for one in full],
        "trigger to complete": [one.duration_seconds for one in full],
    }
    for name, seconds in rows.items():
        table.add_row(name, f"{median(seconds) * 1000:.1f} ms", f"{max(seconds) * 1000:.1f} ms")
        keep(
            Measurement(
                workload="pauses",
                system="Cutwater",
                backend="filesystem",
                checkpoint_seconds=0.5,
                parallelism=2,
                rows=records,
                p50_ms=median(seconds) * 1000,
                more={"variant": name, "max_ms": max(seconds) * 1000, "keys": KEYS},
            )
        )
    table.add_row("size", f"{median(one.size_bytes for one in full) / 2**20:.1f} MiB", "")
    console.print(table)
