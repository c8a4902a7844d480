"""How do the tasks of one attempt come to life in a slot?

Deploying opens and restores every task and makes its inputs ready; starting connects the outputs. In between the
coordinator makes sure that all slots are that far, so that nobody connects to a task that isn't there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

from cutwater.graph.model import ExecutionEdge, ExecutionGraph, LogicalNode, Vertex
from cutwater.graph.plan import JobPlan
from cutwater.operators.contract import EventLoop, FinishedCalls, OperatorContext, OperatorSnapshot
from cutwater.operators.metrics import TaskMetrics
from cutwater.operators.user_metrics import UserMetrics
from cutwater.protocol.aligner import BarrierAligner
from cutwater.protocol.ids import AttemptNumber, CheckpointId, TaskId
from cutwater.protocol.key_groups import group_range
from cutwater.runtime.chain import Chain
from cutwater.runtime.channels import InputGate, LocalChannel
from cutwater.runtime.messages import DeployAttempt, FromSlot, OperatorOpening
from cutwater.runtime.restoring import OperatorRestore
from cutwater.runtime.routing import OutputGate, Router, receivers_of, router_of
from cutwater.runtime.seams import (
    Background,
    ChannelId,
    Clock,
    EventLoopMaker,
    InputChannel,
    OutputChannel,
    OwnThreadMaker,
    Transport,
)
from cutwater.runtime.task import Task, TaskServices
from cutwater.runtime.turn import Turn
from cutwater.runtime.watching import ConnectionWatch
from cutwater.snapshots.format import TaskSnapshot
from cutwater.snapshots.local_files import LocalFiles
from cutwater.snapshots.storage import Storage, split_url
from cutwater.snapshots.tables import SavepointFolder
from cutwater.snapshots.writer import Destination, write_task_savepoint, write_task_snapshot
from cutwater.state.backends import backend_factory
from cutwater.state.contract import KeyedBackend, KeyedBackendSettings

Done: TypeAlias = Callable[[Any, BaseException | None], None]
"""Called with a result or an error."""


@dataclass(frozen=True, slots=True)
class SlotServices:
    """What a slot gives to the tasks it hosts."""

    clock: Clock
    transport: Transport
    background: Background
    send: Callable[[FromSlot], None]
    #: Sends a value to the driver side of a connector: (attempt, operator, value).
    report: Callable[[int, str, Any], None]
    #: Tells the coordinator now what all tasks counted.
    report_metrics: Callable[[], None]
    storage: Callable[[str], Storage]
    #: Where connections to the outside are opened, which may take long.
    opening: Background
    #: Makes an event loop for the coroutines of one operator.
    event_loop: EventLoopMaker
    #: Makes a thread for one operator.
    own_thread: OwnThreadMaker
    #: Has the loop take another turn. From any thread.
    wake: Callable[[], None]
    #: Runs a call on the loop's thread; if it fails, this task of this attempt has. From any thread.
    post: Callable[[AttemptNumber, TaskId, Callable[[], None]], None]
    #: The same, at once, on the loop's thread.
    guard: Callable[[AttemptNumber, TaskId, Callable[[], None]], None]
    #: Knows whose code runs now.
    turn: Turn


class Deployment:
    """The tasks of one attempt in one slot."""

    def __init__(self, plan: JobPlan, order: DeployAttempt, services: SlotServices, local: LocalFiles) -> None:
        self.attempt = order.attempt
        self._plan = plan
        self._order = order
        self._services = services
        self._local_files = local
        self._backends: list[KeyedBackend] = []
        self._here = set(order.tasks)
        self._local: dict[ChannelId, LocalChannel] = {}
        self._routers: dict[TaskId, list[tuple[ExecutionEdge, Router]]] = {}
        self._vertices = {vertex.uid: vertex for vertex in plan.graph.vertices}
        storage = plan.options.checkpoints.storage
        self._storage = services.storage(storage) if storage is not None else None
        # The slots don't know the secret, only that the driver will sign what they write.
        self._strong_checksums = plan.options.checkpoints.secret is not None
        self._destination = Destination(
            self._storage,
            plan.job_id,
            order.attempt,
            plan.options.inline_state_bytes_max,
            local,
            strong_checksums=self._strong_checksums,
        )
        restored_from = order.restore.storage_url
        self._restored_storage = services.storage(restored_from) if restored_from is not None else self._storage
        before = order.restore.parallelism
        nodes = ((node.uid, vertex.parallelism) for vertex in plan.graph.vertices for node in vertex.operators)
        self._same_inputs = all(before.get(uid) == parallelism for uid, parallelism in nodes)
        self.tasks: dict[TaskId, Task] = {}
        self.connections = ConnectionWatch(services.transport, order.attempt, plan.options.heartbeat_timeout_seconds)

    def open(self) -> None:
        """Makes every task, restores it and makes its inputs ready. May block."""
        for task in self._order.tasks:
            self._services.turn.task = task
            self.tasks[task] = self._open_task(task, self._vertices[task.vertex])

    def connect(self) -> None:
        """Connects the outputs; from now on tasks may run, and restored timers may fire."""
        for task, routers in self._routers.items():
            for edge, router in routers:
                router.connect([self._output(channel) for channel in self._channels_from(edge, task.subtask)])
        for connected in self.tasks.values():
            connected.start()

    def completed(self, checkpoint: CheckpointId) -> None:
        """The checkpoint is durable: what later ones may build on."""
        for backend in self._backends:
            backend.checkpoint_completed(checkpoint)

    def close(self) -> None:
        """Closes every task, whatever state it is in, and its channels."""
        self._services.transport.drop(self.attempt)
        for task in self.tasks.values():
            self._services.turn.task = task.id
            task.close()

    def _open_task(self, task: TaskId, vertex: Vertex) -> Task:
        graph = self._plan.graph
        routers = [(edge, self._router(edge, task.subtask)) for edge in graph.edges if edge.sender == vertex.uid]
        self._routers[task] = routers
        inputs, ports = self._inputs(graph, vertex, task.subtask)
        metrics = TaskMetrics(task=str(task))
        chain = Chain(vertex, routers, metrics, self._services.clock.now_seconds)
        contexts = [self._context(task, vertex, node, metrics) for node in vertex.operators]
        chain.open(contexts, lambda uid: self._services.send(OperatorOpening(self.attempt, task, uid)))
        numbers = range(len(inputs))
        return Task(
            task,
            chain=chain,
            inputs=InputGate(inputs, ports),
            outputs=OutputGate([router for _, router in routers]),
            aligner=BarrierAligner(numbers, self._plan.options.checkpoints.checkpoint_mode),
            channels=numbers,
            metrics=metrics,
            services=TaskServices(
                self.attempt,
                self._services.clock,
                self._services.send,
                self._services.background,
                self._write_snapshot,
                self._services.report_metrics,
                self._plan.options.buffer_timeout_seconds,
            ),
        )

    def _inputs(self, graph: ExecutionGraph, vertex: Vertex, subtask: int) -> tuple[list[InputChannel], list[int]]:
        channels: list[InputChannel] = []
        ports: list[int] = []
        for edge in graph.edges:
            if edge.receiver == vertex.uid:
                for channel in self._channels_to(edge, subtask):
                    channels.append(self._input(channel))
                    ports.append(edge.port)
        return channels, ports

    def _channels_to(self, edge: ExecutionEdge, receiver: int) -> Iterable[ChannelId]:
        for sender in range(self._vertices[edge.sender].parallelism):
            if receiver in self._reached(edge, sender):
                yield ChannelId(self.attempt, edge.index, sender, receiver)

    def _channels_from(self, edge: ExecutionEdge, sender: int) -> Iterable[ChannelId]:
        for receiver in self._reached(edge, sender):
            yield ChannelId(self.attempt, edge.index, sender, receiver)

    def _reached(self, edge: ExecutionEdge, sender: int) -> range:
        return receivers_of(edge.partitioning, sender=sender, receivers=self._vertices[edge.receiver].parallelism)

    def _input(self, channel: ChannelId) -> InputChannel:
        sender = TaskId(self._edge(channel).sender, channel.sender)
        if sender in self._here:
            return self._local.setdefault(channel, LocalChannel())
        return self._services.transport.open_input(channel, self._order.token)

    def _output(self, channel: ChannelId) -> OutputChannel:
        receiver = TaskId(self._edge(channel).receiver, channel.receiver)
        if receiver in self._here:
            return self._local.setdefault(channel, LocalChannel())
        return self._services.transport.open_output(channel, self._order.addresses[str(receiver)], self._order.token)

    def _edge(self, channel: ChannelId) -> ExecutionEdge:
        return self._plan.graph.edges[channel.edge]

    def _router(self, edge: ExecutionEdge, subtask: int) -> Router:
        receiver = self._vertices[edge.receiver]
        return router_of(
            edge, subtask=subtask, receivers=receiver.parallelism, max_parallelism=receiver.max_parallelism
        )

    def _context(self, task: TaskId, vertex: Vertex, node: LogicalNode, metrics: TaskMetrics) -> OperatorContext:
        restore = OperatorRestore(
            self._order.restore,
            self._restored_storage,
            self._local_files,
            operator=node.uid,
            subtask=task.subtask,
            parallelism=vertex.parallelism,
        )
        groups = group_range(task.subtask, vertex.parallelism, vertex.max_parallelism)

        def keyed_backend() -> KeyedBackend:
            options = self._plan.options
            open_backend = backend_factory(options.state_backend)
            backend = open_backend(
                KeyedBackendSettings(vertex.max_parallelism, groups, self._local_files, options.state_memory_bytes)
            )
            self._backends.append(backend)
            backend.restore(restore.keyed(groups))
            return backend

        return OperatorContext(
            job_id=self._plan.job_id,
            job_name=self._plan.name,
            uid=node.uid,
            name=node.name,
            subtask=task.subtask,
            parallelism=vertex.parallelism,
            max_parallelism=vertex.max_parallelism,
            attempt=self.attempt,
            run=self._order.run,
            same_inputs=self._same_inputs,
            groups=groups,
            now_seconds=self._services.clock.now_seconds,
            wall_ms=self._services.clock.wall_ms,
            metrics=metrics,
            emit=_not_wired,
            emit_side=_not_wired,
            emit_watermark=_not_wired,
            emit_idle=_not_wired,
            keyed_backend=keyed_backend,
            restored_keyed=lambda: restore.keyed_chunks(groups),
            restored_lists=restore.lists(),
            run_in_background=partial(self._run_elsewhere, self._services.background, task),
            open_elsewhere=partial(self._run_elsewhere, self._services.opening, task),
            when_done=partial(self._when_done, task),
            event_loop=partial(self._event_loop, task),
            own_thread=partial(self._services.own_thread, partial(self._services.post, self.attempt, task)),
            wake=self._services.wake,
            report=lambda value: self._services.report(self.attempt, node.uid, value),
            user_metrics=UserMetrics(node.name),
        )

    def _run_elsewhere(self, background: Background, task: TaskId, work: Callable[[], Any], done: Done) -> None:
        def call(result: Any, error: BaseException | None) -> None:
            self._services.guard(self.attempt, task, lambda: done(result, error))

        background.submit(work, call)

    def _when_done(self, task: TaskId, promise: Future[Any], done: Done) -> None:
        def kept(promise: Future[Any]) -> None:
            error = promise.exception()
            result = None if error is not None else promise.result()
            self._services.post(self.attempt, task, lambda: done(result, error))

        promise.add_done_callback(kept)

    def _event_loop(self, task: TaskId, done: Callable[[FinishedCalls], None]) -> EventLoop:
        return self._services.event_loop(partial(self._services.post, self.attempt, task), done)

    def _write_snapshot(
        self, checkpoint: CheckpointId, task: TaskId, states: Iterable[tuple[str, OperatorSnapshot]], savepoint: str
    ) -> TaskSnapshot:
        if savepoint:
            root, folder = split_url(savepoint)
            storage = self._services.storage(root)
            to = SavepointFolder(storage, folder, self.attempt, self._strong_checksums)
            return write_task_savepoint(to, task, list(states))
        return write_task_snapshot(self._destination, checkpoint, task, list(states))


def _not_wired(*_: Any) -> None:
    raise AssertionError("an operator emitted before its chain was wired")
