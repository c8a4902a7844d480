"""Folders whose files come one after the other: the real source finds and reads what the checkers believe it does."""

from __future__ import annotations

from typing import Any

import pytest

from cutwater.batches import rows_of
from cutwater.connectors.contract import ReaderContext
from cutwater.protocol.known_origins import KnownOrigins
from cutwater.testing.simulation import registry
from cutwater.testing.simulation.pipelines.folders import WatchedFolder
from cutwater.testing.simulation.pipelines.rows import Row, row_of
from cutwater.testing.simulation.run import Run

FILES = {"part0": [Row("ant", n, n, 2 * n) for n in range(5)], "part1": [], "part2": [Row("bee", 9, 7, 30)]}


@pytest.fixture
def run() -> Run:
    return Run(0, "pipeline", trace=False, calm=True)


def _folder(split_bytes: int) -> WatchedFolder:
    return WatchedFolder("source0", FILES, grows_every=1.0, split_bytes=split_bytes, batch=2)


@pytest.mark.parametrize("split_bytes", [1 << 20, 60, 7])
def test_the_real_source_finds_the_splits_that_the_checkers_know(run: Run, split_bytes: int) -> None:
    folder = _folder(split_bytes)
    run.world.now = 10.0
    with registry.entered(run):
        found = folder.discover_new(2, KnownOrigins())
    assert found.complete
    assert [split.id for split in found.splits] == list(folder.splits)
    assert {split.origin for split in found.splits} == {folder.origin_of(split) for split in folder.splits}


@pytest.mark.parametrize("split_bytes", [1 << 20, 60, 7])
def test_what_lies_before_a_position_is_what_was_read(run: Run, split_bytes: int) -> None:
    folder = _folder(split_bytes)
    run.world.now = 10.0
    everything: list[Row] = []
    with registry.entered(run):
        for split in folder.discover_new(2, KnownOrigins()).splits:
            reader, read = folder.reader(split, None, ReaderContext()), list[Any]()
            while not reader.finished:
                run.world.now += 1.0  # longer than any hiccup
                batch = reader.read(100, run.world.now)
                read += [] if batch is None else map(row_of, rows_of(batch))
                assert folder.read_before(split.id, reader.position) == read
            everything += read
    assert everything == [row for rows in FILES.values() for row in rows]


def test_files_come_one_after_the_other(run: Run) -> None:
    folder = _folder(1 << 20)
    looks = []
    with registry.entered(run):
        for seconds in (0.0, 1.5, 2.5):
            run.world.now = seconds
            look = folder.discover_new(2, KnownOrigins())
            looks.append((len(look.splits), look.complete))
    assert looks == [(1, False), (1, False), (2, True)]  # the second file is empty
