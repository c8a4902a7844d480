"""What names a checkpoint, an attempt, a slot, a task?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NewType

CheckpointId = NewType("CheckpointId", int)
AttemptNumber = NewType("AttemptNumber", int)
SlotId = NewType("SlotId", str)


@dataclass(frozen=True, slots=True, order=True)
class TaskId:
    """One parallel instance of a chain; `vertex` is the uid of the chain's first operator."""

    vertex: str
    subtask: int

    def __str__(self) -> str:
        return f"{self.vertex}[{self.subtask}]"
