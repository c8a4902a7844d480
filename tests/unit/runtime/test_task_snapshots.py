"""Where does a task write its part of a checkpoint, when several are under way?"""

from __future__ import annotations

from tests.unit.runtime.task_rig import Rig

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
