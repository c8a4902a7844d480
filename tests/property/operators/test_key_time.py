"""Tasks that see the same elements interleaved otherwise, with idle channels in between, rescaled and rescaled again:
each key must give what it would give in a task of its own that nothing ever happens to.

The time of such a task is the furthest that any task of the key has come to. So each window fires at most once, nothing
is late that was in time, and nothing in time that was late.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.operators.conftest import Harness
from tests.unit.operators.several_tasks import SeveralTasks, Timed, objects
from tests.unit.operators.windowing import operator_of

import cutwater as cw
from cutwater.batches import Batch, with_times
from cutwater.graph.keys import KeySelector
from cutwater.operators.aggregations import Aggregation
from cutwater.operators.columnar.plan import plan_aggregates
from cutwater.operators.columnar.slices import Slices
from cutwater.operators.columnar.window import WindowColumnsOperator
from cutwater.operators.contract import Operator
from cutwater.operators.joins.inputs import JoinInputs
from cutwater.operators.joins.interval import IntervalJoinOperator, OuterIntervalJoinOperator
from cutwater.operators.joins.lookup import EventTimeLookupOperator, LookupInputs
from cutwater.operators.joins.pairing import TuplePairing
from cutwater.operators.joins.windowed import AlignedWindowJoinOperator, SessionWindowJoinOperator
from cutwater.operators.process import KeyedProcessOperator
from cutwater.operators.windows.model import AlignedWindows, SessionWindows
from cutwater.protocol.group_time import TaskTime, restored_watermark
from cutwater.protocol.watermarks import (
    MIN_TIMESTAMP_MS,
    AdvanceWatermark,
    ChannelFinished,
    ChannelIdled,
    ChannelResumed,
    Event,
    WatermarkArrived,
    WatermarkMerger,
)

KEYS = "acdefh"  # in six of the eight key groups
CHANNELS = 2

Record = tuple[str, int]
"""Key and event time. Its number is given when it is sent, so that all records differ."""


@dataclass(frozen=True)
class Step:
    """What comes next in a channel: records, then perhaps a watermark (None: none), and perhaps it falls idle."""

    channel: int
    records: list[Record]
    watermark_ms: int | None
    idle: bool


@dataclass(frozen=True)
class Run:
    """What happens between two snapshots. Each task takes the channels in an order of its own."""

    parallelism: int
    steps: list[Step]
    orders: list[list[int]]


RECORDS = st.lists(st.tuples(st.sampled_from(KEYS), st.integers(0, 60)), min_size=1, max_size=6)
WATERMARKS = st.integers(0, 60)
STEPS = st.lists(
    st.builds(Step, st.integers(0, CHANNELS - 1), RECORDS, WATERMARKS | WATERMARKS | st.none(), st.booleans()),
    min_size=2,
    max_size=7,
)
ORDERS = st.lists(st.lists(st.integers(0, CHANNELS - 1), min_size=3, max_size=8), min_size=4, max_size=4)


def runs_of(*parallelisms: int) -> st.SearchStrategy[list[Run]]:
    return st.tuples(*(st.builds(Run, st.just(parallelism), STEPS, ORDERS) for parallelism in parallelisms)).map(list)


RUNS = st.lists(st.integers(1, 4), min_size=1, max_size=2).flatmap(lambda later: runs_of(3, *later)) | runs_of(2, 1, 3)


@dataclass
class Tasks:
    """The tasks of one operator, and beside them one per key that nothing ever happens to."""

    build: Callable[[], Operator]
    batch_of: Callable[[Iterable[Timed]], Batch]
    ports: int
    results: defaultdict[str, list[Any]] = field(default_factory=lambda: defaultdict(list))

    def __post_init__(self) -> None:
        self._tasks: SeveralTasks | None = None
        self._mergers: list[WatermarkMerger] = []
        self._numbered = 0
        self._alone = {key: Harness(self.build()) for key in KEYS}
        self._reached = dict.fromkeys(KEYS, MIN_TIMESTAMP_MS)

    def play(self, runs: list[Run]) -> None:
        for run in runs:
            self._restart(run.parallelism)
            channels: list[list[tuple[int, Step]]] = [[] for _ in range(CHANNELS)]
            for step in run.steps:
                channels[step.channel].append((self._numbered, step))
                self._numbered += 1
            for subtask in range(run.parallelism):
                for number, step in _interleaved(channels, run.orders[subtask]):
                    self._take(subtask, number, step)
        for subtask in range(runs[-1].parallelism):
            for channel in range(CHANNELS):
                self._tell(subtask, ChannelFinished(channel))
        self._collect()

    def _restart(self, parallelism: int) -> None:
        told = [
            TaskTime(subtask, len(self._mergers), merger.watermark_ms)
            for subtask, merger in enumerate(self._mergers)
            if merger.watermark_ms is not None
        ]
        self._collect()
        if self._tasks is None:
            self._tasks = SeveralTasks(self.build, parallelism, batch_of=self.batch_of)
        else:
            self._tasks = self._tasks.rescaled(parallelism)
        self._mergers = []
        for subtask in range(parallelism):
            restored_ms = restored_watermark(told, subtask=subtask, parallelism=parallelism)
            known = None if restored_ms == MIN_TIMESTAMP_MS else restored_ms
            self._mergers.append(WatermarkMerger(range(CHANNELS), known))
            if known is not None:
                self._advance(subtask, known)

    def _take(self, subtask: int, number: int, step: Step) -> None:
        assert self._tasks is not None
        numbered = [((key, 100 * number + index), time) for index, (key, time) in enumerate(step.records)]
        task = self._tasks.tasks[subtask]
        own = [timed for timed in numbered if self._tasks.task_of(timed[0][0]) is task]
        if own:
            self._tell(subtask, ChannelResumed(step.channel))
            port = number % self.ports
            task.operator.process(self.batch_of(own), port)
            for key in KEYS:
                if of_key := [timed for timed in own if timed[0][0] == key]:
                    self._alone[key].operator.process(self.batch_of(of_key), port)
        if step.watermark_ms is not None:
            self._tell(subtask, WatermarkArrived(step.channel, step.watermark_ms))
        if step.idle:
            self._tell(subtask, ChannelIdled(step.channel))

    def _tell(self, subtask: int, event: Event) -> None:
        for effect in self._mergers[subtask].handle(event):
            if isinstance(effect, AdvanceWatermark):
                self._advance(subtask, effect.timestamp_ms)

    def _advance(self, subtask: int, timestamp_ms: int) -> None:
        assert self._tasks is not None
        task = self._tasks.tasks[subtask]
        task.operator.on_watermark(timestamp_ms)
        for key in KEYS:
            if self._tasks.task_of(key) is task and timestamp_ms > self._reached[key]:
                self._reached[key] = timestamp_ms
                self._alone[key].operator.on_watermark(timestamp_ms)

    def _collect(self) -> None:
        if self._tasks is not None:
            for row in [*self._tasks.output, *map(_late, self._tasks.side)]:
                self.results[_key_of(row)].append(row)

    @property
    def expected(self) -> dict[str, list[Any]]:
        found = {
            key: [*task.output, *(_late(row) for _, rows in task.side for row in rows)]
            for key, task in self._alone.items()
        }
        return {key: rows for key, rows in found.items() if rows}


def _interleaved(channels: list[list[tuple[int, Step]]], order: list[int]) -> Iterator[tuple[int, Step]]:
    """All steps, those of each channel in order: the channels as the order says, then what is left."""
    waiting = [list(steps) for steps in channels]
    for channel in order:
        if waiting[channel]:
            yield waiting[channel].pop(0)
    yield from (step for steps in waiting for step in steps)


def _late(row: Any) -> tuple[Any, ...]:
    return (*row[:2], "late")


def _key_of(row: Any) -> str:
    first = row[0] if row[0] is not None else row[1]
    return first if isinstance(first, str) else first[0]


# The operators.


class Watch:
    """Timers before and behind the record; all of it says how far event time is."""

    def open(self, context: Any) -> None:
        self.seen = context.value_state("seen", 0)

    def process(self, record: Any, context: Any) -> Iterator[Any]:
        self.seen.update(self.seen.value() + 1)
        context.register_event_timer(context.timestamp_ms + record[1] % 7 * 5 - 15)
        yield *record, context.watermark_ms

    def on_timer(self, time_ms: int, context: Any) -> Iterator[Any]:
        if self.seen.value() % 3 == 0:
            self.seen.update(self.seen.value() + 1)
            context.register_event_timer(time_ms + 4)
        yield context.current_key, time_ms, self.seen.value(), context.watermark_ms


def windows(window: Any, **settings: Any) -> Callable[[], Operator]:
    def written(keyed: Any) -> Any:
        made = keyed.window(window).late_output("late").allowed_lateness(settings.get("lateness", "0ms"))
        if "trigger" in settings:
            made = made.trigger(settings["trigger"])
        return made.aggregate(n=cw.agg.count(), s=cw.agg.sum(1))

    return lambda: operator_of(written)


FIRST = KeySelector(lambda record: record[0])
SCHEMA = pa.schema([("key", pa.string()), ("value", pa.int64())])
PLAN = plan_aggregates(SCHEMA, ["key"], {"s": Aggregation("sum", "value")}, count_rows=True)


def columns(timed: Iterable[Timed]) -> Batch:
    timed = list(timed)
    arrays = [pa.array([record[0] for record, _ in timed]), pa.array([record[1] for record, _ in timed], pa.int64())]
    return with_times(
        pa.RecordBatch.from_arrays(arrays, schema=SCHEMA), np.array([time for _, time in timed], np.int64)
    )


def on_columns(slices: Slices) -> Callable[[], Operator]:
    assert PLAN is not None
    return lambda: WindowColumnsOperator(PLAN, slices, late_tag="late")


def joined(how: Any = "inner") -> JoinInputs:
    return JoinInputs((FIRST, FIRST), TuplePairing(), how, ("late", "late"))


LOOKUP = LookupInputs(FIRST, FIRST, TuplePairing(), keeps_unmatched=True, stream_key=FIRST, late_tag="late")
ALIGNED = AlignedWindows(size_ms=20, every_ms=10, offset_ms=0, time="event")
SESSIONS = SessionWindows(gap_ms=7, gap_function=None, time="event")

ONE_INPUT: dict[str, Callable[[], Operator]] = {
    "function": lambda: KeyedProcessOperator(FIRST, Watch()),
    "tumbling": windows(cw.tumbling("10ms")),
    "tumbling with lateness": windows(cw.tumbling("10ms"), lateness="7ms"),
    "sliding": windows(cw.sliding("20ms", every="5ms")),
    "sessions": windows(cw.session("7ms")),
    "sessions with lateness": windows(cw.session("7ms"), lateness="9ms"),
    "continuous": windows(cw.tumbling("30ms"), trigger=cw.triggers.continuous_event("4ms")),
    "purging": windows(cw.tumbling("30ms"), trigger=cw.triggers.purging(cw.triggers.event_time()), lateness="20ms"),
}
COLUMNS = {
    "tumbling": on_columns(Slices(10, 10)),
    "sliding": on_columns(Slices(20, 5)),
    "gaps": on_columns(Slices(4, 9)),
}
TWO_INPUTS: dict[str, Callable[[], Operator]] = {
    "interval join": lambda: IntervalJoinOperator(joined(), -8, 5),
    "left interval join": lambda: OuterIntervalJoinOperator(joined("left"), -8, 5),
    "full interval join": lambda: OuterIntervalJoinOperator(joined("full"), 2, 9),
    "window join": lambda: AlignedWindowJoinOperator(joined("full"), ALIGNED),
    "session join": lambda: SessionWindowJoinOperator(joined("full"), SESSIONS),
}
EXAMPLES = 40


def check(build: Callable[[], Operator], runs: list[Run], *, ports: int = 1, batch_of: Any = objects) -> None:
    tasks = Tasks(build, batch_of, ports)
    tasks.play(runs)
    in_order = {key: sorted(rows, key=repr) for key, rows in tasks.results.items()}
    assert in_order == {key: sorted(rows, key=repr) for key, rows in tasks.expected.items()}


@pytest.mark.parametrize("name", ONE_INPUT)
@settings(max_examples=EXAMPLES)
@given(runs=RUNS)
def test_windows_and_functions_give_each_key_what_a_task_of_its_own_would(name: str, runs: list[Run]) -> None:
    check(ONE_INPUT[name], runs)


@pytest.mark.parametrize("name", COLUMNS)
@settings(max_examples=EXAMPLES)
@given(runs=RUNS)
def test_windows_on_columns_give_each_key_what_a_task_of_its_own_would(name: str, runs: list[Run]) -> None:
    check(COLUMNS[name], runs, batch_of=columns)


@pytest.mark.parametrize("name", TWO_INPUTS)
@settings(max_examples=EXAMPLES)
@given(runs=RUNS)
def test_joins_give_each_key_what_a_task_of_its_own_would(name: str, runs: list[Run]) -> None:
    check(TWO_INPUTS[name], runs, ports=2)


@settings(max_examples=EXAMPLES)
@given(runs=RUNS)
def test_lookups_give_each_key_what_a_task_of_its_own_would(runs: list[Run]) -> None:
    check(lambda: EventTimeLookupOperator(LOOKUP), runs)
