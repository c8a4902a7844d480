"""How does what the user writes become the logical graph?

Streams are thin: every operation ends in `Dataflow.add`, which names the operator, finds out where it was written, and
draws its edges.
"""

from __future__ import annotations

import os
import re
import sys
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol, TypedDict

import pyarrow as pa

from cutwater.api.cells import Cell, running_cell
from cutwater.api.side_outputs import named_tags
from cutwater.config import JobOptions, refuse_unknown
from cutwater.connectors.contract import Sink, Source
from cutwater.connectors.preview import Preview, PreviewSink
from cutwater.dead_letters import ERRORS, OnError, check_on_error
from cutwater.durations import Duration
from cutwater.errors import ConfigurationError, GraphError
from cutwater.graph.chaining import to_execution_graph
from cutwater.graph.drawing import draw
from cutwater.graph.keys import KeySelector
from cutwater.graph.model import ColumnUse, LogicalEdge, LogicalGraph, LogicalNode, NodeKind, Partitioning
from cutwater.graph.validation import describe_node
from cutwater.operators.event_time import TimestampSelector
from cutwater.operators.limit import LimitOperator
from cutwater.operators.sink import WriterOperator
from cutwater.operators.source import ReaderOperator
from cutwater.operators.user_code import name_of
from cutwater.protocol.event_time import WatermarkStrategy
from cutwater.protocol.key_groups import default_max_parallelism
from cutwater.protocol.modes import CheckpointMode
from cutwater.protocol.restart import NoRestart

_PACKAGE = str(Path(__file__).resolve().parents[1]) + os.sep
_UID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


class OperatorSettings(TypedDict, total=False):
    """What every operation takes besides its own arguments."""

    #: Names the operator's state in snapshots. Give one to everything with state that must survive a changed program.
    uid: str
    #: For plans and messages.
    name: str
    #: Tasks of this operator; the environment's parallelism if left out.
    parallelism: int
    #: False: never fused with its neighbours.
    chaining: bool


@dataclass(frozen=True, slots=True)
class Output:
    """A stream as its reader sees it: whose output, which one, and how it is spread (None: nobody said).

    `schema` None: a stream of Python values, or nobody knows.
    """

    sender: str
    tag: str | None = None
    partitioning: Partitioning | None = None
    schema: pa.Schema | None = None


@dataclass(frozen=True, slots=True)
class Input:
    """An output that an operator reads on a port, by key or not."""

    output: Output
    port: int = 0
    key: KeySelector | None = None


class Run(Protocol):
    """Executes a graph for the one who waits for its records."""

    def __call__(self, graph: LogicalGraph, preview: Preview | None = None, timeout: Duration | None = None) -> object:
        """To its end; with a preview until that is full or the time is over."""
        ...


