"""How do many seeds fare, what befell them, and how is a broken one seen again?"""

from __future__ import annotations

import multiprocessing
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from cutwater.errors import ConfigurationError
from cutwater.testing.simulation.conditions import KINDS, Kind
from cutwater.testing.simulation.jobs import JOBS
from cutwater.testing.simulation.run import Outcome, run_seed

PROCESSES = 2
_SEEDS_PER_CHUNK = 8

Play = Callable[..., Outcome]
"""Plays a seed; takes `trace`. Travels to other processes."""


@dataclass(frozen=True, slots=True)
class Campaign:
    """What is played, and the command that plays it."""

    play: Play
    command: str
    #: Said behind what a broken seed shows.
    advice: str = ""


def campaign_of_our_jobs(job: str | None) -> Campaign:
    """All jobs that the project tries itself with, or one of them."""
    if job is not None and job not in JOBS:
        raise ConfigurationError(f'there is no simulated job "{job}"', hint=f"choose one of {', '.join(JOBS)}")
    return Campaign(partial(run_seed, job=job), "cutwater simulate" + (f" --job {job}" if job else ""))


def run_campaign(
    campaign: Campaign, seeds: Sequence[int], *, trace: bool = False, console: Console | None = None
) -> bool:
    """Plays the seeds and tells about them; True when every invariant held."""
    console = console or Console(highlight=False)
    if trace or len(seeds) == 1:
        verdicts = [_play_one(campaign, seed, console, trace=trace) for seed in seeds]
        return all(verdicts)
    started = time.monotonic()
    broken = 0
    injected: Counter[Kind] = Counter()
    with _progress(console) as progress:
        bar = progress.add_task("seeds", total=len(seeds), broken=0, rate=0.0)
        for done, outcome in enumerate(_outcomes(campaign, seeds), 1):
            injected.update(outcome.injected)
            if outcome.broken is not None:
                broken += 1
                _tell(outcome, campaign, progress.console)
            progress.update(bar, completed=done, broken=broken, rate=done / (time.monotonic() - started))
    seconds = time.monotonic() - started
    console.print(_table(injected))
    verdict = "every invariant held" if not broken else f"{broken} broke an invariant"
    console.print(f"{len(seeds)} seeds in {seconds:.1f} s ({len(seeds) / seconds:.1f} per second): {verdict}")
    return not broken


def _table(injected: Counter[Kind]) -> Table:
    """How often each kind of fault struck, also those that never did."""
    table = Table("kind", "fault", "times", box=None, header_style="bold", pad_edge=False)
    table.columns[2].justify = "right"
    for name, kinds in KINDS:
        for index, kind in enumerate(kinds):
            table.add_row(name if index == 0 else "", kind.value, f"{injected[kind]:,}")  # type: ignore[index]
    return table


def _outcomes(campaign: Campaign, seeds: Sequence[int]) -> Iterator[Outcome]:
    # A fresh interpreter: the caller may have threads (a progress bar has), which a fork would not survive.
    context = multiprocessing.get_context("spawn")
    with context.Pool(min(PROCESSES, len(seeds))) as pool:
        yield from pool.imap_unordered(campaign.play, seeds, chunksize=_SEEDS_PER_CHUNK)


def _play_one(campaign: Campaign, seed: int, console: Console, *, trace: bool) -> bool:
    outcome = campaign.play(seed, trace=True)
    if trace:
        for line in outcome.trace.lines:
            console.print(Text(line), soft_wrap=True)
    if outcome.broken is not None:
        _tell(outcome, campaign, console)
        return False
    console.print(
        f"seed {seed}, job {outcome.job}: every invariant held "
        f"({outcome.events} events, {outcome.attempts} attempts, {outcome.seconds:.3f} simulated seconds, "
        f"trace {outcome.trace.digest()})"
    )
    return True


def _tell(outcome: Outcome, campaign: Campaign, console: Console) -> None:
    console.print(Text(f"seed {outcome.seed}, job {outcome.job}: {outcome.broken}", style="bold red"), soft_wrap=True)
    if campaign.advice:
        console.print(Text(campaign.advice, style="dim"), soft_wrap=True)
    console.print(Text(f"  again:  {campaign.command} --seed {outcome.seed} --trace", style="dim"), soft_wrap=True)


@contextmanager
def _progress(console: Console) -> Iterator[Progress]:
    with Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[broken]} broken"),
        TextColumn("{task.fields[rate]:.1f}/s"),
        TimeRemainingColumn(),
        console=console,
        disable=not console.is_terminal,
    ) as progress:
        yield progress
