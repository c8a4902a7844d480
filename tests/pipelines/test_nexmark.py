"""Every Nexmark query and the sliding word count, plain, killed and rescaled: always DuckDB's answer."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from benchmarks import nexmark, word_count
from benchmarks.nexmark.answers import verify
from benchmarks.nexmark.generator import Scale, write

from .local import LocalRuns

#: Out of order by up to two seconds, and ten events of each time; a batch has 25 rows, so that there are many.
SCALE = Scale(events=10_000, events_per_second=200, tick_ms=50, events_per_file=1_700, rows_per_group=25)


@pytest.fixture(scope="module")
def auctions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("nexmark")
    write(folder, SCALE)
    return folder


@pytest.fixture(scope="module")
def lines(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("lines")
    word_count.make_data(folder, 600, lines_per_second=50, lines_per_file=100, lines_per_group=20)
    return folder


def runs_of(query: str, folder: Path, *, seed: int) -> LocalRuns:
    return LocalRuns(lambda env: nexmark.QUERIES[query](env, folder), seed=seed)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("query", nexmark.QUERIES)
def test_a_query_gives_duckdbs_answer(auctions: Path, query: str, seed: int) -> None:
    verify(query, runs_of(query, auctions, seed=seed).plain(parallelism=1 + seed), auctions)


@pytest.mark.parametrize("query", nexmark.QUERIES)
def test_a_query_whose_slots_are_killed_gives_the_same_answer(auctions: Path, query: str) -> None:
    verify(query, runs_of(query, auctions, seed=7).killed(parallelism=2), auctions)


@pytest.mark.parametrize(("before", "after"), [(1, 2), (3, 1), (2, 3)])
@pytest.mark.parametrize("query", nexmark.QUERIES)
def test_a_query_that_goes_on_at_another_parallelism_gives_the_same_answer(
    auctions: Path, query: str, before: int, after: int
) -> None:
    verify(query, runs_of(query, auctions, seed=before).rescaled(before, after), auctions)


@pytest.mark.parametrize("query", ["q5", "q7"])
def test_batches_that_span_several_windows_lose_none_of_their_winners(tmp_path: Path, query: str) -> None:
    write(tmp_path, Scale(6_000, events_per_second=200, tick_ms=50))
    verify(query, runs_of(query, tmp_path, seed=0).plain(parallelism=1), tmp_path)


@pytest.mark.parametrize("seed", [8, 10, 13])
def test_a_split_that_no_task_had_begun_is_not_late_when_fewer_tasks_go_on(tmp_path: Path, seed: int) -> None:
    """Under these seeds the snapshot lies between the assignment of a split and its first batch."""
    word_count.make_data(tmp_path, 600, lines_per_second=10, lines_per_file=15, lines_per_group=5)
    runs = LocalRuns(lambda env: word_count.word_count(env, tmp_path), seed=seed)
    word_count.verify(runs.rescaled(3, 1), tmp_path)


@pytest.mark.parametrize(
    "run",
    [
        lambda runs: runs.plain(parallelism=1),
        lambda runs: runs.plain(parallelism=3),
        lambda runs: runs.killed(parallelism=2),
        lambda runs: runs.rescaled(2, 3, after_checkpoints=1),
    ],
    ids=["plain_1", "plain_3", "killed", "rescaled"],
)
def test_the_sliding_word_count_gives_duckdbs_answer(lines: Path, run: Callable[[LocalRuns], list[Any]]) -> None:
    word_count.verify(run(LocalRuns(lambda env: word_count.word_count(env, lines), seed=5)), lines)


def test_the_same_seed_makes_the_same_events(tmp_path: Path) -> None:
    for name in ("one", "other"):
        write(tmp_path / name, Scale(2_000, seed=4))
    files = sorted(path.relative_to(tmp_path / "one") for path in (tmp_path / "one").rglob("*.parquet"))
    assert [str(file.parent) for file in files] == ["auction", "bid", "person"]
    assert all((tmp_path / "one" / file).read_bytes() == (tmp_path / "other" / file).read_bytes() for file in files)


def test_events_come_in_nexmarks_proportions_within_the_bound_of_disorder(auctions: Path) -> None:
    counts = {}
    for kind in ("person", "auction", "bid"):
        times = [pq.read_table(file).column("date_time").cast("int64").to_numpy() for file in parts(auctions, kind)]
        counts[kind] = sum(map(len, times))
        behind = max(int((np.maximum.accumulate(file) - file).max()) for file in times)
        assert 0 < behind <= SCALE.disorder_ms
        assert all(before.max() <= after.min() for before, after in pairwise(times)), "files follow each other in time"
    assert counts == {"person": 200, "auction": 600, "bid": 9_200}


def parts(folder: Path, kind: str) -> list[Path]:
    return sorted((folder / kind).iterdir())
