"""`python -m benchmarks.run`: Cutwater alone. Workloads and checkpoints, latency, growth, pauses, recovery.

Every figure goes to `build/bench.jsonl`. With `--workloads` only these are run, nothing else.
"""

from __future__ import annotations

import argparse
import logging
import platform
import sys

from rich.console import Console

import cutwater
from benchmarks import pauses, recovery, throughput
from benchmarks.cutwater_cases import own_cases
from benchmarks.measurements import begin_run
from benchmarks.session import Session
from benchmarks.workloads import STORIES, TABLE, WORKLOADS
from cutwater.deploy.session import embedded_session

IN_OWN_PROCESSES = ("workloads", "cold", "latency", "growth")
IN_THIS_PROCESS = ("throughput", "pauses", "recovery")
PARTS = IN_OWN_PROCESSES + IN_THIS_PROCESS


def main() -> None:
    options = parse()
    console = Console(width=170)
    logging.getLogger("cutwater").setLevel(logging.ERROR)
    begin_run(f"python -m benchmarks.run {' '.join(sys.argv[1:])}".strip())
    console.print(f"cutwater {cutwater.__version__}, Python {platform.python_version()}, {platform.machine()}")
    parts: list[str] = options.only or (["workloads"] if options.workloads else list(PARTS))
    workloads = options.workloads or [*TABLE, *STORIES]
    with Session(console, seconds=options.seconds, rows=options.rows, rounds=options.rounds) as session:
        if options.verify:
            session.verify(own_cases(workloads))
        if "workloads" in parts:
            session.checkpoints([name for name in workloads if name not in STORIES])
            session.table(own_cases([name for name in workloads if name in STORIES]))
        if "cold" in parts:
            session.cold_start()
        if "latency" in parts:
            session.latency()
        if "growth" in parts:
            session.growth()
    if set(parts) & set(IN_THIS_PROCESS):
        in_this_process(console, parts, options)


def in_this_process(console: Console, parts: list[str], options: argparse.Namespace) -> None:
    spark = embedded_session(5)
    if "throughput" in parts:
        throughput.measure(spark, console, records=options.records, rounds=options.throughput_rounds)
    if "pauses" in parts:
        pauses.measure(spark, console, records=options.records)
    if "recovery" in parts:
        recovery.measure(spark, console, failures=options.failures)
    spark.stop()


def names_of_workloads(text: str) -> list[str]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    names = [one for name in names for one in (STORIES[:-1] if name == "W5" else (name,))]
    unknown = [name for name in names if name not in WORKLOADS]
    if unknown:
        raise argparse.ArgumentTypeError(f"there is no {unknown[0]}; there are {', '.join(WORKLOADS)}")
    return names


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.run", description=__doc__.splitlines()[0])
    parser.add_argument("--only", choices=PARTS, action="append", help="leave out the other parts")
    parser.add_argument("--workloads", type=names_of_workloads, help="e.g. W1,W3: only these")
    parser.add_argument("--rows", type=int, help="of every workload; left out: as many as keep it busy for --seconds")
    parser.add_argument("--seconds", type=float, default=20.0, help="that a run should last after its start-up")
    parser.add_argument("--rounds", type=int, default=1, help="of all settings, in rotating order")
    parser.add_argument("--verify", action="store_true", help="first check the answers with few rows")
    parser.add_argument("--records", type=int, default=8_000_000, help="of the parts throughput and pauses")
    parser.add_argument("--throughput-rounds", type=int, default=9)
    parser.add_argument("--failures", type=int, default=9, help="of each kind, in the part recovery")
    return parser.parse_args()


if __name__ == "__main__":
    main()
