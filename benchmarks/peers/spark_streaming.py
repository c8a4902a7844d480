"""Spark Structured Streaming: micro-batches, state in RocksDB with changelog checkpoints, measured warm.

Spark commits after each batch, so the size of a batch is its checkpoint interval: eight files (ten million rows) last
about a second or two where Spark is fast; `one batch` reads everything in a single one, without any checkpoint on the
way, as an upper limit. A first run of the same query over one batch in the same process warms the Java machine up.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

os.environ["PYSPARK_PYTHON"] = sys.executable  # else the workers run whatever python3 is on the PATH

import pandas as pd
import pyspark
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 — the name that every user of Spark knows
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle

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

SCHEMA = "event_time LONG, key STRING, value LONG"
FILES_PER_BATCH = 8
#: A Python function is so slow that a batch of eight files would last a minute.
FILES_PER_BATCH_W4 = 1
ALL_FILES = 1_000_000
STATE_STORE = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


class Count(StatefulProcessor):
    def init(self, handle: StatefulProcessorHandle) -> None:
        self._count = handle.getValueState("count", "n LONG")

    def handleInputRows(self, key: Any, rows: Iterator[pd.DataFrame], timerValues: Any) -> Iterator[pd.DataFrame]:  # noqa: N802, N803
        count = self._count.get()[0] if self._count.exists() else 0
        for frame in rows:
            counts = []
            for _ in frame["value"]:
                count += 1
                counts.append(count)
            yield pd.DataFrame({"key": key[0], "n": counts})
        self._count.update((count,))

    def close(self) -> None:
        pass


def session(given: Settings) -> SparkSession:
    options = {
        "spark.driver.memory": "8g",
        "spark.sql.shuffle.partitions": given.parallelism,
        "spark.ui.enabled": "false",
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.streaming.numRecentProgressUpdates": 10_000,
        "spark.sql.streaming.stateStore.providerClass": STATE_STORE,
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
        "spark.log.level": "ERROR",
    }
    builder = SparkSession.builder.master(f"local[{given.parallelism}]")
    for name, value in options.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def results(rows: DataFrame, given: Settings) -> tuple[DataFrame, str]:
    if given.workload == "W3":
        timed = rows.withColumn("at", F.timestamp_millis("event_time"))
        grouped = timed.withWatermark("at", f"{LATENESS_MS} milliseconds").groupBy(
            F.window("at", f"{WINDOW_MS} milliseconds"), "key"
        )
        return grouped.agg(F.sum("value").alias("total"), F.count("*").alias("n")), "append"
    keyed = rows.groupBy("key")
    if given.workload == "W4":
        return keyed.transformWithStateInPandas(Count(), "key STRING, n LONG", "Update", "None"), "update"
    return keyed.agg(F.count("*").alias("n")), "update"


class Query:
    """One streaming query to the end of its files."""

    def __init__(self, spark: SparkSession, given: Settings, files: str, checkpoints: Path) -> None:
        per_batch = FILES_PER_BATCH_W4 if given.workload == "W4" else FILES_PER_BATCH
        if given.variant.endswith("one batch"):
            per_batch = ALL_FILES
        rows = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", per_batch).parquet(files)
        frame, mode = results(rows, given)
        self._given = given
        self._found: list[Any] = []
        writer = frame.writeStream.outputMode(mode).option("checkpointLocation", str(checkpoints))
        self._writer = writer.foreachBatch(self._keep) if given.verify else writer.format("noop")

    def run(self) -> tuple[float, list[dict[str, Any]]]:
        began = time.time()
        query = self._writer.trigger(availableNow=True).start()
        query.awaitTermination()
        return time.time() - began, [_plain(progress) for progress in query.recentProgress]

    @property
    def answer(self) -> Answer:
        if self._given.workload == "W3":
            starts = ((_milliseconds(row["window"]["start"]), row) for row in self._found)
            return windows_answer((start, row["total"], row["n"]) for start, row in starts)
        counts: dict[str, int] = {}
        for row in self._found:
            counts[row["key"]] = max(counts.get(row["key"], 0), row["n"])
        return counts_answer(counts.values())

    def _keep(self, frame: DataFrame, batch: int) -> None:
        self._found += frame.collect()


def measure(given: Settings) -> Result:
    spark = session(given)
    scratch = Path(given.scratch)
    warm_up_seconds = 0.0
    if given.warm_up and not given.verify:
        began = time.time()
        Query(spark, given, str(_first_files(given, scratch)), scratch / "warm-up").run()
        warm_up_seconds = time.time() - began
    query = Query(spark, given, given.files, scratch / "checkpoints")
    seconds, progress = query.run()
    ended_at = time.time()
    answer = query.answer if given.verify else None
    batches = [one["durationMs"].get("triggerExecution", 0) for one in progress if one["numInputRows"]]
    rows = sum(one["numInputRows"] for one in progress)
    facts = {"batches": len(batches), "batch_ms_median": sorted(batches)[len(batches) // 2] if batches else None}
    spark.stop()
    return Result(seconds, rows, ended_at, warm_up_seconds, pyspark.__version__, answer, facts=facts)


def _first_files(given: Settings, scratch: Path) -> Path:
    """The input of the warm-up: one batch of the files."""
    folder = scratch / "first-files"
    folder.mkdir()
    files = FILES_PER_BATCH_W4 if given.workload == "W4" else FILES_PER_BATCH
    for file in sorted(Path(given.files).iterdir())[:files]:
        try:
            (folder / file.name).hardlink_to(file)
        except OSError:  # another file system
            shutil.copyfile(file, folder / file.name)
    return folder


def _plain(progress: Any) -> dict[str, Any]:
    plain: dict[str, Any] = json.loads(progress.json) if hasattr(progress, "json") else progress
    return plain


def _milliseconds(local: Any) -> int:
    return round(local.timestamp() * 1_000)


if __name__ == "__main__":
    os.environ["TZ"] = "UTC"
    time.tzset()
    say(measure(settings_from_arguments()))
