"""Flink SQL: the whole job runs in the Java process, Python only submits it.

`per record` is Flink's normal way, a result for each record. `per batch` is its mini-batch mode: results wait for up
to a second and are aggregated before the shuffle as well. `generated input` replaces the CSV files by rows that Flink
makes itself (uniform keys), which shows what reading text costs. Windows read two files that both span all of event
time, as from two partitions of a log, since Flink doesn't read a folder's files in the order of time.
"""

from __future__ import annotations

import gc
import time
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from pyflink.table import EnvironmentSettings, TableEnvironment

from benchmarks.contract import (
    LATENESS_MS,
    WINDOW_MS,
    Answer,
    Result,
    Settings,
    counts_answer,
    say,
    settings_from_arguments,
    windows_answer,
)
from benchmarks.peers.flink import JobWatch, configuration, free_port

MINI_BATCHES = {
    "table.exec.mini-batch.enabled": "true",
    "table.exec.mini-batch.allow-latency": "1 s",
    "table.exec.mini-batch.size": "20000",
    "table.optimizer.agg-phase-strategy": "TWO_PHASE",
}
COUNTS = "SELECT `key`, COUNT(*) AS n FROM events GROUP BY `key`"
WINDOWS = f"""
    SELECT window_start, `key`, SUM(`value`) AS total, COUNT(*) AS n
    FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(happened), INTERVAL '{WINDOW_MS // 1_000}' SECOND))
    GROUP BY window_start, window_end, `key`
"""
RESULT_COLUMNS = {
    COUNTS: "`key` STRING, n BIGINT",
    WINDOWS: "window_start TIMESTAMP(3), `key` STRING, total BIGINT, n BIGINT",
}
EVENT_TIME = f"""
    , happened AS TO_TIMESTAMP_LTZ(event_time, 3)
    , WATERMARK FOR happened AS happened - INTERVAL '{LATENESS_MS // 1_000}' SECOND
"""


def create_events(tables: TableEnvironment, given: Settings) -> None:
    if "generated" in given.variant:
        _create_generated(tables, given)
    elif given.workload == "W3":
        stripes = [f"stripe{index}" for index, _ in enumerate(sorted(Path(given.files).iterdir()))]
        for name, folder in zip(stripes, sorted(Path(given.files).iterdir()), strict=True):
            _create_files(tables, name, folder, extra=EVENT_TIME)
        union = " UNION ALL ".join(f"SELECT * FROM {name}" for name in stripes)
        tables.execute_sql(f"CREATE TEMPORARY VIEW events AS {union}")
    else:
        _create_files(tables, "events", Path(given.files), extra="")


def _create_files(tables: TableEnvironment, name: str, folder: Path, *, extra: str) -> None:
    tables.execute_sql(f"""
        CREATE TABLE {name} (event_time BIGINT, `key` STRING, `value` BIGINT {extra})
        WITH ('connector' = 'filesystem', 'path' = 'file://{folder}', 'format' = 'csv')
    """)


def _create_generated(tables: TableEnvironment, given: Settings) -> None:
    keys = 1_000_000 if given.workload == "W2" else 1_000
    tables.execute_sql(f"""
        CREATE TABLE numbers (number INT, `value` BIGINT) WITH (
            'connector' = 'datagen', 'number-of-rows' = '{given.rows}', 'rows-per-second' = '1000000000',
            'fields.number.min' = '0', 'fields.number.max' = '{keys - 1}',
            'fields.value.min' = '0', 'fields.value.max' = '999'
        )
    """)
    view = "SELECT CONCAT('user_', CAST(number AS STRING)) AS `key`, `value` FROM numbers"
    tables.execute_sql(f"CREATE TEMPORARY VIEW events AS {view}")


def measure(given: Settings) -> Result:
    gc.disable()  # a collection during planning calls Java from another thread, see JobWatch
    rest_port = free_port()
    more = MINI_BATCHES if given.variant.startswith("per batch") else {}
    more |= {"table.local-time-zone": "UTC"}
    options = configuration(given, rest_port=rest_port, more=more)
    tables = TableEnvironment.create(
        EnvironmentSettings.new_instance().in_streaming_mode().with_configuration(options).build()
    )
    create_events(tables, given)
    query = WINDOWS if given.workload == "W3" else COUNTS
    if given.verify:
        began = time.time()
        answer = _collect(tables, query)
        return Result(time.time() - began, given.rows, version=version("apache-flink"), answer=answer)
    tables.execute_sql(f"CREATE TABLE discarded ({RESULT_COLUMNS[query]}) WITH ('connector' = 'blackhole')")
    submitted_at = time.time()
    job = tables.execute_sql(f"INSERT INTO discarded {query}")
    watch = JobWatch(rest_port)
    job.wait()
    ended_at = time.time()
    facts = watch.facts()
    seconds = ended_at - (watch.running_at or submitted_at)
    return Result(seconds, given.rows, ended_at=ended_at, version=version("apache-flink"), facts=facts)


def _collect(tables: TableEnvironment, query: str) -> Answer:
    found = tables.execute_sql(query).collect()
    if query == COUNTS:
        return counts_answer({row[0]: row[1] for row in found}.values())
    return windows_answer((_milliseconds(row[0]), row[2], row[3]) for row in found)


def _milliseconds(local: object) -> int:
    assert isinstance(local, datetime)
    return round(local.replace(tzinfo=UTC).timestamp() * 1_000)


if __name__ == "__main__":
    say(measure(settings_from_arguments()))
