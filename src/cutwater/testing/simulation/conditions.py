"""How fast and how broken is the world of a seed, and how many lives does its job have?

Every seed draws its own mixture (swarm testing): some worlds are nearly calm, some know one kind of fault only, in
some everything breaks. A job may live several times: each life is ended before its input is, and the next one goes on
from what was left, or doesn't. Some time into a life nothing new breaks, so that every run has to end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import pairwise
from random import Random
from typing import TypeVar

Drawn = TypeVar("Drawn")


class Fault(StrEnum):
    """What befalls a process, a connection or a file at some moment, or what a person asks for then."""

    KILL_SLOT = "kill slot"
    PARTITION_SLOT = "partition slot"
    KILL_COORDINATOR = "kill coordinator"
    PARTITION_COORDINATOR = "partition coordinator"
    POISON = "user exception"
    BREAK_CHANNEL = "break channel"
    HANG_CHANNEL = "hang channel"
    PARTITION_PAIR = "partition two slots"
    STALL = "stall process"
    CLOCK_JUMP = "wall clock jumps"
    DAMAGE_AT_REST = "damage a file of a snapshot"
    RESCALE = "rescale"
    SAVEPOINT = "savepoint"


class StorageFault(StrEnum):
    """What befalls a storage operation.

    Listings are never stale: object stores list consistently today, and NFS and HDFS do for one who opens the folder
    anew. A snapshot store on something weaker is not supported.
    """

    FAIL = "fail"
    HALF = "half"
    HALF_CRASH = "half, then crash"
    LOST_ANSWER = "lost answer"
    DENIED_ANSWER = "created, but told that it was there"
    DELAYED = "reported failed, and lands later"
    DAMAGED_READ = "damaged read"
    CRASH_BEFORE = "crash before"
    CRASH_AFTER = "crash after"
    SLOW = "slow"
    CUT_OFF = "slow, and its coordinator is thought dead meanwhile"


class Hindrance(StrEnum):
    """What makes a life harder from its beginning to its end."""

    SLOW_OPEN = "slow open"
    SKEWED_CLOCKS = "wall clocks differ"


class Ending(StrEnum):
    """How a life ends before its input does."""

    STOP = "stop"
    STOP_WITH_SAVEPOINT = "stop with a savepoint"
    DRAIN = "drain"
    CANCEL = "cancel"
    KILL = "the driver and all slots die"


class Origin(StrEnum):
    """What a later life goes on from."""

    LATEST = "restore the latest"
    OLDER = "restore an older checkpoint"
    SAVEPOINT = "restore a savepoint"
    NOTHING = "start anew"
    FORGOTTEN = "the checkpoints were deleted"


class Program(StrEnum):
    """Which program a later life runs."""

    SAME = "the same program"
    COMPATIBLE = "a compatible program"
    INCOMPATIBLE = "an incompatible program"


class Place(StrEnum):
    """Where the files of a later life go."""

    SAME = "into the same folder"
    OTHER = "into another folder"
    REFUSED = "refused: the folder has output"


class Milestone(StrEnum):
    """What a moment is counted from: combinations come together sooner than in uniform time."""

    CLAIMED = "an attempt was claimed"
    DEPLOYING = "a deployment has begun"
    TRIGGERED = "a checkpoint was triggered"
    COMPLETED = "a checkpoint has completed"
    SAVEPOINT = "a savepoint is under way"
    SAVED = "a savepoint was taken"


Kind = Fault | StorageFault | Hindrance | Ending | Origin | Program | Place
#: All that is counted, in the order in which it is shown.
KINDS: tuple[tuple[str, type[StrEnum]], ...] = (
    ("fault", Fault),
    ("storage", StorageFault),
    ("hindrance", Hindrance),
    ("end of a life", Ending),
    ("next life", Origin),
    ("program", Program),
    ("files", Place),
)

#: Those that would start the job anew in another driver.
COORDINATOR_FAULTS = frozenset({Fault.KILL_COORDINATOR, Fault.PARTITION_COORDINATOR})
#: What a person asks for.
REQUESTS = frozenset({Fault.RESCALE, Fault.SAVEPOINT})
#: Without checkpoints there are no snapshots to damage.
NEEDS_CHECKPOINTS = COORDINATOR_FAULTS | {Fault.DAMAGE_AT_REST}

_ORIGINS = {Origin.LATEST: 4, Origin.SAVEPOINT: 4, Origin.OLDER: 3, Origin.NOTHING: 1, Origin.FORGOTTEN: 1}
#: Where names and places of files matter.
_ORIGINS_WITH_FILES = _ORIGINS | {Origin.SAVEPOINT: 9, Origin.OLDER: 2, Origin.FORGOTTEN: 6}
_PROGRAMS = {Program.SAME: 5, Program.COMPATIBLE: 4}
#: How often a person starts the wrong program before the right one.
_MISTAKES = 0.4
#: A moment is mostly counted from one of these.
_MILESTONES = tuple(milestone for milestone in Milestone if milestone is not Milestone.SAVED)
_QUIET_AFTER_HORIZONS = 1.5
_LIVES_AGAIN_RATE = 0.6
BACKENDS = ("filesystem", "memory")


@dataclass(frozen=True, slots=True)
class Moment:
    """So long after the life began, or after a milestone was reached for the n-th time in it."""

    seconds: float
    milestone: Milestone | None = None
    count: int = 1


@dataclass(frozen=True, slots=True)
class LifeConditions:
    """What one life is to go through. The last one has no ending: it runs to the end of its input."""

    faults: tuple[tuple[Moment, Fault], ...]
    origin: Origin = Origin.NOTHING
    ending: tuple[Moment, Ending] | None = None
    #: None: as the program says; so with the state backend.
    parallelism: int | None = None
    backend: str | None = None
    program: Program = Program.SAME


@dataclass(frozen=True, slots=True)
class Conditions:
    """The constants of one world. Means are of exponential distributions."""

    step_seconds: float
    line_seconds: float
    channel_seconds: float
    work_seconds: float
    #: How often a delay is many times its mean.
    tail: float
    #: Elements that a channel holds.
    room: int
    #: How often a storage operation takes time, so that others act in the middle of it.
    interleaving: float
    operation_seconds: float
    slow_seconds: float
    #: How often a reader has nothing just now.
    hiccups: float
    hiccup_seconds: float
    slot_start_seconds: float
    notice_seconds: float
    zombie_seconds: float
    #: From the beginning of a life.
    quiet_after_seconds: float
    lives: tuple[LifeConditions, ...]
    storage_faults: tuple[StorageFault, ...]
    storage_fault_rate: float
    #: Work in the background of a coordinator runs side by side.
    parallel_background: bool = False
    #: How often a deployment takes long.
    slow_opens: float = 0.0
    #: How many channels are slower than the others.
    slow_channels: float = 0.0
    #: How far the wall clocks of two processes are apart.
    skew_seconds: float = 0.0

    @property
    def disturbed(self) -> bool:
        """Something may go wrong."""
        return bool(self.storage_fault_rate or len(self.lives) > 1 or any(life.faults for life in self.lives))


def draw_conditions(
    random: Random,
    *,
    coordinator_may_fail: bool,
    calm: bool = False,
    several_lives: bool = True,
    restless: bool = False,
) -> Conditions:
    """The world of a seed. `restless`: the sources are, which shows in event time when the job is rescaled."""
    horizon = random.choice((0.2, 0.4) if restless else (0.05, 0.1, 0.2, 0.4))
    kinds = [kind for kind in Fault if coordinator_may_fail or kind not in NEEDS_CHECKPOINTS]
    enabled = random.sample(kinds, random.randint(1, len(kinds)))
    storage_kinds = [kind for kind in StorageFault if coordinator_may_fail or kind is not StorageFault.CUT_OFF]
    storage_enabled = random.sample(storage_kinds, random.randint(0, len(storage_kinds)))
    rate = random.choice((0.0, 0.005, 0.01, 0.03, 0.08))
    lives = 1 if calm or not coordinator_may_fail or not several_lives else random.choice((1, 2, 2, 3))
    return Conditions(
        step_seconds=random.choice((0.0002, 0.0005, 0.001)),
        line_seconds=random.choice((0.0003, 0.001, 0.004)),
        channel_seconds=random.choice((0.0002, 0.001, 0.004)),
        work_seconds=random.choice((0.0005, 0.002, 0.01)),
        tail=0.0 if calm else random.choice((0.0, 0.01, 0.05)),
        room=random.choice((2, 3, 8)),
        interleaving=random.choice((0.0, 0.2, 0.6)),
        operation_seconds=random.choice((0.0005, 0.003)),
        slow_seconds=random.choice((0.05, 0.3)),
        hiccups=random.choice((0.0, 0.3, 0.6, 0.8)),
        hiccup_seconds=random.choice((0.003, 0.01)),
        slot_start_seconds=random.choice((0.002, 0.02)),
        notice_seconds=random.choice((0.001, 0.01, 0.05)),
        zombie_seconds=random.choice((0.005, 0.05, 0.3)),
        quiet_after_seconds=horizon * _QUIET_AFTER_HORIZONS,
        lives=(LifeConditions(()),) if calm else _lives(random, lives, enabled, horizon, restless=restless),
        storage_faults=() if calm else tuple(storage_enabled),
        storage_fault_rate=0.0 if calm or not storage_enabled else rate,
        parallel_background=random.random() < 0.5,
        slow_opens=0.0 if calm else random.choice((0.0, 0.0, 0.3)),
        slow_channels=0.0 if calm else random.choice((0.0, 0.4, 0.4) if restless else (0.0, 0.0, 0.4)),
        skew_seconds=0.0 if calm else random.choice((0.0, 0.0, 0.05, 30.0)),
    )


def _lives(
    random: Random, count: int, enabled: Sequence[Fault], horizon: float, *, restless: bool
) -> tuple[LifeConditions, ...]:
    lives: list[LifeConditions] = []
    for number in range(count):
        if number and random.random() < _MISTAKES:
            lives.append(_mistaken(random, lives[-1], horizon))
        faults = random.choice((0, 1, 2, 3, 5, 8)) if number == 0 else random.choice((0, 1, 2, 3))
        drawn = [(_moment(random, horizon), random.choice(enabled)) for _ in range(faults)]
        if restless:
            drawn += [(Moment(0.0, Milestone.COMPLETED, nth), Fault.RESCALE) for nth in random.sample(range(1, 7), 3)]
        is_last = number == count - 1
        origin = _origin(random, lives[-1]) if lives else Origin.NOTHING
        if not is_last and random.random() < 0.5:
            drawn.append((_moment(random, horizon), Fault.SAVEPOINT))  # for a later life to go on from
        lives.append(
            LifeConditions(
                faults=tuple(sorted(drawn, key=lambda fault: fault[0].seconds)),
                origin=origin,
                ending=None if is_last else (_moment(random, horizon), random.choice(list(Ending))),
                parallelism=random.choice((None, 1, 2, 3, 4)) if number else None,
                backend=random.choice(BACKENDS) if origin is Origin.SAVEPOINT else None,
                program=_weighted(random, _PROGRAMS) if number else Program.SAME,
            )
        )
    return tuple(lives)


def with_files(conditions: Conditions, random: Random) -> Conditions:
    """The same for a job whose output goes into files: what one life has prepared, another one may need.

    So most jobs live more than once, fail over when a savepoint has been taken, before its files are committed, and go
    on from all kinds of things.
    """
    *lives, last = conditions.lives
    if not lives and random.random() < _LIVES_AGAIN_RATE:
        horizon = conditions.quiet_after_seconds / _QUIET_AFTER_HORIZONS
        lives, last = (
            [replace(last, ending=(_moment(random, horizon), random.choice(list(Ending))))],
            LifeConditions(()),
        )
    lives = [_failing_over(life, random) for life in lives] + [last]
    later = (replace(life, origin=_origin(random, before, _ORIGINS_WITH_FILES)) for before, life in pairwise(lives))
    return replace(conditions, lives=(lives[0], *later))


def _failing_over(life: LifeConditions, random: Random) -> LifeConditions:
    """The life ends some time after a savepoint, and some failures."""
    if random.random() < 0.3 or life.ending is None:
        return life
    milestones = (Milestone.TRIGGERED, Milestone.COMPLETED)
    asked = [Moment(0.02 * random.random(), milestone, random.choice((1, 2, 3))) for milestone in milestones]
    saved = Moment(0.0, Milestone.SAVED)
    end = Moment(0.1 * random.random(), Milestone.SAVED)
    faults = (*((moment, Fault.SAVEPOINT) for moment in asked), (saved, Fault.KILL_SLOT), (saved, Fault.KILL_SLOT))
    return replace(life, faults=(*life.faults, *faults), ending=(end, life.ending[1]))


def _mistaken(random: Random, before: LifeConditions, horizon: float) -> LifeConditions:
    """It is mostly refused, and ends at once."""
    ending = (_moment(random, horizon), random.choice((Ending.CANCEL, Ending.KILL)))
    return LifeConditions((), _origin(random, before), ending, program=Program.INCOMPATIBLE)


def _origin(random: Random, before: LifeConditions, weights: dict[Origin, int] = _ORIGINS) -> Origin:
    """Who stops a job with a savepoint mostly wants to go on from it."""
    has_savepoint = before.ending is not None and before.ending[1] is Ending.STOP_WITH_SAVEPOINT
    drawn = _weighted(random, weights)
    return Origin.SAVEPOINT if has_savepoint and random.random() < 0.7 else drawn


def _moment(random: Random, horizon: float) -> Moment:
    if random.random() < 0.5:
        return Moment(random.uniform(0.0, horizon))
    milestone = random.choice(_MILESTONES)
    return Moment(random.choice((0.0, 0.001, 0.005)) * random.random(), milestone, random.choice((1, 1, 2, 3, 5)))


def _weighted(random: Random, weights: dict[Drawn, int]) -> Drawn:
    return random.choices(list(weights), list(weights.values()))[0]
