"""What is a dataflow, as written and as executed?

The logical graph has one node per operator the user wrote. The execution graph has one vertex per chain; both are
values that know nothing of Spark, threads or storage.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from cutwater.graph.keys import KeySelector


class Partitioning(StrEnum):
    """Which task of the receiver gets a record."""

    FORWARD = "forward"
    HASH = "hash"
    REBALANCE = "rebalance"
    BROADCAST = "broadcast"
    GLOBAL = "global"


class NodeKind(StrEnum):
    SOURCE = "source"
    OPERATOR = "operator"
    SINK = "sink"


@dataclass(frozen=True, slots=True)
class LogicalEdge:
    """From one operator's output to an input port of another."""

    sender: str
    receiver: str
    partitioning: Partitioning
    port: int = 0
    #: What the records are partitioned by (hash edges only).
    key: KeySelector | None = None
    #: The side output that this edge carries; None: the main output.
    tag: str | None = None


@dataclass(frozen=True, slots=True)
class ColumnUse:
    """Which columns of a typed input an operator reads."""

    needs: frozenset[str]
    #: The columns of the input are also those of the output: what comes behind may need more.
    hands_on: bool = False
    #: Of those needed: the ones that are welcome dictionary-encoded.
    as_keys: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class LogicalNode:
    """One operator. `build` makes its runtime operator: called once in every task that hosts it."""

    uid: str
    name: str
    kind: NodeKind
    parallelism: int
    build: Callable[[], Any]
    #: The Source or Sink behind a source or sink node.
    connector: Any = None
    max_parallelism: int = 128
    chainable: bool = True
    #: True when the user gave the parallelism, so that it stays the same when the job is rescaled.
    parallelism_is_explicit: bool = False
    #: True when the user gave the uid, so that it stays the same when the program changes.
    uid_is_explicit: bool = False
    #: "wordcount.py:12", where the user wrote it.
    written_at: str = ""
    #: None: all columns, or the input isn't typed.
    reads: ColumnUse | None = None


@dataclass(slots=True)
class LogicalGraph:
    """Grows while the user writes the job; edges keep their order."""

    nodes: dict[str, LogicalNode] = field(default_factory=dict)
    edges: list[LogicalEdge] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class ChainEdge:
    """A direct call inside a chain, by operator index."""

    sender: int
    receiver: int
    port: int
    tag: str | None


@dataclass(frozen=True, slots=True)
class Vertex:
    """A chain: operators[0] is its head, which alone has inputs; the rest hang on it by direct calls (a tree)."""

    uid: str
    name: str
    operators: tuple[LogicalNode, ...]
    calls: tuple[ChainEdge, ...]
    parallelism: int
    max_parallelism: int


@dataclass(frozen=True, slots=True)
class ExecutionEdge:
    """Between two vertices; `sender_operator` is the index of the operator in the sending chain."""

    index: int
    sender: str
    sender_operator: int
    receiver: str
    port: int
    partitioning: Partitioning
    key: KeySelector | None
    tag: str | None


@dataclass(frozen=True, slots=True)
class ChainingRefusal:
    """Why two neighbours did not become one chain."""

    sender: str
    receiver: str
    reason: str


@dataclass(frozen=True, slots=True)
class ExecutionGraph:
    """What is deployed. Vertices are in topological order."""

    vertices: tuple[Vertex, ...]
    edges: tuple[ExecutionEdge, ...]
    refusals: tuple[ChainingRefusal, ...]

    @property
    def slots_needed(self) -> int:
        return max(vertex.parallelism for vertex in self.vertices)
