"""Which tasks of an attempt are where, and how far are they?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

from cutwater.graph.model import ExecutionGraph
from cutwater.protocol.deploying import DeployingSlots
from cutwater.protocol.ids import AttemptNumber, CheckpointId, SlotId, TaskId
from cutwater.runtime import messages


def tasks_of(graph: ExecutionGraph) -> list[TaskId]:
    """Every task, in topological order."""
    return [TaskId(vertex.uid, subtask) for vertex in graph.vertices for subtask in range(vertex.parallelism)]


class Attempt:
    """The coordinator's book about one attempt. Subtask i of every chain is in the i-th slot."""

    def __init__(
        self,
        number: AttemptNumber,
        *,
        token: str,
        graph: ExecutionGraph,
        sinks: set[str],
        slots: Sequence[SlotId],
        deploying: DeployingSlots,
    ) -> None:
        self.number = number
        self.token = token
        self.slots = list(slots)
        self.tasks = tasks_of(graph)
        self.slot_of = {task: self.slots[task.subtask] for task in self.tasks}
        self.deploying = deploying
        self._unfinished = set(self.tasks)
        self._with_sinks = {task for task in self.tasks if task.vertex in sinks}
        self._committed: dict[TaskId, CheckpointId] = {}
        self.restore_seconds = 0.0
        self.started = False
        self.final: CheckpointId | None = None

    def may_say(self, slot: SlotId, message: messages.OfAttempt) -> bool:
        """A slot speaks for its own tasks in this attempt, and only if it has some: registering alone gives no say."""
        if message.attempt != self.number:
            return False
        match message:
            case messages.SplitRequested() | messages.SplitsFinished() | messages.SplitProgressed():
                return 0 <= message.subtask < len(self.slots) and self.slots[message.subtask] == slot
            case (
                messages.OperatorOpening()
                | messages.SnapshotWritten()
                | messages.SnapshotRefused()
                | messages.TaskFinished()
                | messages.TaskCommitted()
                | messages.TaskFailed()
            ):
                return self.slot_of.get(message.task) == slot
            case messages.AttemptDeployed() | messages.FirstRecordProcessed() | messages.ConnectorReport():
                return slot in self.slots
            case _:
                assert_never(message)

    def tasks_in(self, slot: SlotId) -> tuple[TaskId, ...]:
        return tuple(task for task in self.tasks if self.slot_of[task] == slot)

    def deployed(self, slot: SlotId, restore_seconds: float) -> bool:
        """True when this was the last slot to report."""
        self.restore_seconds = max(self.restore_seconds, restore_seconds)
        return self.deploying.deployed(slot)

    def finished(self, task: TaskId) -> bool:
        """True when this was the last task to finish."""
        was_unfinished = task in self._unfinished
        self._unfinished.discard(task)
        return was_unfinished and not self._unfinished

    def committed(self, task: TaskId, checkpoint: CheckpointId) -> None:
        self._committed[task] = max(checkpoint, self._committed.get(task, checkpoint))

    @property
    def over(self) -> bool:
        """The final checkpoint is complete, and every sink has committed it."""
        final = self.final
        return final is not None and all(
            self._committed.get(task, CheckpointId(-1)) >= final for task in self._with_sinks
        )
