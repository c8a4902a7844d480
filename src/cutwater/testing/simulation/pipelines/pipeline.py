"""How does a drawn pipeline become a job, and what must come out of it?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any, Literal, NoReturn

from cutwater.api.environment import Environment
from cutwater.api.launching import LaunchOptions
from cutwater.config import Checkpoints
from cutwater.graph.model import LogicalGraph
from cutwater.graph.plan import JobPlan
from cutwater.protocol.modes import CheckpointMode
from cutwater.testing.simulation.connectors import PlainSink, SimulatedSink
from cutwater.testing.simulation.pipelines.endings import Ending, Found, RunningTotals
from cutwater.testing.simulation.pipelines.meetings import Meeting
from cutwater.testing.simulation.pipelines.rows import Row
from cutwater.testing.simulation.pipelines.sources import DrawnSource, Time
from cutwater.testing.simulation.pipelines.stages import Passed, Site, Stage

SinkKind = Literal["transactional", "plain"]
Change = Literal["compatible", "incompatible"]
MAX_PARALLELISM = 16
SINK = "out"


@dataclass(frozen=True, slots=True)
class Branch:
    """A source and what follows it before branches meet."""

    source: DrawnSource
    stages: tuple[Stage, ...]

    def describe(self) -> str:
        return " → ".join([self.source.describe(), *(stage.describe() for stage in self.stages)])

    def rows(self, read: Sequence[Row]) -> list[Row]:
        return through(self.stages, list(read))


@dataclass(frozen=True, slots=True)
class Pipeline:
    """A job of the grammar."""

    branches: tuple[Branch, ...]
    meetings: tuple[Meeting, ...]
    stages: tuple[Stage, ...]
    ending: Ending
    sink: SinkKind
    mode: CheckpointMode
    time: Time
    parallelism: int
    backend: str
    #: Decides which operators have a parallelism of their own, and which are not chained.
    layout: int
    renamed: bool = False

    def describe(self) -> str:
        """`[2 branches] → … → sink`, in one line."""
        begin = self.branches[0].describe()
        for meeting, branch in zip(self.meetings, self.branches[1:], strict=True):
            begin = f"[{begin}] {meeting.describe()} [{branch.describe()}]"
        parts = [begin, *(stage.describe() for stage in self.stages), self.ending.describe(), self.sink]
        job = f"{self.mode}, parallelism {self.parallelism}, {self.backend}"
        return f"{' → '.join(filter(None, parts))} ({job})"

    # The job.

    def graph(self) -> LogicalGraph:
        """What `Environment.submit` would run."""
        launcher = _Kept()
        env = Environment(
            launcher=launcher,
            parallelism=self.parallelism,
            max_parallelism=MAX_PARALLELISM,
            checkpoints=Checkpoints(mode=self.mode, storage="simulated"),
        )
        self._write(env, Site(Random(self.layout), self.renamed))
        env.submit("simulated job")
        assert launcher.plan is not None
        graph = launcher.plan.logical
        # Where it was written depends on who runs the simulator, and would be part of the job's bytes.
        return LogicalGraph({uid: replace(node, written_at="") for uid, node in graph.nodes.items()}, graph.edges)

    def _write(self, env: Environment, site: Site) -> None:
        streams = []
        for branch in self.branches:
            stream = branch.source.build(env, site)
            for stage in branch.stages:
                stream = stage.build(stream, site)
            streams.append(stream)
        stream = streams[0]
        for meeting, other in zip(self.meetings, streams[1:], strict=True):
            stream = meeting.build(stream, other, site)
        for stage in self.stages:
            stream = stage.build(stream, site)
        sink = PlainSink(SINK) if self.sink == "plain" else SimulatedSink(SINK)
        output = self.ending.build(stream, site)
        settings = site.settings("sink")
        settings["uid"] = SINK
        output.sink_to(sink, **settings)

    def changed(self, change: Change, random: Random) -> Pipeline | None:
        """Another program for the state of this one; None: it keeps no state that could be missed.

        Compatible: laid out otherwise, with an operator more, its aggregates in another order. Incompatible: its typed
        aggregates are those of another column, or the operators with state have other uids.
        """
        totals = self.ending if isinstance(self.ending, RunningTotals) else None
        if change == "compatible":
            ending = self.ending if totals is None else replace(totals, order=totals.order[::-1])
            stages = (*self.stages, Passed()) if random.random() < 0.5 else self.stages
            parallelism, layout = random.randint(1, 3), random.getrandbits(32)
            return replace(self, ending=ending, stages=stages, parallelism=parallelism, layout=layout)
        if totals is not None and random.random() < 0.8:
            return replace(self, ending=replace(totals, exchanged=True))
        other = replace(self, renamed=True)
        return other if other.graph().nodes.keys() != self.graph().nodes.keys() else None

    # Its model.

    @property
    def keeps_rows(self) -> bool:
        """What was read before a cut may still be on its way to the output."""
        return any(stage.keeps_rows for stage in (*self.stages, *(s for one in self.branches for s in one.stages)))

    def rows(self, read: Mapping[str, Sequence[Any]]) -> list[Row]:
        """What reaches the ending when these rows have been read."""
        rows = self.branches[0].rows(read[self.branches[0].source.operator])
        for meeting, branch in zip(self.meetings, self.branches[1:], strict=True):
            rows = meeting.expect(rows, branch.rows(read[branch.source.operator]))
        return through(self.stages, rows)

    def expected(self, read: Mapping[str, Sequence[Any]]) -> Found | None:
        return self.ending.expected(self.rows(read))

    def judge(self, read: Mapping[str, Sequence[Any]], found: Found, *, undisturbed: bool) -> str | None:
        """What is wrong with the output of the whole job; None: nothing."""
        rows = self.rows(read)
        if undisturbed or (self.mode is CheckpointMode.EXACTLY_ONCE and self.sink == "transactional"):
            return self.ending.judge(rows, found)
        expected = self.ending.expected(rows)
        if self.mode is CheckpointMode.NONE:
            assert expected is not None, "drawn so"
            return None if found <= expected else f"came twice: {found - expected}"
        if expected is None:
            return self._lost(Counter(row.k for row in rows), Counter(map(self.ending.owner, found.elements())))
        if self.mode is CheckpointMode.EXACTLY_ONCE and found.keys() - expected.keys():
            return f"never meant to come: {sorted(found.keys() - expected.keys(), key=str)[:8]}"
        owners = (Counter(map(self.ending.owner, outputs.elements())) for outputs in (expected, found))
        return self._lost(*owners)

    def _lost(self, expected: Found, found: Found) -> str | None:
        lost = expected - found
        return f"lost {sorted(lost.items(), key=str)[:8]}" if lost else None


def through(stages: Sequence[Stage], rows: list[Row]) -> list[Row]:
    for stage in stages:
        rows = stage.expect(rows)
    return rows


class _Kept:
    """A launcher that runs nothing, and keeps what it is given."""

    plan: JobPlan | None = None

    def launch(self, job: JobPlan, options: LaunchOptions) -> Any:
        self.plan = job
        return _Nothing()


class _Nothing:
    job_id = "nothing"

    def __getattr__(self, name: str) -> NoReturn:
        raise AssertionError(f"{name} of a job that doesn't run")
