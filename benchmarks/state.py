"""`python -m benchmarks.state`: what large keyed state costs. One task, in this process, without Spark.

load        so many keys are counted
snapshots   a share of the keys changes between two: how long the stream waits, what is uploaded, and how much
            slower the stream is while a snapshot is written
restore     with the files on the local disk, from the storage, and by two tasks in place of one
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

import pyarrow as pa
from rich.console import Console

from benchmarks.measurements import BUILD
from cutwater.operators.contract import OperatorSnapshot
from cutwater.protocol.ids import AttemptNumber, CheckpointId, TaskId
from cutwater.protocol.key_groups import group_range
from cutwater.snapshots.format import TaskSnapshot
from cutwater.snapshots.local_files import LocalFiles
from cutwater.snapshots.reader import DatabaseRestore
from cutwater.snapshots.storage import LocalStorage
from cutwater.snapshots.writer import Destination, write_task_snapshot
from cutwater.state.columnar.layout import TableLayout, ValueLayout
from cutwater.state.columnar.table import AggregateTable, FrozenTables
from cutwater.state.contract import KeyedBackendSettings, RestoredState
from cutwater.state.rocksdb.backend import RocksBackend

MAX_PARALLELISM = 128
MEMORY_BYTES = 256 << 20


class RocksState:
    """A count per key in RocksDB."""

    name = "rocksdb"

    def __init__(self, local: LocalFiles) -> None:
        self.backend = RocksBackend(KeyedBackendSettings(MAX_PARALLELISM, range(MAX_PARALLELISM), local, MEMORY_BYTES))
        self._count = self.backend.value_state("count", 0)

    def count(self, numbers: list[int]) -> None:
        set_current_key, count = self.backend.set_current_key, self._count
        for number in numbers:
            set_current_key(f"user_{number}")
            count.update(count.value() + 1)

    def freeze(self) -> Any:
        return self.backend.freeze()

    def completed(self, checkpoint: CheckpointId) -> None:
        self.backend.checkpoint_completed(checkpoint)


class ColumnarState:
    """A count per key as columns."""

    name = "columnar"

    def __init__(self, local: LocalFiles) -> None:
        self._layout = TableLayout((pa.field("key", pa.string()),), (ValueLayout("count", "count", None),))
        self._table = AggregateTable(self._layout)

    def count(self, numbers: list[int]) -> None:
        self._table.add([pa.array([f"user_{number}" for number in numbers])], [None])

    def freeze(self) -> Any:
        frozen = FrozenTables("count", self._layout, MAX_PARALLELISM)
        frozen.add(self._table)
        return frozen

    def completed(self, checkpoint: CheckpointId) -> None:
        """Nothing to remember: every snapshot is whole."""


def main() -> None:
    options = parse()
    console = Console(width=150)
    BUILD.mkdir(exist_ok=True)
    with folder() as root, (BUILD / "bench-state.jsonl").open("a") as out:
        for kind in (RocksState, ColumnarState):
            if options.only in (None, kind.name):
                measure(kind, root / kind.name, options, console, out)


def measure(kind: Any, root: Path, options: argparse.Namespace, console: Console, out: Any) -> None:
    local = LocalFiles(str(root / "local"), "job")
    storage = LocalStorage(str(root / "storage"))
    to = Destination(storage, "job", AttemptNumber(1), 65_536, local)
    state = kind(local)

    def say(what: str, **figures: Any) -> None:
        out.write(json.dumps({"state": kind.name, "keys": options.keys, "what": what, **figures}) + "\n")
        console.print(f"{kind.name:9} {what:24} " + "  ".join(f"{name} {value}" for name, value in figures.items()))

    began = time.perf_counter()
    for first in range(0, options.keys, 10_000):
        state.count(list(range(first, min(first + 10_000, options.keys))))
    say("load", seconds=round(time.perf_counter() - began, 1))
    snapshot = write(state, to, 1)
    state.completed(CheckpointId(1))
    say("first snapshot", megabytes=round(snapshot.size_bytes / 1e6, 1))
    snapshot = take_snapshots(state, to, options, say)
    if kind is RocksState:
        state.backend.close()
        measure_restores(snapshot, storage, local, say)


def take_snapshots(state: Any, to: Destination, options: argparse.Namespace, say: Any) -> TaskSnapshot:
    """A share of the keys changes, then a snapshot is written while the stream goes on."""
    waits, shares, slow, quick = [], [], [], []
    changed = max(1, round(options.keys * options.changed))
    for checkpoint in range(2, options.snapshots + 2):
        quick.append(pace(state, options.keys, changed // 2, until=None))
        began = time.perf_counter()
        frozen = state.freeze()
        waits.append(time.perf_counter() - began)
        with ThreadPoolExecutor(1) as writer:
            writing = writer.submit(write_frozen, frozen, to, checkpoint)
            slow.append(pace(state, options.keys, changed // 2, until=writing))
        snapshot = writing.result()
        state.completed(CheckpointId(checkpoint))
        shares.append(snapshot.new_bytes / snapshot.size_bytes)
    say(
        "snapshots",
        wait_ms_median=round(1e3 * median(waits), 1),
        wait_ms_max=round(1e3 * max(waits), 1),
        uploaded_percent_mean=round(100 * sum(shares) / len(shares), 2),
        uploaded_percent_median=round(100 * median(shares), 2),
        uploaded_percent_max=round(100 * max(shares), 1),
        pace_while_written=round(sum(slow) / len(slow) / (sum(quick) / len(quick)), 3),
    )
    return snapshot


def pace(state: Any, keys: int, records: int, *, until: Future[Any] | None) -> float:
    """Records a second of a stream of random keys: so many, or until something is done and at least a few."""
    began, counted = time.perf_counter(), 0
    while counted < records or (until is not None and not until.done()):
        state.count([random.randrange(keys) for _ in range(1_000)])
        counted += 1_000
    return counted / (time.perf_counter() - began)


def write(state: Any, to: Destination, checkpoint: int) -> TaskSnapshot:
    return write_frozen(state.freeze(), to, checkpoint)


def write_frozen(frozen: Any, to: Destination, checkpoint: int) -> TaskSnapshot:
    states = [("op", OperatorSnapshot(keyed=frozen))]
    return write_task_snapshot(to, CheckpointId(checkpoint), TaskId("task", 0), states)


def measure_restores(snapshot: TaskSnapshot, storage: LocalStorage, local: LocalFiles, say: Any) -> None:
    folder_of = f"job/chk-{1}"
    for what, files, parallelism in (
        ("restore, local files", local, 1),
        ("restore, from storage", None, 1),
        ("restore by two tasks", None, 2),
    ):
        seconds = []
        for subtask in range(parallelism):
            groups = group_range(subtask, parallelism, MAX_PARALLELISM)
            began = time.perf_counter()
            backend = RocksBackend(KeyedBackendSettings(MAX_PARALLELISM, groups, local, MEMORY_BYTES))
            databases = [DatabaseRestore(storage, folder_of, snapshot.databases[0], files, is_ours=True)]
            backend.restore(RestoredState(databases=databases))
            backend.set_current_key(next(backend.keys("count")))
            seconds.append(time.perf_counter() - began)
            backend.close()
        say(what, seconds_each=[round(one, 3) for one in seconds])


@contextmanager
def folder() -> Iterator[Path]:
    made = Path(tempfile.mkdtemp(prefix="cutwater-state-"))
    try:
        yield made
    finally:
        shutil.rmtree(made, ignore_errors=True)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.state", description=__doc__.splitlines()[0])
    parser.add_argument("--keys", type=int, default=5_000_000)
    parser.add_argument("--changed", type=float, default=0.01, help="the share of keys that changes between snapshots")
    parser.add_argument("--snapshots", type=int, default=50)
    parser.add_argument("--only", choices=["rocksdb", "columnar"])
    return parser.parse_args()


if __name__ == "__main__":
    random.seed(1)
    main()
