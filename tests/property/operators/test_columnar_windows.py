"""Windows on columns against a slow, obvious model: shuffled, late and equal timestamps, restored and rescaled."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.operators.conftest import Harness

from cutwater.batches import rows_of, times_of, with_times
from cutwater.operators.aggregations import Aggregation
from cutwater.operators.columnar.partial import PartialAggregateOperator
from cutwater.operators.columnar.plan import AggregatePlan, plan_aggregates
from cutwater.operators.columnar.slices import Slices
from cutwater.operators.columnar.window import WindowColumnsOperator, window_schema
from cutwater.protocol.watermarks import MAX_TIMESTAMP_MS, MIN_TIMESTAMP_MS

SCHEMA = pa.schema([("key", pa.string()), ("value", pa.int64())])
AGGREGATIONS = {"total": Aggregation("sum", "value"), "n": Aggregation("count"), "top": Aggregation("max", "value")}
Event = tuple[str, int | None, int]  # key, value, time
Result = tuple[str, int, int, int | None, int, int | None]

EVENTS = st.tuples(st.sampled_from(["a", "b", "c"]), st.one_of(st.none(), st.integers(-9, 9)), st.integers(-40, 60))
SLICES = st.builds(
    lambda every, times, offset: Slices(every * times, every, offset % every),
    st.integers(1, 12),
    st.integers(1, 4),
    st.integers(0, 11),
) | st.builds(lambda size, every: Slices(max(size, every), min(size, every)), st.integers(1, 20), st.integers(1, 20))


@dataclass(frozen=True)
class Step:
    """A batch, and the watermark behind it (None: none)."""

    events: list[Event]
    watermark_ms: int | None


STEPS = st.lists(
    st.builds(Step, st.lists(EVENTS, min_size=1, max_size=15), st.one_of(st.none(), st.integers(-45, 70))), max_size=6
)


def plan() -> AggregatePlan:
    made = plan_aggregates(SCHEMA, ["key"], AGGREGATIONS, count_rows=True)
    assert made is not None
    return made


def windows_of(time: int, slices: Slices) -> list[int]:
    """Every window start whose window holds this time, by trying all that could."""
    first = time - slices.size_ms - slices.every_ms
    return [
        start
        for start in range(first, time + 1)
        if (start - slices.offset_ms) % slices.every_ms == 0 and start <= time < start + slices.size_ms
    ]


def model(steps: list[Step], slices: Slices) -> tuple[list[Result], list[Event]]:
    """What each window gives, and the events that were too late for all of their windows."""
    contents: dict[tuple[int, str], list[int | None]] = {}
    late = []
    watermark = MIN_TIMESTAMP_MS
    for step in steps:
        for key, value, time in step.events:
            open_windows = [start for start in windows_of(time, slices) if start + slices.size_ms - 1 > watermark]
            if not open_windows:
                late.append((key, value, time))
            for start in open_windows:
                contents.setdefault((start, key), []).append(value)
        watermark = max(watermark, step.watermark_ms if step.watermark_ms is not None else watermark)
    results = []
    for (start, key), values in contents.items():
        known = [value for value in values if value is not None]
        total, top = (sum(known), max(known)) if known else (None, None)
        results.append((key, start, start + slices.size_ms, total, len(values), top))
    return sorted(results, key=str), late


def batch_of(events: list[Event], *, encoded: bool = False) -> pa.RecordBatch:
    keys = pa.array([key for key, _, _ in events])
    values = pa.array([value for _, value, _ in events], type=pa.int64())
    batch = pa.RecordBatch.from_arrays([keys.dictionary_encode() if encoded else keys, values], SCHEMA.names)
    timed: pa.RecordBatch = with_times(batch, np.array([time for _, _, time in events], dtype=np.int64))
    return timed


class Tasks:
    """One or two window tasks behind a partial aggregation; two get the key groups below 4 and the others."""

    def __init__(self, slices: Slices, late_tag: str | None = None) -> None:
        self._make = lambda: WindowColumnsOperator(plan(), slices, late_tag)
        self._partial = None if late_tag else Harness(PartialAggregateOperator(plan(), slices))
        self.tasks = [Harness(self._make())]
        self.late_records = 0
        self.results: list[Any] = []
        self.late: list[Any] = []

    def feed(self, batch: pa.RecordBatch) -> None:
        from cutwater.state.columnar.key_groups import RowRouting

        if self._partial is not None:
            self._partial.operator.process(batch, 0)
            (batch,) = self._partial.batches
            self._partial.batches.clear()
        parts = RowRouting(max_parallelism=8, receivers=len(self.tasks)).parts(batch, [batch.column("key")])
        for task, part in zip(self.tasks, parts, strict=True):
            if part.num_rows:
                task.operator.process(part, 0)

    def advance(self, watermark_ms: int) -> None:
        for task in self.tasks:
            task.operator.on_watermark(watermark_ms)

    def restore(self, count: int) -> None:
        """Kills all tasks and goes on with as many new ones as said, from a snapshot of the old."""
        self.collect()
        keyed = [chunk for task in self.tasks for chunk in task.freeze_keyed().chunks()]
        lists = [task.freeze() for task in self.tasks]
        merged = {name: [item for each in lists for item in each.get(name, [])] for name in lists[0]}
        old = len(self.tasks)
        ranges = [range(8)] if count == 1 else [range(4), range(4, 8)]
        self.tasks = [
            Harness(
                self._make(),
                keyed=[chunk for chunk in keyed if chunk[1] in groups],
                lists=merged if old else {},
                subtask=subtask,
                parallelism=count,
            )
            for subtask, groups in enumerate(ranges)
        ]

    def collect(self) -> None:
        for task in self.tasks:
            for batch in task.batches:
                assert batch.schema.equals(window_schema(plan()), check_metadata=True)
                times = times_of(batch)
                assert times is not None
                ends = batch.column("window_end").cast(pa.int64()).to_numpy()
                assert (times == ends - 1).all()
                self.results += rows_of(batch)
            task.batches.clear()
            self.late += [tuple(row) for _, rows in task.side for row in rows]
            task.side.clear()
            self.late_records += task.metrics.late_records
            task.metrics.late_records = 0


def played(tasks: Tasks, steps: list[Step], *, restores: dict[int, int], encoded: bool) -> list[Result]:
    for number, step in enumerate(steps):
        if number in restores:
            tasks.restore(restores[number])
        tasks.feed(batch_of(step.events, encoded=encoded))
        if step.watermark_ms is not None:
            tasks.advance(step.watermark_ms)
    tasks.advance(MAX_TIMESTAMP_MS)
    tasks.collect()
    return sorted(
        (
            (key, round(start.timestamp() * 1000), round(end.timestamp() * 1000), *rest)
            for key, start, end, *rest in tasks.results
        ),
        key=str,
    )


RESTORES = st.dictionaries(st.integers(0, 6), st.sampled_from([1, 2]), max_size=3)


@settings(max_examples=150)
@given(STEPS, SLICES, RESTORES, st.booleans())
def test_windows_hold_what_the_model_says_whatever_is_killed_and_rescaled(
    steps: list[Step], slices: Slices, restores: dict[int, int], encoded: bool
) -> None:
    tasks = Tasks(slices)
    expected, late = model(steps, slices)
    assert played(tasks, steps, restores=restores, encoded=encoded) == expected
    assert tasks.late_records == len(late)


@settings(max_examples=60)
@given(STEPS, SLICES, RESTORES)
def test_late_records_leave_by_their_side_output_whole(
    steps: list[Step], slices: Slices, restores: dict[int, int]
) -> None:
    tasks = Tasks(slices, late_tag="late")
    expected, late = model(steps, slices)
    assert played(tasks, steps, restores=restores, encoded=False) == expected
    assert sorted(tasks.late, key=str) == sorted([(key, value) for key, value, _ in late], key=str)
    assert tasks.late_records == 0


@given(SLICES, st.integers(-1000, 1000))
def test_the_windows_of_a_slice_are_those_that_hold_its_times(slices: Slices, time: int) -> None:
    (start,) = slices.starts_of(slices.numbers_of(np.array([time], dtype=np.int64))).tolist()
    assert start <= time < start + slices.step_ms
    assert list(slices.windows_of(start)) == windows_of(time, slices)
    assert all(start in slices.slices_of(window) for window in slices.windows_of(start))
