"""What is done to a job under test, and when?

When depends on the seed: a strike comes when the job has seen a share of the records, so that it comes in the middle
of the work on a slow machine as on a fast one.
"""

from __future__ import annotations

import random
import zlib
from dataclasses import dataclass
from enum import StrEnum

#: Strikes come when the job has seen between this share of the records, so that there is something to lose, …
FIRST_SHARE = 0.1
#: … and this one. Behind it records only trickle until everything has been done to the job.
LAST_SHARE = 0.65
KILLS_OF_SLOTS = 3
OUTAGES = 2
#: Short enough for a test, long enough for a client to notice.
DOWN_SECONDS = (0.2, 1.5)
#: As long as a machine takes that is started anew; connectors wait for longer.
GONE_SECONDS = (60.0, 62.0)
PAUSED_SECONDS = (2.0, 3.0)


class Fault(StrEnum):
    """One kind of harm; each is a trial of its own."""

    NOTHING = "nothing happens"
    SLOTS_KILLED = "slots killed"
    KILLED_WHEN_PREPARED = "slots killed when prepared"
    """All slots, when the sink has prepared a checkpoint that is not complete: what it prepared must be rolled back."""
    DRIVER_KILLED = "driver killed"
    DRIVER_LATE = "driver wakes up late"
    """It hangs; another one goes on in its place; then it wakes up, and must write nothing more."""
    SERVER_KILLED = "server killed"
    """When something is pending at the server, if the subject can tell."""
    SERVER_GONE = "server gone for a minute"
    SERVER_PAUSED = "server paused"
    RESCALED = "rescaled"
    """While the job runs, from 2 tasks to 3 to 1."""
    SAVEPOINT = "savepoint restored"
    """The job is stopped with a savepoint; another one goes on from it, with 3 tasks."""
    POISON = "poison"
    """Of sources: a record that can't be decoded. The job must fail; and then, with `on_error="dead_letter"`, give the
    record to the side output once, also while slots are killed."""

    @property
    def needs_server(self) -> bool:
        return self in (Fault.SERVER_KILLED, Fault.SERVER_GONE, Fault.SERVER_PAUSED)


#: Every fault that a subject allows.
ALL: tuple[Fault, ...] = tuple(Fault)


@dataclass(frozen=True, slots=True)
class Strike:
    """One blow: when the job has seen this share of the records."""

    share: float
    #: For an outage: how long it lasts. For a kill: how long after the share was reached.
    seconds: float
    #: Chooses the victim, where there are several.
    victim: int


def strikes_of(fault: Fault, seed: int) -> tuple[Strike, ...]:
    """In the order in which they come."""
    generator = random.Random(zlib.crc32(f"{fault.name}/{seed}".encode()))
    match fault:
        case Fault.NOTHING | Fault.POISON:
            count, seconds = 0, (0.0, 0.0)
        case Fault.SLOTS_KILLED:
            count, seconds = KILLS_OF_SLOTS, (0.0, 0.2)
        case Fault.SERVER_KILLED:
            count, seconds = OUTAGES, DOWN_SECONDS
        case Fault.SERVER_GONE:
            count, seconds = 1, GONE_SECONDS
        case Fault.SERVER_PAUSED:
            count, seconds = 1, PAUSED_SECONDS
        case Fault.KILLED_WHEN_PREPARED | Fault.RESCALED:
            count, seconds = 2, (0.0, 0.2)
        case Fault.DRIVER_KILLED | Fault.DRIVER_LATE | Fault.SAVEPOINT:
            count, seconds = 1, (0.0, 0.2)
    step = (LAST_SHARE - FIRST_SHARE) / max(count, 1)
    return tuple(
        Strike(
            share=generator.uniform(FIRST_SHARE + index * step, FIRST_SHARE + (index + 1) * step),
            seconds=generator.uniform(*seconds),
            victim=generator.randrange(1 << 16),
        )
        for index in range(count)
    )