class Dataflow:
    """The logical graph of one environment while it is being written."""

    def __init__(self, options: JobOptions, run: Run) -> None:
        """`run` executes a graph to its end, or until enough has come; for streams that are collected."""
        self.graph = LogicalGraph()
        self.run = run
        self._options = options
        self._parallelism = options.parallelism
        self._max_parallelism = options.max_parallelism or default_max_parallelism(options.parallelism)
        self._mode = options.checkpoints.checkpoint_mode
        #: The cell of a notebook that added an operator.
        self._cells: dict[str, Cell] = {}

    def add_source(self, source: Source, settings: OperatorSettings, on_error: OnError = "fail") -> Output:
        if not isinstance(source, Source):
            raise ConfigurationError(
                f"{source!r} is not a source", hint="give one of cw.sources, e.g. cw.sources.files"
            )
        check_on_error(on_error, operation="from_source")
        if on_error != "fail" and not source.can_tolerate:
            raise ConfigurationError(
                f'on_error="{on_error}" is of no use with {source.name}',
                detail="this source decodes nothing that could be unreadable by itself",
            )
        # Without checkpoints a restart must not read anything again; without restarts there is nothing to guard.
        at_most_once = self._mode is CheckpointMode.NONE and not isinstance(self._options.restart, NoRestart)
        build = SourceBuild(source, at_most_once, on_error)
        output = self._add(_stem(source.name), source.name, build, [], settings, NodeKind.SOURCE, source)
        return replace(output, schema=source.schema)

    def can_time_source(self, output: Output) -> bool:
        """False: this is no source's own output, or the source assigns timestamps already."""
        build = self.node_of(output).build
        is_own = output.partitioning is None and output.tag is None
        return is_own and isinstance(build, SourceBuild) and build.timestamps is None

    def time_source(self, output: Output, selector: TimestampSelector, strategy: WatermarkStrategy) -> bool:
        """Lets the source assign timestamps itself, split by split, if it can."""
        node = self.node_of(output)
        if not self.can_time_source(output) or not isinstance(node.build, SourceBuild):
            return False
        self.graph.nodes[node.uid] = replace(node, build=replace(node.build, timestamps=(selector, strategy)))
        return True

    def add_sink(self, sink: Sink, inputs: Sequence[Input], settings: OperatorSettings) -> Output:
        if not isinstance(sink, Sink):
            raise ConfigurationError(f"{sink!r} is not a sink", hint="give one of cw.sinks, e.g. cw.sinks.parquet")
        build = Build(WriterOperator, (sink, self._mode))
        return self._add(_stem(sink.name), sink.name, build, inputs, settings, NodeKind.SINK, sink)

    def add(
        self,
        operation: str,
        operator: Callable[..., Any],
        arguments: tuple[Any, ...],
        inputs: Sequence[Input],
        settings: OperatorSettings,
        *,
        function: object = None,
        schema: pa.Schema | None = None,
        reads: ColumnUse | None = None,
    ) -> Output:
        """An operator between source and sink; `function` is what the user gave, for the operator's name."""
        label = "" if function is None else name_of(function)
        name = operation if label in ("", "<lambda>") else f"{operation}({label})"
        build = Build(operator, arguments)
        build()  # a function that the operator can't use is refused on the line that passed it
        added = self._add(operation, name, build, inputs, settings, NodeKind.OPERATOR, None, reads)
        return replace(added, schema=schema)

    def check_side_output(self, tag: str, senders: Sequence[str]) -> None:
        """Raises if none of these operators can ever have it; warns if no function of theirs names it."""
        nodes = [self._node(sender) for sender in senders]
        operators = [node.build() for node in nodes]
        tags = {known for operator in operators for known in operator.side_tags}
        functions = [operator.side_function for operator in operators if operator.side_function is not None]
        if tag in tags:
            return
        who = " and ".join(map(describe_node, nodes))
        if not functions:
            raise GraphError(
                f'{who} can have no side output "{tag}"',
                detail=f"it has {', '.join(map(repr, sorted(tags)))}" if tags else "it has none",
                hint="side outputs come from process, by context.side_output(tag, value), or hold late records: "
                'name them with late_output; on_error="dead_letter" makes the side output "errors"',
            )
        named = [named_tags(function) for function in functions]
        if all(names is not None and tag not in names for names in named):
            written = ", ".join(repr(name) for name in sorted({name for names in named for name in names or ()}))
            text = f'nothing may ever come out of the side output "{tag}": {who} names {written}'
            warnings.warn_explicit(text, UserWarning, *users_line())

    def upstream_of(self, uid: str) -> LogicalGraph:
        """The part of the graph that this operator needs."""
        needed = {uid}
        for edge in reversed(self.graph.edges):  # edges are written senders first
            if edge.receiver in needed:
                needed.add(edge.sender)
        return LogicalGraph(
            {name: node for name, node in self.graph.nodes.items() if name in needed},
            [edge for edge in self.graph.edges if edge.receiver in needed],
        )

    def describe(self, outputs: Sequence[Output]) -> str:
        """Whose outputs, of which columns, and where they were written."""
        words = []
        for output in outputs:
            node = self.graph.nodes.get(output.sender)
            if node is None:
                return "of a cell that was run again"
            tag = "" if output.tag is None else f' side output "{output.tag}"'
            words.append(f'{node.name} "{node.uid}"{tag} at {node.written_at}')
        return " and ".join(words)

    def picture_of(self, outputs: Sequence[Output]) -> str:
        """The plan up to here, as SVG."""
        needed = [self.upstream_of(output.sender) for output in outputs]
        nodes = {uid: node for graph in needed for uid, node in graph.nodes.items()}
        graph = LogicalGraph(nodes, [edge for edge in self.graph.edges if edge.receiver in nodes])
        return draw(to_execution_graph(graph, chaining=self._options.chaining), title="")

    def check_same(self, other: Dataflow) -> None:
        """Raises when two streams that are to meet belong to different environments."""
        if other is not self:
            raise GraphError(
                "two streams of different environments can't meet", hint="write one job in one environment"
            )

    def copy(self) -> Dataflow:
        """Grows on its own from here."""
        made = Dataflow(self._options, self.run)
        made.graph = LogicalGraph(dict(self.graph.nodes), list(self.graph.edges))
        return made

    def first_records(self, inputs: Sequence[Input], limit: int, timeout: Duration | None = None) -> list[Any]:
        """Runs what these need until so many records have come, or the time is over."""
        preview = Preview(limit)
        flow = self.copy()
        added = flow.add_sink(PreviewSink(limit, preview), inputs, {})
        self.run(flow.upstream_of(added.sender), preview, timeout)
        return preview.records()

    def limit_of(self, outputs: Sequence[Output]) -> int | None:
        """How many records there are at most, if a `limit` says so."""
        builds = [self.node_of(output).build for output in outputs if output.tag is None]
        match builds:
            case [Build(operator=operator, arguments=(int() as limit,))] if operator is LimitOperator:
                return limit
        return None

    def endless_sources(self, outputs: Sequence[Output]) -> list[str]:
        """Those whose input has no end, by name."""
        upstream = [self.upstream_of(output.sender) for output in outputs]
        nodes = [node for graph in upstream for node in graph.nodes.values()]
        return [node.name for node in nodes if node.kind is NodeKind.SOURCE and not node.connector.bounded]

    def _forget_last_run_of(self, cell: Cell) -> None:
        """Drops what this cell added when it was run before, and all that reads it."""
        gone = {uid for uid, other in self._cells.items() if cell.is_rerun_of(other)}
        if not gone:
            return
        for edge in self.graph.edges:  # written senders first
            if edge.sender in gone:
                gone.add(edge.receiver)
        for uid in gone:
            self.graph.nodes.pop(uid, None)
            self._cells.pop(uid, None)
        self.graph.edges[:] = [edge for edge in self.graph.edges if gone.isdisjoint((edge.sender, edge.receiver))]

    def _add(
        self,
        stem: str,
        name: str,
        build: Callable[[], Any],
        inputs: Sequence[Input],
        settings: OperatorSettings,
        kind: NodeKind,
        connector: Source | Sink | None,
        reads: ColumnUse | None = None,
    ) -> Output:
        refuse_unknown(settings, OperatorSettings.__annotations__, of=f"the operation {stem!r}")
        cell = running_cell()
        if cell is not None:
            self._forget_last_run_of(cell)
        for one in inputs:
            self.node_of(one.output)  # raises if it was dropped
        uid = settings.get("uid")
        file, line = users_line()
        node = LogicalNode(
            uid=uid if uid is not None else self._generated_uid(stem),
            name=settings.get("name") or name,
            kind=kind,
            parallelism=self._checked_parallelism(settings.get("parallelism")),
            parallelism_is_explicit=settings.get("parallelism") is not None,
            build=build,
            connector=connector,
            max_parallelism=self._max_parallelism,
            chainable=settings.get("chaining", True),
            uid_is_explicit=uid is not None,
            written_at=f"{Path(file).name}:{line}",
            reads=reads,
        )
        self._check_uid(node)
        self.graph.nodes[node.uid] = node
        self.graph.edges += [self._edge(one, node) for one in inputs]
        if cell is not None:
            self._cells[node.uid] = cell
        return Output(node.uid)

    def _generated_uid(self, stem: str) -> str:
        number = len(self.graph.nodes) + 1
        while f"{stem}-{number}" in self.graph.nodes:  # only after operators were dropped
            number += 1
        return f"{stem}-{number}"

    def node_of(self, output: Output) -> LogicalNode:
        """Whose output it is."""
        return self._node(output.sender)

    def _node(self, uid: str) -> LogicalNode:
        node = self.graph.nodes.get(uid)
        if node is None:
            raise GraphError(
                "this stream is no longer part of the job",
                detail="the cell that made it, or made what it reads, was run again",
                hint="run the cells in between again, too",
            )
        return node

    def _edge(self, one: Input, receiver: LogicalNode) -> LogicalEdge:
        partitioning = one.output.partitioning
        if one.key is not None:
            partitioning = Partitioning.HASH
        elif partitioning is None:
            same = self.node_of(one.output).parallelism == receiver.parallelism
            partitioning = Partitioning.FORWARD if same else Partitioning.REBALANCE
        return LogicalEdge(one.output.sender, receiver.uid, partitioning, one.port, one.key, one.output.tag)

    def _checked_parallelism(self, parallelism: int | None) -> int:
        if parallelism is None:
            return self._parallelism
        whole = isinstance(parallelism, int) and not isinstance(parallelism, bool)
        if not whole or not 1 <= parallelism <= self._max_parallelism:
            raise ConfigurationError(
                f"parallelism must be a whole number from 1 to {self._max_parallelism}, not {parallelism!r}",
                hint="the upper end is the environment's max_parallelism",
            )
        return parallelism

    def _check_uid(self, node: LogicalNode) -> None:
        if not isinstance(node.uid, str) or not _UID.fullmatch(node.uid):
            raise GraphError(
                f"{node.uid!r} can't be a uid", hint="use letters, digits, dots, dashes and underscores: it names files"
            )
        other = self.graph.nodes.get(node.uid)
        if other is not None:
            raise GraphError(
                f'two operators have the uid "{node.uid}"',
                detail=f"{describe_node(other)} and {describe_node(node)}",
                hint="a uid names an operator's state, so every operator needs its own",
            )


