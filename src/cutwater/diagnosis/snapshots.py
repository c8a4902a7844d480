"""Do checkpoints complete, and what do they cost?"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from statistics import median

from cutwater.diagnosis.finding import Case, Finding, Severity, seconds, share
from cutwater.diagnosis.load import BACKPRESSURED_SHARE, SATURATED_SHARE, busy_of_slots, shares_of
from cutwater.status import CheckpointStatus, JobStatus

#: The newest so many are looked at.
LOOKED_AT = 10
FEWEST = 3
#: What is shorter doesn't matter.
SHORT_SECONDS = 0.2
LONG_SYNC_SECONDS = 0.5
LONG_IN_DRIVER_SECONDS = 1.0


def failing(case: Case) -> Iterator[Finding]:
    """Checkpoints of this attempt that were aborted."""
    recent = [each for each in case.now.checkpoints if each.attempt == case.now.attempt][-LOOKED_AT:]
    failed = [each for each in recent if not each.completed]
    if not failed or case.now.state.terminal:
        return
    in_a_row = 0
    for each in reversed(recent):
        if each.completed:
            break
        in_a_row += 1
    yield Finding(
        Severity.CRITICAL if in_a_row >= 2 else Severity.WARNING,
        "checkpoints fail one after the other: a failure now would repeat much work"
        if in_a_row >= 2
        else "some checkpoints fail",
        f"{len(failed)} of the newest {len(recent)}; the last that did, {failed[-1].checkpoint}: {failed[-1].outcome}",
        "`cutwater checkpoints` lists them; if time runs out, find what slows the barrier down, or raise `timeout`",
    )


def without_a_pause(case: Case) -> Iterator[Finding]:
    """One begins when the one before ends: they take as long as the interval."""
    done = _periodic(case.now)
    pairs = [
        (one.duration_seconds, (other.triggered_at_ms - one.triggered_at_ms) / 1000) for one, other in pairwise(done)
    ]
    if len(pairs) < FEWEST:
        return
    typical = median(duration for duration, _ in pairs)
    if typical < SHORT_SECONDS or sum(gap <= duration * 1.1 for duration, gap in pairs) < 0.8 * len(pairs):
        return
    yield Finding(
        Severity.WARNING,
        "checkpoints take as long as their interval: one follows the other without a pause",
        f"they take {seconds(typical)}, and one begins every {seconds(median(gap for _, gap in pairs))}",
        "raise `every` or `min_pause`, or make them shorter: see what they spend their time on",
    )


def slow_barriers(case: Case) -> Iterator[Finding]:
    """The barrier waits, at a task with several inputs or in queues."""
    done = _periodic(case.now)
    if len(done) < FEWEST:
        return
    total = median(each.duration_seconds for each in done)
    aligning = median(each.alignment_seconds_max for each in done)
    delayed = median(each.start_delay_seconds_max for each in done)
    worst = max(aligning, delayed)
    if worst < SHORT_SECONDS or worst < total / 2:
        return
    where = _where_it_stands(case.now)
    behind = f", behind the backpressure at {where}" if where else ""
    what = (
        "wait at tasks until they have come on all inputs" if aligning >= delayed else "wait in queues behind records"
    )
    yield Finding(
        Severity.WARNING,
        f"barriers {what}{behind}",
        f"{seconds(worst)} of the {seconds(total)} that a checkpoint takes ({share(worst / total)})",
        "speed up what is slow below; what a barrier waits for is what a record waits for, too",
        where,
    )


def long_freezes(case: Case) -> Iterator[Finding]:
    """Tasks stand still while their state is frozen."""
    done = _periodic(case.now)
    if len(done) < FEWEST:
        return
    frozen = median(each.sync_seconds_max for each in done)
    if frozen >= LONG_SYNC_SECONDS:
        yield Finding(
            Severity.WARNING,
            "checkpoints halt tasks for long: their state takes long to freeze",
            f"{seconds(frozen)} in the slowest task, {seconds(max(each.sync_seconds_max for each in done))} at most",
            'state_backend="rocksdb" freezes by reference; or let old state expire: ttl=…',
        )


def slow_driver(case: Case) -> Iterator[Finding]:
    """All tasks are done, and the checkpoint isn't complete yet."""
    done = _periodic(case.now)
    if len(done) < FEWEST:
        return
    left = median(_after_the_tasks(each) for each in done)
    total = median(each.duration_seconds for each in done)
    if left >= LONG_IN_DRIVER_SECONDS and left >= total / 2:
        yield Finding(
            Severity.WARNING,
            "the driver takes long to complete checkpoints whose tasks are done",
            f"{seconds(left)} of {seconds(total)}",
            "the storage of the checkpoints is slow, or a sink that commits in the driver is",
        )


def _after_the_tasks(each: CheckpointStatus) -> float:
    """At least: the longest times of each kind may be those of different tasks."""
    in_tasks = (
        each.start_delay_seconds_max + each.alignment_seconds_max + each.sync_seconds_max + each.async_seconds_max
    )
    return each.duration_seconds - in_tasks


def _periodic(status: JobStatus) -> list[CheckpointStatus]:
    """Completed ones of this attempt that were due by their interval, while it runs."""
    if status.state.terminal:
        return []
    own = [
        each
        for each in status.checkpoints
        if each.completed and each.kind == "checkpoint" and each.attempt == status.attempt
    ]
    return own[-LOOKED_AT:]


def _where_it_stands(status: JobStatus) -> str:
    """The task that waits for room most, or is in a slot that has no more to give."""
    busy = busy_of_slots(status)
    waiting = [task for task in status.tasks if shares_of(task).backpressured >= BACKPRESSURED_SHARE]
    if waiting:
        return max(waiting, key=lambda task: shares_of(task).backpressured).task
    full = [task for task in status.tasks if busy[task.slot] >= SATURATED_SHARE]
    return max(full, key=lambda task: shares_of(task).busy).task if full else ""
