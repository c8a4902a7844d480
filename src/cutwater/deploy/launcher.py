"""How does a job come to run on Spark, and how does it end?

The coordinator lives in the driver on a thread of its own, with a Flight server for its slots. When the job is over
the slots end by themselves, Spark is told to cancel what is left, and nothing stays behind.
"""

from __future__ import annotations

import atexit
import os
import random
import secrets
import threading
import time
import weakref
from collections.abc import Callable, Mapping
from concurrent.futures import Future, wait
from typing import Any

import cloudpickle

from cutwater.api.launching import LaunchOptions
from cutwater.api.overrides import overrides
from cutwater.config import TlsFiles, configuration_of
from cutwater.connectors.contract import Source
from cutwater.deploy.announcer import Announcer
from cutwater.deploy.log_relay import LogRelay
from cutwater.deploy.session import LOOPBACK, active_spark, installed_version, session_on
from cutwater.deploy.shipping import pack
from cutwater.deploy.slot_process import SlotOrder
from cutwater.deploy.spark import SparkSlotPool, check_cores, check_version, coordinator_hosts
from cutwater.deploy.spark_versions import is_newer_than_tested, refuse_too_old
from cutwater.deploy.staging import stage_dataframe
from cutwater.deploy.streaming import stage_streaming_dataframe
from cutwater.deploy.targets import spark_for, warn_if_elsewhere
from cutwater.errors import CutwaterError, InternalError, OperationsError
from cutwater.graph.model import NodeKind
from cutwater.graph.plan import JobPlan
from cutwater.protocol.ids import SlotId
from cutwater.protocol.lifecycle import JobState
from cutwater.runtime.coordinator import Coordinator, CoordinatorServices
from cutwater.runtime.flight.control_frames import LinkTimes
from cutwater.runtime.flight.control_server import ControlServer
from cutwater.runtime.flight.credentials import make_credentials, read_credentials
from cutwater.runtime.messages import FromSlot, LinesLogged, SlotRegistered
from cutwater.runtime.recovering import History, check_connectors, history_of, with_key_groups_restored
from cutwater.runtime.requests import Answer
from cutwater.runtime.threads import ActorLoop, MonotonicClock, ThreadBackground
from cutwater.serving.attaching import AttachedControl
from cutwater.snapshots.storage import MemoryStorage, absolute_url, open_storage
from cutwater.snapshots.store import SnapshotStore
from cutwater.status import CheckpointDetails, JobResult, JobStatus, LogLine
from cutwater.telemetry.tracing import Tracing

BACKGROUND_WORKERS_MAX = 4
#: Cores of an embedded session beyond the slots: for replacements that start while the old one still ends.
EXTRA_CORES = 2
ANSWER_POLL_SECONDS = 0.2
#: At the end of a job, snapshots that it no longer retains are still being deleted; a storage that hangs must not keep
#: it from ending.
CLEANING_SECONDS_MAX = 10.0
#: What a sink has begun to commit in the driver can't be stopped, and the next run would do it again beside it.
COMMITTING_SECONDS_MAX = 600.0


class SparkLauncher:
    """Runs jobs on Spark: the given session or context, the active one, or one that is made for the first job."""

    def __init__(self, spark: Any = None) -> None:
        self._spark = spark
        self._told_where = False

    def launch(self, job: JobPlan, options: LaunchOptions) -> SparkJob:
        store = open_store(job)
        history = history_of(
            options.restore, store, allow_non_restored_state=options.allow_non_restored_state, claim=options.claim
        )
        slots = job.graph.slots_needed
        check_connectors(job, history, store)
        job = with_key_groups_restored(job, history, store)
        spark = self._session(slots + job.options.spare_slots)
        check_cores(spark, slots=slots, job=job.name, spare=int(_uses_spark(job)))
        return SparkJob(job, history, spark, store)

    def session(self) -> Any:
        """Of the jobs that were launched. May block."""
        return session_on(self._session(1))

    def stage_dataframe(self, dataframe: Any, staging: str | None) -> Source:
        return stage_dataframe(dataframe, staging)

    def stage_streaming_dataframe(self, dataframe: Any, staging: str | None, trigger: dict[str, Any]) -> Source:
        return stage_streaming_dataframe(dataframe, staging, trigger)

    def _session(self, slots: int) -> Any:
        orders = overrides()
        if self._spark is None:
            refuse_too_old(installed_version(), "the installed PySpark")
            self._spark = active_spark()
        if self._spark is None:
            self._spark = orders.made_spark = spark_for(orders.target, cores=slots + EXTRA_CORES)
        elif orders.target is not None and self._spark is not orders.made_spark and not self._told_where:
            self._told_where = True
            warn_if_elsewhere(self._spark, orders.target)
        check_version(self._spark)
        return self._spark


