"""In which state is a job or a task, and where can it go from there?"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType

from cutwater.errors import InternalError


class JobState(StrEnum):
    """A job through all its attempts."""

    CREATED = "created"
    WAITING_FOR_SLOTS = "waiting_for_slots"
    DEPLOYING = "deploying"
    RUNNING = "running"
    FINISHING = "finishing"
    RESTARTING = "restarting"
    CANCELLING = "cancelling"
    FINISHED = "finished"
    CANCELLED = "cancelled"
    FAILED = "failed"

    @property
    def terminal(self) -> bool:
        """Nothing follows."""
        return not JOB_TRANSITIONS[self]


class TaskState(StrEnum):
    """A task within one attempt."""

    DEPLOYED = "deployed"
    RUNNING = "running"
    FINISHED = "finished"
    DROPPED = "dropped"
    FAILED = "failed"

    @property
    def terminal(self) -> bool:
        """Nothing follows."""
        return not TASK_TRANSITIONS[self]


JOB_TRANSITIONS: Mapping[JobState, frozenset[JobState]] = MappingProxyType(
    {
        JobState.CREATED: frozenset({JobState.WAITING_FOR_SLOTS, JobState.CANCELLING, JobState.FAILED}),
        JobState.WAITING_FOR_SLOTS: frozenset(
            {JobState.DEPLOYING, JobState.RESTARTING, JobState.CANCELLING, JobState.FAILED}
        ),
        JobState.DEPLOYING: frozenset({JobState.RUNNING, JobState.RESTARTING, JobState.CANCELLING, JobState.FAILED}),
        JobState.RUNNING: frozenset({JobState.FINISHING, JobState.RESTARTING, JobState.CANCELLING, JobState.FAILED}),
        JobState.FINISHING: frozenset({JobState.FINISHED, JobState.RESTARTING, JobState.CANCELLING, JobState.FAILED}),
        # Survivors may suffice: then nobody has to be waited for.
        JobState.RESTARTING: frozenset(
            {JobState.WAITING_FOR_SLOTS, JobState.DEPLOYING, JobState.CANCELLING, JobState.FAILED}
        ),
        JobState.CANCELLING: frozenset({JobState.CANCELLED, JobState.FAILED}),
        JobState.FINISHED: frozenset(),
        JobState.CANCELLED: frozenset(),
        JobState.FAILED: frozenset(),
    }
)

TASK_TRANSITIONS: Mapping[TaskState, frozenset[TaskState]] = MappingProxyType(
    {
        TaskState.DEPLOYED: frozenset({TaskState.RUNNING, TaskState.DROPPED, TaskState.FAILED}),
        TaskState.RUNNING: frozenset({TaskState.FINISHED, TaskState.DROPPED, TaskState.FAILED}),
        # It still waits for the last checkpoint, and has to commit it.
        TaskState.FINISHED: frozenset({TaskState.DROPPED, TaskState.FAILED}),
        TaskState.DROPPED: frozenset(),
        TaskState.FAILED: frozenset(),
    }
)


class JobLifecycle:
    """The state of one job; moves only along declared transitions."""

    def __init__(self, state: JobState = JobState.CREATED) -> None:
        self._state = state

    @property
    def state(self) -> JobState:
        """Where the job is."""
        return self._state

    @property
    def terminal(self) -> bool:
        """Nothing follows."""
        return self._state.terminal

    def move(self, to: JobState) -> None:
        """Raises `InternalError` and stays where it is if the transition isn't declared."""
        if to not in JOB_TRANSITIONS[self._state]:
            raise _undeclared("job", self._state, to)
        self._state = to


class TaskLifecycle:
    """The state of one task; moves only along declared transitions."""

    def __init__(self, state: TaskState = TaskState.DEPLOYED) -> None:
        self._state = state

    @property
    def state(self) -> TaskState:
        """Where the task is."""
        return self._state

    @property
    def terminal(self) -> bool:
        """Nothing follows."""
        return self._state.terminal

    def move(self, to: TaskState) -> None:
        """Raises `InternalError` and stays where it is if the transition isn't declared."""
        if to not in TASK_TRANSITIONS[self._state]:
            raise _undeclared("task", self._state, to)
        self._state = to


def _undeclared(what: str, before: StrEnum, after: StrEnum) -> InternalError:
    return InternalError(f'a {what} can\'t go from "{before}" to "{after}"', detail="the transition is not declared")
