"""How do commands write to a terminal, and to a program?"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from cutwater.cli.completing import job_names

if TYPE_CHECKING:
    from cutwater.serving.client import JobClient
    from cutwater.serving.words import Operation
    from cutwater.status import JobStatus

Job = Annotated[str, typer.Argument(help="The job's id or name: see `cutwater list`.", autocompletion=job_names)]
AsJson = Annotated[bool, typer.Option("--json", help="JSON, for programs.")]

#: A pipe has no edge, and what reads it wants whole rows.
PIPED_COLUMNS = 240
#: States of a job whose tasks will run, and don't yet.
NOT_RUNNING_YET = ("created", "waiting_for_slots", "deploying", "restarting")
_LOOK_SECONDS = 0.2


def console() -> Console:
    """Standard output; without colours if it is no terminal, or `NO_COLOR` is set."""
    known = sys.stdout.isatty() or "COLUMNS" in os.environ
    return Console(highlight=False, width=None if known else PIPED_COLUMNS)


def print_table(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """On a narrow terminal the first two columns stay whole: what it is, and how it is."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for index, column in enumerate(columns):
        table.add_column(column, overflow="fold", no_wrap=index < 2)
    for row in rows:
        table.add_row(*(Text(str(cell)) for cell in row))
    console().print(table)


def plain(value: Any) -> Any:
    import msgspec

    return msgspec.to_builtins(value)


def print_json(value: Any) -> None:
    import msgspec

    sys.stdout.write(msgspec.json.format(msgspec.json.encode(value)).decode() + "\n")


def carried_out(client: JobClient, ask: Callable[[], Operation], what: str) -> Operation:
    """Asks the job, and returns when it is done. One that is just restarting is asked when it runs again.

    A person sees how far it is, on standard error.
    """
    from cutwater.serving.client import RequestRefusedError

    with _bar(f"{what} of job {client.registration.job_id}") as update:
        while True:
            _wait_until_it_runs(client, update)
            try:
                return client.wait_for(ask(), (lambda: None) if update is None else lambda: update(client.status()))
            except RequestRefusedError:
                if not _runs_again_soon(client):
                    raise


def _runs_again_soon(client: JobClient) -> bool:
    from cutwater.serving.client import JobUnreachableError

    try:
        return client.status().state.value in NOT_RUNNING_YET
    except JobUnreachableError:
        return False


def _wait_until_it_runs(client: JobClient, update: Callable[[JobStatus], None] | None) -> None:
    while (status := client.status()).state.value in NOT_RUNNING_YET:
        if update is not None:
            update(status)
        time.sleep(_LOOK_SECONDS)


@contextmanager
def _bar(words: str) -> Iterator[Callable[[JobStatus], None] | None]:
    """What is given shows a status; None: there is no terminal to show it."""
    shown = Console(stderr=True)
    if not shown.is_terminal:
        yield None
        return
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=shown, transient=True) as progress:
        task = progress.add_task(words, total=None)

        def update(status: JobStatus) -> None:
            done, total, how_far = how_far_of(status)
            progress.update(task, completed=done, total=total, description=f"{words}: {how_far}")

        yield update


def how_far_of(status: JobStatus) -> tuple[int, int | None, str]:
    """Tasks that are done, of how many, and in words."""
    if status.waiting_for:
        return 0, None, f"waiting for {status.waiting_for}"
    if not status.checkpoints_under_way:
        return 0, None, f"the job is {status.state.replace('_', ' ')}"
    newest = status.checkpoints_under_way[-1]
    done, total = newest.tasks_acknowledged, newest.tasks_total
    return done, total or None, f"{done} of {total} tasks have written their state"
