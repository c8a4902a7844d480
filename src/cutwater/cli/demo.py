"""`cutwater demo`: the fault-tolerant word count, killed on the way."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console


def demo(
    *,
    mode: Annotated[str, typer.Option(help="exactly_once, at_least_once or none")] = "exactly_once",
    kills: Annotated[int, typer.Option(min=0, help="how many worker processes get a kill -9")] = 3,
    seconds: Annotated[float, typer.Option(min=1, help="how long the text takes to arrive")] = 20.0,
) -> None:
    """A stateful job on local Spark, killed on the way: the result is still exact."""
    from cutwater.demo.runner import DemoOptions, run_demo

    if not run_demo(DemoOptions(mode=mode, kills=kills, seconds=seconds), Console()):
        raise typer.Exit(1)
