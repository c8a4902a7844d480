"""`cutwater simulate`: does a job still give the failure-free answer under this seed's crashes and delays?"""

from __future__ import annotations

from typing import Annotated

import typer


def simulate(
    *,
    seeds: Annotated[int, typer.Option(min=1, help="How many seeds to run.")] = 100,
    first: Annotated[int, typer.Option("--from", min=0, help="The first of them.")] = 0,
    seed: Annotated[int | None, typer.Option(min=0, help="Only this one: replays a failure.")] = None,
    job: Annotated[str | None, typer.Option(help="Only this job.")] = None,
    trace: Annotated[bool, typer.Option("--trace", help="Print every event.")] = False,
) -> None:
    """Whole jobs on a simulated cluster, crashed and delayed as each seed decides; no Spark, no waiting."""
    from cutwater.testing.simulation.campaign import run_campaign

    chosen = range(seed, seed + 1) if seed is not None else range(first, first + seeds)
    if not run_campaign(seeds=chosen, job=job, trace=trace):
        raise typer.Exit(1)
