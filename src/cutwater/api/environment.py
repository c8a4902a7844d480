"""Where does a job begin, and how is it started?"""

from __future__ import annotations

import importlib
import re
import sys
import time
import uuid
import warnings
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, Unpack

from cutwater.api.dataflow import Dataflow, OperatorSettings, unread_dead_letters, users_line
from cutwater.api.introducing import introduce_ends
from cutwater.api.jobs import JobHandle
from cutwater.api.launching import (
    HasSession,
    Launcher,
    LaunchOptions,
    StagesDataFrames,
    StagesStreams,
    launcher_instead,
    tell_launched,
)
from cutwater.api.narrowing import narrow_sources
from cutwater.api.overrides import overrides
from cutwater.api.serialization import make_portable
from cutwater.api.streams import DataStream
from cutwater.api.suggestions import unknown_operation
from cutwater.api.typing import R
from cutwater.batches import Row
from cutwater.config import Checkpoints, JobOptions, OptionValues, load_options, refuse_unknown
from cutwater.connectors import sources
from cutwater.connectors.contract import Source
from cutwater.connectors.preview import Preview
from cutwater.dead_letters import OnError
from cutwater.durations import Duration, parse_duration
from cutwater.errors import ConfigurationError, CutwaterError, GraphError
from cutwater.graph.chaining import to_execution_graph
from cutwater.graph.explain import Plan
from cutwater.graph.guarantees import Guarantee, check_guarantees, guarantees_of
from cutwater.graph.model import LogicalGraph, NodeKind
from cutwater.graph.plan import JobPlan, job_id_of
from cutwater.graph.validation import describe_node, validate
from cutwater.protocol.restart import NoRestart, Unspecified
from cutwater.status import JobResult

if TYPE_CHECKING:
    import pandas as pd

#: How often a preview looks whether its job has ended.
_LOOK_SECONDS = 0.05
_JOB_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


