"""How do the operators of a chain call each other?

Every operator gets a context whose `emit` goes straight to its neighbours and to the routers of the chain's outputs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from cutwater.batches import Batch
from cutwater.graph.model import ExecutionEdge, Vertex
from cutwater.operators.contract import Operator, OperatorContext, OperatorSnapshot, SourceOperator
from cutwater.operators.sink import WriterOperator
from cutwater.protocol.ids import CheckpointId
from cutwater.runtime.routing import Router

Target = Callable[[Batch], None]


class Chain:
    """The operators of one task; index 0 is the head."""

    def __init__(self, vertex: Vertex, outputs: Sequence[tuple[ExecutionEdge, Router]]) -> None:
        self.vertex = vertex
        self.operators: list[Operator] = [node.build() for node in vertex.operators]
        self._outputs = outputs
        self.records_out = 0

    @property
    def head(self) -> Operator:
        return self.operators[0]

    @property
    def source(self) -> SourceOperator | None:
        return self.head if isinstance(self.head, SourceOperator) else None

    @property
    def sinks(self) -> list[WriterOperator]:
        return [operator for operator in self.operators if isinstance(operator, WriterOperator)]

    def open(self, contexts: Sequence[OperatorContext]) -> None:
        """Wires and opens the operators, last first, so that each may emit as soon as it is open."""
        for index, context in enumerate(contexts):
            context.emit = self._emitter(index, None)
            context.emit_side = self._side_emitter(index)
        for operator, context in reversed(list(zip(self.operators, contexts, strict=True))):
            operator.open(context)

    def process(self, batch: Batch, port: int) -> None:
        self.operators[0].process(batch, port)

    def on_watermark(self, timestamp_ms: int) -> None:
        for operator in self.operators:
            operator.on_watermark(timestamp_ms)

    def on_idle_input(self) -> None:
        for operator in self.operators:
            operator.on_idle_input()

    def on_end(self) -> None:
        for operator in self.operators:
            operator.on_end()

    def freeze(self, checkpoint: CheckpointId) -> list[tuple[str, OperatorSnapshot]]:
        return [
            (node.uid, operator.freeze(checkpoint))
            for node, operator in zip(self.vertex.operators, self.operators, strict=True)
        ]

    def on_checkpoint_completed(self, checkpoint: CheckpointId) -> None:
        for operator in self.operators:
            operator.on_checkpoint_completed(checkpoint)

    def busy(self) -> bool:
        return any(operator.busy() for operator in self.operators)

    def close(self) -> None:
        """Closes every operator, also when one of them can't: then its failure is raised at the end."""
        failure: Exception | None = None
        for operator in self.operators:
            try:
                operator.close()
            except Exception as error:
                failure = failure or error
        if failure is not None:
            raise failure

    def _emitter(self, sender: int, tag: str | None) -> Target:
        targets = self._targets(sender, tag)
        if len(targets) == 1:
            return targets[0]

        def emit(batch: Batch) -> None:
            for target in targets:
                target(batch)

        return emit

    def _side_emitter(self, sender: int) -> Callable[[str, Batch], None]:
        emitters: dict[str, Target] = {}

        def emit_side(tag: str, batch: Batch) -> None:
            if tag not in emitters:
                emitters[tag] = self._emitter(sender, tag)
            emitters[tag](batch)

        return emit_side

    def _targets(self, sender: int, tag: str | None) -> list[Target]:
        calls = [
            self._call(edge.receiver, edge.port)
            for edge in self.vertex.calls
            if edge.sender == sender and edge.tag == tag
        ]
        routes = [
            self._counted(router)
            for edge, router in self._outputs
            if edge.sender_operator == sender and edge.tag == tag
        ]
        return calls + routes

    def _call(self, receiver: int, port: int) -> Target:
        process = self.operators[receiver].process

        def call(batch: Batch) -> None:
            if batch.num_rows:
                process(batch, port)

        return call

    def _counted(self, router: Router) -> Target:
        def route(batch: Batch) -> None:
            if batch.num_rows:
                self.records_out += batch.num_rows
                router.route(batch)

        return route
