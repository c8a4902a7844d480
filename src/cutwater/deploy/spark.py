"""How do slots come to life on Spark, and stay alive?

Each slot is one long-lived task of a one-task Spark job, submitted by a thread of its own. When its process dies, Spark
starts the task again, as often as its settings allow; when the Spark job ends nevertheless, its thread submits it anew.
"""

from __future__ import annotations

import contextlib
import copy
import inspect
import os
import secrets
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from cutwater.deploy import bootstrap
from cutwater.deploy.cores import refuse_too_few
from cutwater.deploy.session import LOOPBACK
from cutwater.deploy.shipping import Shipment
from cutwater.deploy.slot_process import SlotOrder, encode_order, own_address
from cutwater.deploy.spark_versions import CONNECT, refuse_too_old, refuse_without
from cutwater.errors import CutwaterError, OperationsError
from cutwater.protocol.ids import SlotId

RESUBMIT_SECONDS = 0.05
RESUBMIT_SECONDS_MAX = 5.0
GRACE_SECONDS = 1.0
"""For slots to end by themselves, before Spark is told to cancel them."""
CANCEL_SECONDS_MAX = 10.0
HUNG_SECONDS = 3.0
"""A lost slot whose Spark task hasn't been started again by then is taken to hang, and its Spark job is cancelled."""

# A slot says nothing to Spark for as long as it lives, and that is no fault.
SILENCE_ALLOWED = ("spark.sql.execution.pyspark.udf.idleTimeoutSeconds", "0")

SlotTask = Callable[[Iterator[Any]], Iterator[str]]


def coordinator_hosts(spark: Any) -> tuple[str, str]:
    """Where slots reach this process, and where it should listen for that."""
    if _is_connect(spark):
        host = own_address(spark.client.host, 1)
        return host, host
    settings = _context_of(spark).getConf()
    if settings.get("spark.master", "").startswith("local"):
        return LOOPBACK, LOOPBACK
    host = settings.get("spark.driver.host")
    return host, settings.get("spark.driver.bindAddress", host)


def check_version(spark: Any) -> None:
    """Raises `ConfigurationError` if no job can run on this Spark. With Connect, the version is that of the server."""
    refuse_too_old(spark.version, "this Spark")
    if _is_connect(spark):
        refuse_without(CONNECT, spark.version)


def check_cores(spark: Any, *, slots: int, job: str, spare: int = 0) -> None:
    """Raises `SlotsMissingError` if this Spark can never run so many slots. Of a Connect server nobody knows.

    `spare`: cores that the job's own Spark jobs need meanwhile.
    """
    if not _is_connect(spark):
        context = _context_of(spark)
        processors = context._jvm.java.lang.Runtime.getRuntime().availableProcessors()
        refuse_too_few(context.getConf().get, processors=processors, slots=slots, job=job, spare=spare)


def with_own_python(context: Any) -> Any:
    """The context, or on this machine one like it whose workers run the Python of this process, with its packages.

    Spark would take the `python3` that it finds first: another one than that of a virtual environment that was not
    activated. What the user has chosen stays, and so does the context that others use.
    """
    is_local = context.getConf().get("spark.master", "").startswith("local")
    if not is_local or context.pythonExec != "python3" or "PYSPARK_PYTHON" in os.environ:
        return context
    twin = object.__new__(type(context))
    twin.__dict__.update(context.__dict__)
    twin.pythonExec = sys.executable
    return twin


