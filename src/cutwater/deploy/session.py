"""Which Spark runs the job, when the user gave none?

The active one, or else an embedded one: local cores, loopback interface, no web UI, and nothing on the terminal that
the user didn't write. It is a context without a session: slots don't need Spark's SQL, which would take seconds to
start and a third of the Java machine's memory. A caller that needs a session gets one on the same context.
"""

from __future__ import annotations

import os
import re
import signal
import sys
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import cutwater
from cutwater.deploy.java import find_java_home
from cutwater.deploy.spark_versions import newest_java
from cutwater.errors import OperationsError

LOOPBACK = "127.0.0.1"
JAVA_OPTIONS = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xms16m -Xmn8m"
"""The embedded Java machine starts Python processes and then waits: it needs neither a parallel collector nor the slow
compiler, and takes a quarter less memory without them."""
MALLOC_ARENAS_MAX = 2
"""glibc would keep an arena with free memory of its own for each of a slot's many threads."""
ARROW_ALLOCATOR = "jemalloc"
"""Gives back what a batch has taken: a slot with much state is a quarter smaller than with Arrow's default, and as
fast."""
TASK_FAILURES_MAX = 10
"""Spark starts a killed slot again by itself, which is faster than a new Spark job; but one that can't start at all
must end its job, so that someone hears of it."""

# What the Java machine itself says on stderr, whenever it likes.
JAVA_NOISE = re.compile(
    rb"^Setting Spark log level to |"
    rb"^WARNING: (Using incubator modules|A terminally deprecated|A restricted method|sun\.misc\.Unsafe|.*Unsafe.* "
    rb"has been called|java\.lang\.System::load|Please consider reporting|Use --(enable|illegal)|Restricted methods|"
    rb"All illegal access|An illegal reflective)"
)


def installed_version() -> str:
    from pyspark import __version__

    return __version__


def java_home() -> Path:
    """Of a Java that the installed Spark runs on."""
    return find_java_home(os.environ, newest=newest_java(installed_version()))


def active_spark() -> Any | None:
    """What runs in this process already: a Connect session, or the context of classic sessions."""
    from pyspark.sql import SparkSession
    from pyspark.sql.utils import is_remote

    if is_remote():
        return SparkSession.getActiveSession()
    from pyspark import SparkContext

    return SparkContext._active_spark_context


def session_on(spark: Any) -> Any:
    """The session itself, or one on a context. The first one of a context takes seconds."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    return SparkSession.builder.getOrCreate() if isinstance(spark, SparkContext) else spark


def embedded_session(cores: int, **options: Any) -> Any:
    """A session on an embedded context; the options are those of `embedded_context`."""
    from pyspark.sql import SparkSession

    return SparkSession(embedded_context(cores, **options))


def embedded_context(cores: int, *, verbose: bool = False, settings: dict[str, str] | None = None) -> Any:
    """A new local Spark with so many cores: one for each slot, and those that it needs itself. Takes seconds."""
    from pyspark import SparkConf, SparkContext

    conf = SparkConf(loadDefaults=False)
    for key, value in {**_settings(cores, verbose=verbose), **(settings or {})}.items():
        conf.set(key, value)
    variables = {
        "JAVA_HOME": str(java_home()),
        # The workers must run the Python, and so the packages, of this process.
        "PYSPARK_PYTHON": sys.executable,
        # Local means local: else Spark's parts use the address that the machine's own name resolves to.
        "SPARK_LOCAL_IP": LOOPBACK,
        "SPARK_LOCAL_HOSTNAME": "localhost",
    }
    with _environment(variables), interrupt_handler_kept():
        if SparkContext._gateway is not None or verbose:
            return SparkContext(conf=conf)
        gateway, pump = _launch_quietly(conf)
        context = SparkContext(conf=conf, gateway=gateway)
        pump.passing_on.set()
    return context


def _settings(cores: int, *, verbose: bool) -> dict[str, str]:
    return {
        "spark.app.name": "cutwater",
        "spark.master": f"local[{cores},{TASK_FAILURES_MAX}]",
        "spark.driver.host": LOOPBACK,
        "spark.driver.bindAddress": LOOPBACK,
        "spark.driver.extraJavaOptions": JAVA_OPTIONS,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "WARN" if verbose else "OFF",
        "spark.sql.shuffle.partitions": str(cores),
        # Slots are forked from a process that has everything imported.
        "spark.python.daemon.module": "cutwater.deploy.daemon",
        **{f"spark.executorEnv.{name}": value for name, value in _slot_variables().items()},
    }


def _slot_variables() -> dict[str, str]:
    """The environment of slots; what the user has set is not changed."""
    import pyarrow as pa

    source_folder = str(Path(cutwater.__file__).resolve().parent.parent)
    variables = {"MALLOC_ARENA_MAX": str(MALLOC_ARENAS_MAX)}
    if ARROW_ALLOCATOR in pa.supported_memory_backends():
        variables["ARROW_DEFAULT_MEMORY_POOL"] = ARROW_ALLOCATOR
    return {
        **{name: os.environ.get(name, value) for name, value in variables.items()},
        "PYTHONPATH": os.pathsep.join([source_folder, os.environ.get("PYTHONPATH", "")]).rstrip(":"),
    }


@contextmanager
def _environment(variables: dict[str, str]) -> Iterator[None]:
    """Sets environment variables for a moment."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


@contextmanager
def interrupt_handler_kept() -> Iterator[None]:
    """PySpark's handler of Ctrl-C cancels all Spark jobs, our slots among them, before anyone can stop in order."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    handler = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)


def _launch_quietly(conf: Any) -> tuple[Any, _StderrPump]:
    """Starts the Java machine with its stderr in our hands: what the users' functions print there is passed on."""
    from pyspark.java_gateway import launch_gateway

    stderr_read, stderr_write = os.pipe()
    pump = _StderrPump(os.fdopen(stderr_read, "rb"))
    try:
        gateway = launch_gateway(conf, popen_kwargs={"stderr": stderr_write})  # type: ignore[no-untyped-call]
    except Exception as error:
        os.close(stderr_write)
        raise OperationsError(
            "Spark's Java process did not start", detail=pump.last_lines() or str(error), hint="try java -version"
        ) from error
    os.close(stderr_write)
    return gateway, pump


class _StderrPump:
    """Copies the stderr of the Java machine, where the output of the Python workers ends up too, to ours.

    What comes before `passing_on` is set, while Spark starts, is kept for the case that it doesn't.
    """

    def __init__(self, source: IO[bytes]) -> None:
        self.passing_on = threading.Event()
        self._source = source
        self._recent: deque[bytes] = deque(maxlen=20)
        self._thread = threading.Thread(target=self._run, name="cutwater-java-stderr", daemon=True)
        self._thread.start()

    def last_lines(self) -> str:
        self._thread.join(1)
        return b"".join(self._recent).decode("utf-8", "replace").strip()

    def _run(self) -> None:
        for line in self._source:
            if not self.passing_on.is_set():
                self._recent.append(line)
            elif not JAVA_NOISE.match(line):
                sys.stderr.write(line.decode("utf-8", "replace"))
                sys.stderr.flush()
