"""Does a user's own job give the failure-free answer, whatever breaks?

The job runs on production code in virtual time, with stand-ins for its sinks, and for its sources where it has some.
First it runs a few times without faults: from then on its output is known. Then each seed plays it in a world of its
own, with all the faults and lives that our own jobs are tried with, and the committed output is compared.
"""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from textwrap import indent
from typing import Any

from cutwater.api.dataflow import Build, SourceBuild
from cutwater.api.serialization import PickledBuild, make_portable
from cutwater.connectors.contract import Source
from cutwater.connectors.file_source import FileSource
from cutwater.connectors.generator import GeneratorSource
from cutwater.connectors.socket_source import SocketSource
from cutwater.errors import ConfigurationError, CutwaterError, SimulationBrokenError
from cutwater.graph.model import LogicalGraph, LogicalNode, NodeKind
from cutwater.graph.plan import JobPlan
from cutwater.operators.sink import WriterOperator
from cutwater.protocol.modes import CheckpointMode
from cutwater.protocol.recovery import SnapshotCompleted
from cutwater.snapshots.format import Manifest
from cutwater.testing.simulation.cases import Case, Read, States
from cutwater.testing.simulation.checkers import Checker
from cutwater.testing.simulation.comparison import Comparison, Output, difference
from cutwater.testing.simulation.conditions import Conditions, Ending, Fault, LifeConditions, Program
from cutwater.testing.simulation.lineage import Snapshot
from cutwater.testing.simulation.run import EVENTS_MAX, JOB_ID, Outcome, Run, draw_options
from cutwater.testing.simulation.world import InvariantBroken
from cutwater.testing.stand_ins import StandInSink, StandInSource

#: Calm runs that must agree before faults are tried.
REFERENCES = 3
#: So many batches a run reads about: enough that faults come in between, few enough to be quick.
BATCHES = (15, 60, 150)
EVENTS_PER_CALM_EVENT = 60
CALM_EVENTS_MAX = 5_000_000
SECONDS_MAX = 86_400.0
#: Without checkpoints.
COMMIT_INTERVAL_SECONDS = 0.02


@dataclass(frozen=True, slots=True)
class UserJob:
    """A job to simulate. Can be pickled."""

    plan: JobPlan
    comparison: Comparison = Comparison.MULTISET
    #: By uid of a source: the records to read in its place.
    stand_ins: Mapping[str, Sequence[Any]] | None = None

    @property
    def mode(self) -> CheckpointMode:
        return self.plan.options.checkpoints.checkpoint_mode


@dataclass(frozen=True, slots=True)
class Reference:
    """What runs without faults have shown."""

    output: Output
    #: The output is the same at another parallelism.
    can_be_rescaled: bool
    records: int
    events: int


def reference_of(job: UserJob) -> Reference:
    """Plays the job without faults. Raises what the job fails with, or that its output is not always the same."""
    runs = [UserRun(seed, job, None, trace=False).played() for seed in range(REFERENCES)]
    first = runs[0]
    for seed, other in enumerate(runs[1:], 1):
        differs = difference(first.output(), other.output(), mode=job.mode, comparison=job.comparison)
        if differs is not None and job.mode is CheckpointMode.EXACTLY_ONCE:
            raise ConfigurationError(
                f"without any fault, the output of job {job.plan.name!r} differs between two runs",
                detail=f"seed {seed} against seed 0: {differs}",
                hint="its output depends on the order in which tasks run, or on the clock, so there is no right answer "
                "to compare with; let the program sort it out, or compare less: --compare set or --compare nothing",
            )
    records = sum(map(len, first.output().values())) or 1
    return Reference(first.output(), _can_be_rescaled(job, first.output()), records, first.world.events)


def _can_be_rescaled(job: UserJob, output: Output) -> bool:
    options = job.plan.options
    other = replace(job, plan=job.plan.at(options.parallelism % 3 + 1))
    found = UserRun(0, other, None, trace=False).played().output()
    return difference(output, found, mode=job.mode, comparison=job.comparison) is None


