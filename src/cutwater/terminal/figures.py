"""How are figures of a job worked out and written?"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from cutwater.status import CheckpointStatus, JobStatus, OperatorActivity, OperatorStatus, TaskStatus

SOURCE, SINK = "source", "sink"


@dataclass(frozen=True, slots=True)
class Flow:
    """What an operator does, summed over its tasks."""

    operator: OperatorStatus
    tasks: int
    records_in: int
    records_out: int
    records_in_per_second: float
    records_out_per_second: float
    busy_share_max: float


@dataclass(frozen=True, slots=True)
class Shares:
    """How a task spends its time; None: nothing is known yet."""

    busy: float
    backpressured: float


def flows_of(status: JobStatus) -> list[list[Flow]]:
    """For each chain its operators, in order. Without counts of operators, none for operators inside a chain."""
    return [
        [
            _flow(operator, [task for task in status.tasks if chain_of(task) == chain.uid])
            for operator in chain.operators
        ]
        for chain in status.graph.chains
    ]


def chain_of(task: TaskStatus) -> str:
    return task.task.rpartition("[")[0]


def shares_of(task: TaskStatus) -> Shares | None:
    """Of the last seconds; as long as nothing is known of them, since the start."""
    if task.busy_share or task.idle_share or task.backpressured_share:
        return Shares(task.busy_share, task.backpressured_share)
    seconds = task.busy_seconds + task.idle_seconds + task.backpressured_seconds
    return Shares(task.busy_seconds / seconds, task.backpressured_seconds / seconds) if seconds else None


def lag_of(status: JobStatus) -> int | None:
    """Records that are there and were not read yet; None: no source knows."""
    known = [sum(task.lag.values()) for task in status.tasks if task.lag]
    return sum(known) if known else None


def records_read(status: JobStatus) -> int | None:
    """Of the current attempt; None: not known."""
    found = list(_activities(status, SOURCE))
    return sum(each.records_out for each in found) if found else None


def records_written(status: JobStatus) -> int | None:
    """Handed to sinks; of the current attempt; None: not known."""
    found = list(_activities(status, SINK))
    return sum(each.records_in for each in found) if found else None


def rate_read(status: JobStatus) -> float:
    return sum(each.records_out_per_second for each in _activities(status, SOURCE))


def rate_written(status: JobStatus) -> float:
    return sum(each.records_in_per_second for each in _activities(status, SINK))


def parallelism_of(status: JobStatus) -> int:
    return max((chain.parallelism for chain in status.graph.chains), default=0)


def newest_checkpoint(status: JobStatus) -> CheckpointStatus | None:
    return next((each for each in reversed(status.checkpoints) if each.completed), None)


def count(number: float) -> str:
    return f"{number:,.0f}"


def rate(per_second: float) -> str:
    """Three digits are enough for something that changes: 1.23k, 45.6M."""
    for limit, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if per_second >= limit:
            return (
                f"{per_second / limit:.3g}{unit}" if per_second < 999.5 * limit else f"{per_second / limit:.0f}{unit}"
            )
    return f"{per_second:.0f}" if per_second >= 10 or per_second == 0 else f"{per_second:.1f}"


def size(number_of_bytes: int) -> str:
    if number_of_bytes < 1000:
        return f"{number_of_bytes} B"
    amount = float(number_of_bytes)
    for unit in ("kB", "MB", "GB", "TB", "PB"):
        amount /= 1000
        if amount < 999.5 or unit == "PB":
            break
    return f"{amount:.1f} {unit}" if amount < 100 else f"{amount:.0f} {unit}"


def age(seconds: float) -> str:
    """34 s, 5 min 12 s, 3 h 7 min, 12 d 4 h."""
    whole = int(seconds)
    if whole < 60:
        return f"{whole} s"
    for limit, unit, below, below_unit in ((86_400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s")):
        if whole >= limit:
            rest = whole % limit // below
            return f"{whole // limit} {unit}" + (f" {rest} {below_unit}" if rest else "")
    raise AssertionError


def milliseconds(seconds: float) -> str:
    return f"{seconds * 1000:.0f} ms" if seconds < 10 else f"{seconds:.1f} s"


def time_of_day(since_epoch_ms: int) -> str:
    if not since_epoch_ms:
        return ""
    return datetime.fromtimestamp(since_epoch_ms / 1000, UTC).astimezone().strftime("%H:%M:%S")


def plural(number: int, word: str) -> str:
    return f"{count(number)} {word}" if number == 1 else f"{count(number)} {word}s"


def harmless(words: str) -> str:
    """Text of others can't steer the terminal."""
    return "".join(letter if letter.isprintable() or letter in "\n\t" else ascii(letter)[1:-1] for letter in words)


def _flow(operator: OperatorStatus, tasks: list[TaskStatus]) -> Flow:
    own = [each for task in tasks for each in task.operators if each.operator == operator.uid]
    return Flow(
        operator=operator,
        tasks=len(tasks),
        records_in=sum(each.records_in for each in own),
        records_out=sum(each.records_out for each in own),
        records_in_per_second=sum(each.records_in_per_second for each in own),
        records_out_per_second=sum(each.records_out_per_second for each in own),
        busy_share_max=max((each.busy_share for each in own), default=0.0),
    )


def _activities(status: JobStatus, kind: str) -> Iterable[OperatorActivity]:
    kinds: Mapping[str, str] = {
        operator.uid: operator.kind for chain in status.graph.chains for operator in chain.operators
    }
    return (each for task in status.tasks for each in task.operators if kinds.get(each.operator) == kind)
