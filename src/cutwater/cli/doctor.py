"""`cutwater doctor JOB`: why is it slow, and what to do about it?"""

from __future__ import annotations

import sys
from typing import Annotated

import typer

#: A warning or worse was found; 1 and 2 are what they are everywhere.
FOUND_SOMETHING = 3
_STYLES = {"critical": "bold red", "warning": "bold yellow", "info": "bold cyan", "healthy": "bold green"}


def doctor(
    job: Annotated[str, typer.Argument(help="The job's id or name: see `cutwater list`.")],
    *,
    as_json: Annotated[bool, typer.Option("--json", help="JSON, for programs.")] = False,
) -> None:
    """Says why a job is slow or not healthy, with the figure and a suggestion. Exits with 3 if there is a warning."""
    import msgspec
    from rich.console import Console
    from rich.text import Text

    from cutwater.diagnosis.doctor import needs_attention
    from cutwater.serving.client import find_job

    found = find_job(job).diagnosis()
    if as_json:
        sys.stdout.write(msgspec.json.format(msgspec.json.encode(found)).decode() + "\n")
    else:
        console = Console(highlight=False)
        for finding in found.findings:
            console.print(Text(f"{finding.severity}: ", _STYLES[finding.severity]) + Text(finding.title, "bold"))
            console.print(Text(f"  seen:  {finding.evidence}"))
            if finding.suggestion:
                console.print(Text(f"  do:    {finding.suggestion}"))
    if needs_attention(found.findings):
        raise typer.Exit(FOUND_SOMETHING)
