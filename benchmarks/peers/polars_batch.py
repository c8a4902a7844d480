"""The batch limit by Polars: one query of its streaming engine over the whole input, again and again."""

from __future__ import annotations

import os

from benchmarks.contract import WINDOW_MS, Settings, say, settings_from_arguments
from benchmarks.peers.batch import repeat

GIVEN: Settings = settings_from_arguments()
os.environ["POLARS_MAX_THREADS"] = str(GIVEN.parallelism)  # read when Polars is imported

import polars as pl  # noqa: E402


def query() -> tuple[int, list[tuple[int, ...]]]:
    rows = pl.scan_parquet(f"{GIVEN.files}/*.parquet")
    if GIVEN.workload == "W3":
        window = (pl.col("event_time") // WINDOW_MS * WINDOW_MS).alias("window")
        aggregates = [pl.col("value").sum().alias("total"), pl.len().alias("n")]
        grouped = rows.group_by(window, "key").agg(aggregates)
        found = grouped.collect(engine="streaming")
        columns = ["window", "total", "n"]
    else:
        found = rows.group_by("key").agg(pl.len().alias("n")).collect(engine="streaming")
        columns = ["n"]
    return int(found["n"].sum()), found.select(columns).rows() if GIVEN.verify else []


if __name__ == "__main__":
    say(repeat(GIVEN, query, version=pl.__version__))
