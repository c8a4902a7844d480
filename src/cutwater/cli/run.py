"""`cutwater run`: runs a user's script so that a failure shows their own lines."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path
from typing import Annotated

import typer

from cutwater.errors import UserError


def run(
    context: typer.Context,
    script: Annotated[Path, typer.Argument(help="A Python file that builds a job and executes it.")],
    arguments: Annotated[list[str] | None, typer.Argument(help="Handed to the script as sys.argv[1:].")] = None,
    *,
    verbose: Annotated[bool, typer.Option("--verbose", help="Show stack traces, those of the JVM included.")] = False,
) -> None:
    """Runs a script as `python script.py` would, with failures made readable.

    Exits with 0 when the script does, 1 when it failed, 2 when the job itself must change, or as the script says.
    """
    if verbose:
        context.obj["verbose"] = True
    if not script.is_file():
        raise UserError(f'there is no script "{script}"', hint="give the path of a Python file")
    sys.argv[:] = [str(script), *(arguments or [])]
    # As `python script.py` does: the script can import its neighbours.
    sys.path.insert(0, str(script.resolve().parent))
    runpy.run_path(str(script), run_name="__main__")
