"""Which job do the sources and sinks belong to, and where can they reach Spark?

Those whose driver's side works with Spark get to know the job before anything is pickled: a source or sink is a value
that several jobs may use, so each job has its own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from cutwater.api.dataflow import Build, SourceBuild
from cutwater.connectors.contract import DriverContext
from cutwater.graph.model import LogicalGraph, LogicalNode, NodeKind


def introduce_ends(graph: LogicalGraph, *, job_id: str, storage: str | None, spark: Callable[[], Any]) -> LogicalGraph:
    """The same graph, with sources and sinks that know the job."""

    def introduced(node: LogicalNode) -> LogicalNode:
        if node.kind not in (NodeKind.SOURCE, NodeKind.SINK) or not isinstance(node.build, Build | SourceBuild):
            return node
        connector = node.connector.introduced(DriverContext(job_id, node.uid, storage, spark))
        return replace(node, connector=connector, build=node.build.with_connector(connector))

    return LogicalGraph({uid: introduced(node) for uid, node in graph.nodes.items()}, list(graph.edges))
