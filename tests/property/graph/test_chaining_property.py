"""However a dataflow looks: every edge of it is a call or an execution edge, exactly once."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from cutwater.graph.chaining import to_execution_graph
from cutwater.graph.drawing import draw
from cutwater.graph.keys import KeySelector
from cutwater.graph.model import LogicalEdge, LogicalGraph, LogicalNode, NodeKind, Partitioning
from cutwater.graph.validation import topological_order


@st.composite
def dataflows(draw_from: st.DrawFn) -> LogicalGraph:
    """Directed, acyclic, of any shape, written in any order; forward edges have equal ends."""
    count = draw_from(st.integers(1, 12))
    nodes = [
        LogicalNode(
            f"n{index}",
            f"n{index}",
            NodeKind.OPERATOR,
            parallelism=draw_from(st.sampled_from([1, 2])),
            build=object,
            chainable=draw_from(st.integers(0, 9)) > 0,
        )
        for index in range(count)
    ]
    edges = []
    for _ in range(draw_from(st.integers(0, 20)) if count > 1 else 0):
        receiver = draw_from(st.integers(1, count - 1))
        sender = draw_from(st.integers(0, receiver - 1))
        partitioning = draw_from(st.sampled_from([Partitioning.FORWARD] * 4 + list(Partitioning)))
        if partitioning is Partitioning.FORWARD and nodes[sender].parallelism != nodes[receiver].parallelism:
            partitioning = Partitioning.REBALANCE
        key = KeySelector(columns=("k",)) if partitioning is Partitioning.HASH else None
        tag = draw_from(st.sampled_from([None, "side"]))
        edges.append(
            LogicalEdge(f"n{sender}", f"n{receiver}", partitioning, draw_from(st.sampled_from([0, 1])), key, tag)
        )
    return LogicalGraph({node.uid: node for node in draw_from(st.permutations(nodes))}, edges)


@given(dataflows(), st.booleans())
def test_every_edge_is_a_call_or_an_execution_edge_exactly_once(graph: LogicalGraph, chaining: bool) -> None:
    execution = to_execution_graph(graph, chaining=chaining)
    operators = {vertex.uid: vertex.operators for vertex in execution.vertices}
    calls = [
        (vertex.operators[call.sender].uid, vertex.operators[call.receiver].uid, call.port, call.tag)
        for vertex in execution.vertices
        for call in vertex.calls
    ]
    crossings = [
        (operators[edge.sender][edge.sender_operator].uid, edge.receiver, edge.port, edge.tag)
        for edge in execution.edges
    ]
    written = [(edge.sender, edge.receiver, edge.port, edge.tag) for edge in graph.edges]
    assert Counter(calls + crossings) == Counter(written)


@given(dataflows())
def test_every_operator_is_in_one_chain(graph: LogicalGraph) -> None:
    execution = to_execution_graph(graph)
    hosted = Counter(node.uid for vertex in execution.vertices for node in vertex.operators)
    assert hosted == Counter(list(graph.nodes))


@given(dataflows())
def test_senders_come_before_receivers_in_the_graph_and_in_each_chain(graph: LogicalGraph) -> None:
    execution = to_execution_graph(graph)
    place = {vertex.uid: index for index, vertex in enumerate(execution.vertices)}
    assert all(place[edge.sender] < place[edge.receiver] for edge in execution.edges)
    assert all(call.sender < call.receiver for vertex in execution.vertices for call in vertex.calls)


@given(dataflows())
def test_a_chain_is_a_tree_of_equal_parallelism_entered_at_its_head(graph: LogicalGraph) -> None:
    for vertex in to_execution_graph(graph).vertices:
        assert Counter(call.receiver for call in vertex.calls) == Counter(range(1, len(vertex.operators)))
        assert {node.parallelism for node in vertex.operators} == {vertex.parallelism}
        assert vertex.uid == vertex.operators[0].uid


@given(dataflows())
def test_the_topological_order_holds_every_operator_once(graph: LogicalGraph) -> None:
    order = topological_order(graph)
    assert sorted(order) == sorted(graph.nodes)
    assert all(order.index(edge.sender) < order.index(edge.receiver) for edge in graph.edges)


@given(dataflows())
def test_every_dataflow_can_be_drawn(graph: LogicalGraph) -> None:
    assert draw(to_execution_graph(graph)).endswith("</svg>")
