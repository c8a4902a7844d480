"""`cutwater simulate`: does a job still give the failure-free answer under this seed's crashes and delays?"""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cutwater.errors import ConfigurationError

if TYPE_CHECKING:
    from cutwater.testing.simulation.campaign import Campaign


def simulate(
    script: Annotated[Path | None, typer.Argument(help="A Python file that builds a job and executes it.")] = None,
    arguments: Annotated[list[str] | None, typer.Argument(help="Handed to the script as sys.argv[1:].")] = None,
    *,
    seeds: Annotated[int, typer.Option(min=1, help="How many seeds to run.")] = 100,
    first: Annotated[int, typer.Option("--from", min=0, help="The first of them.")] = 0,
    seed: Annotated[int | None, typer.Option(min=0, help="Only this one: replays a failure.")] = None,
    job: Annotated[str | None, typer.Option(help="Only this one of Cutwater's own jobs.")] = None,
    trace: Annotated[bool, typer.Option("--trace", help="Print every event.")] = False,
    stand_in: Annotated[
        list[str] | None, typer.Option(help="uid=records.jsonl: what a source without an end is to read.")
    ] = None,
    compare: Annotated[str, typer.Option(help="Outputs as multiset, set, ordered or nothing.")] = "multiset",
) -> None:
    """Plays a script's jobs, or Cutwater's own, on a simulated cluster that crashes and delays as each seed decides.

    No Spark, no waiting, and nothing outside is written. Exits with 1 when a seed breaks an invariant.
    """
    from cutwater.testing.simulation.campaign import campaign_of_our_jobs, run_campaign

    chosen = range(seed, seed + 1) if seed is not None else range(first, first + seeds)
    campaigns = (
        [campaign_of_our_jobs(job)]
        if script is None
        else _campaigns_of(script, arguments or [], job=job, stand_in=stand_in or [], compare=compare)
    )
    verdicts = [run_campaign(campaign, chosen, trace=trace) for campaign in campaigns]
    if not all(verdicts):
        raise typer.Exit(1)


def _campaigns_of(
    script: Path, arguments: list[str], *, job: str | None, stand_in: list[str], compare: str
) -> list[Campaign]:
    from cutwater.testing.scripts import campaign_of, jobs_of_script
    from cutwater.testing.simulation.comparison import comparison_of

    if job is not None:
        raise ConfigurationError("--job chooses one of Cutwater's own jobs", hint="leave it out with a script")
    found = jobs_of_script(
        script, arguments, comparison=comparison_of(compare), stand_ins=dict(map(_stand_in, stand_in))
    )
    again = ["cutwater", "simulate", str(script), *arguments]
    again += [part for given in stand_in for part in ("--stand-in", given)]
    again += ["--compare", compare] if compare != "multiset" else []
    return [campaign_of(user, reference, shlex.join(again)) for user, reference in found]


def _stand_in(given: str) -> tuple[str, Path]:
    uid, separator, path = given.partition("=")
    if not separator or not uid or not path:
        raise ConfigurationError(f"--stand-in {given!r} names no file", hint="write --stand-in uid=records.jsonl")
    return uid, Path(path)
