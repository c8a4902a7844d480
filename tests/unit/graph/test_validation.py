from __future__ import annotations

import pytest

from cutwater.errors import GraphError
from cutwater.graph.model import LogicalEdge, LogicalGraph, Partitioning
from cutwater.graph.validation import topological_order, validate

from .graphs import forward, graph, operator, sink, source, word_count


def test_a_complete_job_has_no_warnings() -> None:
    assert validate(word_count()) == ()


def test_an_unread_stream_is_a_warning() -> None:
    written = graph(
        [source("in"), operator("forgotten"), sink("out")], [forward("in", "forgotten"), forward("in", "out")]
    )
    assert validate(written) == ('nothing reads the output of operator "forgotten" (job.py:forgotten)',)


def test_a_job_that_is_still_being_written_needs_no_sink() -> None:
    assert validate(graph([source("in")], []), complete=False) == (
        'nothing reads the output of source "in" (job.py:in)',
    )


def test_a_circle_is_refused_with_the_operators_on_it() -> None:
    written = graph(
        [source("in"), operator("a"), operator("b"), operator("after"), sink("out")],
        [forward("in", "a"), forward("a", "b"), forward("b", "a"), forward("b", "after"), forward("after", "out")],
    )
    with pytest.raises(GraphError) as caught:
        validate(written)
    assert caught.value.detail == ('operator "a" (job.py:a) → operator "b" (job.py:b) → operator "a" (job.py:a)')


@pytest.mark.parametrize(
    ("written", "fact"),
    [
        (graph([], []), "the job has no source"),
        (graph([source("in"), operator("a")], [forward("in", "a")]), "the job has no sink, so nothing would happen"),
        (graph([source("in"), sink("out")], []), 'sink "out" (job.py:out) has no input'),
        (
            graph([source("in"), sink("out")], [forward("in", "ghost")]),
            'an edge from "in" to "ghost" names an unknown operator, "ghost"',
        ),
        (
            graph([source("in"), sink("a"), sink("b")], [forward("in", "a"), forward("a", "b")]),
            'sink "a" (job.py:a) has no output, but sink "b" (job.py:b) reads from it',
        ),
        (
            graph([source("in"), source("other"), sink("out")], [forward("in", "other"), forward("other", "out")]),
            'source "other" (job.py:other) has no input, but source "in" (job.py:in) writes to it',
        ),
        (
            graph([source("in"), sink("out", parallelism=1)], [forward("in", "out")]),
            'source "in" (job.py:in) can\'t forward to sink "out" (job.py:out)',
        ),
        (
            graph([source("in"), sink("out")], [LogicalEdge("in", "out", Partitioning.HASH)]),
            'the edge from source "in" (job.py:in) to sink "out" (job.py:out) is hash-partitioned without a key',
        ),
        (
            graph([source("in", parallelism=200), sink("out", parallelism=200)], [forward("in", "out")]),
            'source "in" (job.py:in) has parallelism 200',
        ),
        (LogicalGraph({"x": source("in")}, []), 'source "in" (job.py:in) is filed under another uid, "x"'),
    ],
)
def test_what_cannot_run_is_refused(written: LogicalGraph, fact: str) -> None:
    with pytest.raises(GraphError) as caught:
        validate(written)
    assert caught.value.fact == fact


def test_senders_come_first_and_otherwise_the_order_of_writing_stays() -> None:
    written = graph(
        [sink("out"), operator("b"), operator("a"), source("in")],
        [forward("in", "a"), forward("in", "b"), forward("a", "out"), forward("b", "out")],
    )
    assert topological_order(written) == ["in", "b", "a", "out"]
