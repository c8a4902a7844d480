"""Every Nexmark query and the sliding word count, plain, killed and rescaled: always DuckDB's answer."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from benchmarks import nexmark, word_count
from benchmarks.nexmark.answers import answer, verify
from benchmarks.nexmark.generator import Scale, write

from .local import LocalRuns

#: Out of order by up to two seconds, and ten events of each time; a batch has some seconds of one kind of events.
SCALE = Scale(events=12_000, events_per_second=200, tick_ms=50, events_per_file=2_000, rows_per_group=300)


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
    return LocalRuns(partial(_build, query, folder), seed=seed)


def _build(query, folder, env):  # type: ignore[no-untyped-def]
    return nexmark.QUERIES[query](env, folder)


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
    verify(query, runs_of(query, auctions, seed=before).rescaled(before=before, after=after), auctions)