def unread_dead_letters(graph: LogicalGraph) -> tuple[str, ...]:
    """A warning for each operator that writes dead letters for nobody."""
    read = {edge.sender for edge in graph.edges if edge.tag == ERRORS}
    writers = [
        node for node in graph.nodes.values() if node.kind is not NodeKind.SINK and ERRORS in node.build().side_tags
    ]
    return tuple(
        f'nothing reads the dead letters of {describe_node(node)}: side_output("{ERRORS}") has them'
        for node in writers
        if node.uid not in read
    )


@dataclass(frozen=True, slots=True)
class Build:
    """Makes an operator; a value instead of a closure, so that messages can look inside."""

    operator: Callable[..., Any]
    arguments: tuple[Any, ...]

    def __call__(self) -> Any:
        return self.operator(*self.arguments)

    def with_connector(self, connector: Source | Sink) -> Build:
        """Of an operator that writes to a sink."""
        return replace(self, arguments=(connector, *self.arguments[1:]))


@dataclass(frozen=True, slots=True)
class SourceBuild:
    """Makes the operator of a source."""

    source: Source
    at_most_once: bool
    on_error: OnError = "fail"
    #: None: the source assigns none itself.
    timestamps: tuple[TimestampSelector, WatermarkStrategy] | None = None
    #: Records per batch; None: as many as is usual.
    limit: int | None = None

    def __call__(self) -> ReaderOperator:
        return ReaderOperator(self.source, self.at_most_once, self.timestamps, self.limit, self.on_error)

    def with_connector(self, connector: Source) -> SourceBuild:
        """The same with another source."""
        return replace(self, source=connector)


def users_line() -> tuple[str, int]:
    """File and line of the innermost caller outside of this package."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame = frame.f_back
    return frame.f_code.co_filename, frame.f_lineno


def spread(outputs: Sequence[Output], partitioning: Partitioning) -> tuple[Output, ...]:
    """The same outputs, spread another way."""
    return tuple(replace(output, partitioning=partitioning) for output in outputs)


def _stem(name: str) -> str:
    """`files(books/*.txt)` → `files`: what a generated uid begins with."""
    return re.sub(r"[^A-Za-z0-9_]+", "-", name.split("(")[0]).strip("-") or "connector"
