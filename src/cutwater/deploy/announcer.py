"""What does a running job say on its own, and when?

Few lines, through the logger "cutwater": what the job guarantees, what it waits for, what failed and where it goes on
from, how it ended. Without any logging set up they go to standard error.
"""

from __future__ import annotations

import logging
import shlex
from typing import Any, TypeVar

from cutwater import logs
from cutwater.connectors.file_sink import FileSink
from cutwater.deploy.spark_versions import SUPPORTED
from cutwater.errors import CutwaterError
from cutwater.graph.guarantees import by_sink
from cutwater.graph.plan import JobPlan
from cutwater.protocol.lifecycle import JobState
from cutwater.status import JobStatus, RecoveryStatus
from cutwater.terminal.text import summary

T = TypeVar("T")

#: Slots usually come sooner than that; nobody wants to read about it.
QUIET_WAIT_SECONDS = 3.0
#: To open an operator may take long; it is told after this long, and again each time that the wait has doubled.
QUIET_DEPLOYING_SECONDS = 10.0


class Announcer:
    """Compares each status with the one before. Called by one thread."""

    def __init__(self, plan: JobPlan) -> None:
        self._plan = plan
        self._began_at_seconds: float | None = None
        self._recoveries_told = 0
        self._warnings_told = 0
        self._waiting_since_seconds: float | None = None
        self._waiting_in = JobState.CREATED
        self._waiting_told = ""
        self._deploying_told_after_seconds = QUIET_DEPLOYING_SECONDS
        self._slot_failure_told = ""
        self._about: dict[str, Any] = {"job": plan.job_id, "attempt": 0}
        self._logger = logging.LoggerAdapter(logs.logger, self._about)

    def starts(self) -> None:
        logs.listen()
        for sources, path in by_sink(self._plan.guarantees):
            self._logger.info("%s: %s → %s: %s", self._title, ", ".join(sources), path.sink, path.guarantee.words)

    def serves(self, address: str) -> None:
        self._logger.info(
            "%s: dashboard at %s (cutwater dashboard %s)", self._title, address, shlex.quote(self._plan.job_id)
        )

    def in_clear(self, host: str) -> None:
        """The job's processes talk over a network, without TLS."""
        self._logger.warning(
            '%s: records, state and snapshots travel in clear between %s and the executors; tls="auto" encrypts them',
            self._title,
            host,
        )

    def newer_spark(self, version: str) -> None:
        """The job runs on a Spark that we have not seen."""
        self._logger.warning(
            "%s: Spark %s is newer than any that Cutwater was tested with: %s", self._title, version, SUPPORTED
        )

    def update(self, status: JobStatus, now_seconds: float) -> None:
        self._about["attempt"] = status.attempt
        self._tell_waiting(status, now_seconds)
        self._tell_recoveries(status)
        for warning in _newest(status.warnings, status.warnings_total - self._warnings_told):
            self._logger.warning("%s: %s", self._title, warning)
        self._warnings_told = status.warnings_total
        if self._began_at_seconds is None:
            self._began_at_seconds = now_seconds
        if status.state.terminal and status.state is not JobState.FAILED:
            self._tell_end(status, now_seconds - self._began_at_seconds)

    def slot_failed(self, error: CutwaterError) -> None:
        """A slot did not start. On a thread of the pool; the same reason is told once."""
        if error.detail != self._slot_failure_told:
            self._slot_failure_told = error.detail
            self._logger.warning("%s: %s (%s)", self._title, error.fact, error.detail)

    @property
    def _title(self) -> str:
        return f'job "{self._plan.name}"'

    def _tell_end(self, status: JobStatus, seconds: float) -> None:
        self._logger.info("%s: %s", self._title, summary(status, seconds))
        sinks = (node.connector for node in self._plan.logical.nodes.values())
        if folders := [sink.folder for sink in sinks if isinstance(sink, FileSink)]:
            self._logger.info("%s: its output is in %s", self._title, ", ".join(folders))

    def _tell_recoveries(self, status: JobStatus) -> None:
        """Each once: when its tasks are deployed again, or when there is nothing more to come of it."""
        untold = _newest(status.recoveries, status.restarts - self._recoveries_told)
        pending = bool(untold) and untold[-1].deployed_seconds is None and not status.state.terminal
        for recovery in untold[: len(untold) - pending]:
            self._logger.warning("%s: %s", self._title, _recovered(recovery))
        self._recoveries_told = status.restarts - pending

    def _tell_waiting(self, status: JobStatus, now_seconds: float) -> None:
        if not status.waiting_for:
            self._waiting_since_seconds = None
            return
        if self._waiting_since_seconds is None or status.state is not self._waiting_in:
            self._waiting_since_seconds, self._waiting_in = now_seconds, status.state
            self._deploying_told_after_seconds = QUIET_DEPLOYING_SECONDS
        waited = now_seconds - self._waiting_since_seconds
        if status.state is JobState.DEPLOYING:
            if waited >= self._deploying_told_after_seconds:
                self._deploying_told_after_seconds = waited * 2
                self._logger.warning("%s: waiting for %s", self._title, status.waiting_for)
        elif waited >= QUIET_WAIT_SECONDS and status.waiting_for != self._waiting_told:
            self._waiting_told = status.waiting_for
            timeout = self._plan.options.slot_timeout_seconds
            self._logger.warning(
                "%s: waiting for slots: %s (for %g s at most)", self._title, status.waiting_for, timeout
            )


def _newest(items: tuple[T, ...], count: int) -> tuple[T, ...]:
    """The last `count` of them, or as many as are still there."""
    return items[-count:] if count > 0 else ()


def _recovered(recovery: RecoveryStatus) -> str:
    start = f"chk-{recovery.restored_checkpoint}" if recovery.restored_checkpoint is not None else "the beginning"
    fact = recovery.cause.partition("\n")[0]
    seconds = recovery.deployed_seconds
    what = f"attempt {recovery.attempt} failed" if recovery.attempt else "no attempt could begin"
    return f"{what}: {fact}" + (f"; going on from {start} after {seconds:.2f} s" if seconds is not None else "")
