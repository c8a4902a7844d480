"""The batch limit by DuckDB: one query over the whole input, again and again."""

from __future__ import annotations

import duckdb
import pyarrow.compute

from benchmarks.contract import WINDOW_MS, Settings, say, settings_from_arguments
from benchmarks.peers.batch import repeat

GIVEN: Settings = settings_from_arguments()
FILES = f"read_parquet('{GIVEN.files}/*.parquet')"
WINDOWS = f"""
    SELECT event_time // {WINDOW_MS} * {WINDOW_MS} AS starts, key, sum(value)::BIGINT AS total, count(*) AS n
    FROM {FILES} GROUP BY ALL
"""
COUNTS = f"SELECT key, count(*) AS n FROM {FILES} GROUP BY key"


def query() -> tuple[int, list[tuple[int, ...]]]:
    windowed = GIVEN.workload == "W3"
    found = connection.execute(WINDOWS if windowed else COUNTS).to_arrow_table()
    columns = ("starts", "total", "n") if windowed else ("n",)
    rows = list(zip(*(found[name].to_pylist() for name in columns), strict=True)) if GIVEN.verify else []
    return pyarrow.compute.sum(found["n"]).as_py(), rows


if __name__ == "__main__":
    connection = duckdb.connect()
    connection.execute(f"SET threads = {GIVEN.parallelism}")
    say(repeat(GIVEN, query, version=duckdb.__version__))
