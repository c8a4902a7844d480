"""How long from the moment a record is due to the moment its result is at the sink?

The source has a timetable: record i of a split is due at start + i/rate, and carries that time, however late it is
really sent. A stall therefore counts for everything that was due meanwhile (no coordinated omission). The sink compares
the due time with its clock, which is the same machine's, and keeps a histogram for each tenth of a second.

A program like a peer's (see `benchmarks.contract`): the rate is `rows / target_seconds`; without a target there is no
timetable, and the run finds the highest rate.
"""

from __future__ import annotations

import json
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

import cutwater as cw
from benchmarks.contract import SETTLE_SECONDS, Result, Settings, say, settings_from_arguments
from benchmarks.cutwater_jobs import checkpoint_facts, environment
from cutwater.batches import Batch, ObjectBatch
from cutwater.connectors.contract import (
    Delivery,
    Discovery,
    ReaderContext,
    Sink,
    SinkWriter,
    Source,
    SplitReader,
    WriterContext,
)
from cutwater.protocol.splits import Split

KEYS = 1_000
#: The source looks at its timetable this often; what was due in between leaves together.
TICK_SECONDS = 0.001
BUCKET_SECONDS = 0.1
SPAN_SECONDS_MAX = 600.0
#: Bins of one per cent, from ten microseconds to a hundred seconds and more.
BIN_RATIO = 1.01
FIRST_BIN_MS = 0.01
BINS = 1_700
SCHEMA = pa.schema([("key", pa.string()), ("due", pa.float64())])
NAMES = pa.array([f"user_{number}" for number in range(KEYS)])

Histogram = npt.NDArray[np.int64]
"""Buckets of time by bins of latency."""


class TimetableSource(Source):
    """One split a task. A key belongs to one split, so that the due times of a key never go back."""

    eager = True

    def __init__(self, *, rows: int, per_second: float | None, typed: bool) -> None:
        self._rows = rows
        self._per_second = per_second
        self._typed = typed

    @property
    def name(self) -> str:
        return "timetable"

    @property
    def schema(self) -> pa.Schema | None:
        return SCHEMA if self._typed else None

    def discover(self, parallelism: int) -> Discovery:
        splits = (Split(str(index), json.dumps([index, parallelism]).encode()) for index in range(parallelism))
        return Discovery(tuple(splits), complete=True)

    def reader(self, split: Split, position: Any, context: ReaderContext) -> SplitReader:
        index, splits = json.loads(split.payload)
        per_second = None if self._per_second is None else self._per_second / splits
        return TimetableReader(
            first_key=index,
            splits=splits,
            rows=self._rows // splits,
            per_second=per_second,
            typed=self._typed,
            taken=position or 0,
        )


class TimetableReader(SplitReader):
    """Position: how many records were read."""

    def __init__(
        self, *, first_key: int, splits: int, rows: int, per_second: float | None, typed: bool, taken: int
    ) -> None:
        self._keys = np.arange(first_key, KEYS, splits)
        self._rows = rows
        self._per_second = per_second
        self._typed = typed
        self._taken = taken
        self._began: float | None = None
        self._began_wall = 0.0

    def read(self, limit: int, now_seconds: float) -> Batch | None:
        if self._began is None:
            lead = self._taken / self._per_second if self._per_second else 0.0
            self._began, self._began_wall = now_seconds - lead, time.time() - lead
        count = min(limit, self._rows - self._taken, self._due(now_seconds))
        if count <= 0:
            return None
        indexes = np.arange(self._taken, self._taken + count)
        self._taken += count
        if self._per_second is None:
            due = np.full(count, time.time())
        else:
            due = self._began_wall + indexes / self._per_second
        # Some large odd step, so that neighbours have different keys.
        keys = self._keys[indexes * 7_919 % len(self._keys)]
        if self._typed:
            return pa.RecordBatch.from_arrays([NAMES.take(pa.array(keys)), pa.array(due)], schema=SCHEMA)
        return ObjectBatch(list(zip(keys.tolist(), due.tolist(), strict=True)))

    def _due(self, now_seconds: float) -> int:
        if self._per_second is None:
            return self._rows
        assert self._began is not None
        return int((now_seconds - self._began) * self._per_second) + 1 - self._taken

    @property
    def position(self) -> int:
        return self._taken

    @property
    def finished(self) -> bool:
        return self._taken >= self._rows

    def wake_at(self) -> float | None:
        if self._began is None or self._per_second is None:
            return None
        next_due = self._began + self._taken / self._per_second
        return max(next_due, self._began + (self._ticks(next_due) + 1) * TICK_SECONDS)

    def _ticks(self, at_seconds: float) -> int:
        assert self._began is not None
        return int((at_seconds - self._began) / TICK_SECONDS)


class LatencySink(Sink):
    """Counts latencies; each task leaves one file when it ends."""

    delivery = Delivery.IDEMPOTENT

    def __init__(self, folder: str, *, began: float) -> None:
        self.folder = folder
        self.began = began

    @property
    def name(self) -> str:
        return "latency"

    def writer(self, context: WriterContext) -> SinkWriter:
        return LatencyWriter(self, context.subtask)


