"""What happens when a fault strikes?"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, assert_never

from cutwater.errors import CutwaterError
from cutwater.testing.simulation.conditions import Fault
from cutwater.testing.simulation.lives import SAVEPOINTS
from cutwater.testing.simulation.storage import damaged

if TYPE_CHECKING:
    from cutwater.testing.simulation.lives import Life
    from cutwater.testing.simulation.run import Run


REQUEST_TRIES = 10
"""A person who hears that the job isn't running just now asks again, a few times."""
ASK_AGAIN_SECONDS = 0.01
CLOCK_JUMP_MS_MAX = 60_000
PARTITION_SECONDS_MAX = 3.0


def schedule_faults(run: Run, life: Life) -> None:
    """Every fault that the conditions of the life hold."""
    for moment, fault in life.conditions.faults:
        life.milestones.at(moment, partial(_strike, run, fault))


def _strike(run: Run, fault: Fault) -> None:
    if run.world.stormy and _struck(run, fault):
        run.world.inject(fault)


def _struck(run: Run, fault: Fault) -> bool:
    """False: there was nothing that it could strike."""
    match fault:
        case Fault.KILL_SLOT | Fault.PARTITION_SLOT:
            return _strike_slot(run, fault)
        case Fault.KILL_COORDINATOR | Fault.PARTITION_COORDINATOR:
            return _strike_coordinator(run, fault)
        case Fault.BREAK_CHANNEL | Fault.HANG_CHANNEL | Fault.PARTITION_PAIR:
            return _strike_channels(run, fault)
        case Fault.STALL | Fault.CLOCK_JUMP:
            return _strike_process(run, fault)
        case Fault.POISON:
            run.world.note("the next user function fails")
            run.poisoned = True
            return True
        case Fault.DAMAGE_AT_REST:
            return _damage(run)
        case Fault.RESCALE:
            return _rescale(run, run.world.random.choice(_other_parallelisms(run)), tries=REQUEST_TRIES)
        case Fault.SAVEPOINT:
            return _take_savepoint(run, tries=REQUEST_TRIES)
        case _:
            assert_never(fault)


def _strike_slot(run: Run, fault: Fault) -> bool:
    slots = run.cluster.slots
    if not slots:
        return False
    slot = run.world.random.choice(slots)
    if fault is Fault.KILL_SLOT:
        slot.process.end("killed")
    else:
        slot.partition()
    return True


def _strike_coordinator(run: Run, fault: Fault) -> bool:
    official = run.cluster.official
    if official is None:
        return False
    if fault is Fault.KILL_COORDINATOR:
        official.process.end("killed")
    else:
        official.partition(lives_seconds=run.world.conditions.zombie_seconds * 3)
        run.cluster.replace(official)
    return True


def _strike_channels(run: Run, fault: Fault) -> bool:
    channels = run.network.channels()
    if not channels:
        return False
    struck = run.world.random.choice(channels)
    match fault:
        case Fault.BREAK_CHANNEL:
            struck.close()
        case Fault.HANG_CHANNEL:
            struck.hang()
        case _:
            run.network.partition(
                struck.sender, struck.receiver, seconds=run.world.random.uniform(0.0, PARTITION_SECONDS_MAX)
            )
    return True


def _strike_process(run: Run, fault: Fault) -> bool:
    world, official = run.world, run.cluster.official
    processes = [slot.process for slot in run.cluster.slots] + ([official.process] if official is not None else [])
    if not processes:
        return False
    process = world.random.choice(processes)
    if fault is Fault.STALL:
        process.stalled_until = world.now + world.delay(0.1)
        world.note("%s stalls until %s", process.name, f"{process.stalled_until:.6f}")
    else:
        process.clock.wrong_by_ms += world.random.randint(-CLOCK_JUMP_MS_MAX, CLOCK_JUMP_MS_MAX)
        world.note("the wall clock of %s is wrong by %s ms", process.name, process.clock.wrong_by_ms)
    return True


def _damage(run: Run) -> bool:
    """A file of a completed snapshot is no longer what was written."""
    files = run.storage.files
    completed = [folder for folder in run.checker.lineage.snapshots if folder]
    paths = [path for folder in completed for path in files.list(folder)]
    if not paths:
        return False
    path = run.world.random.choice(paths)
    run.world.note("%s is damaged", path)
    files.write(path, damaged(files.read(path), run.world))
    return True


def _take_savepoint(run: Run, *, tries: int) -> bool:
    world, official = run.world, run.cluster.official
    if official is None or not tries:
        return False

    def answer(path: str, error: CutwaterError | None) -> None:
        run.savepoint_answered(path, error)
        if error is not None and error.retryable:
            world.after(world.delay(ASK_AGAIN_SECONDS), lambda: _again(_take_savepoint(run, tries=tries - 1)))

    official.coordinator.savepoint(SAVEPOINTS, answer)
    official.process.wake()
    return True


def _other_parallelisms(run: Run) -> list[int]:
    official = run.cluster.official
    now = None if official is None else official.coordinator.plan.graph.slots_needed
    return [parallelism for parallelism in (1, 2, 3, 4) if parallelism != now]


def _rescale(run: Run, parallelism: int, *, tries: int) -> bool:
    world, official = run.world, run.cluster.official
    if official is None or not tries:
        return False

    def answer(result: str, error: CutwaterError | None) -> None:
        if error is not None and error.retryable:
            world.after(world.delay(ASK_AGAIN_SECONDS), lambda: _again(_rescale(run, parallelism, tries=tries - 1)))

    world.note("the job is to be rescaled to %s", parallelism)
    official.coordinator.rescale(parallelism, answer)
    official.process.wake()
    return True


def _again(struck: bool) -> None:
    """A request that is repeated is not counted again."""
