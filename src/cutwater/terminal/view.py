"""What does a job look like in a terminal? From its status to something that rich prints, without any other input.

`cutwater top` and `cutwater status` show `whole_view`, a job in the foreground of `cutwater run` shows `small_view`.
The demo is made of the same parts.
"""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from cutwater.protocol.lifecycle import JobState
from cutwater.status import CheckpointStatus, JobStatus, TaskStatus
from cutwater.terminal import figures, text

BAR_CELLS = 10
CHECKPOINTS_SHOWN = 5
WARNINGS_SHOWN = 3
_STYLES = {
    JobState.RUNNING: "bold green",
    JobState.FINISHED: "bold green",
    JobState.FAILED: "bold red",
    JobState.CANCELLED: "bold red",
}
#: Lines of `whole_view` that are no tasks: headings, and what stands between the tables.
_OTHER_LINES = 10


def whole_view(status: JobStatus, *, height: int | None = None) -> RenderableType:
    """Everything; with a height, as many tasks as fit into so many lines."""
    operators = sum(len(chain.operators) for chain in status.graph.chains)
    checkpoints = min(CHECKPOINTS_SHOWN, len(status.checkpoints))
    warnings = min(WARNINGS_SHOWN, len(status.warnings))
    room = None if height is None else max(1, height - _OTHER_LINES - operators - checkpoints - warnings)
    parts: list[RenderableType] = [headline(status), figures_lines(status)]
    if status.tasks:
        parts += [Text(), operators_table(status), Text(), tasks_table(status, rows_max=room)]
    if status.checkpoints:
        parts += [Text(), checkpoints_table(status.checkpoints[-CHECKPOINTS_SHOWN:])]
    if status.failure is not None:
        parts.append(Text(f"failed: {figures.harmless(str(status.failure))}", style="red"))
    parts += [_warning(warning) for warning in status.warnings[-WARNINGS_SHOWN:]]
    return Group(*parts)


def small_view(status: JobStatus) -> RenderableType:
    """Three lines, and the newest warning."""
    parts: list[RenderableType] = [headline(status), figures_lines(status)]
    parts += [_warning(warning) for warning in status.warnings[-1:]]
    return Group(*parts)


def headline(status: JobStatus) -> Text:
    style = _STYLES.get(status.state, "bold yellow")
    line = Text.assemble(
        (figures.harmless(status.name), "bold"),
        "  ",
        (status.state.replace("_", " ").upper(), style),
        f"  attempt {status.attempt}, {figures.age(status.running_seconds)}",
    )
    if (parallelism := figures.parallelism_of(status)) > 0:
        line.append(f", parallelism {parallelism}")
    line.append(f"  {figures.plural(status.restarts, 'restart')}", style="yellow" if status.restarts else "dim")
    if status.waiting_for:
        line.append(f"\nwaiting for {figures.harmless(status.waiting_for)}", style="yellow")
    return line


def figures_lines(status: JobStatus) -> Text:
    return Text(f"{text.flow_line(status)}\n{text.checkpoint_line(status).partition(';')[0]}")


def operators_table(status: JobStatus) -> Table:
    table = _table(text.OPERATOR_COLUMNS, words=1)
    for row in text.operator_rows(status):
        table.add_row(*map(_cell, row))
    return table


def tasks_table(status: JobStatus, *, rows_max: int | None = None) -> Table:
    """Busy tasks first where not all of them are shown."""
    table = _table(("task", "slot", "in/s", "out/s", "busy, backpressured", "queued", "lag"), words=2)
    places = {chain.uid: place for place, chain in enumerate(status.graph.chains)}
    shown = sorted(status.tasks, key=lambda task: (places.get(figures.chain_of(task), 0), _number(task)))
    if rows_max is not None and len(shown) > rows_max:
        shown = sorted(shown, key=_idleness)[: rows_max - 1]
    for task in shown:
        table.add_row(*_task_row(task))
    if len(shown) < len(status.tasks):
        table.add_row(Text(f"… {len(status.tasks) - len(shown)} more", style="dim"))
    return table


def checkpoints_table(checkpoints: tuple[CheckpointStatus, ...]) -> Table:
    table = _table(("checkpoint", "begun", "attempt", "took", "size", "written", "aligned", "outcome"), words=2)
    table.columns[-1].justify, table.columns[-1].no_wrap = "left", False
    for each in checkpoints:
        table.add_row(
            str(each.checkpoint) if each.kind == "checkpoint" else f"{each.kind} {each.checkpoint}",
            figures.time_of_day(each.triggered_at_ms),
            str(each.attempt),
            figures.milliseconds(each.duration_seconds),
            figures.size(each.size_bytes),
            figures.size(each.new_bytes),
            figures.milliseconds(each.alignment_seconds_max),
            _cell(each.outcome.partition("\n")[0]),
            style="" if each.completed else "red",
        )
    return table


def bar(shares: figures.Shares, *, cells: int = BAR_CELLS) -> Text:
    """`███▒▒·····  31%  22%`: busy, then backpressured."""
    busy = round(max(0.0, min(1.0, shares.busy)) * cells)
    backpressured = min(cells - busy, round(max(0.0, shares.backpressured) * cells))
    return Text.assemble(
        ("█" * busy, "red" if shares.busy > 0.9 else "green"),
        ("▒" * backpressured, "yellow"),
        ("·" * (cells - busy - backpressured), "dim"),
        f" {shares.busy:4.0%} {shares.backpressured:4.0%}",
    )


def _task_row(task: TaskStatus) -> tuple[RenderableType, ...]:
    shares = figures.shares_of(task)
    return (
        _cell(task.task),
        _cell(task.slot),
        figures.rate(task.records_in_per_second),
        figures.rate(task.records_out_per_second),
        "" if shares is None else bar(shares),
        figures.count(task.queued_elements),
        figures.count(sum(task.lag.values())) if task.lag else "",
    )


def _number(task: TaskStatus) -> int:
    number = task.task.rpartition("[")[2].rstrip("]")
    return int(number) if number.isdigit() else 0


def _idleness(task: TaskStatus) -> float:
    shares = figures.shares_of(task)
    return 0.0 if shares is None else -shares.busy - shares.backpressured


def _table(columns: tuple[str, ...], *, words: int) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold dim")
    for place, column in enumerate(columns):
        table.add_column(column, justify="left" if place < words else "right", no_wrap=place > 0)
    return table


def _warning(warning: str) -> Text:
    return Text(f"warning: {figures.harmless(warning)}", style="yellow")


def _cell(words: str) -> Text:
    """Not as a string, in which rich looks for colours."""
    return Text(figures.harmless(words))
