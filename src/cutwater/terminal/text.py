"""What does `print(job.status())` show, and what is said when a job is over? Plain text, without colours."""

from __future__ import annotations

from collections.abc import Sequence

from cutwater.status import JobResult, JobStatus
from cutwater.terminal import figures

OPERATOR_COLUMNS = ("operator", "tasks", "in", "out", "in/s", "out/s", "busy")
WARNINGS_SHOWN = 5


def text_of_status(status: JobStatus) -> str:
    """A few lines."""
    lines = [f'job "{status.name}" ({status.job_id}): {headline(status)}']
    if status.waiting_for:
        lines.append(f"  waiting for {status.waiting_for}")
    lines.append(f"  {flow_line(status)}")
    lines.append(f"  {checkpoint_line(status)}")
    if status.tasks:
        rows = operator_rows(status)
        lines += [f"  {line}" for line in _aligned([OPERATOR_COLUMNS, *rows], words=1)]
    if status.failure is not None:
        lines += [f"  failed: {line}" if number == 0 else f"  {line}" for number, line in _numbered(status.failure)]
    lines += [f"  warning: {warning}" for warning in status.warnings[-WARNINGS_SHOWN:]]
    return figures.harmless("\n".join(lines))


def text_of_result(result: JobResult) -> str:
    """One line."""
    return f'job "{result.status.name}": {summary(result.status, result.duration_seconds)}'


def headline(status: JobStatus) -> str:
    words = [status.state.replace("_", " "), f"attempt {status.attempt}", f"for {figures.age(status.running_seconds)}"]
    if (parallelism := figures.parallelism_of(status)) > 0:
        words.append(f"parallelism {parallelism}")
    return ", ".join(words)


def flow_line(status: JobStatus) -> str:
    """ "12.3k records/s read, 4.5k written; lag 1,234"."""
    read, written = figures.rate_read(status), figures.rate_written(status)
    words = f"{figures.rate(read)} records/s read, {figures.rate(written)} written"
    lag = figures.lag_of(status)
    return words + (f"; lag {figures.count(lag)}" if lag is not None else "")


def checkpoint_line(status: JobStatus) -> str:
    """ "98 checkpoints (the newest took 34 ms, 12.1 kB), 0 failed; 1 restart"."""
    newest = figures.newest_checkpoint(status)
    words = figures.plural(status.checkpoints_completed, "checkpoint")
    if newest is not None:
        took = figures.milliseconds(newest.duration_seconds)
        words += f" (the newest took {took}, {figures.size(newest.size_bytes)})"
    words += f", {figures.count(status.checkpoints_failed)} failed"
    for each in status.checkpoints_under_way:
        words += f", {each.kind} {each.checkpoint} under way ({each.tasks_acknowledged} of {each.tasks_total} tasks)"
    return f"{words}; {figures.plural(status.restarts, 'restart')}"


def operator_rows(status: JobStatus) -> list[tuple[str, ...]]:
    """For each operator, summed over its tasks; those that run as one task are tied together."""
    return [
        (
            ("" if place == 0 else "└ ") + flow.operator.name,
            str(flow.tasks) if place == 0 else "",
            figures.count(flow.records_in),
            figures.count(flow.records_out),
            figures.rate(flow.records_in_per_second),
            figures.rate(flow.records_out_per_second),
            f"{flow.busy_share_max:.0%}",
        )
        for chain in figures.flows_of(status)
        for place, flow in enumerate(chain)
    ]


def summary(status: JobStatus, seconds: float) -> str:
    """ "finished after 12.3 s: 1,000 records read, 20 written; 12 checkpoints, 1 restart"."""
    words = f"{status.state} after {seconds:.1f} s"
    read, written = figures.records_read(status), figures.records_written(status)
    if read is not None:
        words += f": {figures.plural(read, 'record')} read"
        words += f", {figures.count(written)} written" if written is not None else ""
        words += " since the last restart" if status.restarts else ""
    words += f"; {figures.plural(status.checkpoints_completed, 'checkpoint')}"
    return words + (f", {figures.plural(status.restarts, 'restart')}" if status.restarts else "")


def _numbered(failure: object) -> enumerate[str]:
    return enumerate(str(failure).splitlines())


def _aligned(rows: Sequence[Sequence[str]], *, words: int) -> list[str]:
    """The first columns, so many, are words; the rest are figures, and end at the same place."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.ljust(width) if place < words else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
