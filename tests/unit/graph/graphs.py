"""Small logical graphs for tests, without the API."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from cutwater.connectors.contract import Delivery, Replay
from cutwater.graph.keys import KeySelector
from cutwater.graph.model import LogicalEdge, LogicalGraph, LogicalNode, NodeKind, Partitioning

WORD = KeySelector(columns=("word",))


def source(uid: str, replay: Replay = Replay.REPLAYABLE, **fields: Any) -> LogicalNode:
    return _node(uid, NodeKind.SOURCE, connector=SimpleNamespace(replay=replay), **fields)


def operator(uid: str, **fields: Any) -> LogicalNode:
    return _node(uid, NodeKind.OPERATOR, **fields)


def sink(uid: str, delivery: Delivery = Delivery.TRANSACTIONAL, **fields: Any) -> LogicalNode:
    return _node(uid, NodeKind.SINK, connector=SimpleNamespace(delivery=delivery), **fields)


def forward(sender: str, receiver: str, **fields: Any) -> LogicalEdge:
    return LogicalEdge(sender, receiver, Partitioning.FORWARD, **fields)


def hashed(sender: str, receiver: str, **fields: Any) -> LogicalEdge:
    return LogicalEdge(sender, receiver, Partitioning.HASH, key=WORD, **fields)


def graph(nodes: list[LogicalNode], edges: list[LogicalEdge]) -> LogicalGraph:
    return LogicalGraph({node.uid: node for node in nodes}, edges)


def word_count() -> LogicalGraph:
    return graph(
        [source("books"), operator("split"), operator("count"), sink("out")],
        [forward("books", "split"), hashed("split", "count"), forward("count", "out")],
    )


def _node(uid: str, kind: NodeKind, **fields: Any) -> LogicalNode:
    fields.setdefault("parallelism", 2)
    fields.setdefault("written_at", f"job.py:{uid}")
    return LogicalNode(uid=uid, name=uid, kind=kind, build=object, **fields)