class SparkSlotPool:
    """A `SlotProvider`. Every method is for any thread; `stop` apart, none blocks.

    The pool learns of its slots from whoever holds the lines to them: `slot_registered`, `slot_lost`. `report` is
    called on a thread of the pool when a slot could not start, with the reason; the pool keeps trying.
    """

    def __init__(
        self,
        spark: Any,
        *,
        job_name: str,
        order: SlotOrder,
        shipment: Shipment,
        report: Callable[[CutwaterError], None] = lambda error: None,
    ) -> None:
        self._spark = spark
        self._job_name = job_name
        self._order = order
        self._shipment = shipment
        self._report = report
        self._jobs = _jobs_of(spark, f"cutwater {job_name} {secrets.token_hex(4)}")
        self._lock = threading.Lock()
        self._wanted = 0
        self._threads: dict[int, threading.Thread] = {}
        #: Registered slots, and the start that each one came from.
        self._registered: dict[SlotId, int] = {}
        self._registrations: dict[str, int] = {}
        #: Of each name, the newest: each is a Spark job, and no two have the same number.
        self._starts: dict[str, int] = {}
        self._last_failure = ""
        self._changed = threading.Event()

    def ensure(self, count: int) -> None:
        with self._lock:
            self._wanted = count
            missing = max(0, count - len(self._threads))
            free = (index for index in range(count + len(self._threads)) if index not in self._threads)
            started = [(index, self._thread(index)) for index, _ in zip(free, range(missing), strict=False)]
            self._threads.update(started)
        for _, thread in started:
            thread.start()

    def replace(self, slot: SlotId) -> None:
        self.slot_lost(slot)

    def shortage(self) -> str:
        with self._lock:
            registered, wanted, failure = len(self._registered), self._wanted, self._last_failure
        cores = self._jobs.cores()
        words = [f"{registered} of {wanted} slots"]
        if cores is not None:
            words.append(f"Spark has {cores} cores for all its tasks, each slot needs {self._jobs.cores_per_task()}")
        if failure:
            words.append(f"the last start failed: {failure}")
        return "; ".join(words)

    def slot_registered(self, slot: SlotId) -> None:
        with self._lock:
            name = _name_of(slot)
            self._registered[slot] = self._starts.get(name, 0)
            self._registrations[name] = self._registrations.get(name, 0) + 1
            self._last_failure = ""

    def slot_lost(self, slot: SlotId) -> None:
        name = _name_of(slot)
        with self._lock:
            start = self._registered.pop(slot, 0)
            registrations = self._registrations.get(name, 0)
        timer = threading.Timer(HUNG_SECONDS, self._replace_hung, (name, start, registrations))
        timer.daemon = True
        timer.start()

    def stop(self) -> None:
        """Blocks until no task of ours runs: they may end by themselves for a moment, then Spark cancels them."""
        with self._lock:
            self._wanted = 0
            threads = list(self._threads.values())
            self._changed.set()
        deadline = time.monotonic() + GRACE_SECONDS
        for thread in threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        if any(thread.is_alive() for thread in threads):
            with contextlib.suppress(Exception):  # the session may be gone already, and our tasks with it
                for name, start in list(self._starts.items()):
                    self._jobs.cancel(_start_of(name, start))
        deadline = time.monotonic() + CANCEL_SECONDS_MAX
        for thread in threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        self._jobs.release()

    def _replace_hung(self, name: str, start: int, registrations: int) -> None:
        """One that is dead starts again by itself, however long it takes; one that hangs has to be cancelled first."""
        with self._lock:
            replaced = self._starts.get(name) != start or self._registrations.get(name, 0) > registrations
            unwanted = self._wanted == 0
        if not (replaced or unwanted):
            with contextlib.suppress(Exception):  # the session may be gone already
                self._jobs.cancel(_start_of(name, start))

    # On the threads of the slots.

    def _thread(self, index: int) -> threading.Thread:
        from pyspark import InheritableThread

        # A context has no tags that the thread could inherit, and in Spark 3.5 no thread inherits them.
        inherits = hasattr(self._spark, "getTags") and "session" in inspect.signature(InheritableThread).parameters
        tags = {"session": self._spark} if inherits else {}
        thread: threading.Thread = InheritableThread(
            target=self._keep_alive, args=(index,), name=f"cutwater-slot-{index}", daemon=True, **tags
        )
        return thread

    def _keep_alive(self, index: int) -> None:
        """Runs the slot's Spark job again and again, until the slot is not wanted."""
        name = f"slot-{index}"
        order = encode_order(msgspec.structs.replace(self._order, name=name))
        pause_seconds = RESUBMIT_SECONDS
        run: Callable[[], str] | None = None
        while not self._leaves(index):
            registrations = self._registrations.get(name, 0)
            try:
                if run is None:
                    run = self._jobs.prepare(bootstrap.slot_task(self._shipment.archive, self._shipment.digest, order))
                self._starts[name] = self._starts.get(name, 0) + 1
                start = _start_of(name, self._starts[name])
                self._jobs.enter(start, f'cutwater: job "{self._job_name}" {start}')
                outcome = run()
            except Exception as error:  # a killed task, a lost executor, a stopped session: all the same here
                outcome = f"failed: {summary(error)}"
                if not self._jobs.alive():
                    self._note(index, outcome, "the Spark session is stopped: start the job on a new one")
                    return
            if self._registrations.get(name, 0) > registrations:
                pause_seconds = RESUBMIT_SECONDS
            elif not self._leaves(index, forget=False):
                self._note(index, outcome, "Spark's own logs say more; the job keeps trying")
                pause_seconds = min(pause_seconds * 2, RESUBMIT_SECONDS_MAX)
            self._changed.wait(pause_seconds)

    def _leaves(self, index: int, *, forget: bool = True) -> bool:
        """Whether there are more threads than wanted slots; then this one is no longer counted."""
        with self._lock:
            surplus = len(self._threads) > self._wanted
            if surplus and forget:
                self._threads.pop(index, None)
            return surplus

    def _note(self, index: int, outcome: str, hint: str) -> None:
        reason = outcome.removeprefix("failed: ")
        with self._lock:
            self._last_failure = reason
        self._report(OperationsError(f"slot {index} of job {self._job_name!r} did not start", detail=reason, hint=hint))


