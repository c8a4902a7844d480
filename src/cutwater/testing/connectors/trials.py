"""How is one fault done to one job?

A trial starts the job, strikes when the plan says so, makes sure that each strike was felt, lets go of the records that
were held back, and waits for the end. A strike that comes too late, because the job is over, fails the trial.
"""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, assert_never

from cutwater.api.jobs import JobHandle
from cutwater.connectors.contract import Delivery
from cutwater.protocol.lifecycle import JobState
from cutwater.testing.connectors.controls import Controls
from cutwater.testing.connectors.driver import DriverProcess
from cutwater.testing.connectors.faults import LAST_SHARE, Fault, Strike, strikes_of
from cutwater.testing.connectors.flow import Flow
from cutwater.testing.connectors.jobs import JobUnderTest
from cutwater.testing.connectors.subjects import Server
from cutwater.testing.connectors.watching import HAPPENS_WITHIN_SECONDS, TrialFailed, Watch, comes_true

HAPPENS_WITHIN = f"{HAPPENS_WITHIN_SECONDS:.0f}s"
#: From the first barrier at the sinks until all of them have prepared, also those that ask a server.
PREPARING_SECONDS = 0.5
PARALLELISMS = (3, 1)
SHOWS_WHEN_COMMITTED = (Delivery.TRANSACTIONAL, Delivery.WRITE_AHEAD)


@dataclass(slots=True)
class Deeds:
    """What was done to the job, and what was seen on the way."""

    #: "slot", "driver", "server" → processes killed; other deeds by other words.
    counts: Counter[str] = field(default_factory=Counter)
    restarts: int = 0
    too_early: Sequence[int] = ()


@dataclass(frozen=True, slots=True)
class Receiver:
    """What can be seen of the sink's other end while the job runs."""

    received: Callable[[], Sequence[int]]
    #: None: it can't be told.
    pending: Callable[[], Sequence[str]] | None


