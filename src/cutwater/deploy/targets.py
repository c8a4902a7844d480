"""Which Spark is made for a job whose program brings none?

The one that the command line names (`cutwater run --master …`, `--remote …`), that of `spark-submit` when it runs the
program, else an embedded one.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from cutwater import logs
from cutwater.api.overrides import Target
from cutwater.deploy.session import embedded_context, interrupt_handler_kept, java_home
from cutwater.errors import ConfigurationError, OperationsError

_LOCAL = re.compile(r"local(?:\[(\d+|\*)(?:,\d+)?\])?")
#: Set by spark-submit for the program that it runs: the way to its Java machine.
_SUBMITTED = "PYSPARK_GATEWAY_PORT"


def spark_for(target: Target | None, *, cores: int) -> Any:
    """Takes seconds. `cores`: what the job needs, if this process may choose."""
    if target is None:
        return _default_context() if _SUBMITTED in os.environ else embedded_context(cores)
    if target.remote is not None:
        return _remote_session(target.remote)
    here = _LOCAL.fullmatch(target.master or "")
    if here is not None and target.submit is None:
        return embedded_context(_cores(here[1]))
    return _default_context(target.master)


def warn_if_elsewhere(spark: Any, target: Target) -> None:
    """The program has a Spark of its own, which counts."""
    from pyspark import SparkContext

    context = spark if isinstance(spark, SparkContext) else getattr(spark, "_sc", None)
    if context is None:
        found, agrees = "a Spark Connect session", target.remote is not None
    else:
        found = f"a session at {context.master}"
        agrees = target.remote is None and target.master in (None, context.master)
    if not agrees:
        logs.listen()
        logs.logger.warning("the program has made %s of its own: the job runs there, not at %s", found, target)


@contextmanager
def session_defaults(target: Target | None) -> Iterator[None]:
    """A session that a program makes inside without saying where is made at the target."""
    if target is None:
        yield
        return
    variables: dict[str, str] = {}
    if target.remote is not None:
        variables["SPARK_REMOTE"] = target.remote
    if target.master is not None or target.submit is not None:
        master = [] if target.master is None else ["--master", target.master]
        variables["PYSPARK_SUBMIT_ARGS"] = shlex.join([*master, *_split(target.submit), "pyspark-shell"])
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None) if value is None else os.environ.update({name: value})


def _split(submit: str | None) -> list[str]:
    try:
        return shlex.split(submit or "")
    except ValueError as error:
        raise ConfigurationError(f"--submit {submit!r} can't be read", detail=str(error)) from None


def _default_context(master: str | None = None) -> Any:
    """A context with Spark's own settings: of its files, of spark-submit, of `--submit`."""
    from pyspark import SparkConf, SparkContext

    os.environ.setdefault("JAVA_HOME", str(java_home()))
    conf = SparkConf()
    if master is not None:
        conf.setMaster(master)
    if conf.get("spark.app.name") is None:
        conf.setAppName("cutwater")
    with interrupt_handler_kept():
        try:
            return SparkContext.getOrCreate(conf)
        except Exception as error:
            raise _not_there(master or conf.get("spark.master") or "its master", error) from error


def _remote_session(url: str) -> Any:
    from pyspark.sql import SparkSession

    if url.startswith("local"):  # a server of this process's own
        os.environ.setdefault("JAVA_HOME", str(java_home()))
    try:
        return SparkSession.builder.remote(url).getOrCreate()
    except ImportError as error:
        raise ConfigurationError(
            "Spark Connect is not installed", detail=str(error), hint="pip install cutwater[connect]"
        ) from error
    except Exception as error:
        raise _not_there(url, error) from error


def _not_there(where: str, error: Exception) -> OperationsError:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return OperationsError(
        f"there is no Spark at {where}",
        detail=lines[0] if lines else type(error).__name__,
        hint="look whether it runs and is reached from here; --verbose shows what Spark says",
    )


def _cores(written: str | None) -> int:
    if written is None:
        return 1
    return (os.cpu_count() or 1) if written == "*" else int(written)
