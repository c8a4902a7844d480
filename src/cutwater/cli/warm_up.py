"""`cutwater warm-up`: who compiles the kernels of typed streams, if not the first job?"""

from __future__ import annotations

import time

import typer


def warm_up() -> None:
    """Compiles what typed streams run on, so that no job waits for it: once on every machine, some twenty seconds."""
    from cutwater.operators.columnar.warm_up import warm_up as steps

    started = time.monotonic()
    for step in steps():
        typer.echo(f"compiling {step}", err=True)
    typer.echo(f"the kernels of typed streams are compiled ({time.monotonic() - started:.1f} s)")
