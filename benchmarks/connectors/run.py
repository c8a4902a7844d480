"""`python -m benchmarks.connectors.run`: every connector beside its bare client, and Kafka to Kafka beside the peers.

Rounds of both in turn, so that a noisy moment hits them alike; a ratio is the median of the ratios within the rounds.
A server that can't be had is named with the reason, and the others go on.
"""

from __future__ import annotations

import argparse
import logging
import multiprocessing
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from rich.console import Console
from servers.install import reason_why_missing

from benchmarks.connectors import counting, report
from benchmarks.connectors.cases import Case, SinkCase, SourceCase
from benchmarks.connectors.catalogue import CONNECTORS
from benchmarks.connectors.counting import Counted
from benchmarks.connectors.jobs import run_sink, run_source
from benchmarks.connectors.ratios import Comparison, Run
from cutwater.deploy.session import embedded_session

ROWS = 2_000_000
ROUNDS = 5
COUNTING = "counting"
#: The last results wait for their checkpoint: of a longer run that is a smaller part.
COUNTING_SHARE = 2
#: Of a case, also for its warm-up: fewer may come at once, and could not be timed.
ROWS_MIN = 20_000
RESULTS = Path("build/bench-connectors.jsonl")
#: A run before the first round has so many times fewer rows: imports, connections, the server's own warming up.
WARM_UP_SHARE = 10


def main() -> None:
    options = parse()
    console = Console(width=190, highlight=False)
    logging.getLogger("cutwater").setLevel(logging.ERROR)
    comparisons: list[Comparison] = []
    counts: list[Counted] = []
    missing: dict[str, str] = {}
    spark = embedded_session(2)
    for name in options.connectors:
        if name != COUNTING and (reason := why_missing(name)) is None:
            comparisons += compare_all(spark, name, options, console, missing)
        elif name != COUNTING:
            missing[name] = reason
            console.print(f"{name}: {reason}")
    spark.stop()
    if COUNTING in options.connectors:
        counts = counting.measure(console, rows=COUNTING_SHARE * options.rows, rounds=options.rounds)
    report.save(RESULTS, comparisons, counts)
    if options.report:
        command = f"python -m benchmarks.connectors.run {' '.join(sys.argv[1:])}"
        report.write(Path(options.report), comparisons, counts, missing, command)


def why_missing(name: str) -> str | None:
    server = CONNECTORS[name].server
    return None if server is None else reason_why_missing(server)


def compare_all(
    spark: Any, name: str, options: argparse.Namespace, console: Console, missing: dict[str, str]
) -> list[Comparison]:
    """One case that fails doesn't stop the others; it is among the missing."""
    connector = CONNECTORS[name]
    found = []
    with ExitStack() as stack:
        folder = stack.enter_context(TemporaryDirectory(prefix="cutwater-bench-"))
        running = None if connector.server is None else stack.enter_context(connector.start())
        for case in connector.cases(running, Path(folder)):
            title = f"{case.kind} {case.name}"
            if options.only is not None and options.only not in title:
                continue
            try:
                found.append(compare(spark, case, options, console))
            except Exception as error:
                missing[title] = f"{type(error).__name__}: {error}"
                console.print(f"[red]{title}: {missing[title]}[/]")
    return found


def compare(spark: Any, case: Case, options: argparse.Namespace, console: Console) -> Comparison:
    found = Comparison(case.name, case.kind, case.asked, case.bare_does)
    rows = max(ROWS_MIN, int(options.rows * case.rows_share))
    case.rows = max(ROWS_MIN, rows // WARM_UP_SHARE)
    both_sides(spark, case, ours_first=False)
    case.rows = rows
    for number in range(options.rounds):
        bare, ours = both_sides(spark, case, ours_first=number % 2 == 1)
        found.bare.append(bare)
        found.ours.append(ours)
    console.print(report.line(found))
    return found


def both_sides(spark: Any, case: Case, *, ours_first: bool) -> tuple[Run, Run]:
    if isinstance(case, SourceCase):
        case.fill()
    sides: list[Callable[[], Run]] = [lambda: run_bare(case), lambda: run_ours(spark, case)]
    found: dict[int, Run] = {}
    for index in (1, 0) if ours_first else (0, 1):
        if isinstance(case, SourceCase):
            case.restore()
        elif isinstance(case, SinkCase):
            case.clear()
        found[index] = sides[index]()
        if isinstance(case, SinkCase) and (received := case.received()) not in (None, case.rows):
            raise AssertionError(f"{case.name}: {received:,} records arrived, not {case.rows:,}")
    return found[0], found[1]


def run_ours(spark: Any, case: Case) -> Run:
    if isinstance(case, SourceCase):
        return run_source(spark, case)
    assert isinstance(case, SinkCase)
    return run_sink(spark, case)


def run_bare(case: Case) -> Run:
    """In a fresh process, as a user's program."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return pool.submit(case.bare).result()


def names_of_connectors(text: str) -> list[str]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    there = [*CONNECTORS, COUNTING]
    unknown = [name for name in names if name not in there]
    if unknown:
        raise argparse.ArgumentTypeError(f"there is no {unknown[0]}; there are {', '.join(there)}")
    return names


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.connectors.run", description=__doc__.splitlines()[0])
    parser.add_argument(
        "--connectors", type=names_of_connectors, default=[*CONNECTORS, COUNTING], help="e.g. kafka,files"
    )
    parser.add_argument("--only", help="cases with this in their name, e.g. 'sink Kafka'")
    parser.add_argument("--rows", type=int, default=ROWS, help="of a fast connector; slow servers get a share of it")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="of both sides in turn")
    parser.add_argument("--report", help="a Markdown file to write")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main()
