"""How does the demo go, from writing the books to the verdict?"""

from __future__ import annotations

import logging
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.live import Live

from cutwater.api.jobs import JobHandle
from cutwater.demo.books import BOOKS, write_books
from cutwater.demo.chaos import Chaos
from cutwater.demo.verdict import Verdict, judge
from cutwater.demo.view import render
from cutwater.demo.word_count import DemoFolders, build
from cutwater.errors import ConfigurationError
from cutwater.status import JobStatus

MODES = ("exactly_once", "at_least_once", "none")
REFRESH_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class DemoOptions:
    mode: str = "exactly_once"
    kills: int = 3
    seconds: float = 20.0
    lines_per_second: float = 400.0

    def __post_init__(self) -> None:
        if self.mode not in MODES:
            raise ConfigurationError(f"the demo has no mode {self.mode!r}", hint=f"choose one of {', '.join(MODES)}")


def run_demo(options: DemoOptions, console: Console) -> bool:
    """True: the outcome is what the mode promises."""
    logging.getLogger("cutwater").setLevel(logging.ERROR)  # the view tells it all
    with tempfile.TemporaryDirectory(prefix="cutwater-demo-") as root:
        folders = DemoFolders(Path(root))
        expected = write_books(folders.books, lines_per_book=int(options.lines_per_second * options.seconds))
        console.print(
            f"Counting {expected.total():,} words in {BOOKS} books on a local Spark, mode [bold]{options.mode}[/bold]; "
            f"{options.kills} worker processes will get a real kill -9. Starting Spark takes some seconds."
        )
        job = build(folders, mode=options.mode, lines_per_second=options.lines_per_second).submit("demo word count")
        kills = _watch(job, options, console)
        verdict = judge(folders.output, expected)
    return _tell(verdict, options, kills, console)


def _watch(job: JobHandle, options: DemoOptions, console: Console) -> int:
    chaos = Chaos(options.kills, needs_checkpoints=options.mode != "none")
    events: list[str] = []
    started = time.monotonic()
    try:
        with Live(console=console, refresh_per_second=1 / REFRESH_SECONDS, transient=False) as live:
            while not (status := job.status()).state.terminal:
                elapsed = time.monotonic() - started
                pid = chaos.watch(status, time.monotonic())
                if pid is not None:
                    events.append(f"{elapsed:5.1f} s  kill -9 {pid}")
                    if not console.is_terminal:
                        console.print(events[-1])
                events.extend(_news_of_recoveries(status, events, elapsed))
                live.update(render(status, events, elapsed_seconds=elapsed))
                time.sleep(REFRESH_SECONDS)
            live.update(render(job.status(), events, elapsed_seconds=time.monotonic() - started))
        job.wait()
    except KeyboardInterrupt:
        job.cancel()
        raise
    return len(chaos.killed_pids)


def _news_of_recoveries(status: JobStatus, events: list[str], elapsed_seconds: float) -> list[str]:
    told = sum("back after" in event for event in events)
    return [
        f"{elapsed_seconds:5.1f} s  back after {recovery.first_record_seconds:.2f} s, from "
        + (f"chk-{recovery.restored_checkpoint}" if recovery.restored_checkpoint else "nothing")
        for recovery in status.recoveries[told:]
        if recovery.first_record_seconds is not None
    ]


def _tell(verdict: Verdict, options: DemoOptions, kills: int, console: Console) -> bool:
    console.print(
        f"\n{kills} kills survived. Words counted: {verdict.counted_total:,}; without failures: "
        f"{verdict.expected_total:,}."
    )
    match options.mode:
        case "exactly_once":
            as_promised = verdict.exact
            console.print(
                "[bold green]Identical.[/bold green] Every record counted exactly once, in state and in the output: "
                "each word's count goes up one by one in the files, no row repeated, none missing."
                if as_promised
                else f"[bold red]NOT identical: this is a bug in Cutwater.[/bold red] Words too high: "
                f"{verdict.words_too_high}, too low: {verdict.words_too_low}; rows repeated: "
                f"{verdict.repeated_rows}, missing: {verdict.missing_rows}."
            )
        case "at_least_once":
            as_promised = verdict.words_too_low == 0
            console.print(
                f"{verdict.words_too_high} of {verdict.words} words are counted too high. A task does not wait for the "
                "barriers of all its channels, so records behind a fast barrier are already in its snapshot; after "
                "a kill the sources go back to the barrier and send them again."
            )
        case _:
            as_promised = verdict.words_too_high == 0
            console.print(
                f"{verdict.words_too_low} of {verdict.words} words are counted too low. Without checkpoints the killed "
                "job lost its state and the records under way; the sources went on behind them, so nothing was "
                "counted twice."
            )
    return as_promised and kills >= options.kills
