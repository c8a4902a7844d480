"""`python -m benchmarks.peers_run`: Cutwater and its peers on the same files in the same run, and the report.

Peers are installed on first use, each in an environment of its own under `build/peers/`. One that can't be installed or
that fails is named in the report, and the others go on.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from rich.console import Console

from benchmarks import report
from benchmarks.cutwater_cases import own_cases
from benchmarks.measurements import begin_run
from benchmarks.peers.cases import cold_peer_cases, is_best_of_its_system, peer_cases
from benchmarks.run import names_of_workloads
from benchmarks.session import Session
from benchmarks.subjects import Case
from benchmarks.workloads import TABLE

PARTS = ("table", "checkpoints", "cold", "latency", "growth")


def main() -> None:
    options = parse()
    console = Console(width=170)
    begin_run(f"python -m benchmarks.peers_run {' '.join(sys.argv[1:])}".strip())
    parts = options.only or PARTS
    with Session(console, seconds=options.seconds, rows=options.rows, rounds=options.rounds) as session:
        if options.verify:
            for case in chosen(options):
                # Flink and PySpark's functions give results one by one to Python when they are collected.
                session.verify([case], rows=20_000 if case.subject.environment == "flink" else None)
        if "table" in parts:
            session.table(chosen(options))
        if "checkpoints" in parts:
            session.checkpoints(options.workloads)
        if "cold" in parts:
            session.cold_start([case for case in cold_peer_cases() if wanted(case, options)])
        if "latency" in parts:
            session.latency()
        if "growth" in parts:
            session.growth()
    if options.report is not None:
        report.write(options.report, options.images or options.report.parent / "images")
    report.show(console)


def chosen(options: argparse.Namespace) -> list[Case]:
    """Workload by workload, Cutwater among its peers."""
    cases = [*own_cases(options.workloads), *peer_cases()]
    ordered = [case for workload in options.workloads for case in cases if case.workload == workload]
    return [case for case in ordered if wanted(case, options) and (not options.brief or is_best_of_its_system(case))]


def wanted(case: Case, options: argparse.Namespace) -> bool:
    return not options.systems or any(case.subject.system.lower().startswith(name) for name in options.systems)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers_run", description=__doc__.splitlines()[0])
    parser.add_argument("--workloads", type=names_of_workloads, default=list(TABLE), help="e.g. W1,W3")
    parser.add_argument(
        "--systems", type=lambda text: text.lower().split(","), help="beginnings of names, e.g. cutwater,spark,flink"
    )
    parser.add_argument("--brief", action="store_true", help="one setting of each system and workload, no variants")
    parser.add_argument("--only", choices=PARTS, action="append", help="leave out the other parts")
    parser.add_argument("--rows", type=int, help="of every run; left out: what keeps the system busy for --seconds")
    parser.add_argument("--seconds", type=float, default=20.0, help="that a run should last after its start-up")
    parser.add_argument("--rounds", type=int, default=1, help="of all systems, in rotating order")
    parser.add_argument("--verify", action="store_true", help="first check every system's answers with few rows")
    parser.add_argument("--report", type=Path, help="the Markdown file in which the generated part is replaced")
    parser.add_argument("--images", type=Path, help="the folder of the plots; left out: images/ beside the report")
    return parser.parse_args()


if __name__ == "__main__":
    main()
