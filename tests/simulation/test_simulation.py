"""Whole jobs on the production coordinator and slots, in a simulated world."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from cutwater.testing.simulation.jobs import JOBS
from cutwater.testing.simulation.run import run_seed

pytestmark = pytest.mark.simulation

SEEDS_PER_JOB = 40
TRACED = """
import sys
from cutwater.testing.simulation.run import run_seed
print(*(run_seed(seed, trace=True).trace.digest() for seed in map(int, sys.argv[1:])))
"""


@pytest.mark.parametrize("job", JOBS)
def test_every_invariant_holds_whatever_breaks(job: str) -> None:
    broken = [outcome for seed in range(SEEDS_PER_JOB) if (outcome := run_seed(seed, job)).broken is not None]
    assert [(outcome.seed, outcome.broken) for outcome in broken] == []


@pytest.mark.parametrize("job", JOBS)
def test_a_calm_world_needs_one_attempt(job: str) -> None:
    outcomes = [run_seed(seed, job, calm=True) for seed in range(10)]
    assert [(outcome.broken, outcome.attempts) for outcome in outcomes] == [(None, 1)] * 10


def test_faults_do_happen() -> None:
    outcomes = [run_seed(seed) for seed in range(60)]
    assert sum(outcome.attempts > 1 for outcome in outcomes) > 20


def test_the_same_seed_leaves_the_same_trace() -> None:
    assert [run_seed(seed, trace=True).trace.lines for seed in range(10)] == [
        run_seed(seed, trace=True).trace.lines for seed in range(10)
    ]


def test_the_trace_does_not_depend_on_the_process() -> None:
    seeds = range(100, 112)
    here = [run_seed(seed, trace=True).trace.digest() for seed in seeds]
    for hash_seed in ("1", "4242"):
        environment = os.environ | {"PYTHONHASHSEED": hash_seed, "PYTHONPATH": os.pathsep.join(sys.path)}
        command = [sys.executable, "-c", TRACED, *map(str, seeds)]
        there = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=100)
        assert there.stdout.split() == here
