"""How do many seeds fare, and how is a broken one seen again?"""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.text import Text

from cutwater.errors import ConfigurationError
from cutwater.testing.simulation.jobs import JOBS
from cutwater.testing.simulation.run import Outcome, run_seed

PROCESSES = 2
_SEEDS_PER_CHUNK = 8


def run_campaign(
    seeds: Sequence[int], *, job: str | None = None, trace: bool = False, console: Console | None = None
) -> bool:
    """Plays the seeds and tells about them; True when every invariant held."""
    console = console or Console(highlight=False)
    if job is not None and job not in JOBS:
        raise ConfigurationError(f'there is no simulated job "{job}"', hint=f"choose one of {', '.join(JOBS)}")
    if trace or len(seeds) == 1:
        verdicts = [_play_one(seed, job, console, trace=trace) for seed in seeds]
        return all(verdicts)
    started = time.monotonic()
    broken = 0
    with _progress(console) as progress:
        bar = progress.add_task("seeds", total=len(seeds), broken=0, rate=0.0)
        for done, outcome in enumerate(_outcomes(seeds, job), 1):
            if outcome.broken is not None:
                broken += 1
                _tell(outcome, job, progress.console)
            progress.update(bar, completed=done, broken=broken, rate=done / (time.monotonic() - started))
    seconds = time.monotonic() - started
    verdict = "every invariant held" if not broken else f"{broken} broke an invariant"
    console.print(f"{len(seeds)} seeds in {seconds:.1f} s ({len(seeds) / seconds:.1f} per second): {verdict}")
    return not broken


def _outcomes(seeds: Sequence[int], job: str | None) -> Iterator[Outcome]:
    # A fresh interpreter: the caller may have threads (a progress bar has), which a fork would not survive.
    context = multiprocessing.get_context("spawn")
    with context.Pool(min(PROCESSES, len(seeds))) as pool:
        yield from pool.imap_unordered(partial(run_seed, job=job), seeds, chunksize=_SEEDS_PER_CHUNK)


def _play_one(seed: int, job: str | None, console: Console, *, trace: bool) -> bool:
    outcome = run_seed(seed, job, trace=True)
    if trace:
        for line in outcome.trace.lines:
            console.print(Text(line), soft_wrap=True)
    if outcome.broken is not None:
        _tell(outcome, job, console)
        return False
    console.print(
        f"seed {seed}, job {outcome.job}: every invariant held "
        f"({outcome.events} events, {outcome.attempts} attempts, {outcome.seconds:.3f} simulated seconds, "
        f"trace {outcome.trace.digest()})"
    )
    return True


def _tell(outcome: Outcome, job: str | None, console: Console) -> None:
    again = f"cutwater simulate --seed {outcome.seed}" + (f" --job {job}" if job else "") + " --trace"
    console.print(Text(f"seed {outcome.seed}, job {outcome.job}: {outcome.broken}", style="bold red"), soft_wrap=True)
    console.print(Text(f"  again:  {again}", style="dim"), soft_wrap=True)


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
    ) as progress:
        yield progress
