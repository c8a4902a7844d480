"""Pathway: its own engine, the job written in Python; two worker threads, persistence on the local disk.

Set-up: CSV files with a header (faster than JSON lines in trials; its file connector reads no Parquet), in streaming
mode, a commit every 100 ms, a snapshot every checkpoint interval. Pathway doesn't tell when the files are used up: a
running total over the results does, and the process ends itself then.
"""

from __future__ import annotations

import json
import os
import threading
import time
from pathlib import Path
from typing import Any

import pathway as pw

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

COMMIT_MS = 100
QUIET_SECONDS_MAX = 15.0
POLL_SECONDS = 0.05


class Row(pw.Schema):
    event_time: int
    key: str
    value: int


@pw.reducers.stateful_single
def count_values(state: int | None, value: int) -> int:
    return (state or 0) + 1


class Progress:
    """What the job's own totals say; written by the engine's threads."""

    def __init__(self) -> None:
        self.began = time.time()
        self.rows_in = 0
        self.rows_in_windows = 0
        self.changed_at = time.time()
        self.results: dict[Any, dict[str, Any]] = {}

    def on_total(self, key: Any, row: dict[str, Any], time: int, is_addition: bool) -> None:
        if is_addition:
            self.rows_in = row["total"]
            self._changed()

    def on_windows(self, key: Any, row: dict[str, Any], time: int, is_addition: bool) -> None:
        if is_addition:
            self.rows_in_windows = row["total"]
            self._changed()

    def on_result(self, key: Any, row: dict[str, Any], time: int, is_addition: bool) -> None:
        if is_addition:
            self.results[key] = row

    def _changed(self) -> None:
        self.changed_at = time.time()


def build(given: Settings, progress: Progress) -> None:
    rows = pw.io.csv.read(given.files, schema=Row, mode="streaming", autocommit_duration_ms=COMMIT_MS, name="rows")
    if given.workload == "W3":
        results = rows.windowby(
            rows.event_time,
            window=pw.temporal.tumbling(duration=WINDOW_MS, origin=0),
            instance=rows.key,
            behavior=pw.temporal.exactly_once_behavior(shift=LATENESS_MS),
        ).reduce(
            starts=pw.this._pw_window_start,
            total=pw.reducers.sum(pw.this.value),
            n=pw.reducers.count(),
        )
        totals = rows.reduce(total=pw.reducers.count())
        pw.io.subscribe(results.reduce(total=pw.reducers.sum(results.n)), progress.on_windows)
    else:
        n = pw.declare_type(int, count_values(rows.value)) if given.workload == "W4" else pw.reducers.count()
        results = rows.groupby(rows.key).reduce(rows.key, n=n)
        totals = results.reduce(total=pw.reducers.sum(results.n))
    pw.io.subscribe(totals, progress.on_total)
    if given.verify:
        pw.io.subscribe(results, progress.on_result)
    else:
        pw.io.null.write(results)


def finish(given: Settings, progress: Progress) -> None:
    """Ends the process when all rows are in the results, or when nothing more comes (late rows were dropped)."""
    closed_rows = closable_rows(given) if given.workload == "W3" else 0
    while True:
        time.sleep(POLL_SECONDS)
        if progress.rows_in < given.rows:
            continue
        quiet = time.time() - progress.changed_at > QUIET_SECONDS_MAX
        if progress.rows_in_windows >= closed_rows or quiet:
            break
    if given.verify:
        time.sleep(1.0)  # the results have a subscription of their own
    facts = {"rows_late": closed_rows - progress.rows_in_windows} if given.workload == "W3" else {}
    seconds = progress.changed_at - progress.began
    answer = answer_of(given, progress) if given.verify else None
    say(Result(seconds, given.rows, progress.changed_at, 0.0, pw.__version__, answer, facts=facts))
    os._exit(0)


def closable_rows(given: Settings) -> int:
    """Rows in windows that the last watermark closes."""
    truth = json.loads((Path(given.files).parent / "truth.json").read_text())
    watermark_ms = truth["last_ms"] - LATENESS_MS
    return sum(rows for start, (_, rows, *_) in truth["windows"].items() if int(start) + WINDOW_MS <= watermark_ms)


def answer_of(given: Settings, progress: Progress) -> Answer:
    results = list(progress.results.values())
    if given.workload == "W3":
        return windows_answer((row["starts"], row["total"], row["n"]) for row in results)
    return counts_answer(row["n"] for row in results)


def main() -> None:
    given = settings_from_arguments()
    progress = Progress()
    build(given, progress)
    persistence = None
    if given.checkpoint_seconds is not None:
        persistence = pw.persistence.Config(
            pw.persistence.Backend.filesystem(given.scratch),
            snapshot_interval_ms=round(given.checkpoint_seconds * 1_000),
        )
    progress.began = time.time()
    threading.Thread(target=finish, args=(given, progress), daemon=True).start()
    pw.run(monitoring_level=pw.MonitoringLevel.NONE, persistence_config=persistence)


if __name__ == "__main__":
    main()