class Trial:
    """One job, one fault. Used once, by one thread."""

    def __init__(
        self,
        job: JobUnderTest,
        fault: Fault,
        *,
        seed: int,
        spark: Any,
        folder: Path,
        flow_seconds: float,
        server: Server | None = None,
        receiver: Receiver | None = None,
        bounded: bool = True,
    ) -> None:
        """`receiver`: None: there is nothing to see before the end."""
        self._job = job
        self._fault = fault
        self._strikes = strikes_of(fault, seed)
        self._spark = spark
        self._folder = folder
        self._flow_seconds = flow_seconds
        self._server = server
        self._receiver = receiver
        self._bounded = bounded
        self._watch = Watch(job.controls, records=job.records)
        #: What is left of it may do harm until the end.
        self._first_driver: DriverProcess | None = None
        self.deeds = Deeds()

    @property
    def _controls(self) -> Controls:
        return self._job.controls

    def run(self) -> None:
        """Raises `TrialFailed` when the job is stuck, or over too early; and whatever makes the job fail."""
        try:
            with Flow(self._controls, records=self._job.records, seconds=self._flow_seconds) as flow:
                job = self._disturb()
                self._watch.until_share(LAST_SHARE)
                flow.release()
                self._finish(job)
        finally:
            self._controls.hold_checkpoints(False)
            self._cancel()
            if self._first_driver is not None:
                self._first_driver.clean_up()

    def run_unpaced(self) -> None:
        """Just the job."""
        self._controls.release()
        try:
            self._finish(self._submit())
        finally:
            self._cancel()

    # ---------------------------------------------------------------------------------------------------------- strikes

    def _disturb(self) -> JobHandle:
        """Does everything that the plan wants; returns the job that is to end well."""
        match self._fault:
            case Fault.NOTHING | Fault.POISON:
                return self._submit()
            case Fault.SLOTS_KILLED:
                return self._kill_slots()
            case Fault.KILLED_WHEN_PREPARED:
                return self._kill_when_prepared()
            case Fault.DRIVER_KILLED:
                return self._replace_driver(self._kill_driver)
            case Fault.DRIVER_LATE:
                return self._replace_driver(self._wake_driver_late)
            case Fault.SERVER_KILLED | Fault.SERVER_GONE:
                return self._strike_server(self._kill_server)
            case Fault.SERVER_PAUSED:
                return self._strike_server(self._pause_server)
            case Fault.RESCALED:
                return self._rescale()
            case Fault.SAVEPOINT:
                return self._go_on_from_a_savepoint()
            case _:
                assert_never(self._fault)

    def _kill_slots(self) -> JobHandle:
        job = self._submit()
        for strike in self._strikes:
            self._watch.until_checkpoints()
            self._watch.until_share(strike.share)
            time.sleep(strike.seconds)
            pids = self._watch.until_running()
            self._kill([pids[strike.victim % len(pids)]])
        return job

    def _kill_when_prepared(self) -> JobHandle:
        """The first time none has completed before, so that nothing at all may be visible."""
        self._controls.hold_checkpoints(True)
        job = self._submit()
        for index, strike in enumerate(self._strikes):
            if index > 0:
                self._watch.until_checkpoints()
            self._watch.until_share(strike.share)
            if index > 0:
                self._controls.hold_checkpoints(True)
            self._watch.until_held()
            time.sleep(PREPARING_SECONDS + strike.seconds)
            if index == 0 and self._receiver is not None and self._job.sink.delivery in SHOWS_WHEN_COMMITTED:
                self.deeds.too_early = self._receiver.received()
            self._kill(self._watch.until_running())
            self._controls.hold_checkpoints(False)
        return job

    def _replace_driver(self, replace: Callable[[DriverProcess], JobHandle]) -> JobHandle:
        (strike,) = self._strikes
        driver = self._first_driver = self._watch.driver = DriverProcess(self._job, self._folder)
        self._watch.until_checkpoints()
        self._watch.until_share(strike.share)
        time.sleep(strike.seconds)
        if (ended := driver.ended) is not None:
            raise TrialFailed(f"the driver was over before anything was done to it: {ended}")
        self._watch.driver = None
        return replace(driver)

    def _kill_driver(self, driver: DriverProcess) -> JobHandle:
        driver.kill()
        self.deeds.counts["driver"] += 1
        return self._submit(restore="latest")

    def _wake_driver_late(self, driver: DriverProcess) -> JobHandle:
        driver.pause()
        job = self._submit(restore="latest")
        self._watch.until_checkpoints()
        driver.resume()
        self.deeds.counts["late driver"] += 1
        self._watch.until(lambda: driver.ended is not None, "the end of the driver that woke up late")
        self._watch.until(lambda: not driver.family, "the end of its slots")
        return job

    def _strike_server(self, strike_it: Callable[[Server, Strike], None]) -> JobHandle:
        assert self._server is not None, "a fault of servers needs one"
        job = self._submit()
        for strike in self._strikes:
            self._watch.until_share(strike.share)
            self._watch.until_running()
            strike_it(self._server, strike)
        return job

    def _kill_server(self, server: Server, strike: Strike) -> None:
        pending = None if self._receiver is None else self._receiver.pending
        if pending is not None and comes_true(pending):
            self.deeds.counts["open transaction"] += 1
        server.kill()
        try:
            time.sleep(strike.seconds)
        finally:
            server.restart()
        self.deeds.counts["server"] += 1

    def _pause_server(self, server: Server, strike: Strike) -> None:
        server.pause()
        try:
            time.sleep(strike.seconds)
        finally:
            server.resume()
        self.deeds.counts["pause"] += 1

    def _rescale(self) -> JobHandle:
        job = self._submit()
        for strike, parallelism in zip(self._strikes, PARALLELISMS, strict=True):
            self._watch.until_checkpoints()
            self._watch.until_share(strike.share)
            job.rescale(parallelism, timeout=HAPPENS_WITHIN)
            self.deeds.counts["rescaling"] += 1
        return job

    def _go_on_from_a_savepoint(self) -> JobHandle:
        (strike,) = self._strikes
        job = self._submit()
        self._watch.until_checkpoints()
        self._watch.until_share(strike.share)
        path = job.stop(savepoint=str(self._folder / "savepoints"), timeout=HAPPENS_WITHIN)
        job.wait(HAPPENS_WITHIN)
        self.deeds.counts["savepoint"] += 1
        return self._submit(parallelism=PARALLELISMS[0], restore=path)

    def _kill(self, pids: Sequence[int]) -> None:
        """Returns when the job has noticed."""
        assert self._watch.job is not None
        before = self._watch.job.status().restarts
        for pid in pids:
            with suppress(ProcessLookupError):  # it ended with the one before
                os.kill(pid, signal.SIGKILL)
                self.deeds.counts["slot"] += 1
        self._watch.until_status(lambda status: status.restarts > before, "a restart after the kill")

    # ------------------------------------------------------------------------------------------------ submit and finish

    def _submit(self, **options: Any) -> JobHandle:
        job = self._watch.job = self._job.submit(self._spark, **options)
        return job

    def _finish(self, job: JobHandle) -> None:
        if not self._bounded:
            self._watch.until_silent()
            job.stop()
        try:
            result = job.wait(HAPPENS_WITHIN)
        except TimeoutError:
            raise TrialFailed(f"the job did not end: {self._watch.told()}") from None
        finally:
            self.deeds.restarts = job.status().restarts
        self._watch.job = None
        if result.state is not JobState.FINISHED:
            raise TrialFailed(f"the job is {result.state}, not finished")

    def _cancel(self) -> None:
        if self._watch.job is not None:
            self._watch.job.cancel()
