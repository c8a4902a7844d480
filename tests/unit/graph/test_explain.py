from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from pathlib import Path

from cutwater.config import Checkpoints, JobOptions
from cutwater.graph.chaining import to_execution_graph
from cutwater.graph.explain import Plan, explain
from cutwater.graph.guarantees import guarantees_of
from cutwater.graph.model import LogicalEdge, LogicalGraph, Partitioning
from cutwater.protocol.modes import CheckpointMode

from .graphs import forward, graph, hashed, operator, sink, source, word_count


def _plan(written: LogicalGraph, **options: object) -> Plan:
    return Plan(
        "word count",
        to_execution_graph(written),
        JobOptions(**options),  # type: ignore[arg-type]
        guarantees_of(written, CheckpointMode.EXACTLY_ONCE),
    )


def test_a_plan_reads_as_text() -> None:
    assert str(_plan(word_count(), checkpoints=Checkpoints(every="100ms"))) == (
        'job "word count": 2 chains, 2 slots, checkpoints exactly once every 100ms\n'
        "\n"
        "1. books → split  [2 tasks]\n"
        "     source    books  books (generated uid)  job.py:books\n"
        "     operator  split  split (generated uid)  job.py:split\n"
        "   split → 2. count  (hash by word)\n"
        "\n"
        "2. count → out  [2 tasks]\n"
        "     operator  count  count (generated uid)  job.py:count\n"
        "     sink      out    out (generated uid)    job.py:out\n"
        "\n"
        "not chained\n"
        "  split → count: records are partitioned by word\n"
        "\n"
        "end to end\n"
        "  books → out: exactly once; the source reads again, and output shows when its checkpoint is complete"
    )


def test_a_job_without_checkpoints_says_so() -> None:
    assert "no checkpoints" in str(_plan(word_count(), checkpoints=Checkpoints(mode="none")))


def test_two_inputs_and_side_outputs_are_told_apart() -> None:
    written = graph(
        [source("in"), source("rules", parallelism=1), operator("both"), sink("out"), sink("late", parallelism=1)],
        [
            hashed("in", "both"),
            LogicalEdge("rules", "both", Partitioning.BROADCAST, port=1),
            forward("both", "out"),
            LogicalEdge("both", "late", Partitioning.REBALANCE, tag="late"),
        ],
    )
    text = str(_plan(written))
    assert "(hash by word to input 1)" in text
    assert "(broadcast to input 2)" in text
    assert "both → 4. late  (late: rebalance)" in text


def test_the_picture_is_well_formed_and_names_every_operator_and_arrow() -> None:
    root = ElementTree.fromstring(_plan(word_count()).svg())
    texts = {element.text for element in root.iter("{http://www.w3.org/2000/svg}text")}
    assert {"word count", "books", "split", "count", "out", "hash by word", "books → out: exactly once"} <= texts


def test_names_with_markup_do_not_break_the_picture() -> None:
    written = graph(
        [
            source(
                "in",
            ),
            sink("out"),
        ],
        [forward("in", "out")],
    )
    plan = Plan('<b> & "co"', to_execution_graph(written), JobOptions(), ())
    ElementTree.fromstring(plan.svg())


def test_a_notebook_shows_the_picture(tmp_path: Path) -> None:
    plan = _plan(word_count())
    plan.save_svg(tmp_path / "plan.svg")
    assert plan._repr_svg_() == (tmp_path / "plan.svg").read_text(encoding="utf-8")


def test_a_console_shows_the_text() -> None:
    plan = _plan(word_count())
    assert repr(plan) == explain(plan)
