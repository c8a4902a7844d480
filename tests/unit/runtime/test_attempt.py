"""Who may say what about an attempt?"""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from cutwater.protocol.deploying import DeployingSlots
from cutwater.protocol.ids import AttemptNumber, CheckpointId, SlotId, TaskId
from cutwater.runtime import messages
from cutwater.runtime.attempt import Attempt
from cutwater.runtime.failures import FailureReport

ONE, TWO, STRANGER = SlotId("slot-0"), SlotId("slot-1"), SlotId("evil")
NUMBER, CHECKPOINT = AttemptNumber(1), CheckpointId(1)
OF_THE_FIRST_TASK: list[Any] = [
    messages.SplitRequested(NUMBER, "source", 0),
    messages.SplitProgressed(NUMBER, "source", 0, 1, b""),
    messages.OperatorOpening(NUMBER, TaskId("count", 0), "count"),
    messages.SnapshotRefused(NUMBER, CHECKPOINT, TaskId("count", 0), "no"),
    messages.TaskFinished(NUMBER, TaskId("count", 0)),
    messages.TaskCommitted(NUMBER, TaskId("count", 0), CHECKPOINT),
    messages.TaskFailed(NUMBER, TaskId("count", 0), FailureReport("StorageError", "no")),
]
OF_ANY: list[Any] = [
    messages.AttemptDeployed(NUMBER, 0.0),
    messages.FirstRecordProcessed(NUMBER),
    messages.ConnectorReport(NUMBER, "out", 1),
]


@pytest.fixture
def attempt(two_tasks: Any) -> Attempt:
    deploying = DeployingSlots([ONE, TWO], now_seconds=0.0, timeout_seconds=1.0)
    return Attempt(NUMBER, token="t", graph=two_tasks, slots=[ONE, TWO], sinks=set(), deploying=deploying)


@pytest.fixture
def two_tasks() -> Any:
    class Vertex:
        uid = "count"
        parallelism = 2

    class Graph:
        vertices = (Vertex(),)

    return Graph()


@pytest.mark.parametrize("message", OF_THE_FIRST_TASK, ids=lambda message: type(message).__name__)
def test_a_slot_speaks_for_its_own_tasks_only(attempt: Attempt, message: Any) -> None:
    assert [attempt.may_say(slot, message) for slot in (ONE, TWO, STRANGER)] == [True, False, False]


@pytest.mark.parametrize("message", OF_ANY, ids=lambda message: type(message).__name__)
def test_a_slot_without_tasks_has_no_say(attempt: Attempt, message: Any) -> None:
    assert [attempt.may_say(slot, message) for slot in (ONE, TWO, STRANGER)] == [True, True, False]


@pytest.mark.parametrize("message", [*OF_THE_FIRST_TASK, *OF_ANY], ids=lambda message: type(message).__name__)
@pytest.mark.parametrize("number", [0, 2])
def test_nobody_has_a_say_for_another_attempt(attempt: Attempt, message: Any, number: int) -> None:
    assert not attempt.may_say(ONE, msgspec.structs.replace(message, attempt=AttemptNumber(number)))


@pytest.mark.parametrize("subtask", [-1, 2, 10**9])
def test_a_subtask_that_does_not_exist_belongs_to_no_slot(attempt: Attempt, subtask: int) -> None:
    assert not any(attempt.may_say(slot, messages.SplitRequested(NUMBER, "s", subtask)) for slot in (ONE, TWO))
