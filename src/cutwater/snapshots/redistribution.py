"""Which bytes of a snapshot does a subtask need, when there may be more or fewer subtasks than before?

Keyed state goes by key group. Items of a split list stay where they were while the parallelism is the same; otherwise
item i, counted over all old subtasks in their order, goes to subtask i modulo the new parallelism. Items of a union
list go to everyone. Operators are matched by uid: the chain around one may have changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from cutwater.snapshots.format import StatePart, TaskSnapshot, VertexShape


def parallelism_of(vertices: Iterable[VertexShape]) -> dict[str, int]:
    """By operator uid: how many subtasks it had."""
    return {operator: vertex.parallelism for vertex in vertices for operator in vertex.operators}


def tasks_needed(
    tasks: Iterable[TaskSnapshot],
    *,
    operators: Mapping[str, int],
    groups: range,
    subtask: int,
    parallelism: int,
) -> tuple[TaskSnapshot, ...]:
    """What a subtask that owns these groups must read: tasks in order, with only the parts and chunks it needs.

    `operators` are the uids of its chain, each with its parallelism in the snapshot.
    """
    needed = []
    for task in in_order(tasks):
        parts = []
        for part in task.parts:
            if part.operator in operators:
                stays = operators[part.operator] == parallelism
                parts += _of_part(part, groups, is_elsewhere=stays and task.subtask != subtask)
        databases = tuple(
            database
            for database in task.databases
            if database.operator in operators and overlap(database.groups, groups)
        )
        tables = tuple(table for table in task.tables if table.operator in operators and overlap(table.groups, groups))
        if parts or databases or tables:
            needed.append(msgspec.structs.replace(task, parts=tuple(parts), databases=databases, tables=tables))
    return tuple(needed)


def overlap(left: range, right: range) -> bool:
    return left.start < right.stop and right.start < left.stop


def in_order(tasks: Iterable[TaskSnapshot]) -> list[TaskSnapshot]:
    """The order in which items of operator state are counted."""
    return sorted(tasks, key=lambda task: (task.vertex, task.subtask))


def _of_part(part: StatePart, groups: range, *, is_elsewhere: bool) -> list[StatePart]:
    if part.kind == "keyed":
        chunks = tuple(chunk for chunk in part.chunks if chunk.group in groups)
        return [msgspec.structs.replace(part, chunks=chunks)] if chunks else []
    if part.kind == "split" and is_elsewhere:
        return []
    return [part]
