"""What becomes of one seed?"""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random

import cloudpickle

from cutwater.config import Checkpoints
from cutwater.graph.guarantees import guarantees_of
from cutwater.graph.plan import JobPlan
from cutwater.protocol.modes import CheckpointMode
from cutwater.protocol.restart import fixed_delay
from cutwater.protocol.watermarks import MIN_TIMESTAMP_MS
from cutwater.runtime.recovering import History
from cutwater.testing.simulation import registry
from cutwater.testing.simulation.cases import Case
from cutwater.testing.simulation.checkers import Checker
from cutwater.testing.simulation.cluster import Cluster
from cutwater.testing.simulation.conditions import draw_conditions
from cutwater.testing.simulation.event_time import ChannelPromises
from cutwater.testing.simulation.faults import schedule_faults
from cutwater.testing.simulation.jobs import JOBS, WEIGHTS
from cutwater.testing.simulation.network import Network
from cutwater.testing.simulation.picture import describe
from cutwater.testing.simulation.storage import SimulatedStorage
from cutwater.testing.simulation.trace import Trace
from cutwater.testing.simulation.world import InvariantBroken, World

JOB_ID = "job"
#: A run that needs more is stuck; the longest healthy ones need a quarter of it.
EVENTS_MAX = 60_000
SECONDS_MAX = 120.0
#: Short, so that the silence of a channel that hangs costs few events.
HEARTBEAT_TIMEOUT_SECONDS = 2.0
#: What zombies may still do after the job has finished.
AFTERLIFE_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """A run that ended. `broken` is None when everything held."""

    seed: int
    job: str
    broken: str | None
    events: int
    seconds: float
    attempts: int
    trace: Trace


class Poisoned(RuntimeError):
    """What a user's function raises when its time has come."""


class Run:
    """One seed in one world."""

    def __init__(self, seed: int, job: str | None, *, trace: bool, calm: bool = False) -> None:
        random = Random(seed)
        self.seed = seed
        drawn = random.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]
        self.job = job or drawn
        self.case: Case = JOBS[self.job](random)
        has_checkpoints = self.case.mode is not CheckpointMode.NONE
        # Without checkpoints nothing survives the driver: a new one would start the job, not go on with it.
        conditions = draw_conditions(random, coordinator_may_fail=has_checkpoints, calm=calm)
        self.trace = Trace(on=trace)
        self.world = World(conditions, random, self.trace, events_max=EVENTS_MAX, seconds_max=SECONDS_MAX)
        self.world.describe = lambda: describe(self)
        self.storage = SimulatedStorage(self.world)
        self.network = Network(self.world)
        self.checker = Checker(self.world, self.storage, self.case, JOB_ID)
        if self.case.timed:
            self.network.carries = ChannelPromises().carries
        #: The furthest that event time has come where records are sorted by it.
        self.latest_time_ms = MIN_TIMESTAMP_MS
        self.poisoned = False
        self.disturbed = bool(conditions.faults or conditions.storage_fault_rate)
        plan = _plan(self.case, random, calm=calm)
        self.cluster = Cluster(self, plan, bytes(cloudpickle.dumps(plan)), History())
        self.storage.cut_off = self.cluster.cut_off

    def touch(self, where: str) -> None:
        """Called by the functions of jobs: the place where they fail."""
        if self.poisoned:
            self.poisoned = False
            self.world.note("%s fails", where)
            raise Poisoned(where)

    def time_seen(self, timestamp_ms: int) -> None:
        self.latest_time_ms = max(self.latest_time_ms, timestamp_ms)

    def play(self) -> Outcome:
        """To the end, and beyond: until the last zombie is gone."""
        broken: str | None = None
        try:
            with registry.entered(self):
                self._play()
        except InvariantBroken as problem:
            broken = f"{problem}\n{self.case.line}".rstrip()
            self.world.note("BROKEN %s", broken)
        finally:
            self.case.close()
        attempts = self.checker.attempts
        return Outcome(self.seed, self.job, broken, self.world.events, self.world.now, attempts, self.trace)

    def _play(self) -> None:
        world, cluster = self.world, self.cluster
        self.world.note("job %s, conditions %s", self.case.line or self.job, world.conditions)
        schedule_faults(self)
        world.after(0.0, cluster.start_coordinator)
        world.run(lambda: cluster.finished)
        if not cluster.finished:
            raise InvariantBroken("the job is stuck: nothing will ever happen", describe(self))
        self.checker.finish(undisturbed=not self.disturbed)
        world.run_for(AFTERLIFE_SECONDS)
        self.checker.finish(undisturbed=not self.disturbed)


def run_seed(seed: int, job: str | None = None, *, trace: bool = False, calm: bool = False) -> Outcome:
    """Plays one seed in a fresh world."""
    return Run(seed, job, trace=trace, calm=calm).play()


def _plan(case: Case, random: Random, *, calm: bool) -> JobPlan:
    if case.mode is CheckpointMode.NONE:
        checkpoints = Checkpoints(mode=CheckpointMode.NONE, storage="simulated")
    else:
        checkpoints = Checkpoints(
            every=random.choice(("4ms", "10ms", "30ms")),
            mode=case.mode,
            storage="simulated",
            # A barrier needs its time through the many channels of a drawn pipeline.
            timeout="10s"
            if calm
            else random.choice(("100ms", "500ms", "10s") if case.pipeline is None else ("1s", "2s", "10s")),
            max_concurrent=random.choice((1, 1, 2)),
            tolerable_failures=random.choice((0, 1, 5)),
            retain=random.choice((1, 2, 3)),
        )
    options = replace(
        case.options,
        checkpoints=checkpoints,
        restart=fixed_delay(attempts=100_000, delay_seconds=random.choice((0.0, 0.01, 0.05))),
        spare_slots=random.choice((0, 0, 1)),
        heartbeat_interval=f"{HEARTBEAT_TIMEOUT_SECONDS / 10}s",
        heartbeat_timeout=f"{HEARTBEAT_TIMEOUT_SECONDS}s",
        inline_state_bytes_max=random.choice((0, 0, 200, 65536)),
    )
    options = replace(options, chaining=random.random() < 0.8)
    return JobPlan.of("simulated job", JOB_ID, case.graph, options, guarantees_of(case.graph, case.mode))
