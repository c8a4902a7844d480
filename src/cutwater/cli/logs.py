"""`cutwater logs`: what a job's driver and slots have logged and printed."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer
from rich.console import Console
from rich.text import Text

from cutwater.cli.showing import AsJson, Job, console

if TYPE_CHECKING:
    from cutwater.serving.registry import Registration
    from cutwater.status import LogLine

_LOOK_SECONDS = 0.5
_STYLES = {"WARNING": "yellow", "ERROR": "red", "CRITICAL": "bold red", "DEBUG": "dim"}


def logs(
    job: Job,
    *,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with what comes, until the job ends.")] = False,
    lines: Annotated[int, typer.Option("--lines", "-n", min=1, help="How many of the last ones.")] = 100,
    as_json: AsJson = False,
) -> None:
    """Shows the last lines that the driver and the slots of a job have logged and printed.

    Of a detached job whose driver was killed: the end of its log file.
    """
    from cutwater.serving.client import JobClient, JobEndedError, find_registration

    registration, lives = find_registration(job)
    if not lives:
        _show_file(registration, lines)
    client = JobClient(registration)
    seen, newest = 0, client.logs()[-lines:]
    while True:
        for line in newest:
            _show(line, as_json=as_json)
            seen = line.number
        if not follow:
            return
        time.sleep(_LOOK_SECONDS)
        try:
            newest = client.logs(seen)
        except JobEndedError as ended:
            Console(stderr=True, highlight=False).print(ended.fact, markup=False)
            return


def _show_file(registration: Registration, lines: int) -> NoReturn:
    """Raises what every command says of a driver that is gone, behind what it has left."""
    from cutwater.cli.detaching import tail
    from cutwater.serving.client import driver_gone

    if registration.log is not None and Path(registration.log).is_file():
        for line in tail(Path(registration.log), lines):
            typer.echo(line)
    raise driver_gone(registration)


def _show(line: LogLine, *, as_json: bool) -> None:
    if as_json:
        import msgspec

        sys.stdout.write(msgspec.json.encode(line).decode() + "\n")
        sys.stdout.flush()
        return
    console().print(text_of(line), soft_wrap=True)


def text_of(line: LogLine) -> Text:
    """`12:00:01 WARNING slot-1 count[0] orders: …`; what was printed has no level."""
    from cutwater.terminal.figures import harmless, time_of_day

    where = " ".join(word for word in (line.slot or "driver", line.task) if word)
    text = Text.assemble((time_of_day(line.at_ms), "dim"), " ", (where, "cyan"), " ")
    if line.level != "PRINT":
        text.append(f"{line.level} {line.logger}: ", style=_STYLES.get(line.level, "dim"))
    return text.append(harmless(line.text))