class Environment:
    """A job in the making: its options, its sources, and all that is derived from them. Used by one thread.

    Options are those of `JobOptions`: parallelism, checkpoints, state_backend, restart, …
    """

    def __init__(
        self,
        *,
        spark: Any = None,
        local: bool = False,
        launcher: Launcher | None = None,
        **options: Unpack[OptionValues],
    ) -> None:
        """`spark`: a SparkSession or SparkContext; None: the active one, or an embedded local one.

        `local=True` is for trying: jobs run in this process, without Spark and Java, in virtual time and to the end of
        their bounded input. Sources and sinks are real; checkpoints are kept in memory. `launcher` is for tests: runs
        jobs instead of Spark.
        """
        refuse_unknown(options, [*OptionValues.__annotations__, "spark", "local"], of="Environment")
        if local and (spark is not None or launcher is not None):
            raise ConfigurationError(
                "a local job needs no Spark and no launcher", hint="leave out local=True, or these"
            )
        self.options = JobOptions(**overrides().applied_to(options))
        self._spark = spark
        self._local = local
        self._given_launcher = launcher
        self._dataflow = Dataflow(self.options, self._run)

    @classmethod
    def from_file(
        cls, path: str | Path, *, spark: Any = None, local: bool = False, **options: Unpack[OptionValues]
    ) -> Environment:
        """Options from a TOML file, with tables `[checkpoints]` and `[tls]`; keywords here count more."""
        merged: OptionValues = {**load_options(path), **options}
        return cls(spark=spark, local=local, **merged)

    def from_source(
        self, source: Source[R], *, on_error: OnError = "fail", **settings: Unpack[OperatorSettings]
    ) -> DataStream[R]:
        """The stream of a source's records.

        `on_error`: what becomes of messages and lines that the source can't decode. "fail": the job fails; "skip":
        they are counted; "dead_letter": they leave by `side_output("errors")`, with the bytes as they came.
        """
        return DataStream(self._dataflow, (self._dataflow.add_source(source, settings, on_error),))

    def from_collection(self, values: Iterable[R], **settings: Unpack[OperatorSettings]) -> DataStream[R]:
        """A bounded stream of these values, for examples and tests; of a table (pandas, Polars, PyArrow), its rows."""
        return self.from_source(sources.collection(values), **settings)

    def from_pandas(self, frame: pd.DataFrame, **settings: Unpack[OperatorSettings]) -> DataStream[Row]:
        """A bounded, typed stream of the rows of a pandas DataFrame, without its index."""
        kind = type(frame)
        if kind.__name__ != "DataFrame" or kind.__module__.partition(".")[0] != "pandas":
            raise ConfigurationError(
                f"from_pandas needs a pandas DataFrame, not {kind.__module__}.{kind.__name__}",
                hint="from_dataframe(df) takes Spark's, from_collection([…]) values, Polars frames and Arrow tables",
            )
        return self.from_collection(frame, **settings)

    def from_dataframe(
        self, dataframe: Any, *, staging: str | None = None, **settings: Unpack[OperatorSettings]
    ) -> DataStream[Row]:
        """A bounded, typed stream of the rows of a batch DataFrame, which Spark computes.

        Spark's tasks write the rows as files to a new folder below `staging`, which driver and executors must all
        see; the stream starts with the first finished file. Left out: the driver's temporary folder, which does for a
        cluster on one machine.
        """
        deployment = self._deployment
        if not isinstance(deployment, StagesDataFrames):
            raise ConfigurationError(f"{type(deployment).__name__} can't read DataFrames", hint="run the job on Spark")
        return self.from_source(deployment.stage_dataframe(dataframe, staging), **settings)

    def from_streaming_dataframe(
        self,
        dataframe: Any,
        *,
        every: str | None = None,
        available_now: bool = False,
        staging: str | None = None,
        **settings: Unpack[OperatorSettings],
    ) -> DataStream:
        """A typed stream of the rows of a streaming DataFrame (`spark.readStream…`), which Spark computes.

        Exactly once: each micro-batch is written to files once, and the checkpoint of the streaming query lies beside
        them, so that a restored job goes on with the query where its own checkpoint is. The files are deleted when a
        checkpoint has completed that no longer needs them; so only the newest checkpoint can be restored, or a
        savepoint with which the job was stopped.

        `every`: Spark's processing-time trigger, e.g. "2 seconds"; left out, one micro-batch follows the other.
        `available_now`: the stream ends with what is there when it starts. `staging`: a folder that driver and
        executors see; left out, the storage of the checkpoints.
        """
        if every is not None and available_now:
            raise ConfigurationError("a query has one trigger", hint="give every=… or available_now=True")
        deployment = self._deployment
        if not isinstance(deployment, StagesStreams):
            raise ConfigurationError(f"{type(deployment).__name__} can't read DataFrames", hint="run the job on Spark")
        trigger: dict[str, Any] = {"availableNow": True} if available_now else {}
        if every is not None:
            trigger = {"processingTime": every}
        return self.from_source(deployment.stage_streaming_dataframe(dataframe, staging, trigger), **settings)

    def explain(self, name: str = "job") -> Plan:
        """How the job as written so far would run: print it, or show it in a notebook."""
        graph = self._dataflow.graph
        found = validate(graph, complete=False) + unread_dead_letters(graph)
        return Plan(
            name=name,
            graph=to_execution_graph(graph, chaining=self.options.chaining),
            options=self.options,
            guarantees=guarantees_of(graph, self.options.checkpoints.checkpoint_mode),
            warnings=found,
        )

    def execute(
        self,
        name: str = "job",
        *,
        restore: str | None = None,
        require: Guarantee | str | None = None,
        job_id: str | None = None,
        allow_non_restored_state: bool = False,
        claim: bool = False,
    ) -> JobResult:
        """Runs the job to the end of its bounded input. An interrupt (Ctrl-C) cancels it."""
        job = self.submit(
            name,
            restore=restore,
            require=require,
            job_id=job_id,
            allow_non_restored_state=allow_non_restored_state,
            claim=claim,
        )
        return _wait(job)

    def submit(
        self,
        name: str = "job",
        *,
        restore: str | None = None,
        require: Guarantee | str | None = None,
        job_id: str | None = None,
        allow_non_restored_state: bool = False,
        claim: bool = False,
    ) -> JobHandle:
        """Starts the job and returns at once.

        `restore`: "latest" goes on from the newest snapshot of the same job id, a path from that savepoint or retained
        checkpoint; left out, the job starts empty. `require`: refuse to start with less than this guarantee, e.g.
        "exactly_once". `job_id`: made from the name if left out. `allow_non_restored_state`: drop the state of
        operators that the job no longer has; otherwise such a snapshot is refused. `claim`: the snapshot at the path
        becomes the job's, which deletes it as soon as it has as many checkpoints of its own as it retains; otherwise it
        stays yours, and is never touched.
        """
        restore = overrides().restored_from(restore)
        options = self._launch_options(restore, allow_non_restored_state=allow_non_restored_state, claim=claim)
        graph = self._dataflow.graph
        _warn(unread_dead_letters(graph))  # a stream that is collected leaves out what its result doesn't need
        return self._launch(graph, name, options, require=require, job_id=job_id)

    if not TYPE_CHECKING:  # type checkers know what there is

        def __getattr__(self, name: str) -> NoReturn:
            raise unknown_operation(type(self), name)

    def _run(self, graph: LogicalGraph, preview: Preview | None = None, timeout: Duration | None = None) -> JobResult:
        # Every collection is a job of its own: two on one storage must not take each other for an older attempt.
        job_id = f"collect-{uuid.uuid4().hex[:12]}"
        options = self.options
        if isinstance(options.restart, Unspecified):  # the caller waits for the result: what fails is told at once
            options = replace(options, restart=Unspecified(has_storage=False))
        options = replace(options, control=None)  # it is over before anyone has looked
        if preview is None:
            launch = LaunchOptions()
        else:
            # What was only looked at must not count as read: nothing is acknowledged without checkpoints.
            options = replace(options, checkpoints=Checkpoints(mode="none"), restart=NoRestart())
            launch = LaunchOptions(enough=preview.is_full)
        job = self._launch(graph, "collect", launch, require=None, job_id=job_id, job_options=options)
        return _wait(job) if preview is None else _wait_for(job, preview, timeout)

    def _launch(
        self,
        graph: LogicalGraph,
        name: str,
        options: LaunchOptions,
        *,
        require: Guarantee | str | None,
        job_id: str | None,
        job_options: JobOptions | None = None,
    ) -> JobHandle:
        if self._local:
            _refuse_endless(graph, enough=options.enough is not None)
            _say_that_it_is_local()
        job, found = self._plan(graph, name, require=require, job_id=job_id, options=job_options or self.options)
        _warn(found)
        running = self._deployment.launch(job, options)
        tell_launched(running)
        return JobHandle(running, name=name)

    def _plan(
        self,
        graph: LogicalGraph,
        name: str,
        *,
        require: Guarantee | str | None,
        job_id: str | None,
        options: JobOptions,
    ) -> tuple[JobPlan, tuple[str, ...]]:
        found = validate(graph)
        guarantees = guarantees_of(graph, options.checkpoints.checkpoint_mode)
        check_guarantees(guarantees, require)
        job_id = _checked_job_id(name, job_id)
        portable = make_portable(self._introduced(narrow_sources(graph), job_id, options))
        return JobPlan.of(name, job_id, portable, options, guarantees), found

    def _introduced(self, graph: LogicalGraph, job_id: str, options: JobOptions) -> LogicalGraph:
        deployment = self._deployment
        if not isinstance(deployment, HasSession):
            return graph
        return introduce_ends(graph, job_id=job_id, storage=options.checkpoints.storage, spark=deployment.session)

    def _launch_options(self, restore: str | None, *, allow_non_restored_state: bool, claim: bool) -> LaunchOptions:
        if restore is not None and not (isinstance(restore, str) and restore):
            raise ConfigurationError(f"restore can't be {restore!r}", hint='give "latest" or the path of a snapshot')
        if restore == "latest" and self.options.checkpoints.storage is None:
            raise ConfigurationError(
                'restore="latest" needs to know where the snapshots are',
                hint="set Checkpoints(storage=…) to the storage of the earlier run",
            )
        if claim and restore in (None, "latest"):
            raise ConfigurationError(
                "there is nothing to claim",
                detail="the job's own checkpoints are its own already",
                hint="claim=True goes with restore=…, the path of a savepoint or of another job's checkpoint",
            )
        return LaunchOptions(restore, allow_non_restored_state, claim)

    @property
    def _deployment(self) -> Launcher:
        if (instead := launcher_instead()) is not None:
            return instead
        if self._given_launcher is None:
            # Late, and by name: writing a job needs no Spark, and the API must not depend on how jobs are deployed.
            if self._local:
                self._given_launcher = importlib.import_module("cutwater.testing.harness").LocalLauncher()
            else:
                self._given_launcher = importlib.import_module("cutwater.deploy.launcher").SparkLauncher(self._spark)
        return self._given_launcher


