"""A task without a slot around it: what it sends and writes is kept."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from cutwater.batches import ObjectBatch
from cutwater.graph.model import ChainEdge, ExecutionEdge, LogicalNode, NodeKind, Partitioning, Vertex
from cutwater.operators.contract import Operator, OperatorContext
from cutwater.operators.metrics import TaskMetrics
from cutwater.protocol.aligner import BarrierAligner
from cutwater.protocol.ids import AttemptNumber, CheckpointId, TaskId
from cutwater.runtime.chain import Chain
from cutwater.runtime.channels import InputGate, LocalChannel
from cutwater.runtime.messages import FromSlot
from cutwater.runtime.routing import BroadcastRouter, OutputGate, Router
from cutwater.runtime.task import Task, TaskServices
from cutwater.snapshots.format import TaskSnapshot


class StoppedClock:
    def now_seconds(self) -> float:
        return 0.0

    def wall_ms(self) -> int:
        return 0

    def timestamp(self) -> str:
        return ""


class AtOnce:
    """Background work that is done before anything else."""

    def submit(self, work: Callable[[], Any], done: Callable[[Any, BaseException | None], None]) -> None:
        done(work(), None)


@dataclass
class Rig:
    """A task with two inputs and two receivers; what it sends is kept."""

    operators: list[Operator]
    lists: dict[str, list[bytes]] = field(default_factory=dict)
    router: Router = field(default_factory=BroadcastRouter)

    def __post_init__(self) -> None:
        self.metrics = TaskMetrics(task="t[0]")
        #: What it tells the coordinator, and where each snapshot goes if it is a savepoint.
        self.told: list[FromSlot] = []
        self.written: dict[CheckpointId, str] = {}
        self.states: dict[CheckpointId, Any] = {}
        nodes = tuple(
            LogicalNode(f"o{index}", f"o{index}", NodeKind.OPERATOR, 1, lambda made=made: made, None, max_parallelism=8)  # type: ignore[misc]
            for index, made in enumerate(self.operators)
        )
        last = len(nodes) - 1
        calls = tuple(ChainEdge(index, index + 1, 0, None) for index in range(last))
        vertex = Vertex("o0", "o0", nodes, calls, 1, 8)
        edge = ExecutionEdge(0, "o0", last, "next", 0, Partitioning.BROADCAST, None, None)
        self.chain = Chain(vertex, [(edge, self.router)], self.metrics, lambda: 0.0)
        self.chain.open([self._context(node.uid, self.lists if node is nodes[0] else {}) for node in nodes])
        self.inputs, self.outputs = [LocalChannel(), LocalChannel()], [LocalChannel(), LocalChannel()]
        self.router.connect(self.outputs)
        services = TaskServices(
            AttemptNumber(1),
            StoppedClock(),
            self.told.append,
            AtOnce(),
            self._write,
            lambda: None,
            buffer_seconds_max=1.0,
        )
        self.task = Task(
            TaskId("o0", 0),
            chain=self.chain,
            inputs=InputGate(self.inputs, [0, 0]),
            outputs=OutputGate([self.router]),
            aligner=BarrierAligner(range(2)),
            channels=range(2),
            services=services,
            metrics=self.metrics,
        )
        self.task.start()

    def _context(self, uid: str, lists: dict[str, list[bytes]]) -> OperatorContext:
        none: Any = None
        return OperatorContext(
            "job", "job", uid, uid, 0, 1, 8, AttemptNumber(1), range(8), lambda: 0.0, lambda: 0, self.metrics,
            none, none, none, none, none, none, lists,
        )  # fmt: skip

    def _write(self, checkpoint: CheckpointId, task: TaskId, states: Any, savepoint: str) -> TaskSnapshot:
        self.written[checkpoint] = savepoint
        self.states[checkpoint] = states
        return TaskSnapshot(task.vertex, task.subtask, ())

    def feed(self, channel: int, *elements: Any) -> None:
        for element in elements:
            self.inputs[channel].send(element)
        while self.task.step():
            pass

    def sent(self, receiver: int = 0) -> list[Any]:
        """Since the last look; a batch as its values."""
        found = list(iter(self.outputs[receiver].poll, None))
        return [element.values if isinstance(element, ObjectBatch) else element for element in found]
