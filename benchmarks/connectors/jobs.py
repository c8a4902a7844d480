"""How is Cutwater timed inside its slot, from the first record to the last one?

A source is read into a sink that does what `cw.sinks.discard()` does, and looks at the clock. A sink is fed by a source
that makes records, and its run ends when the job has: when everything is committed.
"""

from __future__ import annotations

import json
import shutil
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

import cutwater as cw
from benchmarks.connectors.cases import EPOCH_SECONDS, SinkCase, SourceCase
from benchmarks.connectors.ratios import Run, Stopwatch
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

PATIENCE_SECONDS = 600.0
SAMPLE_SECONDS = 0.05
#: Long enough for a busy machine.
SLOT_TIMEOUT = "5min"


def run_source(spark: Any, case: SourceCase) -> Run:
    timing = TimingSink(case.rows)
    with _Job(spark) as job:
        job.env.from_source(case.source(), uid="source").sink_to(timing, uid="end")
        handle = job.env.submit(f"benchmark {case.name}")
        if not timing.done.wait(PATIENCE_SECONDS):
            handle.cancel()
        if timing.run is None:
            handle.wait("30s")  # raises the job's failure
            raise TimeoutError(f"{case.name}: not {case.rows:,} records in {PATIENCE_SECONDS:.0f} s")
        handle.cancel()
        with suppress(Exception):  # a bounded job has ended by itself
            handle.wait("30s")
        return timing.run


def run_sink(spark: Any, case: SinkCase) -> Run:
    with _Job(spark) as job:
        begun = job.folder / "begun"
        numbers = RecordsSource(case.record, case.rows, str(begun))
        job.env.from_source(numbers, uid="records").sink_to(case.sink(), uid="sink")
        handle = job.env.submit(f"benchmark {case.name}")
        with _CpuWatch(handle) as cpu:
            handle.wait(f"{PATIENCE_SECONDS:.0f}s")
            ended = time.monotonic()
        began, cpu_began = json.loads(begun.read_text())
        return Run(case.rows, ended - began, cpu.seconds - cpu_began)


class _Job:
    """An environment with checkpoints in a folder that goes away."""

    def __init__(self, spark: Any) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="cutwater-bench-"))
        checkpoints = cw.Checkpoints(every=f"{EPOCH_SECONDS}s", storage=f"file://{self.folder}/snapshots")
        self.env = cw.Environment(
            spark=spark, parallelism=1, checkpoints=checkpoints, restart=cw.restart.none(), slot_timeout=SLOT_TIMEOUT
        )

    def __enter__(self) -> _Job:
        return self

    def __exit__(self, *exception: object) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)


class TimingSink(Sink):
    """Drops every record; tells the driver how long they took."""

    delivery = Delivery.IDEMPOTENT
    takes_encoded = True
    name = "timing"

    def __init__(self, rows: int) -> None:
        self.rows = rows
        self.run: Run | None = None
        self.done = threading.Event()

    def __reduce__(self) -> tuple[Any, ...]:
        return TimingSink, (self.rows,)

    def writer(self, context: WriterContext) -> SinkWriter:
        return _TimingWriter(self, context)

    def receive(self, value: Any) -> None:
        self.run = Run(*value)
        self.done.set()

    def job_ended(self, failure: BaseException | None) -> None:
        self.done.set()


class _TimingWriter(SinkWriter):
    def __init__(self, sink: TimingSink, context: WriterContext) -> None:
        super().__init__(sink)
        self._report = context.report
        self._watch = Stopwatch(sink.rows)

    def write(self, batch: Batch) -> None:
        if self._watch.saw(batch.num_rows):
            run = self._watch.end()
            self._report([run.rows, run.seconds, run.cpu_seconds])


class RecordsSource(Source):
    """`record(0)`, `record(1)`, … in one split; leaves a file with the time of the first."""

    name = "records"

    def __init__(self, record: Callable[[int], Any], rows: int, begun: str) -> None:
        self.record = record
        self.rows = rows
        self.begun = begun

    def discover(self, parallelism: int) -> Discovery:
        return Discovery((Split("all", b""),), complete=True)

    def reader(self, split: Split, position: Any, context: ReaderContext) -> SplitReader:
        return _RecordsReader(self)


class _RecordsReader(SplitReader):
    def __init__(self, source: RecordsSource) -> None:
        self._source = source
        self._index = 0

    def read(self, limit: int, now_seconds: float) -> Batch | None:
        source = self._source
        if self._index == 0:
            Path(source.begun).write_text(json.dumps([time.monotonic(), time.process_time()]))
        end = min(self._index + limit, source.rows)
        record = source.record
        values = [record(index) for index in range(self._index, end)]
        self._index = end
        return ObjectBatch(values) if values else None

    @property
    def position(self) -> int:
        return self._index

    @property
    def finished(self) -> bool:
        return self._index >= self._source.rows


class _CpuWatch:
    """The processor's time of a job's slots, as long as they live."""

    def __init__(self, handle: Any) -> None:
        self._handle = handle
        self._seen: dict[int, float] = {}
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    @property
    def seconds(self) -> float:
        return sum(self._seen.values())

    def __enter__(self) -> _CpuWatch:
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._stopped.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._stopped.wait(SAMPLE_SECONDS):
            for slot in self._handle.status().slots:
                with suppress(psutil.Error):
                    times = psutil.Process(slot.pid).cpu_times()
                    self._seen[slot.pid] = times.user + times.system
