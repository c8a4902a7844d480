"""`python -m benchmarks.run`: throughput with checkpoints, pauses, recovery. All in one run."""

from __future__ import annotations

import argparse
import logging
import platform

from rich.console import Console

import cutwater
from benchmarks import pauses, recovery, throughput
from cutwater.deploy.session import embedded_session

PARTS = ("throughput", "pauses", "recovery")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.run", description=__doc__)
    parser.add_argument("--only", choices=PARTS, action="append", help="leave out the other parts")
    parser.add_argument("--records", type=int, default=8_000_000, help="of the throughput runs")
    parser.add_argument("--rounds", type=int, default=9, help="of the throughput runs")
    parser.add_argument("--failures", type=int, default=9, help="of each kind")
    options = parser.parse_args()
    parts = options.only or PARTS
    console = Console(width=140)
    logging.getLogger("cutwater").setLevel(logging.ERROR)
    console.print(f"cutwater {cutwater.__version__}, Python {platform.python_version()}, {platform.machine()}")
    spark = embedded_session(5)
    if "throughput" in parts:
        throughput.measure(spark, console, records=options.records, rounds=options.rounds)
    if "pauses" in parts:
        pauses.measure(spark, console, records=options.records)
    if "recovery" in parts:
        recovery.measure(spark, console, failures=options.failures)
    spark.stop()


if __name__ == "__main__":
    main()
