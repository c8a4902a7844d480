"""Where does a task write its part of a checkpoint, when several are under way?"""

from __future__ import annotations

from tests.unit.runtime.task_rig import Rig

from cutwater.batches import ObjectBatch
from cutwater.operators.contract import FrozenList, LatePart, OperatorSnapshot
from cutwater.operators.union import PassOperator
from cutwater.protocol.elements import Barrier, EndOfInput
from cutwater.protocol.ids import CheckpointId

FIRST, SECOND = CheckpointId(3), CheckpointId(4)
SAVEPOINT = "memory://savepoints/savepoint-job-3"


def test_a_savepoint_of_which_the_task_sees_no_barrier_goes_where_its_trigger_said() -> None:
    rig = Rig([PassOperator()])
    rig.task.trigger(FIRST, 0, SAVEPOINT)
    rig.feed(0, EndOfInput())
    rig.feed(1, EndOfInput())
    assert rig.written == {FIRST: SAVEPOINT}


def test_a_newer_checkpoint_that_is_cancelled_leaves_an_older_savepoint_where_it_was() -> None:
    rig = Rig([PassOperator()])
    rig.task.trigger(FIRST, 0, SAVEPOINT)
    rig.task.trigger(SECOND, 0, "")
    rig.task.cancel(SECOND)
    rig.feed(0, EndOfInput())
    rig.feed(1, EndOfInput())
    assert rig.written == {FIRST: SAVEPOINT}


def test_a_cancelled_savepoint_is_forgotten() -> None:
    rig = Rig([PassOperator()])
    rig.task.trigger(FIRST, 0, SAVEPOINT)
    rig.task.cancel(FIRST)
    rig.feed(0, Barrier(FIRST, SAVEPOINT), Barrier(SECOND))
    rig.feed(1, Barrier(SECOND))
    assert rig.written == {SECOND: ""}


class Late(PassOperator):
    """Knows a part of its snapshots later, and has room or not."""

    def __init__(self) -> None:
        self.parts: list[LatePart] = []
        self.room = True

    def has_room(self) -> bool:
        return self.room

    def freeze(self, checkpoint: CheckpointId) -> OperatorSnapshot:
        self.parts.append(LatePart())
        return OperatorSnapshot(lists=(FrozenList("early", (b"1",)),), late=self.parts[-1])


def test_the_barrier_goes_on_while_the_snapshot_waits_for_its_late_part() -> None:
    late = Late()
    rig = Rig([late])
    rig.feed(0, Barrier(FIRST))
    rig.feed(1, Barrier(FIRST))
    assert (rig.sent(), rig.written) == ([Barrier(FIRST)], {})


def test_a_snapshot_is_written_with_its_late_part() -> None:
    late = Late()
    rig = Rig([late])
    rig.feed(0, Barrier(FIRST))
    rig.feed(1, Barrier(FIRST))
    late.parts[0].known(OperatorSnapshot(lists=(FrozenList("late", (b"2",)),)))
    (state,) = rig.states[FIRST]
    assert [(items.name, items.items) for items in state[1].lists] == [("early", (b"1",)), ("late", (b"2",))]


def test_a_snapshot_waits_for_all_its_late_parts() -> None:
    one, other = Late(), Late()
    rig = Rig([one, other])
    rig.feed(0, Barrier(FIRST))
    rig.feed(1, Barrier(FIRST))
    other.parts[0].known(OperatorSnapshot())
    early = dict(rig.written)
    one.parts[0].known(OperatorSnapshot())
    assert (early, rig.written) == ({}, {FIRST: ""})


def test_a_task_without_room_takes_nothing_and_says_so() -> None:
    late = Late()
    late.room = False
    rig = Rig([late])
    rig.feed(0, ObjectBatch([1]))
    without = (rig.sent(), rig.task.backpressured)
    late.room = True
    while rig.task.step():
        pass
    rig.task.step()
    assert (without, rig.sent()) == (([], True), [[1]])
