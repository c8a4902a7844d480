"""Which source tasks are too far ahead in event time, and up to where may each of them read?

Sources of a group wait for each other, so that what is ahead doesn't pile up in the state of joins and windows. A task
may be ahead of each other task that counts by its drift, not more:

    alignment = SourceAlignment({FAST: Member("default", max_drift_ms=60), SLOW: Member("default", max_drift_ms=60)})
    alignment.handle(SourceAdvanced(FAST, 900))
    alignment.handle(SourceAdvanced(SLOW, 100)) == [LimitSource(FAST, 160)]

The slowest task therefore always has a limit in front of it, or none at all: somebody can read, whatever happens. Who
is idle or has finished holds nobody back. Who counts and has no watermark yet holds the others where they are, for it
may be about to start at the beginning of time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import assert_never

from cutwater.protocol.ids import TaskId
from cutwater.protocol.watermarks import MAX_TIMESTAMP_MS, MIN_TIMESTAMP_MS


@dataclass(frozen=True, slots=True)
class Member:
    """What a source task asked for."""

    group: str
    max_drift_ms: int


@dataclass(frozen=True, slots=True)
class SourceAdvanced:
    """The task has reached this watermark (None: it has none yet), and may be behind others."""

    task: TaskId
    watermark_ms: int | None


@dataclass(frozen=True, slots=True)
class SourceIdled:
    """The task has nothing to read now: all its splits are silent, or it has none."""

    task: TaskId


@dataclass(frozen=True, slots=True)
class SourceFinished:
    """The task will read nothing any more."""

    task: TaskId


@dataclass(frozen=True, slots=True)
class LimitSource:
    """Read no split of the task whose watermark is beyond the limit; None: read all.

    A task starts with the beginning of time as its limit: it may find out where it is, and waits for the first word."""

    task: TaskId
    limit_ms: int | None


Event = SourceAdvanced | SourceIdled | SourceFinished


class SourceAlignment:
    """One per attempt, with every source task that has a drift."""

    def __init__(self, members: Mapping[TaskId, Member]) -> None:
        self._members = dict(members)
        #: Of the tasks that count. All do, until they say otherwise.
        self._reached_ms: dict[TaskId, int] = dict.fromkeys(members, MIN_TIMESTAMP_MS)
        self._finished: set[TaskId] = set()
        #: Nobody reads on before it has heard how far it may: that is how its task starts.
        self._limits_ms: dict[TaskId, int | None] = dict.fromkeys(members, MIN_TIMESTAMP_MS)

    def handle(self, event: Event) -> list[LimitSource]:
        """The limits that change; often none."""
        task = event.task
        if task not in self._members or task in self._finished:
            return []
        match event:
            case SourceAdvanced(_, watermark_ms):
                self._reached_ms[task] = MIN_TIMESTAMP_MS if watermark_ms is None else watermark_ms
            case SourceIdled():
                self._reached_ms.pop(task, None)
            case SourceFinished():
                self._reached_ms.pop(task, None)
                self._finished.add(task)
            case _:
                assert_never(event)
        return self._changes(self._members[task].group)

    def _changes(self, group: str) -> list[LimitSource]:
        members = [task for task in self._members if self._members[task].group == group and task not in self._finished]
        slowest = sorted((self._reached_ms[task], task) for task in members if task in self._reached_ms)[:2]
        changes = []
        for task in members:
            others = [reached for reached, other in slowest if other != task]
            limit_ms = min(others[0] + self._members[task].max_drift_ms, MAX_TIMESTAMP_MS) if others else None
            if limit_ms != self._limits_ms[task]:
                self._limits_ms[task] = limit_ms
                changes.append(LimitSource(task, limit_ms))
        return changes
