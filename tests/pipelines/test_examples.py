"""Every example, plain, killed, and cancelled and restored: always the one golden output."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest

import cutwater as cw

from .pipelines import PIPELINES, Pipeline
from .running import Workbench


@pytest.fixture(params=PIPELINES, ids=lambda pipeline: pipeline.name)
def bench(request: pytest.FixtureRequest, tmp_path: Path, spark: Any) -> Workbench:
    pipeline: Pipeline = request.param
    return Workbench(pipeline, tmp_path, spark)


def test_a_run_to_which_nothing_happens(bench: Workbench) -> None:
    result = bench.environment(paced=True).execute("pipeline", require="exactly_once")
    assert result.restarts == 0
    assert result.checkpoints_completed > 0
    assert bench.found() == bench.golden
    assert not bench.pending()


def test_a_worker_that_is_killed(bench: Workbench) -> None:
    job = bench.environment(paced=True).submit("pipeline", require="exactly_once")
    status = bench.wait_for_output(job)
    os.kill(next(slot.pid for slot in status.slots if slot.tasks), signal.SIGKILL)
    status = job.wait("90s").status
    assert [recovery.restored_checkpoint is not None for recovery in status.recoveries] == [True]
    assert bench.found() == bench.golden
    assert not bench.pending()


def test_a_job_that_is_cancelled_and_goes_on_in_a_new_run(bench: Workbench) -> None:
    job = bench.environment(paced=True).submit("pipeline")
    bench.wait_for_output(job)
    job.cancel()
    assert job.wait("60s").state is cw.JobState.CANCELLED
    assert bench.found() != bench.golden, "it was over before it was cancelled"
    bench.environment(paced=False).execute("pipeline", restore="latest", require="exactly_once")
    assert bench.found() == bench.golden
    assert not bench.pending()
