"""Whose turn is it? What user code writes meanwhile is taken to be this task's."""

from __future__ import annotations

from dataclasses import dataclass

from cutwater.protocol.ids import TaskId


@dataclass(slots=True)
class Turn:
    """Set by the slot's loop, often: two attributes and nothing else. Any thread may read it."""

    attempt: int = 0
    task: TaskId | None = None
