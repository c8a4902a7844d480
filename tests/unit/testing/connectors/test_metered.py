"""The kit's control over any source."""

from __future__ import annotations

from pathlib import Path

import pytest

from cutwater.batches import rows_of
from cutwater.connectors import sources
from cutwater.connectors.contract import ReaderContext, SplitReader
from cutwater.protocol.splits import Split
from cutwater.testing.connectors.controls import Controls
from cutwater.testing.connectors.metered import MeteredSource


@pytest.fixture
def controls(tmp_path: Path) -> Controls:
    return Controls(str(tmp_path / "controls"))


def reader_of(controls: Controls, position: object = None) -> SplitReader:
    source = MeteredSource(sources.generator(int, count=100, splits=1), controls)
    (split,) = source.discover(1).splits
    assert isinstance(split, Split)
    return source.reader(split, position, ReaderContext())


def read(reader: SplitReader) -> list[int]:
    batch = reader.read(1_000, 0.0)
    return [] if batch is None else rows_of(batch)


def test_a_reader_gives_its_quota_once_a_tick(controls: Controls) -> None:
    reader = reader_of(controls)
    given = [read(reader)]
    for tick in (1, 2):
        controls.let_flow(tick, rows=3)
        given += [read(reader), read(reader)]
    assert given == [[], [0, 1, 2], [], [3, 4, 5], []]


def test_a_released_reader_gives_what_it_has(controls: Controls) -> None:
    controls.release()
    assert read(reader_of(controls)) == list(range(100))


def test_records_that_are_read_again_count_once(controls: Controls) -> None:
    controls.let_flow(1, rows=7)
    reader = reader_of(controls)
    position = reader.position
    read(reader)
    seen_first = controls.seen
    read(reader_of(controls, position))
    assert (seen_first, controls.seen) == (7, 7)


def test_a_reader_goes_on_from_its_position(controls: Controls) -> None:
    controls.let_flow(1, rows=7)
    reader = reader_of(controls)
    read(reader)
    assert read(reader_of(controls, reader.position)) == list(range(7, 14))


def test_a_reader_that_is_held_back_looks_again_soon(controls: Controls) -> None:
    reader = reader_of(controls)
    read(reader)
    assert reader.wake_at() == pytest.approx(0.01)
