"""What is remembered of checkpoints for people to read?"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterable
from statistics import quantiles

from cutwater.status import CheckpointDetails, CheckpointStatus, LatencyStatus

#: A job may run for years: what it shows are the newest, and a count of all.
CHECKPOINTS_SHOWN_MAX = 100
#: Of the newest it is known what each task did; so many tasks altogether, and always those of the newest one.
TASKS_REMEMBERED_MAX = 20_000
LATENCIES_MAX = 100


class CheckpointHistory:
    """Finished checkpoints, the newest last. On the coordinator's thread, but for `details_of`."""

    def __init__(self) -> None:
        self._newest: deque[CheckpointStatus] = deque(maxlen=CHECKPOINTS_SHOWN_MAX)
        self._details: OrderedDict[int, CheckpointDetails] = OrderedDict()
        self._tasks_remembered = 0
        self._latencies: deque[float] = deque(maxlen=LATENCIES_MAX)
        self.completed = 0
        self.failed = 0
        self.latency: LatencyStatus | None = None

    def add(self, details: CheckpointDetails, *, last_tasks: Iterable[str]) -> None:
        """`last_tasks`: those that send to no other."""
        status = details.checkpoint
        self._newest.append(status)
        self._remember(details)
        if not status.completed:
            self.failed += 1
            return
        self.completed += 1
        last = frozenset(last_tasks)
        arrived = [task.start_delay_seconds + task.alignment_seconds for task in details.tasks if task.task in last]
        if arrived:
            self._latencies.append(max(arrived))
            self.latency = _percentiles(self._latencies)

    @property
    def newest(self) -> tuple[CheckpointStatus, ...]:
        return tuple(self._newest)

    def details_of(self, checkpoint: int) -> CheckpointDetails | None:
        """From any thread."""
        return self._details.get(checkpoint)

    def _remember(self, details: CheckpointDetails) -> None:
        number = details.checkpoint.checkpoint
        self._forget(number)  # an aborted one, whose number an earlier attempt had
        self._details[number] = details
        self._tasks_remembered += len(details.tasks)
        while len(self._details) > 1 and (
            self._tasks_remembered > TASKS_REMEMBERED_MAX or len(self._details) > CHECKPOINTS_SHOWN_MAX
        ):
            self._forget(next(iter(self._details)))

    def _forget(self, number: int) -> None:
        forgotten = self._details.pop(number, None)
        if forgotten is not None:
            self._tasks_remembered -= len(forgotten.tasks)


def _percentiles(seconds: Iterable[float]) -> LatencyStatus:
    found = sorted(seconds)
    cuts = quantiles(found, n=100, method="inclusive") if len(found) > 1 else found * 99
    return LatencyStatus(cuts[49], cuts[94], cuts[98], len(found))
