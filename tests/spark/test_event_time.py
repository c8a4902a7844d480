"""Windows on columns survive a killed worker, and move to another number of workers, on a real Spark."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import cutwater as cw
from cutwater.demo.books import Paced

from .ledger_job import kill, wait_for

BASE_MS = 1_700_000_000_000
KEYS, FILES, ROWS_PER_FILE = 20, 4, 3_000
#: Times are whole hundredths of a second, so that four rows or more share each.
STEP_MS, DISORDER_MS = 10, 2_000


@dataclass(frozen=True)
class WindowJob:
    """Typed files in, sums and counts of every second out, in files that only a checkpoint makes visible."""

    root: Path

    def write(self) -> None:
        """Each file tells of the whole time, out of order."""
        random = np.random.default_rng(17)
        for file in range(FILES):
            times = BASE_MS + np.arange(ROWS_PER_FILE) * STEP_MS
            told = np.argsort(times + random.integers(0, DISORDER_MS, ROWS_PER_FILE), kind="stable")
            keys = [f"key-{number}" for number in random.integers(0, KEYS, ROWS_PER_FILE)]
            values = random.integers(-1_000, 1_000, ROWS_PER_FILE)
            columns = {"time": pa.array(times[told]).cast(pa.timestamp("ms", "UTC")), "key": keys, "value": values}
            (self.root / "in").mkdir(exist_ok=True)
            pq.write_table(pa.table(columns), self.root / "in" / f"{file}.parquet", row_group_size=500)

    def submit(self, spark: Any, *, parallelism: int = 2, per_second: float, restore: str | None = None) -> Any:
        env = cw.Environment(
            spark=spark,
            parallelism=parallelism,
            checkpoints=cw.Checkpoints(every="200ms", storage=f"file://{self.root}/checkpoints", tolerable_failures=50),
            restart=cw.restart.fixed_delay(attempts=5, delay="0s"),
        )
        source = Paced(cw.sources.files(self.root / "in", format="parquet"), per_second)
        events = env.from_source(source, uid="events").assign_timestamps(
            "time", cw.watermarks.bounded(f"{DISORDER_MS}ms")
        )
        seconds = events.key_by("key").window(cw.tumbling("1s"))
        results = seconds.aggregate(n=cw.agg.count(), total=cw.agg.sum("value"), uid="seconds")
        assert results.schema is not None, "the windows run on columns"
        results.sink_to(cw.sinks.parquet(self.root / "out"), uid="out")
        return env.submit("seconds", restore=restore, require="exactly_once")

    def committed(self) -> list[Path]:
        return list((self.root / "out").glob("*.parquet"))

    def found(self) -> Counter[Any]:
        return self._rows("SELECT key, epoch_ms(window_start), n, total", "out")

    def expected(self) -> Counter[Any]:
        return self._rows("SELECT key, epoch_ms(time) // 1000 * 1000, count(*), sum(value)", "in", "GROUP BY ALL")

    def _rows(self, select: str, folder: str, rest: str = "") -> Counter[Any]:
        with duckdb.connect() as connection:
            query = f"{select} FROM '{self.root}/{folder}/*.parquet' {rest}"
            return Counter(connection.execute(query).fetchall())


@pytest.fixture
def job(tmp_path: Path) -> WindowJob:
    made = WindowJob(tmp_path)
    made.write()
    return made


def test_a_killed_worker_changes_no_window(spark: Any, job: WindowJob) -> None:
    running = job.submit(spark, per_second=1_500)
    status = wait_for(running, lambda status: status.state is cw.JobState.RUNNING and bool(job.committed()))
    kill(next(slot.pid for slot in status.slots if slot.tasks))
    status = running.wait("2min").status
    assert [recovery.restored_checkpoint is not None for recovery in status.recoveries] == [True]
    assert job.found() == job.expected()
    assert status.late_records == 0


def test_windows_go_on_at_another_parallelism(spark: Any, job: WindowJob) -> None:
    running = job.submit(spark, per_second=1_500)
    wait_for(running, lambda status: status.state is cw.JobState.RUNNING and bool(job.committed()))
    running.cancel()
    running.wait("1min")
    assert job.found() != job.expected(), "it was over before it was cancelled"
    job.submit(spark, parallelism=3, per_second=10_000, restore="latest").wait("2min")
    assert job.found() == job.expected()
