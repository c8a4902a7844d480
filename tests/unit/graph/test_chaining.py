from __future__ import annotations

import pytest

from cutwater.graph.chaining import to_execution_graph
from cutwater.graph.model import ChainEdge, ChainingRefusal, LogicalEdge, LogicalGraph, Partitioning

from .graphs import forward, graph, hashed, operator, sink, source, word_count


def test_neighbours_that_forward_become_one_chain() -> None:
    execution = to_execution_graph(word_count())
    assert [vertex.name for vertex in execution.vertices] == ["books → split", "count → out"]


def test_a_vertex_has_the_uid_of_its_head() -> None:
    assert [vertex.uid for vertex in to_execution_graph(word_count()).vertices] == ["books", "count"]


def test_an_edge_between_chains_knows_the_operator_that_sends() -> None:
    (edge,) = to_execution_graph(word_count()).edges
    assert (edge.index, edge.sender, edge.sender_operator, edge.receiver) == (0, "books", 1, "count")


def test_without_chaining_every_operator_is_a_vertex() -> None:
    execution = to_execution_graph(word_count(), chaining=False)
    assert [vertex.uid for vertex in execution.vertices] == ["books", "split", "count", "out"]


def test_a_chain_that_forks_is_a_tree() -> None:
    execution = to_execution_graph(
        graph(
            [source("in"), operator("parse"), operator("clean"), sink("out"), sink("late")],
            [
                forward("in", "parse"),
                forward("parse", "clean"),
                forward("parse", "late", tag="late"),
                forward("clean", "out"),
            ],
        )
    )
    (vertex,) = execution.vertices
    assert vertex.name == "in → parse → (clean → out, late)"
    assert set(vertex.calls) == {
        ChainEdge(0, 1, 0, None),
        ChainEdge(1, 2, 0, None),
        ChainEdge(2, 3, 0, None),
        ChainEdge(1, 4, 0, "late"),
    }


def _pair(partitioning: Partitioning = Partitioning.FORWARD, **receiver: object) -> LogicalGraph:
    return graph([source("a"), sink("b", **receiver)], [LogicalEdge("a", "b", partitioning)])


@pytest.mark.parametrize(
    ("written", "reason"),
    [
        (graph([source("a"), sink("b")], [hashed("a", "b")]), "records are partitioned by word"),
        (_pair(Partitioning.REBALANCE), "records are rebalanced"),
        (_pair(Partitioning.REBALANCE, parallelism=1), "parallelism changes from 2 to 1"),
        (_pair(Partitioning.BROADCAST), "every task gets every record"),
        (_pair(Partitioning.GLOBAL), "one task gets every record"),
        (_pair(chainable=False), "b may not be chained"),
        (_pair(max_parallelism=64), "parallelism differs"),
    ],
)
def test_the_reason_for_not_chaining_is_given_in_words(written: LogicalGraph, reason: str) -> None:
    assert to_execution_graph(written).refusals == (ChainingRefusal("a", "b", reason),)


def test_an_operator_with_two_inputs_begins_a_chain_of_its_own() -> None:
    execution = to_execution_graph(
        graph([source("a"), source("b"), sink("out")], [forward("a", "out"), forward("b", "out")])
    )
    assert [refusal.reason for refusal in execution.refusals] == ["out has 2 inputs", "out has 2 inputs"]


def test_a_thousand_operators_fit_in_one_chain() -> None:
    steps = [operator(f"step-{index}") for index in range(2000)]
    edges = [forward("in", "step-0")]
    edges += [forward(f"step-{index}", f"step-{index + 1}") for index in range(1999)]
    (vertex,) = to_execution_graph(graph([source("in"), *steps], edges)).vertices
    assert len(vertex.operators) == 2001
