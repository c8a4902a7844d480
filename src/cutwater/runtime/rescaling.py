"""How does a running job get another number of tasks?

    enough slots are there → a checkpoint → the attempt stops → the next one goes on from it with the new plan

Until the checkpoint is complete the stream goes on, and if something is missing it goes on as it was.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from cutwater.errors import CutwaterError, OperationsError, SlotsMissingError
from cutwater.graph.plan import JobPlan
from cutwater.runtime.requests import Answer

_DEADLINE = "rescale"


class RescaledJob(Protocol):
    """What rescaling needs of the coordinator."""

    plan: JobPlan

    def slots_registered(self) -> int: ...

    def want_slots(self, plan: JobPlan) -> None:
        """As many as this plan needs, or the running one if that is more."""
        ...

    def shortage(self) -> str:
        """Why slots are missing."""
        ...

    def after(self, name: str, seconds: float, work: Callable[[], None]) -> None:
        """Does something later, unless the attempt stops before or it is forgotten."""
        ...

    def forget(self, name: str) -> None: ...

    def take_checkpoint(self, answer: Answer) -> None: ...

    def go_on_with(self, plan: JobPlan) -> None:
        """Stops the attempt; the next one starts from the newest snapshot with this plan."""
        ...


@dataclass(slots=True)
class _UnderWay:
    plan: JobPlan
    answer: Answer
    waits_for_slots: bool = True


class Rescaling:
    """At most one change of parallelism at a time. On the coordinator's thread."""

    def __init__(self, job: RescaledJob) -> None:
        self._job = job
        self._under_way: _UnderWay | None = None

    def start(self, plan: JobPlan, answer: Answer) -> None:
        """Answers when the tasks of this plan run."""
        if self._under_way is not None:
            answer("", OperationsError("the job is being rescaled already", hint="wait until its tasks run"))
            return
        self._under_way = _UnderWay(plan, answer)
        self._job.want_slots(plan)
        self._job.after(_DEADLINE, plan.options.slot_timeout_seconds, self._give_up)
        self.slot_registered()

    def slot_registered(self) -> None:
        under_way = self._under_way
        if under_way is None or not under_way.waits_for_slots:
            return
        if self._job.slots_registered() >= under_way.plan.graph.slots_needed:
            under_way.waits_for_slots = False
            self._job.forget(_DEADLINE)
            self._job.take_checkpoint(self._on_checkpoint)

    def attempt_started(self) -> None:
        under_way = self._under_way
        if under_way is not None and under_way.plan is self._job.plan:
            self._under_way = None
            under_way.answer("", None)

    def attempt_failed(self, cause: CutwaterError) -> None:
        """A job that has the new plan already keeps it, whatever happens."""
        self._abandon(OperationsError("the job failed before it was rescaled", detail=str(cause)))

    def job_ended(self, state: str) -> None:
        under_way, self._under_way = self._under_way, None
        if under_way is not None:
            under_way.answer("", OperationsError(f"the job has ended: {state}"))

    def _on_checkpoint(self, path: str, error: CutwaterError | None) -> None:
        under_way = self._under_way
        if error is not None:
            self._abandon(error)
        elif under_way is not None:
            self._job.go_on_with(under_way.plan)

    def _give_up(self) -> None:
        assert self._under_way is not None
        needed = self._under_way.plan.graph.slots_needed
        self._abandon(
            SlotsMissingError(
                f"the job needs {needed} slots to be rescaled and has {self._job.slots_registered()}",
                detail=self._job.shortage(),
                hint="it goes on as it was; free cores, or choose a lower parallelism",
            )
        )

    def _abandon(self, error: CutwaterError) -> None:
        under_way = self._under_way
        if under_way is not None and under_way.plan is not self._job.plan:
            self._under_way = None
            self._job.want_slots(self._job.plan)
            under_way.answer("", error)
