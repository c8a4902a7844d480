from __future__ import annotations

from tests.unit.runtime.task_rig import Rig

from cutwater.batches import ObjectBatch
from cutwater.operators.metrics import OperatorMetrics
from cutwater.operators.rows import FilterOperator, FlatMapOperator, MapOperator
from cutwater.runtime.accounts import Accounts


class Clock:
    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


def test_time_belongs_to_the_innermost_operator() -> None:
    clock = Clock()
    accounts = Accounts(clock)
    outer, inner = OperatorMetrics("outer"), OperatorMetrics("inner")
    clock.seconds = 10.0  # before any call: nobody's
    outside = accounts.turn(outer)
    clock.seconds += 1.0
    before = accounts.turn(inner)
    clock.seconds += 5.0
    accounts.turn(before)
    clock.seconds += 2.0
    accounts.turn(outside)
    clock.seconds += 100.0
    accounts.turn(outer)
    assert (outer.busy_seconds, inner.busy_seconds) == (3.0, 5.0)


def test_every_operator_of_a_chain_counts_what_it_gets_and_gives() -> None:
    rig = Rig([FlatMapOperator(str.split), FilterOperator(lambda word: word != "b"), MapOperator(str.upper)])
    rig.feed(0, ObjectBatch(["a b", "c"]))
    rig.feed(1, ObjectBatch(["b b b"]))
    counted = [(each.uid, each.records_in, each.records_out) for each in rig.metrics.operators]
    assert counted == [("o0", 3, 6), ("o1", 6, 2), ("o2", 2, 2)]


def test_what_was_told_does_not_change_later() -> None:
    rig = Rig([MapOperator(str.upper)])
    rig.feed(0, ObjectBatch(["a"]))
    told = rig.metrics.told()
    rig.feed(0, ObjectBatch(["b"]))
    assert told.operators[0].records_in == 1
    assert rig.metrics.told().operators[0].records_in == 2


def test_a_task_without_room_is_backpressured_until_it_has_some() -> None:
    rig = Rig([MapOperator(str.upper)])
    task = rig.task
    task.turn_begins(1.0)
    task.turn_ends(3.0, progressed=True)  # idle for 1 s, busy for 2 s
    task.turn_begins(4.0)
    task.backpressured = True  # this turn found no room
    task.turn_ends(4.5, progressed=False)
    task.turn_begins(14.5)  # others had their turns meanwhile
    task.backpressured = False
    task.turn_ends(15.5, progressed=True)
    metrics = rig.metrics
    assert (metrics.busy_seconds, metrics.idle_seconds, metrics.backpressured_seconds) == (3.0, 2.0, 10.5)
