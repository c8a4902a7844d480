"""What does a dataflow look like with more or fewer tasks?

Operators whose parallelism the user gave keep it. Key groups never change as long as state lies in them: a job that
restores some takes over their number.
"""

from __future__ import annotations

from dataclasses import replace

from cutwater.errors import ConfigurationError
from cutwater.graph.model import LogicalEdge, LogicalGraph, LogicalNode, Partitioning


def rescaled(graph: LogicalGraph, parallelism: int) -> LogicalGraph:
    """A copy of the graph with this parallelism."""
    if isinstance(parallelism, bool) or not isinstance(parallelism, int) or parallelism < 1:
        raise ConfigurationError(f"parallelism must be a whole number of 1 or more, not {parallelism!r}")
    nodes = {uid: _at(node, parallelism) for uid, node in graph.nodes.items()}
    return LogicalGraph(nodes, [_between(edge, nodes) for edge in graph.edges])


def with_key_groups(graph: LogicalGraph, count: int) -> LogicalGraph:
    """A copy of the graph with so many key groups."""
    for node in graph.nodes.values():
        if node.parallelism > count:
            raise ConfigurationError(
                f'operator "{node.uid}" has parallelism {node.parallelism}, but the state to restore has {count} '
                "key groups",
                hint="lower the parallelism, or write a copy of the snapshot with more key groups",
            )
    nodes = {uid: replace(node, max_parallelism=count) for uid, node in graph.nodes.items()}
    return LogicalGraph(nodes, list(graph.edges))


def _at(node: LogicalNode, parallelism: int) -> LogicalNode:
    if node.parallelism_is_explicit:
        return node
    if parallelism > node.max_parallelism:
        raise ConfigurationError(
            f"parallelism {parallelism} is more than the job has key groups ({node.max_parallelism})",
            hint="max_parallelism can be changed only with a new job, or by rewriting a savepoint",
        )
    return replace(node, parallelism=parallelism)


def _between(edge: LogicalEdge, nodes: dict[str, LogicalNode]) -> LogicalEdge:
    """Task to task is only possible among equally many."""
    equal = nodes[edge.sender].parallelism == nodes[edge.receiver].parallelism
    if edge.partitioning is Partitioning.FORWARD and not equal:
        return replace(edge, partitioning=Partitioning.REBALANCE)
    return edge