class _ClassicJobs:
    """Spark jobs of a session, or a context, in this process's own driver.

    As an RDD: the first query of a fresh session takes seconds more to start, for Spark's SQL engine to warm up.
    """

    def __init__(self, spark: Any, group: str) -> None:
        self._context = _context_of(spark)
        self._group = group

    def prepare(self, task: SlotTask) -> Callable[[], str]:
        """Each call of the result is a Spark job."""
        slot = with_own_python(self._context).parallelize([0], 1).mapPartitions(task)
        return lambda: str(slot.collect()[0])

    def enter(self, start: str, text: str) -> None:
        """What this thread submits from now on belongs to this start of a slot, and says so in Spark's UI."""
        self._context.setJobGroup(f"{self._group} {start}", text, interruptOnCancel=True)

    def cancel(self, start: str) -> None:
        """This one, and no later one of the slot."""
        self._context.cancelJobGroup(f"{self._group} {start}")

    def release(self) -> None:
        """Nothing of ours is left."""

    def alive(self) -> bool:
        return self._context._jsc is not None and not self._context._jsc.sc().isStopped()

    def cores(self) -> int | None:
        return int(self._context.defaultParallelism)

    def cores_per_task(self) -> int:
        return int(self._context.getConf().get("spark.task.cpus", "1"))


class _ConnectJobs:
    """Spark jobs of a Spark Connect session."""

    def __init__(self, spark: Any, group: str) -> None:
        self._session = _session_beside(spark)
        self._group = group
        with contextlib.suppress(Exception):  # a server that does not have the setting
            self._session.conf.set(*SILENCE_ALLOWED)

    def prepare(self, task: SlotTask) -> Callable[[], str]:
        frame = self._session.range(0, 1, 1, 1).mapInArrow(bootstrap.in_arrow(task), bootstrap.OUTCOME_SCHEMA)

        return lambda: str(frame.collect()[0][0])

    def enter(self, start: str, text: str) -> None:
        """Connect shows the tag only. The session is our own, so all tags of this thread are."""
        self._session.clearTags()
        self._session.addTag(self._tag(start))

    def cancel(self, start: str) -> None:
        self._session.interruptTag(self._tag(start))

    def _tag(self, start: str) -> str:
        return f"{self._group} {start}".replace(",", " ")

    def release(self) -> None:
        # Not `stop`, which ends a local server. A client left open would hold up the exit of the process for minutes
        # once the server is gone.
        with contextlib.suppress(Exception):
            self._session.client.release_session()
        with contextlib.suppress(Exception):
            self._session.client.close()

    def alive(self) -> bool:
        return not self._session.is_stopped

    def cores(self) -> int | None:
        return None

    def cores_per_task(self) -> int:
        return 1


def _jobs_of(spark: Any, group: str) -> _ClassicJobs | _ConnectJobs:
    from pyspark import cloudpickle

    cloudpickle.register_pickle_by_value(bootstrap)  # type: ignore[no-untyped-call]
    return _ConnectJobs(spark, group) if _is_connect(spark) else _ClassicJobs(spark, group)


def _session_beside(spark: Any) -> Any:
    """Of Spark Connect, on the same server. Before 4.3 there is no call for it, but the same connection makes one."""
    if hasattr(type(spark), "newSession"):
        return spark.newSession()
    connection = copy.copy(spark.client._builder)
    connection._params = {name: value for name, value in connection._params.items() if name != "session_id"}
    return type(spark)(connection, userId=spark.client._user_id)


def _context_of(spark: Any) -> Any:
    """Of a classic session, or of a context itself."""
    return getattr(spark, "sparkContext", spark)


def _is_connect(spark: Any) -> bool:
    return type(spark).__module__.startswith("pyspark.sql.connect")


def _name_of(slot: SlotId) -> str:
    return slot.partition(".")[0]


def _start_of(name: str, number: int) -> str:
    return f"{name}, start {number}"


def summary(error: Exception) -> str:
    """The line of an error of Spark that says most, without its Java stack."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip() and not line.strip().startswith("at ")]
    telling = [line for line in lines if "Error" in line or "Exception" in line or "exited" in line or "killed" in line]
    return (telling or lines or [type(error).__name__])[0][:500]
