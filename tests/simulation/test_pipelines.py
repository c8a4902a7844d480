"""Jobs of the grammar: drawn again alike, varied, and judged by models that notice."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from cutwater.protocol.modes import CheckpointMode
from cutwater.testing.simulation.pipelines import endings, meetings, stages, windows
from cutwater.testing.simulation.pipelines.endings import Ending
from cutwater.testing.simulation.pipelines.grammar import draw_pipeline
from cutwater.testing.simulation.pipelines.pipeline import Pipeline
from cutwater.testing.simulation.pipelines.rows import Row, plain
from cutwater.testing.simulation.pipelines.sources import SPLIT_BYTES
from cutwater.testing.simulation.pipelines.windows import Cut

pytestmark = pytest.mark.simulation

DRAWN = [draw_pipeline(Random(seed)) for seed in range(400)]
ROWS = [Row("ant", n, n + 1, 10 * n) for n in range(5)] + [Row("bee", 9, 7, 3)]


def test_a_seed_always_draws_the_same_pipeline() -> None:
    assert [draw_pipeline(Random(seed)).describe() for seed in range(400)] == [drawn.describe() for drawn in DRAWN]


def test_every_part_of_the_grammar_is_drawn() -> None:
    parts = (endings.Ending, stages.Stage, meetings.Meeting)
    known = {name for part in parts for name in _leaves(part)} - {"Passed"}
    drawn = {type(part).__name__ for pipeline in DRAWN for part in _parts(pipeline)}
    assert known - drawn == set()
    assert {pipeline.backend for pipeline in DRAWN} == {"memory", "filesystem", "rocksdb"}
    assert {pipeline.mode for pipeline in DRAWN} == set(CheckpointMode)
    assert {pipeline.sink for pipeline in DRAWN} == {"transactional", "plain"}
    assert {pipeline.time for pipeline in DRAWN} == {"none", "kept", "restless"}
    watched = {(drawn.time, branch.source.split_bytes) for drawn in DRAWN for branch in drawn.branches}
    watched = {(time, split_bytes) for time, split_bytes in watched if split_bytes is not None}
    assert ({time for time, _ in watched}, {size for _, size in watched}) == ({"none", "kept"}, set(SPLIT_BYTES))


def test_a_compatible_change_keeps_all_uids_and_the_model() -> None:
    for pipeline in DRAWN[:60]:
        changed = pipeline.changed("compatible", Random(1))
        assert changed is not None
        assert pipeline.graph().nodes.keys() <= changed.graph().nodes.keys()
        read = {branch.source.operator: ROWS for branch in pipeline.branches}
        assert changed.expected(read) == pipeline.expected(read)


def test_an_incompatible_change_renames_or_exchanges_what_has_state() -> None:
    changes = [(pipeline, pipeline.changed("incompatible", Random(seed))) for seed, pipeline in enumerate(DRAWN[:60])]
    assert sum(changed is not None for _, changed in changes) > 30
    for pipeline, changed in changes:
        assert changed is None or changed.renamed or changed.ending != pipeline.ending


def _exactly(key: str, *totals: tuple[int, int]) -> list[Any]:
    return [{"k": key, "result": {"c": count, "v": total}} for count, total in totals]


@pytest.mark.parametrize(
    ("ending", "right", "wrong"),
    [
        pytest.param(
            endings.AggregatedInPlace("column"),
            _exactly("ant", (1, 3), (2, 4), (3, 9), (4, 13), (5, 15)) + _exactly("bee", (1, 7)),
            _exactly("ant", (5, 15), (5, 15), (5, 15), (5, 15), (5, 15)) + _exactly("bee", (1, 7)),
            id="results that are one and the same accumulator",
        ),
        pytest.param(
            endings.AggregatedInPlace("column"),
            _exactly("ant", (1, 1), (2, 3), (3, 6), (4, 10), (5, 15)) + _exactly("bee", (1, 7)),
            _exactly("ant", (1, 1), (2, 2), (3, 6), (4, 10), (5, 15)) + _exactly("bee", (1, 7)),
            id="a value that was added twice, and one that was not",
        ),
        pytest.param(
            windows.RestlessWindows(Cut(20, 20), "process", "column", 0, None),
            [("window", "ant", 0, 20, 2, 3), ("window", "ant", 20, 40, 2, 7), ("late", *ROWS[4]),
             ("window", "bee", 0, 20, 1, 7)],
            [("window", "ant", 0, 20, 2, 3), ("window", "ant", 20, 40, 2, 7), ("window", "ant", 40, 60, 1, 5),
             ("window", "bee", 0, 20, 1, 7), ("window", "bee", 0, 20, 1, 7)],
            id="a window that fires twice",
        ),
        pytest.param(
            windows.RestlessWindows(Cut(20, 20), "process", "column", 0, None),
            [("window", "ant", 0, 20, 2, 3), ("window", "ant", 20, 40, 2, 7), ("window", "ant", 40, 60, 1, 5),
             ("late", *ROWS[5])],
            [("window", "ant", 0, 20, 2, 3), ("window", "ant", 20, 40, 2, 7), ("window", "ant", 40, 60, 1, 5)],
            id="a row that is neither late nor counted",
        ),
        pytest.param(
            endings.Tallied("column", ttl_ms=5),
            [("ant", 1, 1), ("ant", 1, 1), ("ant", 2, 1), ("ant", 2, 2), ("ant", 0, 1), ("bee", 1, 1)],
            [("ant", 1, 2), ("ant", 1, 2), ("ant", 2, 1), ("ant", 2, 2), ("ant", 0, 1), ("bee", 1, 1)],
            id="expired state that is counted on",
        ),
        pytest.param(
            endings.AsTheyAre(),
            [row._asdict() for row in ROWS],
            [row._asdict() for row in (*ROWS, ROWS[0])],
            id="a row too many",
        ),
    ],
)  # fmt: skip
def test_an_ending_tells_right_from_wrong(ending: Ending, right: list[Any], wrong: list[Any]) -> None:
    assert ending.judge(ROWS, Counter(map(plain, right))) is None
    assert ending.judge(ROWS, Counter(map(plain, wrong))) is not None


def test_a_session_holds_rows_that_are_no_further_apart_than_its_gap() -> None:
    cut = Cut(10, None)
    rows = [Row("ant", n, 1, time) for n, time in enumerate((0, 10, 21))]
    assert [(start, end, len(inside)) for start, end, inside in cut.windows_of(rows)] == [(0, 20, 2), (21, 31, 1)]


def test_an_outer_join_gives_each_row_without_a_partner_once() -> None:
    join = meetings.Joined("column", "full", (0, 5), None, on_columns=False)
    left, right = [Row("ant", 0, 1, 10), Row("ant", 1, 1, 50)], [Row("ant", 0, 2, 12), Row("bee", 1, 2, 50)]
    assert sorted(row.v for row in join.expect(left, right)) == [1, 2, 3]


def test_a_plain_sink_may_have_rows_twice_but_none_that_no_run_makes() -> None:
    drawn = next(pipeline for pipeline in DRAWN if pipeline.sink == "plain")
    branches = (replace(drawn.branches[0], stages=()),)
    pipeline = replace(drawn, branches=branches, meetings=(), stages=(), ending=endings.AsTheyAre())
    read = {pipeline.branches[0].source.operator: ROWS}
    everything = Counter(plain(row) for row in ROWS)
    assert pipeline.judge(read, everything + everything, undisturbed=False) is None
    assert "lost" in (pipeline.judge(read, everything - Counter([plain(ROWS[0])]), undisturbed=False) or "")
    stranger = everything + Counter([plain(ROWS[0]._replace(v=77))])
    assert "never meant" in (pipeline.judge(read, stranger, undisturbed=False) or "")


def _leaves(kind: type[Any]) -> set[str]:
    """By name: a dataclass with slots is made twice."""
    below = kind.__subclasses__()
    return {leaf for each in below for leaf in _leaves(each)} if below else {kind.__name__}


def _parts(pipeline: Pipeline) -> list[Any]:
    branch_stages = [stage for branch in pipeline.branches for stage in branch.stages]
    return [*branch_stages, *pipeline.meetings, *pipeline.stages, pipeline.ending]
