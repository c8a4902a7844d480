"""One stream of two logs: a long one as text, short ones as JSON.

Both are parsed into the same shape, united, and spread evenly (`rebalance`), since one log is read by one task only.
Two results per service: how its requests add up so far, and its slowest request so far.

Run it: `cutwater run examples/union_of_logs.py`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import cutwater as cw


class Request(NamedTuple):
    service: str
    ms: int


class Load:
    """An aggregate: requests, and the milliseconds they took together."""

    def create_accumulator(self) -> tuple[int, int]:
        return 0, 0

    def add(self, request: Request, load: tuple[int, int]) -> tuple[int, int]:
        requests, ms = load
        return requests + 1, ms + request.ms

    def get_result(self, load: tuple[int, int]) -> dict[str, int]:
        requests, ms = load
        return {"requests": requests, "ms": ms}

    def merge(self, one: tuple[int, int], other: tuple[int, int]) -> tuple[int, int]:
        return one[0] + other[0], one[1] + other[1]


def parse_line(line: str) -> Request:
    service, ms = line.split()
    return Request(service, int(ms))


def slower(one: Request, other: Request) -> Request:
    return other if other.ms > one.ms else one


def build(env: cw.Environment, input_folder: Path, output_folder: Path) -> None:
    access = env.from_source(cw.sources.files(input_folder / "access"), uid="access").map(parse_line, uid="parse")
    services = env.from_source(cw.sources.files(input_folder / "services", format="json"), uid="services").map(
        lambda row: Request(**row), uid="shape"
    )
    requests = access.union(services).rebalance().filter(lambda request: request.ms >= 10, uid="real").key_by("service")

    load = requests.aggregate(Load(), uid="load").map(as_row, uid="rows")
    load.sink_to(cw.sinks.json_lines(output_folder / "load"), uid="load-out")

    slowest = requests.reduce(slower, uid="slowest")
    slowest.sink_to(cw.sinks.json_lines(output_folder / "slowest"), uid="slowest-out")


def as_row(result: tuple[str, dict[str, int]]) -> dict[str, Any]:
    service, load = result
    return {"service": service, **load}


if __name__ == "__main__":
    from data import workspace, write_logs

    folders = workspace("union-of-logs", write_logs)
    env = cw.Environment(parallelism=2, checkpoints=cw.Checkpoints(every="500ms", storage=folders.checkpoints))
    build(env, folders.input, folders.output)
    env.execute("union of logs", require="exactly_once")
    print(f"the loads and the slowest requests are in {folders.output}")