class LatencyWriter(SinkWriter):
    def __init__(self, sink: LatencySink, subtask: int) -> None:
        super().__init__(sink)
        self._file = Path(sink.folder, f"latency-{subtask}.npy")
        self._began = sink.began
        self._histogram: Histogram = np.zeros((int(SPAN_SECONDS_MAX / BUCKET_SECONDS), BINS), dtype=np.int64)

    def write(self, batch: Batch) -> None:
        now = time.time()
        if isinstance(batch, ObjectBatch):
            due = np.array([value[-1] for value in batch.values])
        else:
            due = batch.column(batch.num_columns - 1).to_numpy()
        latencies_ms = np.maximum((now - due) * 1_000, FIRST_BIN_MS)
        bins = np.minimum(np.log(latencies_ms / FIRST_BIN_MS) / np.log(BIN_RATIO), BINS - 1).astype(np.int64)
        buckets = np.clip((due - self._began) / BUCKET_SECONDS, 0, len(self._histogram) - 1).astype(np.int64)
        first, last = int(buckets.min()), int(buckets.max())
        counts = np.bincount((buckets - first) * BINS + bins, minlength=(last - first + 1) * BINS)
        self._histogram[first : last + 1] += counts.reshape(last - first + 1, BINS)

    def close(self) -> None:
        used = np.flatnonzero(self._histogram.any(axis=1))
        np.save(self._file, self._histogram[: used[-1] + 1] if len(used) else self._histogram[:0])


def pair_with_due(newest: tuple[Any, ...], record: tuple[Any, ...]) -> tuple[Any, ...]:
    """A running count that carries the due time of the record it answers."""
    count = newest[1] if len(newest) == 3 else 1
    return record[0], count + 1, record[-1]


def build(env: cw.Environment, given: Settings, sink: LatencySink) -> None:
    typed = given.variant.startswith("typed")
    rate = given.rows / given.target_seconds if given.target_seconds else None
    records = env.from_source(TimetableSource(rows=given.rows, per_second=rate, typed=typed), uid="timetable")
    if typed:
        # Within a key due times never go back, so the greatest so far is the record's own.
        results = records.key_by("key").max("due", uid="newest")
    else:
        results = records.key_by(_first).reduce(pair_with_due, uid="count")
    results.sink_to(sink, uid="end")


def _first(record: tuple[Any, ...]) -> Any:
    return record[0]


@dataclass(slots=True)
class CheckpointTimes:
    """When checkpoints were completed, seen from outside, and how long they took."""

    job: cw.JobHandle
    began: float
    times: list[tuple[float, float]]

    def watch(self) -> None:
        seen = 0
        while not (status := self.job.status()).state.terminal:
            if status.checkpoints_completed > seen and status.checkpoints:
                seen = status.checkpoints_completed
                self.times.append((time.time() - self.began, status.checkpoints[-1].duration_seconds))
            time.sleep(0.01)


def measure(given: Settings) -> Result:
    env = environment(given)
    began = time.time()
    build(env, given, LatencySink(given.scratch, began=began))
    job = env.submit("benchmark latency")
    checkpoints = CheckpointTimes(job, began, [])
    watcher = threading.Thread(target=checkpoints.watch, daemon=True)
    watcher.start()
    result = job.wait()
    ended_at = time.time()
    watcher.join(1)
    histogram = _sum([np.load(file) for file in sorted(Path(given.scratch).glob("latency-*.npy"))])
    first = int(np.flatnonzero(histogram.any(axis=1))[0])
    settled = histogram[first + int(SETTLE_SECONDS / BUCKET_SECONDS) :]
    counted = settled.sum(axis=0) if settled.any() else histogram.sum(axis=0)
    return Result(
        result.status.running_seconds,
        given.rows,
        ended_at=ended_at,
        version=cw.__version__,
        p50_ms=percentile(counted, 0.5),
        p99_ms=percentile(counted, 0.99),
        facts={
            "p999_ms": percentile(counted, 0.999),
            "max_ms": percentile(counted, 1.0),
            "series": _series(histogram[first:]),
            "checkpoint_times": [
                [round(at - first * BUCKET_SECONDS, 3), round(duration, 4)] for at, duration in checkpoints.times
            ],
            **checkpoint_facts(result.status),
        },
    )


def percentile(counts: Histogram, share: float) -> float:
    """The middle of the bin in which so large a share of the records has passed."""
    passed = np.cumsum(counts)
    index = int(np.searchsorted(passed, share * passed[-1]))
    return round(float(FIRST_BIN_MS * BIN_RATIO ** (index + 0.5)), 3)


def _sum(histograms: list[Histogram]) -> Histogram:
    total: Histogram = np.zeros((max(len(one) for one in histograms), BINS), dtype=np.int64)
    for one in histograms:
        total[: len(one)] += one
    return total


def _series(histogram: Histogram) -> list[list[float]]:
    """(seconds, p50, p99, longest) of each tenth of a second."""
    return [
        [round(index * BUCKET_SECONDS, 1), *(percentile(counts, share) for share in (0.5, 0.99, 1.0))]
        for index, counts in enumerate(histogram)
        if counts.any()
    ]


if __name__ == "__main__":
    say(measure(settings_from_arguments()))
