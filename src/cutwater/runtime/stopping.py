"""How does a job end on request: with all that was read at its sinks, and perhaps a savepoint?

    the sources end → everything has arrived → the savepoint, if one was asked for → the last checkpoint, which commits

A job that fails meanwhile goes back to its last checkpoint, and ends its sources again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from cutwater.errors import CutwaterError, OperationsError
from cutwater.runtime.requests import Answer


class StoppedJob(Protocol):
    """What stopping needs of the coordinator."""

    def stop_sources(self, *, drain: bool) -> None:
        """Those that run; without an attempt there are none."""
        ...

    def take_savepoint(self, target: str, answer: Answer) -> None: ...

    def take_final_checkpoint(self) -> None: ...

    def last_savepoint_failed(self, error: CutwaterError) -> None:
        """The job wasn't to end without it, and its sources have ended."""
        ...


@dataclass(frozen=True, slots=True)
class _Order:
    savepoint: str
    drain: bool
    answer: Answer


class Stopping:
    """At most one order to stop. On the coordinator's thread."""

    def __init__(self, job: StoppedJob) -> None:
        self._job = job
        self._order: _Order | None = None

    @property
    def under_way(self) -> bool:
        return self._order is not None

    def start(self, savepoint: str, answer: Answer, *, drain: bool) -> None:
        """Answers with the path of the savepoint, when it is complete; without one there is nothing to answer."""
        if savepoint and self._order is not None:
            answer("", OperationsError("the job is being stopped already"))
            return
        self._order = self._order or _Order(savepoint, drain, answer)
        self._job.stop_sources(drain=self._order.drain)

    def attempt_started(self) -> None:
        if self._order is not None:
            self._job.stop_sources(drain=self._order.drain)

    def all_has_arrived(self) -> None:
        """Every task has finished, for whatever reason its input ended."""
        if self._order is not None and self._order.savepoint:
            self._job.take_savepoint(self._order.savepoint, self._on_savepoint)
        else:
            self._job.take_final_checkpoint()

    def job_ended(self, state: str) -> None:
        order, self._order = self._order, None
        if order is not None and order.savepoint:
            order.answer("", OperationsError(f"the job has ended: {state}"))

    def _on_savepoint(self, path: str, error: CutwaterError | None) -> None:
        order, self._order = self._order, None
        assert order is not None
        order.answer(path, error)
        if error is None:
            self._job.take_final_checkpoint()
        else:
            self._job.last_savepoint_failed(error)
