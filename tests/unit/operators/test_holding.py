"""Do results that wait for newer ones of their key leave in time, and in front of what must be behind them?"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from cutwater.batches import Batch, ObjectBatch, rows_of, times_of, with_times
from cutwater.graph.keys import KeySelector
from cutwater.operators.aggregations import Aggregation
from cutwater.operators.columnar.partial import PartialAggregateOperator
from cutwater.operators.columnar.plan import plan_aggregates
from cutwater.operators.columnar.running import HeldColumnsOperator
from cutwater.operators.contract import Operator
from cutwater.operators.keyed import RunningCount, RunningReduce
from cutwater.protocol.ids import CheckpointId

SCHEMA = pa.schema([("key", pa.string())])
CHECKPOINT = CheckpointId(1)


class Counting:
    """A count that holds its results for a second; the same questions to both of its kinds."""

    def __init__(self, task: Any, *, typed: bool) -> None:
        plan = plan_aggregates(SCHEMA, ("key",), {"count": Aggregation("count", None)})
        assert plan is not None
        operator: Operator = HeldColumnsOperator(plan, 1.0) if typed else RunningCount(KeySelector(str), 1.0)
        self.task = task(operator)
        self.operator = operator
        self._before = task(PartialAggregateOperator(plan)) if typed else None

    def feed(self, *keys: str, time_ms: int | None = None) -> None:
        batch: Batch = ObjectBatch(list(keys)) if self._before is None else pa.record_batch([list(keys)], schema=SCHEMA)
        batch = batch if time_ms is None else with_times(batch, np.full(len(keys), time_ms, dtype=np.int64))
        if self._before is not None:
            self._before.operator.process(batch, 0)
            batch = self._before.batches.pop()
        self.operator.process(batch, 0)

    def pass_time(self, seconds: float) -> None:
        self.task.now_seconds += seconds
        self.task.wall_ms += round(seconds * 1000)
        self.fire()

    def fire(self) -> None:
        """As a task does when a timer is due."""
        due_ms = self.operator.next_wall_ms()
        if due_ms is not None and due_ms <= self.task.wall_ms:
            self.operator.on_wall_time(self.task.wall_ms)

    @property
    def output(self) -> list[Any]:
        """Keys and counts that were emitted since the last look."""
        taken = [tuple(row)[:2] for batch in self.task.batches for row in rows_of(batch)]
        self.task.batches.clear()
        return taken


@pytest.fixture(params=[True, False], ids=["on columns", "on values"])
def counting(task: Any, request: pytest.FixtureRequest) -> Counting:
    return Counting(task, typed=request.param)


def test_only_the_newest_result_of_each_key_leaves_after_a_while(counting: Counting) -> None:
    counting.feed("a", "b", "a")
    counting.pass_time(0.5)
    counting.feed("a", "c")
    assert counting.output == []
    counting.pass_time(0.5)
    assert sorted(counting.output) == [("a", 3), ("b", 1), ("c", 1)]


def test_a_key_that_has_not_changed_since_gives_no_result(counting: Counting) -> None:
    counting.feed("a", "b")
    counting.pass_time(1.0)
    assert sorted(counting.output) == [("a", 1), ("b", 1)]
    counting.feed("b")
    counting.pass_time(1.0)
    assert counting.output == [("b", 2)]


def test_without_results_no_timer_is_set(counting: Counting) -> None:
    assert counting.operator.next_wall_ms() is None
    counting.feed("a")
    assert counting.operator.next_wall_ms() == counting.task.wall_ms + 1000
    counting.pass_time(1.0)
    assert counting.operator.next_wall_ms() is None


def test_the_first_result_decides_when_all_leave(counting: Counting) -> None:
    counting.feed("a")
    for _ in range(7):
        counting.pass_time(0.125)
        counting.feed("a")
    assert counting.output == []
    counting.pass_time(0.125)
    assert counting.output == [("a", 8)]


def test_a_wall_clock_that_goes_back_an_hour_holds_nothing_back(counting: Counting) -> None:
    counting.feed("a")
    counting.task.wall_ms -= 3_600_000
    counting.pass_time(1.0)
    assert counting.output == [("a", 1)]


def test_results_leave_in_front_of_a_barrier(counting: Counting) -> None:
    counting.feed("a")
    counting.operator.before_freeze(CHECKPOINT)
    assert counting.output == [("a", 1)]


def test_results_leave_at_the_end_of_input(counting: Counting) -> None:
    counting.feed("a")
    counting.operator.on_end()
    assert counting.output == [("a", 1)]


def test_a_watermark_waits_for_the_results_in_front_of_it(counting: Counting) -> None:
    left: list[str] = []
    counting.operator.in_turn(lambda: left.append("before any record"))
    counting.feed("a")
    counting.operator.in_turn(lambda: left.append(f"behind {len(counting.task.batches)} batch"))
    assert left == ["before any record"]
    counting.pass_time(1.0)
    assert left == ["before any record", "behind 1 batch"]


def test_a_result_happened_when_the_last_of_the_held_records_did(counting: Counting) -> None:
    counting.feed("a", "b", time_ms=70)
    counting.feed("a", time_ms=50)
    counting.pass_time(1.0)
    times = times_of(counting.task.batches[0])
    assert times is not None
    assert times.tolist() == [70, 70]


def test_more_keys_come_while_others_are_held(counting: Counting) -> None:
    for number in range(200):
        counting.feed("a", f"key-{number}")
    counting.pass_time(1.0)
    output = counting.output
    assert len(output) == 201
    assert dict(output)["a"] == 200


def test_a_held_result_is_not_changed_by_a_function_that_works_in_place(task: Any) -> None:
    def appended(list_so_far: list[Any], other: list[Any]) -> list[Any]:
        list_so_far += other
        return list_so_far

    chain = task(RunningReduce(KeySelector(lambda record: record[0]), appended, 1.0))
    chain.feed(["a"], ["a"])
    chain.operator.before_freeze(CHECKPOINT)
    (first,) = chain.output
    chain.feed(["a"])
    assert first == ["a", "a"]
