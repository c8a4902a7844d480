"""What happens when a fault strikes?"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, assert_never

from cutwater.errors import CutwaterError
from cutwater.testing.simulation.conditions import Fault

if TYPE_CHECKING:
    from cutwater.testing.simulation.run import Run


REQUEST_TRIES = 10
"""A person who hears that the job isn't running just now asks again, a few times."""
ASK_AGAIN_SECONDS = 0.01
SAVEPOINTS = "simulated://savepoints"


def schedule_faults(run: Run) -> None:
    """Every fault that the conditions hold."""
    for moment, fault in run.world.conditions.faults:
        run.world.at(moment, partial(_strike, run, fault))


def _strike(run: Run, fault: Fault) -> None:
    world, cluster = run.world, run.cluster
    random = world.random
    slots = cluster.slots
    official = cluster.official
    match fault:
        case Fault.KILL_SLOT:
            if slots:
                random.choice(slots).process.end("killed")
        case Fault.PARTITION_SLOT:
            if slots:
                random.choice(slots).partition()
        case Fault.KILL_COORDINATOR:
            if official is not None:
                official.process.end("killed")
        case Fault.PARTITION_COORDINATOR:
            if official is not None:
                official.partition(lives_seconds=world.conditions.zombie_seconds * 3)
                cluster.replace(official)
        case Fault.POISON:
            world.note("the next user function fails")
            run.poisoned = True
        case Fault.BREAK_CHANNEL:
            channels = run.network.channels()
            if channels:
                random.choice(channels).close()
        case Fault.STALL:
            processes = [slot.process for slot in slots] + ([official.process] if official is not None else [])
            if processes:
                stalled = random.choice(processes)
                stalled.stalled_until = world.now + world.delay(0.1)
                world.note("%s stalls until %s", stalled.name, f"{stalled.stalled_until:.6f}")
        case Fault.RESCALE:
            _rescale(run, random.choice((1, 2, 3, 4)), tries=REQUEST_TRIES)
        case Fault.SAVEPOINT:
            _take_savepoint(run, tries=REQUEST_TRIES)
        case _:
            assert_never(fault)


def _take_savepoint(run: Run, *, tries: int) -> None:
    world, official = run.world, run.cluster.official
    if official is None or not tries:
        return

    def answer(path: str, error: CutwaterError | None) -> None:
        world.note("savepoint: %s", path or error)
        if error is None:
            run.checker.savepoint_taken(path)
        elif error.retryable:
            world.after(world.delay(ASK_AGAIN_SECONDS), partial(_take_savepoint, run, tries=tries - 1))

    official.coordinator.savepoint(SAVEPOINTS, answer)
    official.process.wake()


def _rescale(run: Run, parallelism: int, *, tries: int) -> None:
    world, official = run.world, run.cluster.official
    if official is None or not tries:
        return

    def answer(result: str, error: CutwaterError | None) -> None:
        if error is not None and error.retryable:
            world.after(world.delay(ASK_AGAIN_SECONDS), partial(_rescale, run, parallelism, tries=tries - 1))

    world.note("the job is to be rescaled to %s", parallelism)
    official.coordinator.rescale(parallelism, answer)
    official.process.wake()
