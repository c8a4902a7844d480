"""What does a task do about event time, whatever its operators compute?"""

from __future__ import annotations

import numpy as np
from tests.unit.runtime.task_rig import Rig

from cutwater.batches import Batch, ObjectBatch
from cutwater.graph.keys import KeySelector
from cutwater.operators.contract import Operator
from cutwater.operators.event_time import AssignTimestampsOperator, TimestampSelector
from cutwater.operators.union import PassOperator
from cutwater.protocol.elements import EndOfInput, Idle, Watermark
from cutwater.protocol.event_time import WatermarkStrategy
from cutwater.protocol.ids import CheckpointId
from cutwater.protocol.watermarks import MAX_TIMESTAMP_MS, MIN_TIMESTAMP_MS
from cutwater.runtime.routing import HashRouter


class Watching(Operator):
    """Hands on, and remembers when time came."""

    def __init__(self) -> None:
        self.seen: list[int] = []

    def process(self, batch: Batch, port: int) -> None:
        self.context.emit(batch)

    def on_watermark(self, timestamp_ms: int) -> None:
        self.seen.append(timestamp_ms)


def batch(*times: int) -> ObjectBatch:
    return ObjectBatch(list(times), np.array(times))


def test_a_watermark_follows_the_records_before_it() -> None:
    rig = Rig([PassOperator()])
    rig.feed(0, batch(1), Watermark(5))
    rig.feed(1, batch(2), Watermark(3))
    assert rig.sent() == [[1], [2], Watermark(3)]


def test_a_record_out_of_idleness_tells_every_receiver_that_time_waits_again() -> None:
    rig = Rig([PassOperator()], router=HashRouter(KeySelector(lambda _: 1), 8, 2, "next"))
    rig.feed(0, Watermark(5))
    rig.feed(1, Watermark(9), Idle())
    rig.feed(0, Idle())
    before = [rig.sent(0), rig.sent(1)]
    rig.feed(0, batch(7))
    assert before == [[Watermark(5), Watermark(9), Idle()]] * 2
    assert sorted([rig.sent(0), rig.sent(1)], key=len) == [[Watermark(9)], [Watermark(9), [7]]]


class Slowing(Operator):
    """Holds event time back by 2, as an outer join does."""

    forwards_time = False

    def process(self, batch: Batch, port: int) -> None:
        self.context.emit(batch)

    def on_watermark(self, timestamp_ms: int) -> None:
        self.context.emit_watermark(timestamp_ms - 2)


def test_an_operator_that_holds_time_back_still_says_that_its_input_is_idle() -> None:
    rig = Rig([PassOperator(), Slowing(), PassOperator()])
    for channel in (0, 1):
        rig.feed(channel, Watermark(5), Idle())
    assert rig.sent() == [Watermark(3), Idle()]


def test_a_task_without_a_watermark_yet_says_that_it_counts_by_promising_nothing() -> None:
    rig = Rig([PassOperator()])
    rig.feed(0, Idle())
    rig.feed(1, Idle(), batch(7))
    assert rig.sent() == [Idle(), Watermark(MIN_TIMESTAMP_MS), [7]]


def test_a_record_of_an_idle_channel_makes_it_count_at_once() -> None:
    rig = Rig([PassOperator()])
    rig.feed(0, Watermark(5))
    rig.feed(1, Watermark(5), Idle(), batch(7))
    rig.feed(0, Watermark(100))
    assert rig.sent() == [Watermark(5), [7]]
    rig.feed(1, Watermark(6))
    assert rig.sent() == [Watermark(6)]


def test_a_restored_task_goes_on_from_its_time_and_tells_it() -> None:
    before = Rig([Watching()])
    for channel in (0, 1):
        before.feed(channel, Watermark(40))
    after = Rig([Watching()], lists=lists_of(before))
    for channel in (0, 1):
        after.feed(channel, Watermark(30))
    assert (after.sent(), after.chain.operators[0].seen, after.metrics.watermark_ms) == ([Watermark(40)], [40], 40)


def lists_of(rig: Rig) -> dict[str, list[bytes]]:
    (_, frozen), *_ = rig.chain.freeze(CheckpointId(1))
    return {part.name: list(part.items) for part in frozen.lists}


def test_the_end_of_time_is_not_restored_since_there_may_be_more_input() -> None:
    before = Rig([Watching()])
    before.feed(0, Watermark(40))
    before.feed(1, Watermark(40))
    for channel in (0, 1):
        before.feed(channel, EndOfInput())
    assert before.metrics.watermark_ms == MAX_TIMESTAMP_MS
    assert Rig([Watching()], lists=lists_of(before)).metrics.watermark_ms == 40


def test_a_stopped_input_does_not_end_time() -> None:
    rig = Rig([Watching()])
    for channel in (0, 1):
        rig.feed(channel, Watermark(40), EndOfInput(complete=False))
    assert (rig.sent(), rig.metrics.watermark_ms) == ([Watermark(40), EndOfInput(complete=False)], 40)


def test_one_stopped_input_is_enough_for_time_to_stay() -> None:
    rig = Rig([Watching()])
    rig.feed(0, Watermark(40), EndOfInput())
    rig.feed(1, Watermark(30), EndOfInput(complete=False))
    assert (rig.sent(), rig.metrics.watermark_ms) == ([Watermark(30), EndOfInput(complete=False)], 30)


def test_the_metric_is_the_time_at_the_end_of_the_chain() -> None:
    assign = AssignTimestampsOperator(TimestampSelector(function=int), WatermarkStrategy("bounded", every_seconds=0.0))
    rig = Rig([Watching(), assign, PassOperator()])
    shown = []
    for channel in (0, 1):
        rig.feed(channel, Watermark(400))
    shown.append(rig.metrics.watermark_ms)
    rig.inputs[0].send(batch(-5))
    rig.task.step()
    shown.append(rig.metrics.watermark_ms)
    assert shown == [None, -6]


def test_records_of_a_shuffle_keep_their_times() -> None:
    router = HashRouter(KeySelector(lambda number: number % 2), 8, 2, "next")
    rig = Rig([PassOperator()], router=router)
    rig.feed(0, batch(1, 2, 3, 4))
    rig.task.outputs.flush()
    found = [element for output in rig.outputs for element in iter(output.poll, None)]
    assert sorted((value, time) for each in found for value, time in zip(each.values, each.times, strict=True)) == [
        (1, 1),
        (2, 2),
        (3, 3),
        (4, 4),
    ]
