"""What becomes of one seed?"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field, replace
from random import Random

from cutwater.config import Checkpoints, JobOptions
from cutwater.errors import CutwaterError
from cutwater.graph.guarantees import guarantees_of
from cutwater.graph.plan import JobPlan
from cutwater.protocol.modes import CheckpointMode
from cutwater.protocol.restart import fixed_delay
from cutwater.protocol.watermarks import MIN_TIMESTAMP_MS
from cutwater.testing.simulation import registry
from cutwater.testing.simulation.cases import Case
from cutwater.testing.simulation.checkers import Checker
from cutwater.testing.simulation.cluster import Cluster
from cutwater.testing.simulation.conditions import (
    Conditions,
    Kind,
    LifeConditions,
    Milestone,
    draw_conditions,
    with_files,
)
from cutwater.testing.simulation.event_time import ChannelPromises
from cutwater.testing.simulation.faults import schedule_faults
from cutwater.testing.simulation.file_output import RATE as FILES_RATE
from cutwater.testing.simulation.file_output import FileOutput
from cutwater.testing.simulation.files import SimulatedFiles
from cutwater.testing.simulation.jobs import JOBS, WEIGHTS
from cutwater.testing.simulation.lives import Life
from cutwater.testing.simulation.network import Network
from cutwater.testing.simulation.parts import Parts, SimulatedParts
from cutwater.testing.simulation.picture import describe
from cutwater.testing.simulation.storage import SimulatedStorage
from cutwater.testing.simulation.trace import Trace
from cutwater.testing.simulation.world import InvariantBroken, World

JOB_ID = "job"
#: A run that needs more is stuck; the longest healthy ones need a quarter of it.
EVENTS_MAX = 100_000
SECONDS_MAX = 120.0
#: Short, so that the silence of a channel that hangs costs few events.
HEARTBEAT_TIMEOUT_SECONDS = 1.0
#: Of checkpoints. The last is longer than a run: there nothing but the liveness of channels ends an attempt that hangs.
TIMEOUTS = ("100ms", "500ms", "10s", "10min")
#: A barrier needs its time through the many channels of a drawn pipeline.
WIDE_TIMEOUTS = ("1s", "2s", "10s", "10min")
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
    #: How often each kind of fault struck.
    injected: Counter[Kind] = field(default_factory=Counter)


class Poisoned(RuntimeError):
    """What a user's function raises when its time has come."""


