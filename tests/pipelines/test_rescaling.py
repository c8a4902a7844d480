"""Every example, rescaled again and again while it loses workers, on every state backend: one golden output."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest

import cutwater as cw

from .pipelines import PIPELINES, Pipeline
from .running import Workbench, wait_for

#: The stream would last half a minute: it is let go when everything has happened.
SLOWER = 15.0
#: From a savepoint of the one to the other.
MOVES = (("filesystem", "rocksdb"), ("rocksdb", "memory"))
WORD_COUNT = next(pipeline for pipeline in PIPELINES if pipeline.name == "word_count")


@pytest.fixture
def bench(request: pytest.FixtureRequest, tmp_path: Path, spark: Any) -> Workbench:
    pipeline: Pipeline = request.param
    return Workbench(pipeline, tmp_path, spark)


@pytest.mark.parametrize(
    ("bench", "backend"),
    [
        pytest.param(pipeline, backend, id=f"{pipeline.name}-{backend}")
        for pipeline in PIPELINES
        for backend in pipeline.backends
    ],
    indirect=["bench"],
)
def test_a_job_that_is_rescaled_and_killed_in_turn(bench: Workbench, backend: str) -> None:
    env = bench.environment(paced=True, slower=SLOWER, state_backend=backend)
    job = env.submit("pipeline", require="exactly_once")
    bench.wait_for_output(job)
    for parallelism in (4, 1, 3):
        job.rescale(parallelism, timeout="60s")
        completed = job.status().checkpoints_completed
        status = wait_for(job, lambda status, before=completed: status.checkpoints_completed > before)
        assert len([slot for slot in status.slots if slot.tasks]) == parallelism
        os.kill(next(slot.pid for slot in status.slots if slot.tasks), signal.SIGKILL)
        wait_for(job, lambda now, before=status: now.restarts > before.restarts and now.state is cw.JobState.RUNNING)
    bench.let_go()
    status = job.wait("90s").status
    assert [recovery.restored_checkpoint is not None for recovery in status.recoveries] == [True] * 3
    assert bench.found() == bench.golden
    assert not bench.pending()


@pytest.mark.parametrize(
    ("bench", "before", "after"),
    [
        pytest.param(pipeline, before, after, id=f"{pipeline.name}-{before}-{after}")
        for pipeline in PIPELINES
        for before, after in MOVES
        if after in pipeline.backends
    ],
    indirect=["bench"],
)
def test_a_savepoint_of_one_backend_is_restored_in_another(bench: Workbench, before: str, after: str) -> None:
    job = bench.environment(paced=True, slower=SLOWER, state_backend=before).submit("pipeline")
    bench.wait_for_output(job)
    path = job.stop(savepoint=str(bench.output.parent / "savepoints"), timeout="60s")
    assert job.wait("60s").state is cw.JobState.FINISHED
    assert bench.found() != bench.golden, "it was over before it was stopped"
    env = bench.environment(paced=False, state_backend=after, parallelism=3)
    env.execute("pipeline", restore=path, require="exactly_once")
    assert bench.found() == bench.golden
    assert not bench.pending()


def test_a_job_goes_on_as_it_was_when_there_are_too_few_cores_to_rescale(tmp_path: Path, spark: Any) -> None:
    bench = Workbench(WORD_COUNT, tmp_path, spark)
    job = bench.environment(paced=True, slower=SLOWER, slot_timeout="2s").submit("pipeline")
    bench.wait_for_output(job)
    with pytest.raises(cw.errors.SlotsMissingError, match="needs 20 slots to be rescaled"):
        job.rescale(20, timeout="60s")
    bench.let_go()
    assert job.wait("90s").restarts == 0
    assert bench.found() == bench.golden


@pytest.mark.parametrize(("parallelism", "reason"), [(0, "1 or more"), (200, "key groups"), ("2", "whole number")])
def test_a_parallelism_that_can_not_be_is_refused(tmp_path: Path, spark: Any, parallelism: Any, reason: str) -> None:
    bench = Workbench(WORD_COUNT, tmp_path, spark)
    job = bench.environment(paced=True).submit("pipeline")
    bench.wait_for_output(job)
    with pytest.raises(cw.errors.ConfigurationError, match=reason):
        job.rescale(parallelism, timeout="60s")
    bench.let_go()
    job.wait("90s")
    assert bench.found() == bench.golden
