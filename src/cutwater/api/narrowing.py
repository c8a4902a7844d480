"""Which columns does a source have to read, and how much at once?

Those that somebody behind it uses. Operators on columns say what they read, and like their batches large; a function of
the user's may look at anything, so in front of one all columns are read, in batches that don't keep it busy for long.
"""

from __future__ import annotations

from dataclasses import replace

from cutwater.api.dataflow import SourceBuild
from cutwater.graph.model import ColumnUse, LogicalGraph, LogicalNode
from cutwater.operators.event_time import TimestampSelector
from cutwater.operators.source import COLUMNAR_ROWS_PER_BATCH


def narrow_sources(graph: LogicalGraph) -> LogicalGraph:
    """The same graph, with sources that read no column for nothing."""
    return LogicalGraph({uid: _narrowed(graph, node) for uid, node in graph.nodes.items()}, list(graph.edges))


def _narrowed(graph: LogicalGraph, node: LogicalNode) -> LogicalNode:
    build = node.build
    if not isinstance(build, SourceBuild) or build.source.schema is None:
        return node
    use = _use_behind(graph, node.uid)
    if use is None:
        return node
    needs = use.needs
    if build.timestamps is not None:  # the source assigns them itself
        selector: TimestampSelector = build.timestamps[0]
        if selector.column is None:
            return node
        needs = needs | {selector.column}
    source = build.source.narrowed(needs, use.as_keys)
    return replace(node, connector=source, build=replace(build, source=source, limit=COLUMNAR_ROWS_PER_BATCH))


def _use_behind(graph: LogicalGraph, uid: str) -> ColumnUse | None:
    """What all receivers of this operator's output read together; None: perhaps everything."""
    needs: frozenset[str] = frozenset()
    as_keys: frozenset[str] = frozenset()
    # What a side output holds has other columns.
    edges = [edge for edge in graph.edges if edge.sender == uid and edge.tag is None]
    if not edges:  # only the dead letters are read: whether a row is readable shows in all its columns
        return None
    for edge in edges:
        use = graph.nodes[edge.receiver].reads
        if use is not None and use.hands_on:
            behind = _use_behind(graph, edge.receiver)
            use = None if behind is None else ColumnUse(use.needs | behind.needs, as_keys=behind.as_keys)
        if use is None:
            return None
        needs |= use.needs
        as_keys |= use.as_keys
        if edge.key is not None:
            needs |= frozenset(edge.key.columns)
    return ColumnUse(needs, as_keys=as_keys)