class Run:
    """One seed in one world."""

    events_max = EVENTS_MAX
    seconds_max = SECONDS_MAX

    def __init__(self, seed: int, job: str | None, *, trace: bool, calm: bool = False) -> None:
        random = Random(seed)
        self.seed = seed
        self.job, self.case = self._draw_case(random, job)
        chance = self._draw_files()
        conditions = self._draw_conditions(random, calm=calm)
        if chance is not None and not calm:
            conditions = with_files(conditions, chance)
        self.disturbed = conditions.disturbed
        self.trace = Trace(on=trace)
        self.world = World(conditions, random, self.trace, events_max=self.events_max, seconds_max=self.seconds_max)
        self.world.describe = lambda: describe(self)
        self.storage = SimulatedStorage(self.world)
        self.files: SimulatedFiles = SimulatedFiles(self.world, self.storage)
        self.network = Network(self.world)
        #: None: the sinks are the simulator's own.
        self.file_output = None if chance is None else FileOutput(self.files, chance)
        self.parts: Parts = self.file_output or SimulatedParts(self.storage, self.case.outputs)
        self.checker = self._make_checker()
        if self.case.timed:
            promises: dict[int, ChannelPromises] = defaultdict(ChannelPromises)
            self.network.carries = lambda life, channel, element: promises[life].carries(channel, element)
        #: The furthest that event time has come where records are sorted by it.
        self.latest_time_ms = MIN_TIMESTAMP_MS
        self.poisoned = False
        self._claims = 0
        self.storage.created = self._file_created
        self.files.linked = self.checker.file_published
        #: Paths of those that were taken.
        self.savepoints: list[str] = []
        self.plan = self._make_plan(random, calm=calm)
        self.life: Life = Life(self, 1, conditions.lives[0])
        self.storage.cut_off = lambda process: self.cluster.cut_off(process)

    # What another kind of run does otherwise.

    def _draw_case(self, random: Random, job: str | None) -> tuple[str, Case]:
        drawn = random.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]
        return job or drawn, JOBS[job or drawn](random)

    def _draw_files(self) -> Random | None:
        """None: no output goes into files. Chance of its own: all else that a seed draws is the same with either."""
        random = Random(f"files of {self.seed}")
        may_be = self.case.mode is CheckpointMode.EXACTLY_ONCE and bool(self.case.sinks)
        return random if may_be and random.random() < FILES_RATE else None

    def _draw_conditions(self, random: Random, *, calm: bool) -> Conditions:
        # Without checkpoints nothing survives the driver: a new one would start the job, not go on with it.
        has_checkpoints = self.case.mode is not CheckpointMode.NONE
        restless = self.case.pipeline is not None and self.case.pipeline.time == "restless"
        return draw_conditions(random, coordinator_may_fail=has_checkpoints, calm=calm, restless=restless)

    def _make_checker(self) -> Checker:
        return Checker(self.world, self.storage, self.parts, self.case, JOB_ID)

    def _make_plan(self, random: Random, *, calm: bool) -> JobPlan:
        is_wide = self.case.pipeline is not None
        options = draw_options(self.case.options, self.case.mode, random, calm=calm, is_wide=is_wide)
        guarantees = guarantees_of(self.case.graph, self.case.mode)
        return JobPlan.of("simulated job", JOB_ID, self.case.graph, options, guarantees)

    @property
    def has_event_time(self) -> bool:
        return self.case.timed or (self.case.pipeline is not None and self.case.pipeline.time != "none")

    @property
    def cluster(self) -> Cluster:
        return self.life.cluster

    @property
    def owner(self) -> int:
        """The life of the process that runs now."""
        process = self.world.current
        return self.life.owner if process is None else process.owner

    def _file_created(self, path: str) -> None:
        self.checker.file_created(path)
        if self.checker.attempts > self._claims:
            self._claims = self.checker.attempts
            self.life.milestones.reached(Milestone.CLAIMED, self._claims)

    def savepoint_answered(self, path: str, error: CutwaterError | None) -> None:
        self.world.note("savepoint: %s", path or error)
        if error is None:
            self.checker.savepoint_taken(path)
            self.savepoints.append(path)
            self.life.milestones.reached(Milestone.SAVED, path)

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
        world = self.world
        return Outcome(self.seed, self.job, broken, world.events, world.now, attempts, self.trace, world.injected)

    def _play(self) -> None:
        world = self.world
        world.note("job %s, conditions %s", self.case.line or self.job, world.conditions)
        for number, conditions in enumerate(world.conditions.lives, 1):
            self._live(number, conditions)
        world.run_for(AFTERLIFE_SECONDS)
        self._check(self.life)

    def _live(self, number: int, conditions: LifeConditions) -> None:
        world = self.world
        if number > 1:
            self.life = Life(self, number, conditions)
        world.calm_from = world.now + world.conditions.quiet_after_seconds
        life = self.life
        schedule_faults(self, life)
        life.begin()
        world.run(lambda: life.over)
        if not life.over:
            raise InvariantBroken("the job is stuck: nothing will ever happen", describe(self))
        life.cluster.bury()
        self._check(life)

    def _check(self, life: Life) -> None:
        self.checker.check_visible(complete=life.complete)
        if life.complete and not life.stopped:
            self.checker.finish(undisturbed=not self.disturbed)


def run_seed(seed: int, job: str | None = None, *, trace: bool = False, calm: bool = False) -> Outcome:
    """Plays one seed in a fresh world."""
    return Run(seed, job, trace=trace, calm=calm).play()


def draw_options(
    options: JobOptions, mode: CheckpointMode, random: Random, *, calm: bool, is_wide: bool = False
) -> JobOptions:
    """The same options, with checkpoints so close together that a short run has many."""
    if mode is CheckpointMode.NONE:
        checkpoints = Checkpoints(mode=CheckpointMode.NONE, storage="simulated")
    else:
        checkpoints = Checkpoints(
            every=random.choice(("4ms", "10ms", "30ms")),
            mode=mode,
            storage="simulated",
            timeout="10s" if calm else random.choice(WIDE_TIMEOUTS if is_wide else TIMEOUTS),
            max_concurrent=random.choice((1, 1, 2)),
            tolerable_failures=random.choice((0, 1, 5)),
            retain=random.choice((1, 2, 3)),
        )
    return replace(
        options,
        checkpoints=checkpoints,
        restart=fixed_delay(attempts=100_000, delay_seconds=random.choice((0.0, 0.01, 0.05))),
        spare_slots=random.choice((0, 0, 1)),
        heartbeat_interval=f"{HEARTBEAT_TIMEOUT_SECONDS / 10}s",
        heartbeat_timeout=f"{HEARTBEAT_TIMEOUT_SECONDS}s",
        inline_state_bytes_max=random.choice((0, 0, 200, 65536)),
        chaining=random.random() < 0.8,
    )
