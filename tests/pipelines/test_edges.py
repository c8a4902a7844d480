"""Inputs and settings at the edge: nothing, one record, more tasks than splits, one long epoch, weaker modes."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

import cutwater as cw

from .pipelines import PIPELINES, Pipeline
from .running import Workbench, wait_for

WORD_COUNT = next(pipeline for pipeline in PIPELINES if pipeline.name == "word_count")
NEVER = {"every": "1h"}


def of_text(text: str) -> Pipeline:
    """The word count of one book."""

    def write(folder: Path) -> None:
        folder.mkdir()
        (folder / "book.txt").write_text(text)

    return dataclasses.replace(WORD_COUNT, write=write)


@pytest.mark.parametrize("mode", ["exactly_once", "none"])
def test_empty_input_gives_empty_output(tmp_path: Path, spark: Any, mode: str) -> None:
    bench = Workbench(of_text(""), tmp_path, spark)
    result = bench.environment(paced=False, checkpoints={"mode": mode}).execute("empty")
    assert result.state is cw.JobState.FINISHED
    assert not bench.visible()


def test_a_single_record_comes_through(tmp_path: Path, spark: Any) -> None:
    bench = Workbench(of_text("cutwater"), tmp_path, spark)
    bench.environment(paced=False).execute("single")
    assert bench.found() == {("cutwater", 1): 1}


def test_more_tasks_than_splits(tmp_path: Path, spark: Any) -> None:
    bench = Workbench(of_text("the bridge and the river\n" * 200), tmp_path, spark)
    job = bench.environment(paced=True, slower=20, parallelism=4).submit("wide")
    # Tasks that never had a split must not hold a checkpoint back.
    wait_for(job, lambda status: status.state is cw.JobState.RUNNING and status.checkpoints_completed >= 2)
    bench.let_go()
    job.wait("60s")
    assert bench.found() == bench.golden


def test_a_job_shorter_than_its_checkpoint_interval_commits_at_its_end(tmp_path: Path, spark: Any) -> None:
    bench = Workbench(WORD_COUNT, tmp_path, spark)
    result = bench.environment(paced=False, checkpoints=NEVER).execute("short")
    assert result.checkpoints_completed == 1
    assert bench.found() == bench.golden


@pytest.mark.parametrize("mode", ["at_least_once", "none"])
def test_weaker_modes_are_exact_when_nothing_fails(tmp_path: Path, spark: Any, mode: str) -> None:
    bench = Workbench(WORD_COUNT, tmp_path, spark)
    every = {} if mode == "none" else {"every": "200ms"}
    result = bench.environment(paced=True, checkpoints={"mode": mode, **every}).execute("weaker")
    assert (result.checkpoints_completed > 1) == (mode == "at_least_once")
    assert bench.found() == bench.golden
    assert not bench.pending()


def test_a_path_restores_that_snapshot(tmp_path: Path, spark: Any) -> None:
    bench = Workbench(WORD_COUNT, tmp_path, spark)
    job = bench.environment(paced=True).submit("first")
    bench.wait_for_output(job)
    job.cancel()
    job.wait("60s")
    manifests = tmp_path.glob("checkpoints/first/chk-*/manifest-*.json")
    newest = max((path.parent for path in manifests), key=lambda path: int(path.name.removeprefix("chk-")))
    bench.environment(paced=False).execute("second", restore=str(newest))
    assert bench.found() == bench.golden


def test_a_stopped_job_has_written_what_it_read_and_goes_on_in_a_new_run(tmp_path: Path, spark: Any) -> None:
    bench = Workbench(WORD_COUNT, tmp_path, spark)
    job = bench.environment(paced=True).submit("stopped")
    bench.wait_for_output(job)
    job.stop()
    assert job.wait("60s").state is cw.JobState.FINISHED
    assert not bench.pending()
    assert bench.found() != bench.golden, "it was over before it was stopped"
    bench.environment(paced=False).execute("stopped", restore="latest")
    assert bench.found() == bench.golden


@pytest.mark.parametrize("name", ["word_count", "enrich_with_rules"])
def test_a_snapshot_is_restored_at_another_parallelism(tmp_path: Path, spark: Any, name: str) -> None:
    bench = Workbench(next(pipeline for pipeline in PIPELINES if pipeline.name == name), tmp_path, spark)
    job = bench.environment(paced=True, parallelism=2).submit("rescaled")
    bench.wait_for_output(job)
    job.cancel()
    job.wait("60s")
    assert bench.found() != bench.golden, "it was over before it was cancelled"
    bench.environment(paced=False, parallelism=3).execute("rescaled", restore="latest")
    assert bench.found() == bench.golden


def cancelled_word_count(root: Path, spark: Any) -> Workbench:
    bench = Workbench(WORD_COUNT, root, spark)
    job = bench.environment(paced=True).submit("changed")
    bench.wait_for_output(job)
    job.cancel()
    job.wait("60s")
    return bench


def test_a_changed_program_that_has_no_place_for_state_is_refused(tmp_path: Path, spark: Any) -> None:
    bench = cancelled_word_count(tmp_path, spark)
    env = bench.bare_environment()
    books = env.from_source(cw.sources.files(bench.input / "*.txt"), uid="books")
    books.sink_to(cw.sinks.text(bench.output), uid="out")
    with pytest.raises(cw.errors.GraphError, match='"counts"'):
        env.execute("changed", restore="latest")


def test_another_number_of_key_groups_is_refused(tmp_path: Path, spark: Any) -> None:
    bench = cancelled_word_count(tmp_path, spark)
    env = bench.bare_environment(max_parallelism=64)
    bench.pipeline.build(env, bench.input, bench.output)
    with pytest.raises(cw.errors.ConfigurationError, match="has 128 key groups, the job has 64"):
        env.execute("changed", restore="latest")
