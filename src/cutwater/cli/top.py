"""`cutwater top`: a job, or all of them, as they run."""

from __future__ import annotations

import select
import sys
import termios
import time
import tty
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from cutwater.cli.completing import job_names
from cutwater.cli.jobs import JOB_COLUMNS, cells_of, row_of
from cutwater.cli.showing import AsJson, console, print_json

if TYPE_CHECKING:
    from cutwater.serving.client import JobClient


def top(
    job: Annotated[
        str | None, typer.Argument(help="The job's id or name; left out, all of them.", autocompletion=job_names)
    ] = None,
    *,
    every: Annotated[float, typer.Option(min=0.1, help="Seconds from one look to the next.")] = 1.0,
    as_json: AsJson = False,
) -> None:
    """Shows what tasks and operators do, live, until q or Ctrl-C; prints it once where there is no terminal."""
    from cutwater.serving.client import JobClient, find_job
    from cutwater.serving.registry import registrations

    living = [JobClient(each) for each, lives in registrations() if lives] if job is None else [find_job(job)]
    if not living:
        print_json([]) if as_json else console().print("no job of yours runs on this machine")
        return
    if as_json:
        print_json([client.status() for client in living])
        return
    shown = console()
    if not shown.is_terminal or shown.is_dumb_terminal or not sys.stdin.isatty():
        shown.print(_view_of(living, None))
        return
    _watch(living, shown, every_seconds=every)


def _watch(living: list[JobClient], shown: Console, *, every_seconds: float) -> None:
    """A killed driver is told behind the view, as any other command tells it; a job that ended is no failure."""
    from cutwater.serving.client import JobEndedError

    try:
        with _keys() as pressed, Live(console=shown, screen=True, auto_refresh=False) as live:
            while True:
                live.update(_view_of(living, shown.height - 2), refresh=True)
                if pressed(every_seconds) in ("q", "Q", "\x04"):
                    return
    except KeyboardInterrupt:
        return
    except JobEndedError as ended:
        shown.print(ended.fact, markup=False)


def _view_of(living: list[JobClient], height: int | None) -> RenderableType:
    from cutwater.terminal.view import whole_view

    if len(living) == 1:
        status = living[0].status()
        view = whole_view(status, height=height)
        return view if height is None else _with_keys(view)
    table = _all_of(living)
    return table if height is None else _with_keys(table)


def _with_keys(view: RenderableType) -> RenderableType:
    from rich.console import Group

    return Group(view, Text("\nq ends this view, not the job", style="dim"))


def _all_of(living: list[JobClient]) -> Table:
    from cutwater.serving.client import JobUnreachableError
    from cutwater.terminal import figures

    table = Table(box=None, pad_edge=False, header_style="bold dim")
    for place, column in enumerate(JOB_COLUMNS):
        table.add_column(column, justify="left" if place < 2 else "right")
    for client in living:
        try:
            row = row_of(client.status())
        except JobUnreachableError as gone:
            row = {"job_id": client.registration.job_id, "state": gone.fact}
        table.add_row(*(Text(str(cell)) for cell in cells_of(row, figures)))
    return table


@contextmanager
def _keys() -> Iterator[Callable[[float], str]]:
    """Keys as they are pressed. What is given waits so many seconds, and returns "" if none was."""
    terminal = sys.stdin.fileno()
    before = termios.tcgetattr(terminal)

    def pressed(seconds: float) -> str:
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            if select.select([terminal], [], [], left)[0]:
                return sys.stdin.read(1) or "q"
        return ""

    tty.setcbreak(terminal)
    try:
        yield pressed
    finally:
        termios.tcsetattr(terminal, termios.TCSADRAIN, before)
