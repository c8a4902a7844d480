"""Does event time move?"""

from __future__ import annotations

from collections.abc import Iterator

from cutwater.diagnosis.finding import Case, Finding, Severity, seconds
from cutwater.diagnosis.load import has_source, is_settled, named, rate_of, receivers_of, tasks_of
from cutwater.protocol.watermarks import MAX_TIMESTAMP_MS
from cutwater.status import ChainStatus, JobStatus, TaskStatus

#: A source task that is silent and so much behind the others holds everybody up.
SILENT_BEHIND_MS = 60_000
#: One that reads may be this much behind.
READING_BEHIND_MS = 600_000


def watermark_stuck(case: Case) -> Iterator[Finding]:
    """A task without records keeps those below it waiting, because its source was not told when it is idle."""
    status = case.now
    if not is_settled(status):
        return
    for chain in status.graph.chains:
        tasks = [task for task in tasks_of(status, chain.uid) if task.watermark_ms != MAX_TIMESTAMP_MS]
        ahead = max((task.watermark_ms for task in tasks if task.watermark_ms is not None), default=None)
        if not has_source(chain) or ahead is None or len(tasks) < 2:
            continue
        slowest = min(tasks, key=_event_time)
        behind_ms = ahead - slowest.watermark_ms if slowest.watermark_ms is not None else None
        if not _holds_up_receivers(status, chain, slowest):
            continue
        silent = not rate_of(slowest)
        if silent and (behind_ms is None or behind_ms >= SILENT_BEHIND_MS):
            yield _stuck(chain, slowest, behind_ms)
        elif behind_ms is not None and behind_ms >= READING_BEHIND_MS:
            yield Finding(
                Severity.INFO,
                f"{slowest.task} is far behind the other tasks of {named(None, chain, '')} in event time",
                f"{seconds(behind_ms / 1000)}; windows and joins keep what the others have read until then",
                "max_drift=… has the others wait for it",
                slowest.task,
            )


def _stuck(chain: ChainStatus, task: TaskStatus, behind_ms: int | None) -> Finding:
    so_far = "it has none yet" if behind_ms is None else f"it is {seconds(behind_ms / 1000)} behind the others"
    return Finding(
        Severity.WARNING,
        f"event time stands still: {task.task} reads nothing, and windows below wait for its watermark",
        f"watermark of {task.task}: {so_far}",
        "let a split that is silent count as idle: idle_after=… in the watermark strategy",
        task.task,
    )


def _holds_up_receivers(status: JobStatus, chain: ChainStatus, slowest: TaskStatus) -> bool:
    """Those below are no further: the task isn't idle to them. Without any below, what is in its own chain waits."""
    below = [task for receiver in receivers_of(status, chain.uid) for task in tasks_of(status, receiver)]
    if not below:
        return slowest.watermark_ms is not None
    return all(_event_time(task) <= _event_time(slowest) for task in below)


def _event_time(task: TaskStatus) -> float:
    return float("-inf") if task.watermark_ms is None else task.watermark_ms