def _refuse_endless(graph: LogicalGraph, *, enough: bool) -> None:
    """A local job is played to its end before anything else happens."""
    endless = [node for node in graph.nodes.values() if node.kind is NodeKind.SOURCE and not node.connector.bounded]
    if endless and not enough:
        raise GraphError(
            "a local job needs an input that ends",
            detail=f"{describe_node(endless[0])} has no end",
            hint="look at its first records with stream.show(20) or stream.limit(1000).to_pandas(), or run it on "
            "Spark, without local=True",
        )


@cache
def _say_that_it_is_local() -> None:
    """Once: who tries things out starts many."""
    sys.stderr.write("cutwater: this job runs in this process (local=True), not on a cluster; leave it out for Spark\n")


def _warn(found: tuple[str, ...]) -> None:
    file, line = users_line()
    for warning in found:
        warnings.warn_explicit(warning, UserWarning, file, line)


def _wait(job: JobHandle) -> JobResult:
    try:
        return job.wait()
    except KeyboardInterrupt:
        job.cancel()
        raise


def _wait_for(job: JobHandle, preview: Preview, timeout: Duration | None) -> JobResult:
    """Ends the job when the preview is full, or the time is over."""
    deadline = None if timeout is None else time.monotonic() + parse_duration(timeout, option="timeout")
    try:
        while not preview.wait_until_full(_LOOK_SECONDS) and (deadline is None or time.monotonic() < deadline):
            with suppress(TimeoutError):
                return job.wait("0s")
    finally:
        job.cancel()
    with suppress(CutwaterError):  # enough has come: how the rest would have gone on doesn't matter
        return job.wait()
    return JobResult(job.status(), 0.0)


def _checked_job_id(name: str, job_id: str | None) -> str:
    if not isinstance(name, str) or not name.strip():
        raise ConfigurationError(f"a job needs a name, not {name!r}")
    if job_id is None:
        return job_id_of(name)
    if not isinstance(job_id, str) or not _JOB_ID.fullmatch(job_id):
        raise ConfigurationError(
            f"{job_id!r} can't be a job id", hint="use letters, digits, dots, dashes and underscores: it names a folder"
        )
    return job_id
