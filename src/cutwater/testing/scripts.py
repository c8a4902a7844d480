"""Which jobs does a user's script start, and how are they simulated?

The script runs as it is, with a launcher that plays each of its jobs without faults: it sees results, and nothing
outside is written. What it has started is then played under the faults of many seeds.
"""

from __future__ import annotations

import runpy
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import cloudpickle
import msgspec

from cutwater.api.dataflow import Build
from cutwater.api.launching import LaunchOptions, launched_by
from cutwater.api.serialization import make_portable
from cutwater.connectors import sinks
from cutwater.connectors.collect import CollectSink
from cutwater.errors import ConfigurationError, UserError
from cutwater.graph.model import LogicalGraph, NodeKind
from cutwater.graph.plan import JobPlan
from cutwater.operators.sink import WriterOperator
from cutwater.testing.harness import LocalJob
from cutwater.testing.simulation.campaign import Campaign
from cutwater.testing.simulation.comparison import Comparison
from cutwater.testing.simulation.run import Outcome
from cutwater.testing.simulation.user_jobs import (
    Reference,
    UserJob,
    functions_of,
    graph_with_sources,
    reference_of,
    run_user_seed,
)
from cutwater.testing.stand_ins import simulated


class RememberingLauncher:
    """Plays every job once without faults, and remembers it."""

    def __init__(self, comparison: Comparison, stand_ins: Mapping[str, Sequence[Any]]) -> None:
        self.jobs: list[tuple[UserJob, Reference]] = []
        self._comparison = comparison
        self._stand_ins = stand_ins

    def launch(self, job: JobPlan, options: LaunchOptions) -> LocalJob:
        known = {uid for uid, node in job.logical.nodes.items() if node.kind is NodeKind.SOURCE}
        given = {uid: records for uid, records in self._stand_ins.items() if uid in known}
        user = UserJob(job, self._comparison, given)
        self.jobs.append((user, reference_of(user)))
        started = LocalJob(_touching_nothing(user), LaunchOptions(), 0, None)
        started.play()
        return started

    def check_stand_ins(self) -> None:
        """Raises when one was given to a source that no job has."""
        uids = [uid for user, _ in self.jobs for uid, node in user.plan.logical.nodes.items() if node.connector]
        for uid in self._stand_ins:
            if uid not in uids:
                raise ConfigurationError(f'there is no source with the uid "{uid}"', hint=f"there is {', '.join(uids)}")


def jobs_of_script(
    script: Path, arguments: Sequence[str], *, comparison: Comparison, stand_ins: Mapping[str, Path]
) -> list[tuple[UserJob, Reference]]:
    """Runs the script as `python script.py` would; its jobs, and what they give without faults."""
    if not script.is_file():
        raise UserError(f'there is no script "{script}"', hint="give the path of a Python file")
    launcher = RememberingLauncher(comparison, {uid: _records(path) for uid, path in stand_ins.items()})
    sys.argv[:] = [str(script), *arguments]
    sys.path.insert(0, str(script.resolve().parent))
    with launched_by(launcher), simulated():
        runpy.run_path(str(script), run_name="__main__")
    if not launcher.jobs:
        raise UserError(f'"{script}" starts no job', hint="call env.execute(…) or env.submit(…) in it")
    launcher.check_stand_ins()
    return launcher.jobs


def campaign_of(job: UserJob, reference: Reference, command: str) -> Campaign:
    """What `run_campaign` plays."""
    data = bytes(cloudpickle.dumps((job, reference)))
    return Campaign(partial(_play, data=data), command, f"  {functions_of(job.plan)}")


def _play(seed: int, *, data: bytes, trace: bool = False) -> Outcome:
    job, reference = _loaded(data)
    return run_user_seed(seed, job, reference, trace=trace)


@lru_cache(maxsize=1)
def _loaded(data: bytes) -> tuple[UserJob, Reference]:
    loaded: tuple[UserJob, Reference] = cloudpickle.loads(data)
    return loaded


def _touching_nothing(user: UserJob) -> JobPlan:
    """The job with sinks that drop what they get, but for those whose results the script takes."""
    graph = graph_with_sources(user)
    nodes = dict(graph.nodes)
    for uid, node in graph.nodes.items():
        if node.kind is NodeKind.SINK and not isinstance(node.connector, CollectSink):
            sink = sinks.discard()
            nodes[uid] = replace(node, connector=sink, build=Build(WriterOperator, (sink, user.mode)))
    plan = user.plan
    portable = make_portable(LogicalGraph(nodes, list(graph.edges)))
    return JobPlan.of(plan.name, plan.job_id, portable, plan.options, plan.guarantees)


def _records(path: Path) -> list[Any]:
    """One JSON value a line; of a file that doesn't end in .jsonl or .json, one text a line."""
    if not path.is_file():
        raise UserError(f'there is no file "{path}" to stand in for a source', hint="give uid=records.jsonl")
    lines = path.read_text().splitlines()
    if path.suffix not in (".jsonl", ".json"):
        return list(lines)
    try:
        return [msgspec.json.decode(line) for line in lines if line.strip()]
    except msgspec.DecodeError as error:
        raise UserError(f'"{path}" is not one JSON value a line', detail=str(error)) from error
