"""What does a job do so that people find it? It serves, and says where."""

from __future__ import annotations

import logging
import os
from contextlib import suppress

from cutwater.api.launching import RunningJob
from cutwater.config import Control
from cutwater.serving.registry import LOG_VARIABLE, Registered, Registration, now_ms, register, this_host
from cutwater.serving.service import ControlService

log = logging.getLogger("cutwater")


class AttachedControl:
    """The service of a job, and its registration."""

    def __init__(self, job: RunningJob, *, name: str, options: Control) -> None:
        self._service = ControlService(job, options)
        self.page = self._service.page
        self._registered = self._register(job, name, options)

    def withdraw(self) -> None:
        """When the job is over: it is no longer found, and whoever asked for its end still hears of it."""
        if self._registered is not None:
            with suppress(OSError):
                self._registered.withdraw()
        self._service.linger()

    def close(self) -> None:
        self._service.close()

    def _register(self, job: RunningJob, name: str, options: Control) -> Registered | None:
        registration = Registration(
            job_id=job.job_id,
            name=name,
            address=self._service.address,
            token=self._service.tokens.change,
            host=this_host(),
            pid=os.getpid(),
            started_at_ms=now_ms(),
            fingerprint=self._service.fingerprint,
            log=os.environ.get(LOG_VARIABLE),
            page=self.page,
        )
        try:
            return register(registration)
        except OSError as error:
            log.warning('job "%s": `cutwater list` will not find it: %s', name, error)
            return None
