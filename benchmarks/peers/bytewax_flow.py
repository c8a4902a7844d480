"""Bytewax: Python rows through `stateful_batch`, `stateful_map` and `fold_window`; one process for each core.

Set-up: recovery partitions on the local disk, one epoch per checkpoint interval, batches of 4,096 rows read by pyarrow.
Counts use `stateful_batch` (one call a key and batch, still one result a row), which was faster than `stateful_map` in
trials. The Python function of W4 is called for each row by `stateful_map`; a loop in `stateful_batch` was not faster.
Windows come from one reader: a clock of Bytewax belongs to a key and drops what two readers mix by more than the
lateness allowed.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from importlib.metadata import version
from pathlib import Path
from typing import Any

import bytewax.operators as op
import bytewax.operators.windowing as windowing
import pyarrow.parquet
from bytewax._bytewax import cli_main
from bytewax.dataflow import Dataflow
from bytewax.inputs import FixedPartitionedSource, StatefulSourcePartition
from bytewax.outputs import DynamicSink, StatelessSinkPartition
from bytewax.recovery import RecoveryConfig, init_db_dir

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

BATCH_ROWS = 4_096
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
STATISTICS = "STATISTICS "
Row = tuple[int, str, int]


@dataclass(slots=True)
class Seen:
    """What one process saw; written to its standard output at the end."""

    first_at: float | None = None
    ended_at: float = 0.0
    rows_in: int = 0
    rows_out: int = 0
    rows_in_windows: int = 0
    results: list[Any] = field(default_factory=list)


class Files(FixedPartitionedSource[Row, int]):
    """One partition a file, or one partition of all files in order."""

    def __init__(self, files: list[Path], seen: Seen, *, one_reader: bool) -> None:
        self._partitions = [files] if one_reader else [[file] for file in files]
        self._seen = seen

    def list_parts(self) -> list[str]:
        return [str(index) for index in range(len(self._partitions))]

    def build_part(self, step_id: str, for_part: str, resume_state: int | None) -> FilesPartition:
        return FilesPartition(self._partitions[int(for_part)], resume_state or 0, self._seen)


class FilesPartition(StatefulSourcePartition[Row, int]):
    def __init__(self, files: list[Path], position: int, seen: Seen) -> None:
        self._position = position
        self._seen = seen
        self._batches = _batches(files, skip=position)

    def next_batch(self) -> list[Row]:
        if self._seen.first_at is None:
            self._seen.first_at = time.time()
        rows = next(self._batches)
        self._position += len(rows)
        self._seen.rows_in += len(rows)
        return rows

    def snapshot(self) -> int:
        return self._position


def _batches(files: list[Path], *, skip: int) -> Iterator[list[Row]]:
    for file in files:
        for batch in pyarrow.parquet.ParquetFile(file).iter_batches(batch_size=BATCH_ROWS):
            rows = list(zip(*(column.to_pylist() for column in batch.columns), strict=True))
            if skip < len(rows):
                yield rows[skip:]
            skip = max(0, skip - len(rows))


class Discard(DynamicSink[Any]):
    def __init__(self, given: Settings, seen: Seen) -> None:
        self._given = given
        self._seen = seen

    def build(self, step_id: str, worker_index: int, worker_count: int) -> StatelessSinkPartition[Any]:
        return DiscardPartition(self._given, self._seen)


class DiscardPartition(StatelessSinkPartition[Any]):
    def __init__(self, given: Settings, seen: Seen) -> None:
        self._windowed = given.workload == "W3"
        self._verify = given.verify
        self._seen = seen

    def write_batch(self, items: list[Any]) -> None:
        self._seen.rows_out += len(items)
        if self._windowed:
            self._seen.rows_in_windows += sum(count for _, (_, (_, count)) in items)
        if self._verify:
            self._seen.results += items


class BatchCount(op.StatefulBatchLogic[int, int, int]):
    def __init__(self, resumed: int | None) -> None:
        self._count = resumed or 0

    def on_batch(self, values: list[int]) -> tuple[range, bool]:
        before, self._count = self._count, self._count + len(values)
        return range(before + 1, self._count + 1), op.StatefulBatchLogic.RETAIN

    def snapshot(self) -> int:
        return self._count


def count_one(state: int | None, value: int) -> tuple[int, int]:
    count = (state or 0) + 1
    return count, count


def dataflow(given: Settings, seen: Seen) -> Dataflow:
    flow = Dataflow("count")
    windowed = given.workload == "W3"
    rows = op.input("rows", flow, Files(sorted(Path(given.files).iterdir()), seen, one_reader=windowed))
    if windowed:
        clock = windowing.EventClock(
            ts_getter=lambda row: datetime.fromtimestamp(row[0] / 1_000, UTC),
            wait_for_system_duration=timedelta(milliseconds=LATENESS_MS),
        )
        tumbling = windowing.TumblingWindower(length=timedelta(milliseconds=WINDOW_MS), align_to=EPOCH)
        keyed = op.map("key", rows, lambda row: (row[1], row))
        results: Any = windowing.fold_window(
            "window",
            keyed,
            clock,
            tumbling,
            lambda: (0, 0),
            lambda sums, row: (sums[0] + row[2], sums[1] + 1),
            lambda left, right: (left[0] + right[0], left[1] + right[1]),
        ).down
    elif given.workload == "W4":
        results = op.stateful_map("count", op.map("key", rows, lambda row: (row[1], row[2])), count_one)
    else:
        results = op.stateful_batch("count", op.map("key", rows, lambda row: (row[1], row[2])), BatchCount)
    op.output("end", results, Discard(given, seen))
    return flow


def work(given: Settings, index: int, addresses: list[str]) -> None:
    """One of the processes."""
    seen = Seen()
    checkpoints = given.checkpoint_seconds is not None
    cli_main(
        dataflow(given, seen),
        process_id=index,
        addresses=addresses,
        workers_per_process=1,
        epoch_interval=timedelta(seconds=given.checkpoint_seconds or 10.0),
        recovery_config=RecoveryConfig(given.scratch, backup_interval=timedelta(0)) if checkpoints else None,
    )
    seen.ended_at = time.time()
    print(STATISTICS + json.dumps(asdict(seen)), flush=True)


def supervise(given: Settings) -> Result:
    """Starts the processes and adds up what they saw."""
    if given.checkpoint_seconds is not None:
        init_db_dir(Path(given.scratch), given.parallelism)
    environment = {**os.environ, "BYTEWAX_ADDRESSES": json.dumps(_free_addresses(given.parallelism))}
    processes = [
        subprocess.Popen(
            [sys.executable, "-m", "benchmarks.peers.bytewax_flow", given.to_json(), str(index)],
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )
        for index in range(given.parallelism)
    ]
    outputs = [process.communicate()[0] for process in processes]
    if any(process.returncode for process in processes):
        raise SystemExit("a process failed")
    lines = (line for output in outputs for line in output.splitlines() if line.startswith(STATISTICS))
    seen = [Seen(**json.loads(line.removeprefix(STATISTICS))) for line in lines]
    first_at = min(one.first_at for one in seen if one.first_at is not None)
    ended_at = max(one.ended_at for one in seen)
    facts = {"rows_in": sum(one.rows_in for one in seen), "rows_out": sum(one.rows_out for one in seen)}
    if given.workload == "W3":
        facts["rows_late"] = facts["rows_in"] - sum(one.rows_in_windows for one in seen)
    return Result(
        ended_at - first_at,
        facts["rows_in"],
        ended_at=ended_at,
        version=version("bytewax"),
        answer=_answer(given, [result for one in seen for result in one.results]) if given.verify else None,
        facts=facts,
    )


def _answer(given: Settings, results: list[Any]) -> Answer:
    if given.workload == "W3":
        return windows_answer((window * WINDOW_MS, total, count) for _, (window, (total, count)) in results)
    counts: dict[str, int] = {}
    for key, count in results:
        counts[key] = max(counts.get(key, 0), count)
    return counts_answer(counts.values())


def _free_addresses(count: int) -> list[str]:
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    addresses = [f"127.0.0.1:{each.getsockname()[1]}" for each in sockets]
    for each in sockets:
        each.close()
    return addresses


if __name__ == "__main__":
    if len(sys.argv) > 2:
        work(settings_from_arguments(), int(sys.argv[2]), json.loads(os.environ["BYTEWAX_ADDRESSES"]))
    else:
        say(supervise(settings_from_arguments()))