def _uses_spark(job: JobPlan) -> bool:
    ends = (NodeKind.SOURCE, NodeKind.SINK)
    return any(node.connector.uses_spark for node in job.logical.nodes.values() if node.kind in ends)


def open_store(job: JobPlan) -> SnapshotStore:
    """The job's snapshots, checked to be writable and its own; without a storage they live in the driver."""
    url = job.options.checkpoints.storage
    if url is None:
        return SnapshotStore(MemoryStorage(), job.job_id, secret=job.options.checkpoints.signing_secret)
    storage = open_storage(url)
    storage.check_writable()
    store = SnapshotStore(storage, job.job_id, secret=job.options.checkpoints.signing_secret)
    store.check_owner(job.name)
    return store


class SparkJob:
    """A launched job. Its methods are for any thread."""

    def __init__(self, job: JobPlan, history: History, spark: Any, store: SnapshotStore) -> None:
        self._tracing = Tracing(self.checkpoint_details) if job.options.tracing else None
        clock = MonotonicClock()
        announcer = Announcer(job)
        self._logs = LogRelay(job.job_id)
        announcer.starts()
        token = secrets.token_urlsafe(24)
        times = LinkTimes(job.options.heartbeat_interval_seconds, job.options.heartbeat_timeout_seconds)
        self.job_id = job.job_id
        self._name = job.name
        self._started_at_seconds = time.monotonic()
        self._over = threading.Event()
        self._loop = ActorLoop(clock)
        host, listen_host = coordinator_hosts(spark)
        tls = job.options.tls
        files = tls if isinstance(tls, TlsFiles) else None
        made = make_credentials() if tls == "auto" else None
        if tls is None and host != LOOPBACK:
            announcer.in_clear(host)
        if is_newer_than_tested(spark.version):
            announcer.newer_spark(spark.version)
        self._control = ControlServer(
            host,
            token,
            deliver=self._deliver,
            lost=self._lost,
            held=self._held,
            tls=read_credentials(files) if files is not None else made,
            times=times,
            listen_host=listen_host,
        )
        self._pool = SparkSlotPool(
            spark,
            job_name=job.name,
            order=SlotOrder(
                name="", coordinator=self._control.address, token=token, times=times, tls=files, credentials=made
            ),
            shipment=pack(),
            report=announcer.slot_failed,
        )
        self._background = ThreadBackground(workers_max=BACKGROUND_WORKERS_MAX, post=self._post)
        services = CoordinatorServices(
            clock=clock,
            lines=self._control,
            provider=self._pool,
            background=self._background,
            store=store,
            new_token=lambda: secrets.token_urlsafe(24),
            random=random.random,
            listeners=(
                lambda status: announcer.update(status, clock.now_seconds()),
                *(() if self._tracing is None else (self._tracing.update,)),
            ),
        )
        self._coordinator = Coordinator(job, cloudpickle.dumps(job), services, history)
        self._thread = threading.Thread(target=self._run, name=f"cutwater-coordinator-{job.job_id}", daemon=True)
        self._control_service = self._attached(job)
        if self._control_service is not None:
            announcer.serves(self._control_service.page)
        _cancel_at_exit(self)
        self._coordinator.start()
        self._thread.start()

    def _attached(self, job: JobPlan) -> AttachedControl | None:
        control = job.options.control
        try:
            return None if control is None else AttachedControl(self, name=job.name, options=control)
        except CutwaterError:  # e.g. the port is taken: the job doesn't start
            self._control.close()
            self._background.close()
            self._logs.close()
            if self._tracing is not None:
                self._tracing.close()
            raise

    def status(self) -> JobStatus:
        return self._coordinator.status

    def checkpoint_details(self, checkpoint: int) -> CheckpointDetails | None:
        return self._coordinator.checkpoint_details(checkpoint)

    def logs(self, after: int) -> tuple[LogLine, ...]:
        return self._logs.after(after)

    def configuration(self) -> Mapping[str, Any]:
        return configuration_of(self._coordinator.plan.options)

    def wait(self, timeout_seconds: float | None) -> JobResult:
        if not self._over.wait(timeout_seconds):
            raise TimeoutError(f"job {self._name!r} still runs after {timeout_seconds} s")
        status = self.status()
        if status.state is JobState.FAILED:
            raise self._coordinator.failure or InternalError(f"job {self._name!r} failed without a reason")
        return JobResult(status, self._ended_at_seconds - self._started_at_seconds)

    def cancel(self) -> None:
        self._coordinator.cancel()
        self._loop.wake()

    def stop(self, *, savepoint: str | None, drain: bool, timeout_seconds: float | None) -> str:
        if savepoint is None:
            self._coordinator.stop(drain=drain)
            self._loop.wake()
            return ""
        target = absolute_url(savepoint)
        return self._ask(
            lambda answer: self._coordinator.stop(savepoint=target, drain=drain, answer=answer), timeout_seconds
        )

    def checkpoint(self, timeout_seconds: float | None) -> None:
        self._ask(self._coordinator.checkpoint, timeout_seconds)

    def savepoint(self, target: str, timeout_seconds: float | None) -> str:
        url = absolute_url(target)
        open_storage(url).check_writable()
        return self._ask(lambda answer: self._coordinator.savepoint(url, answer), timeout_seconds)

    def rescale(self, parallelism: int, timeout_seconds: float | None) -> None:
        self._ask(lambda answer: self._coordinator.rescale(parallelism, answer), timeout_seconds)

    def _ask(self, ask: Callable[[Answer], None], timeout_seconds: float | None) -> str:
        """Blocks until the coordinator has answered; raises what it answers, or `TimeoutError`."""
        answered: Future[str] = Future()

        def answer(result: str, error: CutwaterError | None) -> None:
            answered.set_exception(error) if error is not None else answered.set_result(result)

        ask(answer)
        self._loop.wake()
        deadline = None if timeout_seconds is None else time.monotonic() + timeout_seconds
        while not wait([answered], timeout=ANSWER_POLL_SECONDS).done:
            if self._over.is_set():  # nobody is left to answer
                raise OperationsError(f"job {self._name!r} has ended: {self.status().state}")
            if deadline is not None and time.monotonic() > deadline:
                raise TimeoutError(f"job {self._name!r} has not answered after {timeout_seconds} s")
        return answered.result()

    def join(self) -> None:
        """Blocks until nothing of the job is left."""
        self._over.wait()

    def _run(self) -> None:
        try:
            self._loop.run(self._coordinator, lambda: self._coordinator.ended)
        except Exception as error:
            self._coordinator.crashed(error)
        finally:
            self._ended_at_seconds = time.monotonic()
            self._pool.stop()
            self._control.close()
            self._background.drain(COMMITTING_SECONDS_MAX if self._coordinator.commits else CLEANING_SECONDS_MAX)
            self._background.close()
            self._logs.close()
            if self._tracing is not None:
                self._tracing.close()
            if self._control_service is not None:
                self._control_service.withdraw()
            self._over.set()
            if self._control_service is not None:
                self._control_service.close()

    def _deliver(self, slot: SlotId, message: FromSlot) -> None:
        if isinstance(message, LinesLogged):  # also behind the end of the coordinator
            self._logs.take(slot, message)
            return
        if isinstance(message, SlotRegistered):
            self._pool.slot_registered(slot)
        self._coordinator.deliver(slot, message)
        self._loop.wake()

    def _lost(self, slot: SlotId, reason: str) -> None:
        self._pool.slot_lost(slot)
        self._coordinator.slot_lost(slot, reason)
        self._loop.wake()

    def _held(self, slot: SlotId, seconds: float) -> None:
        self._coordinator.slot_held(slot, seconds)
        self._loop.wake()

    def _post(self, work: Callable[[], None]) -> None:
        self._coordinator.post(work)
        self._loop.wake()


def _cancel_at_exit(job: SparkJob) -> None:
    reference = weakref.ref(job)
    owner = os.getpid()

    def cancel() -> None:
        running = reference()
        if running is not None and os.getpid() == owner and not running.status().state.terminal:
            running.cancel()
            running.join()

    atexit.register(cancel)
