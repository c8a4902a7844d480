"""Which neighbours become one chain of direct calls, and why not the others?

Two neighbours are chained when a record could not go anywhere else and nothing else comes in: the edge forwards, both
sides have the same parallelism, both may be chained, and the receiver has no other input. One operator may call
several others, so a chain is a tree. Every edge of the logical graph is either a call or an execution edge.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from cutwater.graph.model import (
    ChainEdge,
    ChainingRefusal,
    ExecutionEdge,
    ExecutionGraph,
    LogicalEdge,
    LogicalGraph,
    LogicalNode,
    Partitioning,
    Vertex,
)
from cutwater.graph.validation import topological_order


def to_execution_graph(graph: LogicalGraph, *, chaining: bool = True) -> ExecutionGraph:
    """The graph that is deployed. The logical graph must be valid (see `validate`)."""
    inputs = Counter(edge.receiver for edge in graph.edges)
    reasons = [_why_not_chained(edge, graph, inputs=inputs[edge.receiver], chaining=chaining) for edge in graph.edges]
    called_by = {
        edge.receiver: edge.sender for edge, reason in zip(graph.edges, reasons, strict=True) if reason is None
    }
    head_of: dict[str, str] = {}
    members: dict[str, list[str]] = {}
    for uid in topological_order(graph):
        head = head_of[called_by[uid]] if uid in called_by else uid
        head_of[uid] = head
        members.setdefault(head, []).append(uid)
    calls = [edge for edge, reason in zip(graph.edges, reasons, strict=True) if reason is None]
    crossing = [edge for edge, reason in zip(graph.edges, reasons, strict=True) if reason is not None]
    return ExecutionGraph(
        # Heads come in topological order, and only heads have inputs, so the vertices are in topological order too.
        vertices=tuple(_vertex([graph.nodes[uid] for uid in chain], calls) for chain in members.values()),
        edges=tuple(
            ExecutionEdge(
                index=index,
                sender=head_of[edge.sender],
                sender_operator=members[head_of[edge.sender]].index(edge.sender),
                receiver=edge.receiver,
                port=edge.port,
                partitioning=edge.partitioning,
                key=edge.key,
                tag=edge.tag,
            )
            for index, edge in enumerate(crossing)
        ),
        refusals=tuple(
            ChainingRefusal(edge.sender, edge.receiver, reason)
            for edge, reason in zip(graph.edges, reasons, strict=True)
            if reason is not None
        ),
    )


def _why_not_chained(edge: LogicalEdge, graph: LogicalGraph, *, inputs: int, chaining: bool) -> str | None:
    """None: they are chained."""
    sender, receiver = graph.nodes[edge.sender], graph.nodes[edge.receiver]
    match edge.partitioning:
        case Partitioning.HASH:
            key = edge.key.describe() if edge.key is not None else ""
            return f"records are partitioned by {key}"
        case Partitioning.REBALANCE if sender.parallelism != receiver.parallelism:
            return f"parallelism changes from {sender.parallelism} to {receiver.parallelism}"
        case Partitioning.REBALANCE:
            return "records are rebalanced"
        case Partitioning.BROADCAST:
            return "every task gets every record"
        case Partitioning.GLOBAL:
            return "one task gets every record"
        case Partitioning.FORWARD:
            pass
    if inputs > 1:
        return f"{receiver.uid} has {inputs} inputs"
    if not chaining:
        return "chaining is switched off"
    if sender.parallelism != receiver.parallelism or sender.max_parallelism != receiver.max_parallelism:
        return "parallelism differs"
    for node in (sender, receiver):
        if not node.chainable:
            return f"{node.uid} may not be chained"
    return None


def _vertex(chain: Sequence[LogicalNode], calls: Sequence[LogicalEdge]) -> Vertex:
    index_of = {node.uid: index for index, node in enumerate(chain)}
    inner = tuple(
        ChainEdge(index_of[edge.sender], index_of[edge.receiver], edge.port, edge.tag)
        for edge in calls
        if edge.sender in index_of
    )
    head = chain[0]
    return Vertex(
        uid=head.uid,
        name=_name(chain, inner),
        operators=tuple(chain),
        calls=inner,
        parallelism=head.parallelism,
        max_parallelism=head.max_parallelism,
    )


def _name(chain: Sequence[LogicalNode], calls: Sequence[ChainEdge]) -> str:
    """`a → b`, and `a → (b → c, d)` where a chain forks. Receivers come after senders, so names grow from the back."""
    names = [node.name for node in chain]
    for index in reversed(range(len(chain))):
        branches = [names[call.receiver] for call in calls if call.sender == index]
        if len(branches) == 1:
            names[index] += f" → {branches[0]}"
        elif branches:
            names[index] += f" → ({', '.join(branches)})"
    return names[0]
