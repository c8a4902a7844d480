"""A launcher that runs nothing and remembers everything."""

from __future__ import annotations

from cutwater.api.launching import LaunchOptions
from cutwater.errors import JobFailedError
from cutwater.graph.plan import JobPlan
from cutwater.protocol.lifecycle import JobState
from cutwater.status import JobResult, JobStatus


class FakeJob:
    def __init__(self, plan: JobPlan, *, failure: BaseException | None = None) -> None:
        self._plan = plan
        self._failure = failure
        self.calls: list[object] = []

    @property
    def job_id(self) -> str:
        return self._plan.job_id

    def status(self) -> JobStatus:
        return JobStatus(self.job_id, self._plan.name, JobState.RUNNING, attempt=1)

    def wait(self, timeout_seconds: float | None) -> JobResult:
        self.calls.append(("wait", timeout_seconds))
        if self._failure is not None:
            raise self._failure
        return JobResult(JobStatus(self.job_id, self._plan.name, JobState.FINISHED, attempt=1), 1.0)

    def cancel(self) -> None:
        self.calls.append("cancel")

    def stop(self, *, savepoint: str | None, drain: bool, timeout_seconds: float | None) -> str:
        self.calls.append(("stop", savepoint, drain, timeout_seconds))
        return savepoint or ""

    def savepoint(self, target: str, timeout_seconds: float | None) -> str:
        self.calls.append(("savepoint", target, timeout_seconds))
        return f"{target}/savepoint"

    def rescale(self, parallelism: int, timeout_seconds: float | None) -> None:
        self.calls.append(("rescale", parallelism, timeout_seconds))


class FakeLauncher:
    def __init__(self, failure: BaseException | None = None) -> None:
        self._failure = failure
        self.launched: list[tuple[JobPlan, LaunchOptions]] = []
        self.jobs: list[FakeJob] = []

    def launch(self, job: JobPlan, options: LaunchOptions) -> FakeJob:
        self.launched.append((job, options))
        self.jobs.append(FakeJob(job, failure=self._failure))
        return self.jobs[-1]


FAILED = JobFailedError("the job failed")
