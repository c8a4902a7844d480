"""Can this dataflow be executed, and is there something in it that its author should know?

What can't work raises a `GraphError` that says where it was written; what works but looks like an oversight comes back
as a sentence.
"""

from __future__ import annotations

from collections import Counter
from heapq import heappop, heappush

from cutwater.errors import GraphError
from cutwater.graph.model import LogicalEdge, LogicalGraph, LogicalNode, NodeKind, Partitioning


def validate(graph: LogicalGraph, *, complete: bool = True) -> tuple[str, ...]:
    """Raises `GraphError`, or returns warnings. `complete=False`: the job is still being written, sinks may follow."""
    for uid, node in graph.nodes.items():
        _check_node(uid, node)
    for edge in graph.edges:
        _check_edge(graph, edge)
    topological_order(graph)
    _check_ends(graph, complete=complete)
    return tuple(
        f"nothing reads the output of {describe_node(node)}"
        for node in graph.nodes.values()
        if node.kind is not NodeKind.SINK and not any(edge.sender == node.uid for edge in graph.edges)
    )


def topological_order(graph: LogicalGraph) -> list[str]:
    """Uids, senders before receivers, otherwise as written; raises when there is a cycle."""
    written = list(graph.nodes)
    position = {uid: index for index, uid in enumerate(written)}
    waiting_for = Counter(edge.receiver for edge in graph.edges)
    receivers: dict[str, list[str]] = {uid: [] for uid in graph.nodes}
    for edge in graph.edges:
        receivers[edge.sender].append(edge.receiver)
    ready = [index for index, uid in enumerate(written) if not waiting_for[uid]]  # sorted, so it is a heap
    order: list[str] = []
    while ready:
        uid = written[heappop(ready)]
        order.append(uid)
        for receiver in receivers[uid]:
            waiting_for[receiver] -= 1
            if not waiting_for[receiver]:
                heappush(ready, position[receiver])
    if len(order) < len(graph.nodes):
        _refuse_cycle(graph, {uid for uid in graph.nodes if waiting_for[uid]})
    return order


def describe_node(node: LogicalNode) -> str:
    """`operator "map-2" (wordcount.py:12)`, for messages."""
    kind = "operator" if node.kind is NodeKind.OPERATOR else str(node.kind)
    return f'{kind} "{node.uid}"' + (f" ({node.written_at})" if node.written_at else "")


def _check_node(uid: str, node: LogicalNode) -> None:
    if uid != node.uid:
        raise GraphError(f'{describe_node(node)} is filed under another uid, "{uid}"')
    if not 1 <= node.parallelism <= node.max_parallelism:
        raise GraphError(
            f"{describe_node(node)} has parallelism {node.parallelism}",
            detail=f"allowed: 1 to {node.max_parallelism}, its max_parallelism",
            hint="a task needs at least one key group: lower the parallelism, or raise max_parallelism",
        )


def _check_edge(graph: LogicalGraph, edge: LogicalEdge) -> None:
    for uid in (edge.sender, edge.receiver):
        if uid not in graph.nodes:
            raise GraphError(f'an edge from "{edge.sender}" to "{edge.receiver}" names an unknown operator, "{uid}"')
    sender, receiver = graph.nodes[edge.sender], graph.nodes[edge.receiver]
    if sender.kind is NodeKind.SINK:
        raise GraphError(f"{describe_node(sender)} has no output, but {describe_node(receiver)} reads from it")
    if receiver.kind is NodeKind.SOURCE:
        raise GraphError(f"{describe_node(receiver)} has no input, but {describe_node(sender)} writes to it")
    if edge.partitioning is Partitioning.FORWARD and sender.parallelism != receiver.parallelism:
        raise GraphError(
            f"{describe_node(sender)} can't forward to {describe_node(receiver)}",
            detail=f"their parallelism differs: {sender.parallelism} and {receiver.parallelism}",
            hint="rebalance between them",
        )
    if (edge.partitioning is Partitioning.HASH) != (edge.key is not None):
        raise GraphError(
            f"the edge from {describe_node(sender)} to {describe_node(receiver)} is {edge.partitioning}-partitioned "
            + ("without a key" if edge.key is None else "but has a key")
        )


def _check_ends(graph: LogicalGraph, *, complete: bool) -> None:
    kinds = {node.kind for node in graph.nodes.values()}
    if NodeKind.SOURCE not in kinds:
        raise GraphError("the job has no source", hint="begin with env.from_source(…) or env.from_collection(…)")
    receivers = {edge.receiver for edge in graph.edges}
    for node in graph.nodes.values():
        if node.kind is not NodeKind.SOURCE and node.uid not in receivers:
            raise GraphError(f"{describe_node(node)} has no input")
    if complete and NodeKind.SINK not in kinds:
        raise GraphError(
            "the job has no sink, so nothing would happen",
            hint="end a stream with .sink_to(…), or look at one with .execute_and_collect()",
        )


def _refuse_cycle(graph: LogicalGraph, suspects: set[str]) -> None:
    """Walks back along edges among nodes that never became ready: each has such a sender, so the walk must close."""
    sender_of = {
        edge.receiver: edge.sender for edge in graph.edges if edge.receiver in suspects and edge.sender in suspects
    }
    seen: list[str] = []
    uid = next(iter(sender_of))
    while uid not in seen:
        seen.append(uid)
        uid = sender_of[uid]
    cycle = [graph.nodes[member] for member in reversed(seen[seen.index(uid) :])]
    raise GraphError(
        "the dataflow runs in a circle",
        detail=" → ".join(describe_node(node) for node in [*cycle, cycle[0]]),
        hint="records that come round again need an iteration: iterate(…)",
    )
