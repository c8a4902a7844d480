"""How fast and how broken is the world of a seed?

Every seed draws its own mixture (swarm testing): some worlds are nearly calm, some know one kind of fault only, in
some everything breaks. After `quiet_after_seconds` nothing new breaks, so that every run has to end.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from random import Random


class Fault(StrEnum):
    """What befalls a process or a connection at some moment."""

    KILL_SLOT = "kill slot"
    PARTITION_SLOT = "partition slot"
    KILL_COORDINATOR = "kill coordinator"
    PARTITION_COORDINATOR = "partition coordinator"
    POISON = "user exception"
    BREAK_CHANNEL = "break channel"
    STALL = "stall process"
    RESCALE = "rescale"
    SAVEPOINT = "savepoint"


class StorageFault(StrEnum):
    """What befalls a storage operation."""

    FAIL = "fail"
    HALF = "half"
    HALF_CRASH = "half, then crash"
    LOST_ANSWER = "lost answer"
    DENIED_ANSWER = "created, but told that it was there"
    CRASH_BEFORE = "crash before"
    CRASH_AFTER = "crash after"
    SLOW = "slow"
    CUT_OFF = "slow, and its coordinator is thought dead meanwhile"


#: Those that would start the job anew in another driver.
COORDINATOR_FAULTS = frozenset({Fault.KILL_COORDINATOR, Fault.PARTITION_COORDINATOR})

#: What a person asks for.
REQUESTS = frozenset({Fault.RESCALE, Fault.SAVEPOINT})


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
    quiet_after_seconds: float
    faults: tuple[tuple[float, Fault], ...]
    storage_faults: tuple[StorageFault, ...]
    storage_fault_rate: float


def draw_conditions(random: Random, *, coordinator_may_fail: bool, calm: bool = False) -> Conditions:
    """The world of a seed."""
    horizon = random.choice((0.05, 0.1, 0.2, 0.4))
    kinds = [kind for kind in Fault if coordinator_may_fail or kind not in COORDINATOR_FAULTS]
    if calm:
        kinds = [kind for kind in kinds if kind not in REQUESTS]
    enabled = random.sample(kinds, random.randint(1, len(kinds)))
    count = 0 if calm else random.choice((0, 1, 2, 3, 5, 8))
    storage_kinds = [kind for kind in StorageFault if coordinator_may_fail or kind is not StorageFault.CUT_OFF]
    storage_enabled = random.sample(storage_kinds, random.randint(0, len(storage_kinds)))
    rate = random.choice((0.0, 0.005, 0.01, 0.03, 0.08))
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
        quiet_after_seconds=horizon * 1.5,
        faults=tuple(sorted((random.uniform(0.0, horizon), random.choice(enabled)) for _ in range(count))),
        storage_faults=() if calm else tuple(storage_enabled),
        storage_fault_rate=0.0 if calm or not storage_enabled else rate,
    )
