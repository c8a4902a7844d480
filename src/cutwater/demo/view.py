"""What does a person see while the demo runs? What `cutwater top` shows, and the kills."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.text import Text

from cutwater.status import JobStatus
from cutwater.terminal.view import checkpoints_table, figures_lines, headline, tasks_table

CHECKPOINTS_SHOWN = 6


def render(status: JobStatus, events: list[str], *, elapsed_seconds: float) -> RenderableType:
    """One frame."""
    return Panel(
        Group(
            headline(status),
            figures_lines(status),
            tasks_table(status),
            checkpoints_table(status.checkpoints[-CHECKPOINTS_SHOWN:]),
            Text("\n".join(events[-5:]), style="magenta"),
        ),
        title=f"[bold]cutwater demo[/bold]  fault-tolerant word count  {elapsed_seconds:5.1f} s",
        border_style="cyan",
    )
