"""Which part of a snapshot does a task need, and how does an operator get its part back?"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from cutwater.graph.model import ExecutionGraph, Vertex
from cutwater.operators.source import READERS_STATE
from cutwater.protocol.ids import TaskId
from cutwater.protocol.key_groups import group_range
from cutwater.runtime.messages import RestoreOrder
from cutwater.runtime.progress import ReadProgress
from cutwater.runtime.recovering import Restored
from cutwater.snapshots.format import Chunk, Manifest, StatePart, TaskSnapshot
from cutwater.snapshots.local_files import LocalFiles
from cutwater.snapshots.reader import DatabaseRestore, KeyedRestore, list_items
from cutwater.snapshots.redistribution import overlap, parallelism_of, tasks_needed
from cutwater.snapshots.storage import Storage
from cutwater.snapshots.tables import TablesRestore
from cutwater.state.contract import RestoredState


def orders_for(
    graph: ExecutionGraph, tasks: Sequence[TaskId], restored: Restored | None, progress: ReadProgress
) -> RestoreOrder:
    """What the tasks of one slot restore. Matching is by operator uid, whatever chain it was in."""
    if restored is None:
        parallelism = {node.uid: vertex.parallelism for vertex in graph.vertices for node in vertex.operators}
        return RestoreOrder("", tuple(_progress_as_snapshots(graph, tasks, progress)), parallelism)
    vertices = {vertex.uid: vertex for vertex in graph.vertices}
    parallelism = parallelism_of(restored.manifest.vertices)
    needed = [
        snapshot
        for task in tasks
        for snapshot in _needed_by(task, vertices[task.vertex], restored.manifest, parallelism)
    ]
    return RestoreOrder(restored.folder, tuple(needed), parallelism, restored.storage_url)


def _needed_by(
    task: TaskId, vertex: Vertex, manifest: Manifest, parallelism: Mapping[str, int]
) -> Sequence[TaskSnapshot]:
    return tasks_needed(
        manifest.tasks,
        operators={node.uid: parallelism.get(node.uid, vertex.parallelism) for node in vertex.operators},
        groups=group_range(task.subtask, vertex.parallelism, vertex.max_parallelism),
        subtask=task.subtask,
        parallelism=vertex.parallelism,
    )


def _progress_as_snapshots(
    graph: ExecutionGraph, tasks: Sequence[TaskId], progress: ReadProgress
) -> Iterator[TaskSnapshot]:
    """Without checkpoints the only thing that survives is how far the sources have read."""
    heads = {vertex.uid: vertex.operators[0].uid for vertex in graph.vertices}
    for task in tasks:
        items = progress.readers(heads[task.vertex], task.subtask)
        if items:
            chunks, offset = [], 0
            for index, item in enumerate(items):
                chunks.append(Chunk(index, offset, len(item)))
                offset += len(item)
            part = StatePart(heads[task.vertex], READERS_STATE, "split", tuple(chunks))
            yield TaskSnapshot(task.vertex, task.subtask, (part,), inline=b"".join(items))


class OperatorRestore:
    """The state of one operator in one task, out of a restore order."""

    def __init__(
        self,
        order: RestoreOrder,
        storage: Storage | None,
        local: LocalFiles,
        *,
        operator: str,
        subtask: int,
        parallelism: int,
    ) -> None:
        self._order = order
        self._storage = storage
        self._local = local
        self._operator = operator
        self._subtask = subtask
        self._parallelism = parallelism

    def keyed_chunks(self, groups: range) -> Iterable[tuple[str, int, bytes]]:
        """(state name, key group, bytes) of these groups. Reading may block."""
        yield from KeyedRestore(self._storage, self._order.folder, self._order.tasks, self._operator, groups)
        if self._storage is not None:
            yield from self._tables(self._storage, groups).chunks()

    def keyed(self, groups: range) -> RestoredState:
        """All keyed state in these groups, in the forms that the snapshot has it. Reading may block."""
        kinds = {
            part.name: part.form
            for task in self._order.tasks
            for part in task.parts
            if part.operator == self._operator and part.form
        }
        databases = self._databases(groups)
        for database in databases:
            kinds |= database.kinds
        rows = () if self._storage is None else self._tables(self._storage, groups).rows()
        return RestoredState(self.keyed_chunks(groups), databases, rows, kinds)

    def _tables(self, storage: Storage, groups: range) -> TablesRestore:
        return TablesRestore(storage, self._order.folder, self._order.tasks, self._operator, groups)

    def _databases(self, groups: range) -> list[DatabaseRestore]:
        """The databases of the operator that hold some of these groups."""
        storage, is_ours = self._storage, self._order.storage_url is None
        return [
            DatabaseRestore(storage, self._order.folder, database, self._local, is_ours=is_ours)
            for task in self._order.tasks
            for database in task.databases
            if storage is not None and database.operator == self._operator and overlap(database.groups, groups)
        ]

    def lists(self) -> dict[str, list[bytes]]:
        """The items of operator state that this task gets. May block."""
        return list_items(
            self._storage,
            self._order.folder,
            self._order.tasks,
            self._operator,
            subtask=self._subtask,
            parallelism=self._parallelism,
            old_parallelism=self._order.parallelism.get(self._operator, self._parallelism),
        )
