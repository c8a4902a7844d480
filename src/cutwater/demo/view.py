"""What does a person see while the demo runs?"""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from cutwater.status import CheckpointStatus, JobStatus

CHECKPOINTS_SHOWN = 6


def render(status: JobStatus, events: list[str], *, elapsed_seconds: float) -> RenderableType:
    """One frame."""
    return Panel(
        Group(_headline(status, elapsed_seconds), _tasks(status), _checkpoints(status), _events(events)),
        title="[bold]cutwater demo[/bold]  fault-tolerant word count",
        border_style="cyan",
    )


def _headline(status: JobStatus, elapsed_seconds: float) -> RenderableType:
    text = Text()
    text.append(f"{status.state.upper():<18}", style="bold green" if status.state == "running" else "bold yellow")
    text.append(f"attempt {status.attempt}   checkpoints {status.checkpoints_completed}   ")
    text.append(f"restarts {status.restarts}   {elapsed_seconds:5.1f} s")
    if status.waiting_for:
        text.append(f"\nwaiting for slots: {status.waiting_for}", style="yellow")
    return text


def _tasks(status: JobStatus) -> RenderableType:
    pids = {slot.slot: slot.pid for slot in status.slots}
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("task", min_width=14)
    for name in ("process", "records in", "records out", "busy", "queued"):
        table.add_column(name, justify="right", min_width=7)
    for task in sorted(status.tasks, key=lambda task: task.task):
        seconds = task.busy_seconds + task.idle_seconds + task.backpressured_seconds
        busy = task.busy_seconds / seconds if seconds else 0.0
        table.add_row(
            task.task,
            str(pids.get(task.slot, "")),
            f"{task.records_in:,}",
            f"{task.records_out:,}",
            f"{busy:.0%}",
            str(task.queued_elements),
        )
    return table


def _checkpoints(status: JobStatus) -> RenderableType:
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("checkpoint", min_width=14)
    for name in ("attempt", "duration", "size", "aligned", "outcome"):
        table.add_column(name, justify="right", min_width=7)
    for checkpoint in status.checkpoints[-CHECKPOINTS_SHOWN:]:
        table.add_row(*_row(checkpoint), style="" if checkpoint.completed else "red")
    return table


def _row(checkpoint: CheckpointStatus) -> tuple[str, ...]:
    return (
        f"chk-{checkpoint.checkpoint}",
        str(checkpoint.attempt),
        f"{checkpoint.duration_seconds * 1000:.0f} ms",
        f"{checkpoint.size_bytes / 1024:.1f} KiB",
        f"{checkpoint.alignment_seconds_max * 1000:.0f} ms",
        "completed" if checkpoint.completed else checkpoint.outcome.split(":")[0][:40],
    )


def _events(events: list[str]) -> RenderableType:
    return Text("\n".join(events[-5:]), style="magenta")
