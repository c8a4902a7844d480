"""When does a task end, and what passes, while an operator in it still has something to emit?"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.unit.runtime.task_rig import Rig

from cutwater.batches import Batch, ObjectBatch
from cutwater.operators.contract import Operator
from cutwater.operators.union import PassOperator
from cutwater.protocol.elements import Barrier, EndOfInput, Idle, Watermark
from cutwater.protocol.ids import CheckpointId
from cutwater.protocol.watermarks import MAX_TIMESTAMP_MS
from cutwater.runtime.messages import TaskFinished

CHECKPOINT = CheckpointId(1)
END = [Watermark(MAX_TIMESTAMP_MS), EndOfInput()]


class Holding(Operator):
    """Keeps what comes in until the test lets it go."""

    def __init__(self, rows_max: int = 100) -> None:
        self._rows_max = rows_max
        self._held: list[Callable[[], None]] = []
        self.started = False

    def on_start(self) -> None:
        self.started = True

    def process(self, batch: Batch, port: int) -> None:
        self._held.append(lambda: self.context.emit(batch))

    def has_room(self) -> bool:
        return len(self._held) < self._rows_max

    def has_room_ahead_of_barrier(self) -> bool:
        return True

    def in_turn(self, leave: Callable[[], None]) -> None:
        self._held.append(leave) if self._held else leave()

    def drained(self) -> bool:
        return not self._held

    def let_go(self) -> None:
        held, self._held = self._held, []
        for leave in held:
            leave()


class Timed(Holding):
    """Has a timer that is due."""

    def next_wall_ms(self) -> int:
        return 0


class Full(PassOperator):
    """Takes nothing."""

    def has_room(self) -> bool:
        return False


class Last(PassOperator):
    """Emits one more record at its end."""

    def on_end(self) -> None:
        self.context.emit(ObjectBatch(["last"]))


def finished(rig: Rig) -> bool:
    return any(isinstance(message, TaskFinished) for message in rig.told)


def end(rig: Rig) -> None:
    rig.feed(0, EndOfInput())
    rig.feed(1, EndOfInput())


def test_the_end_leaves_behind_what_is_still_held() -> None:
    holding = Holding()
    rig = Rig([holding])
    rig.feed(0, ObjectBatch([1]))
    end(rig)
    early = rig.sent(), finished(rig)
    holding.let_go()
    rig.task.step()
    assert (early, rig.sent(), finished(rig)) == (([], False), [[1], *END], True)


def test_operators_below_learn_of_the_end_behind_what_is_still_held() -> None:
    holding = Holding()
    rig = Rig([holding, Last()])
    rig.feed(0, ObjectBatch([1]))
    end(rig)
    holding.let_go()
    rig.task.step()
    assert rig.sent() == [[1], Watermark(MAX_TIMESTAMP_MS), ["last"], EndOfInput()]


def test_a_barrier_passes_while_the_end_is_held_up() -> None:
    holding = Holding()
    rig = Rig([holding])
    rig.feed(0, ObjectBatch([1]))
    end(rig)
    rig.task.trigger(CHECKPOINT, 0, "")
    early = rig.sent(), list(rig.written)
    holding.let_go()
    rig.task.step()
    assert (early, rig.sent()) == (([Barrier(CHECKPOINT)], [CHECKPOINT]), [[1], *END])


def test_a_snapshot_that_the_end_releases_is_taken_while_the_end_is_held_up() -> None:
    rig = Rig([Holding()])
    rig.feed(0, ObjectBatch([1]), Barrier(CHECKPOINT))
    rig.feed(1, EndOfInput())
    assert (rig.sent(), list(rig.written)) == ([Barrier(CHECKPOINT)], [CHECKPOINT])


def test_a_task_that_ends_wants_no_turn_by_the_clock() -> None:
    rig = Rig([Timed()])
    rig.inputs[0].send(ObjectBatch([1]))
    for channel in rig.inputs:
        channel.send(EndOfInput())
    for _ in range(3):
        rig.task.step()
    assert (rig.task.step(), rig.task.wake_at()) == (False, None)


def test_signs_of_idleness_keep_their_place_among_records() -> None:
    holding = Holding()
    rig = Rig([holding])
    rig.feed(0, ObjectBatch([1]), Watermark(5), Idle())
    rig.feed(1, Watermark(5), Idle())
    early = rig.sent()
    holding.let_go()
    assert (early, rig.sent()) == ([], [[1], Watermark(5), Idle()])


def test_a_task_without_room_takes_nothing() -> None:
    rig = Rig([Holding(rows_max=1)])
    rig.feed(0, ObjectBatch([1]), Barrier(CHECKPOINT))
    rig.feed(1, Barrier(CHECKPOINT))
    assert (rig.sent(), rig.task.backpressured) == ([], True)


def test_what_is_emitted_while_there_is_no_room_leaves_the_task() -> None:
    full = Full()
    rig = Rig([full])
    full.context.emit(ObjectBatch([1]))
    rig.task.step()
    assert rig.sent() == [[1]]


def test_a_barrier_that_is_expected_needs_no_room() -> None:
    rig = Rig([Holding(rows_max=1)])
    rig.task.trigger(CHECKPOINT, 0, "")
    rig.feed(0, ObjectBatch([1]), ObjectBatch([2]), Barrier(CHECKPOINT))
    rig.feed(1, Barrier(CHECKPOINT))
    assert rig.sent() == [Barrier(CHECKPOINT)]


def test_operators_are_told_when_they_may_emit_by_themselves() -> None:
    holding: Any = Holding()
    Rig([holding])
    assert holding.started
