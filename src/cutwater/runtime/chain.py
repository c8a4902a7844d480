"""How do the operators of a chain call each other?

Every operator gets a context whose `emit` goes straight to its neighbours and to the routers of the chain's outputs.
Event time takes the same ways: an operator sees a watermark before its neighbours do, and what it emits on it is in
front of the watermark.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from cutwater.batches import Batch, ObjectBatch
from cutwater.errors import CutwaterError, UserFunctionError
from cutwater.graph.model import ExecutionEdge, LogicalNode, Vertex
from cutwater.operators.contract import Operator, OperatorContext, OperatorSnapshot, SourceOperator
from cutwater.operators.event_time import frozen_watermark, restored_watermark
from cutwater.operators.metrics import OperatorMetrics, TaskMetrics
from cutwater.operators.sink import WriterOperator
from cutwater.protocol.elements import Idle, Watermark
from cutwater.protocol.ids import CheckpointId
from cutwater.protocol.watermarks import MAX_TIMESTAMP_MS, MIN_TIMESTAMP_MS
from cutwater.runtime.accounts import Accounts
from cutwater.runtime.routing import Router
from cutwater.state.copies import copied_batch

Target = Callable[[Batch], None]
#: In the snapshot of a chain's first operator: how far event time had come at its input.
INPUT_TIME_STATE = "input-time"


class Chain:
    """The operators of one task; index 0 is the head."""

    def __init__(
        self,
        vertex: Vertex,
        outputs: Sequence[tuple[ExecutionEdge, Router]],
        metrics: TaskMetrics,
        now_seconds: Callable[[], float],
    ) -> None:
        self.vertex = vertex
        self._metrics = metrics
        self._accounts = Accounts(now_seconds)
        #: By operator.
        self._counts = metrics.operators = [OperatorMetrics(node.uid) for node in vertex.operators]
        self.operators: list[Operator] = [_built(node) for node in vertex.operators]
        self._enter = self._entrance(0)
        self._outputs = outputs
        indices = range(len(self.operators))
        #: By operator: the last watermark that left it.
        self._reached_ms: list[int | None] = [None for _ in indices]
        #: What came in last, but for the end of event time: a later run may have more input.
        self._arrived_ms: int | None = None
        self._callees = [[call.receiver for call in vertex.calls if call.sender == index] for index in indices]
        self._routers = [[router for edge, router in outputs if edge.sender_operator == index] for index in indices]
        self._ends = [index for index in indices if not self._callees[index]]
        self._limited = [operator for operator in self.operators if type(operator).has_room is not Operator.has_room]
        #: So many operators, from the head, were told of the end.
        self._told_of_end = 0
        self._timed: list[Operator] = [
            operator for operator in self.operators if type(operator).next_wall_ms is not Operator.next_wall_ms
        ]

    @property
    def head(self) -> Operator:
        return self.operators[0]

    @property
    def source(self) -> SourceOperator | None:
        return self.head if isinstance(self.head, SourceOperator) else None

    @property
    def is_whole_job(self) -> bool:
        """From a source to where it ends, without another task."""
        return self.source is not None and not self._outputs and len(self.operators) > 1

    @property
    def sinks(self) -> list[WriterOperator]:
        return [operator for operator in self.operators if isinstance(operator, WriterOperator)]

    def open(self, contexts: Sequence[OperatorContext], tell: Callable[[str], None] = lambda operator: None) -> None:
        """Wires and opens the operators, last first, so that each may emit as soon as it is open.

        `tell` is called with the uid of each operator before it is opened: that may take long.
        """
        self._contexts = contexts
        for index, context in enumerate(contexts):
            context.emit = self._emitter(index, None)
            context.emit_side = self._side_emitter(index)
            context.emit_watermark = partial(self._forward_watermark, index)
            context.emit_idle = partial(self._forward_idle, index)
        for operator, context in reversed(list(zip(self.operators, contexts, strict=True))):
            tell(context.uid)
            operator.open(context)

    def on_start(self) -> None:
        """The outputs are connected. Last first: what one emits finds the others started."""
        for operator in reversed(self.operators):
            operator.on_start()

    def process(self, batch: Batch, port: int) -> None:
        self._enter(batch, port)

    def told(self) -> TaskMetrics:
        """What was counted so far, by the operators and by users' functions in them."""
        told = self._metrics.told()
        for operator, context in zip(told.operators, self._contexts, strict=True):
            operator.users = context.user_metrics.told()
        return told

    def poll(self) -> bool:
        """Has the source read; False: nothing was there."""
        assert self.source is not None
        before = self._accounts.turn(self._counts[0])
        read = self.source.poll()
        self._accounts.turn(before)
        return read

    @property
    def restored_ms(self) -> int | None:
        """Where event time was at the chain's input in the snapshot that it goes on from. A source has its clocks."""
        return None if self.source is not None else restored_watermark(self._contexts[0], INPUT_TIME_STATE)

    def on_watermark(self, timestamp_ms: int) -> None:
        """Event time has come this far at the chain's input."""
        if timestamp_ms != MAX_TIMESTAMP_MS:
            self._arrived_ms = timestamp_ms
        self._advance(0, timestamp_ms)

    def on_idle_time(self) -> None:
        """Nothing holds event time back at the chain's input."""
        self._pass_control(0, _idle)

    def on_active_time(self) -> None:
        """Event time at the chain's input waits for somebody again, where it is."""
        self._pass_control(0, self._reached_again)

    def has_room(self, *, barrier_expected: bool) -> bool:
        """False: some operator can't take more right now."""
        if barrier_expected:
            return all(operator.has_room_ahead_of_barrier() for operator in self._limited)
        return all(operator.has_room() for operator in self._limited)

    def next_wall_ms(self) -> int | None:
        """When the earliest processing-time timer is due."""
        times = [time for operator in self._timed if (time := operator.next_wall_ms()) is not None]
        return min(times, default=None)

    def on_wall_time(self, now_ms: int) -> None:
        for index, operator in enumerate(self.operators):
            time = operator.next_wall_ms()
            if time is not None and time <= now_ms:
                before = self._accounts.turn(self._counts[index])
                operator.on_wall_time(now_ms)
                self._accounts.turn(before)

    def on_idle_input(self) -> None:
        for operator in self.operators:
            operator.on_idle_input()

    def on_end(self) -> bool:
        """Tells the operators one after the other; False: one of them has more to emit, so those below come later."""
        while self._told_of_end < len(self.operators):
            if not self._drained():
                return False
            before = self._accounts.turn(self._counts[self._told_of_end])
            self.operators[self._told_of_end].on_end()
            self._accounts.turn(before)
            self._told_of_end += 1
        return self._drained()

    def _drained(self) -> bool:
        return self._told_of_end == 0 or self.operators[self._told_of_end - 1].drained()

    def freeze(self, checkpoint: CheckpointId) -> list[tuple[str, OperatorSnapshot]]:
        for index, operator in enumerate(self.operators):
            before = self._accounts.turn(self._counts[index])
            operator.before_freeze(checkpoint)
            self._accounts.turn(before)
        frozen = [
            (node.uid, operator.freeze(checkpoint))
            for node, operator in zip(self.vertex.operators, self.operators, strict=True)
        ]
        if self.source is None and self._arrived_ms is not None:
            uid, head = frozen[0]
            time = frozen_watermark(self._contexts[0], self._arrived_ms, INPUT_TIME_STATE)
            frozen[0] = uid, replace(head, lists=head.lists + time)
        return frozen

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

    def _advance(self, index: int, timestamp_ms: int) -> None:
        operator = self.operators[index]
        before = self._accounts.turn(self._counts[index])
        operator.on_watermark(timestamp_ms)
        if operator.forwards_time:
            operator.in_turn(partial(self._forward_watermark, index, timestamp_ms))
        self._accounts.turn(before)

    def _forward_watermark(self, sender: int, timestamp_ms: int) -> None:
        self._reached_ms[sender] = timestamp_ms
        for receiver in self._callees[sender]:
            self._advance(receiver, timestamp_ms)
        for router in self._routers[sender]:
            router.send_control(Watermark(timestamp_ms))
        if not self._callees[sender]:
            self._metrics.watermark_ms = self._slowest_ms()

    def _slowest_ms(self) -> int | None:
        """How far event time has come at all ends of the chain."""
        reached = [ms for index in self._ends if (ms := self._reached_ms[index]) is not None]
        return min(reached) if len(reached) == len(self._ends) else None

    def _forward_idle(self, sender: int) -> None:
        self._forward_control(sender, _idle)

    def _reached_again(self, index: int) -> Watermark:
        reached = self._reached_ms[index]
        return Watermark(MIN_TIMESTAMP_MS if reached is None else reached)

    def _pass_control(self, index: int, element_of: Callable[[int], Idle | Watermark]) -> None:
        operator = self.operators[index]
        if operator.forwards_idleness:
            operator.in_turn(partial(self._forward_control, index, element_of))

    def _forward_control(self, sender: int, element_of: Callable[[int], Idle | Watermark]) -> None:
        """Out of the chain, past operators that have nothing to do about it."""
        for receiver in self._callees[sender]:
            self._pass_control(receiver, element_of)
        for router in self._routers[sender]:
            router.send_control(element_of(sender))

    def _emitter(self, sender: int, tag: str | None) -> Target:
        *others, last = self._targets(sender, tag) or [_nowhere]
        counts = self._counts[sender]

        def emit(batch: Batch) -> None:
            counts.records_out += batch.num_rows
            # Each receiver may change its records, or keep them.
            for target in others:
                target(copied_batch(batch))
            last(batch)

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
        enter = self._entrance(receiver)

        def call(batch: Batch) -> None:
            if batch.num_rows:
                enter(batch, port)

        return call

    def _entrance(self, index: int) -> Callable[[Batch, int], None]:
        """The operator's `process`, for batches of any size, with its records and its time counted."""
        process, counts, turn = _in_parts(self.operators[index]), self._counts[index], self._accounts.turn

        def enter(batch: Batch, port: int) -> None:
            counts.records_in += batch.num_rows
            before = turn(counts)
            process(batch, port)
            turn(before)

        return enter

    def _counted(self, router: Router) -> Target:
        metrics = self._metrics

        def route(batch: Batch) -> None:
            if batch.num_rows:
                metrics.records_out += batch.num_rows
                router.route(batch)

        return route


def not_loaded(what: str, error: Exception) -> UserFunctionError:
    """To load pickled code is to import its modules: that is the user's code, and depends on the host."""
    return UserFunctionError(
        f"{what} can't be loaded in a slot",
        detail=f"{type(error).__name__}: {error}",
        hint="the modules that it uses must be importable on every host, and files that they read must be there",
    )


def _built(node: LogicalNode) -> Operator:
    try:
        operator: Operator = node.build()
        return operator
    except CutwaterError:
        raise
    except Exception as error:
        raise not_loaded(f'operator "{node.uid}"', error) from error


def _idle(index: int) -> Idle:
    return Idle()


def _nowhere(batch: Batch) -> None:
    """Nobody reads this output."""


def _in_parts(operator: Operator) -> Callable[[Batch, int], None]:
    """The operator's `process`, for batches of any size."""
    process, rows_max = operator.process, operator.typed_rows_max
    if rows_max is None:
        return process

    def enter(batch: Batch, port: int) -> None:
        if isinstance(batch, ObjectBatch) or batch.num_rows <= rows_max:
            process(batch, port)
        else:
            for first in range(0, batch.num_rows, rows_max):
                process(batch.slice(first, rows_max), port)

    return enter