def run_user_seed(seed: int, job: UserJob, reference: Reference, *, trace: bool = False) -> Outcome:
    """Plays one seed in a fresh world."""
    return UserRun(seed, job, reference, trace=trace).play()


def check_seed(job: UserJob, seed: int) -> None:
    """Raises `SimulationBrokenError` when the output under this seed's faults is not what it must be."""
    outcome = run_user_seed(seed, job, reference_of(job))
    if outcome.broken is not None:
        raise SimulationBrokenError(
            f"job {job.plan.name!r} breaks under the faults of seed {seed}",
            detail=f"{outcome.broken}\n{functions_of(job.plan)}",
            hint="keep what a function must remember in its state: fields are lost when a task starts again; "
            f"`cutwater simulate` with --seed {seed} --trace shows every event",
        )


def functions_of(plan: JobPlan) -> str:
    """The user's operators, and where they were written."""
    nodes = [node for node in plan.logical.nodes.values() if node.kind is NodeKind.OPERATOR]
    told = [f"{node.name} ({node.written_at})" if node.written_at else node.name for node in nodes]
    return "its functions: " + ", ".join(told) if told else "it has no functions of its own"


class UserRun(Run):
    """One seed of a user's job; without a reference, a calm one."""

    def __init__(self, seed: int, job: UserJob, reference: Reference | None, *, trace: bool) -> None:
        self.user = job
        self.reference = reference
        calm = reference is None
        self.events_max = CALM_EVENTS_MAX if calm else EVENTS_MAX + EVENTS_PER_CALM_EVENT * self._known.events
        self.seconds_max = SECONDS_MAX
        super().__init__(seed, None, trace=trace, calm=calm)

    @property
    def _known(self) -> Reference:
        assert self.reference is not None
        return self.reference

    def played(self) -> UserRun:
        """The same run, at its end. Raises what made the job fail."""
        outcome = self.play()
        if outcome.broken is not None:
            failure = self.life.cluster.nodes[-1].coordinator.failure
            raise failure or SimulationBrokenError(
                f"job {self.user.plan.name!r} can't be simulated", detail=outcome.broken
            )
        return self

    def output(self) -> Output:
        """What is visible of the line that the job is in."""
        assert isinstance(self.checker, UserChecker)
        return self.checker.output()

    def _draw_case(self, random: Random, job: str | None) -> tuple[str, Case]:
        plan = self.user.plan
        limit = None if self.reference is None else max(1, self._known.records // random.choice(BATCHES))
        graph = _with_stand_ins(self.user, limit)
        sinks = tuple(uid for uid, node in graph.nodes.items() if node.kind is NodeKind.SINK)
        return plan.name, Case(graph, {}, sinks, _no_output, _no_state, self.user.mode, timed=False)

    def _draw_files(self) -> Random | None:
        """Its sinks have stand-ins."""
        return None

    def _draw_conditions(self, random: Random, *, calm: bool) -> Conditions:
        conditions = super()._draw_conditions(random, calm=calm)
        rescales = self.reference is not None and self._known.can_be_rescaled
        lives = tuple(_for_users(life, rescales=rescales) for life in conditions.lives)
        return replace(conditions, lives=lives)

    def _make_checker(self) -> Checker:
        return UserChecker(self)

    def _make_plan(self, random: Random, *, calm: bool) -> JobPlan:
        plan = self.user.plan
        options = draw_options(plan.options, self.user.mode, random, calm=calm)
        if calm:
            options = replace(options, restart=plan.options.restart)
        return JobPlan.of(plan.name, JOB_ID, make_portable(self.case.graph), options, plan.guarantees)


def _for_users(life: LifeConditions, *, rescales: bool) -> LifeConditions:
    """Without what would change the answer: another key grouping, the end of event time, other tasks."""
    ending = life.ending
    if ending is not None and ending[1] is Ending.DRAIN:
        ending = (ending[0], Ending.STOP)
    faults = tuple((moment, fault) for moment, fault in life.faults if rescales or fault is not Fault.RESCALE)
    program = Program.SAME if life.program is Program.INCOMPATIBLE else life.program
    parallelism = life.parallelism if rescales else None
    return replace(life, faults=faults, ending=ending, program=program, parallelism=parallelism, backend=None)


class UserChecker(Checker):
    """Has no model of the job; knows its output without faults."""

    def __init__(self, run: UserRun) -> None:
        super().__init__(run.world, run.storage, run.parts, run.case, JOB_ID)
        self._run = run

    def output(self) -> Output:
        found: dict[str, list[Any]] = {sink: [] for sink in self._case.sinks}
        for part in self._visible_in_line():
            found[part.rpartition("/")[0]] += self._part(part)
        return found

    def finish(self, *, undisturbed: bool) -> None:
        run = self._run
        if run.reference is None:
            return
        user = run.user
        differs = difference(run.reference.output, self.output(), mode=user.mode, comparison=user.comparison)
        if differs is not None:
            at_least_once = user.mode is CheckpointMode.AT_LEAST_ONCE
            what = "records are missing from the output" if at_least_once else "the output is not that of a calm run"
            raise InvariantBroken(what, indent(f"\n{differs}", "  "))

    def gives_up(self, attempt: int, failure: CutwaterError | None) -> bool:
        """A calm run ends with what the user's own restart strategy makes of a failure."""
        if self._run.reference is None:
            raise InvariantBroken("the job fails without any fault", str(failure))
        return super().gives_up(attempt, failure)

    def _check_cut(self, entry: SnapshotCompleted, manifest: Manifest, completed: Snapshot) -> None:
        """What the state must be, only the user knows."""

    def _check_savepoint(self, taken: SnapshotCompleted, manifest: Manifest) -> None:
        """Nor here."""


# Stand-ins.


def _with_stand_ins(job: UserJob, limit: int | None) -> LogicalGraph:
    """The graph with stand-ins for sinks and sources, and sources that read so many records at a time."""
    graph = graph_with_sources(job, limit)
    nodes = dict(graph.nodes)
    for uid, node in graph.nodes.items():
        if node.kind is NodeKind.SINK:
            sink = StandInSink(uid)
            build = Build(WriterOperator, (sink, job.mode, COMMIT_INTERVAL_SECONDS))
            nodes[uid] = replace(node, connector=sink, build=build)
    return LogicalGraph(nodes, list(graph.edges))


def graph_with_sources(job: UserJob, limit: int | None = None) -> LogicalGraph:
    """The graph with stand-ins for sources; None: they read as many records at a time as they do."""
    given = job.stand_ins or {}
    nodes = {
        uid: _source_node(node, given.get(uid), limit) if node.kind is NodeKind.SOURCE else node
        for uid, node in job.plan.logical.nodes.items()
    }
    return LogicalGraph(nodes, list(job.plan.logical.edges))


def _source_node(node: LogicalNode, records: Sequence[Any] | None, limit: int | None) -> LogicalNode:
    build = pickle.loads(node.build.data) if isinstance(node.build, PickledBuild) else node.build
    assert isinstance(build, SourceBuild), build
    source = build.source
    if records is not None:
        source = StandInSource(source.name, records, source.schema)
    elif not _ends(source):
        raise ConfigurationError(
            f'source "{node.uid}" ({source.name}) has no end, so it can\'t be simulated',
            hint=f"give it records: --stand-in {node.uid}=records.jsonl, or wrap it in cutwater.testing.stand_in(…)",
        )
    return replace(node, connector=source, build=replace(build, source=source, limit=limit))


def _ends(source: Source) -> bool:
    """Of a source that isn't ours we believe that it does."""
    match source:
        case GeneratorSource():
            return source._count is not None
        case FileSource():
            return not source._watch
        case _:
            return not isinstance(source, SocketSource)


def _no_output(read: Read) -> Counter[Hashable]:
    return Counter()


def _no_state(read: Read) -> States:
    return {}
