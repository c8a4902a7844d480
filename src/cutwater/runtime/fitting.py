"""Does this snapshot fit the job that is to go on from it?

What a changed program no longer has a place for would be lost without a word, so it is refused with one.
"""

from __future__ import annotations

from cutwater.errors import ConfigurationError, GraphError
from cutwater.graph.model import ExecutionGraph, Partitioning
from cutwater.operators.event_time import WATERMARK_STATE
from cutwater.runtime.chain import INPUT_TIME_STATE
from cutwater.runtime.sources import decode_assigner
from cutwater.snapshots.format import Manifest


def check_fits(graph: ExecutionGraph, manifest: Manifest, *, drop_unknown: bool = False) -> None:
    """Raises when state, unread splits or prepared output of the snapshot would be lost in this graph.

    `drop_unknown`: what belongs to operators that the graph does not have may be lost.
    """
    max_parallelism = {node.uid: vertex.max_parallelism for vertex in graph.vertices for node in vertex.operators}
    missing = sorted(_operators_with_something(manifest) - set(max_parallelism))
    if missing and not drop_unknown:
        raise GraphError(
            f"snapshot chk-{manifest.checkpoint} has state of operators that the job does not have",
            detail=", ".join(f'"{uid}"' for uid in missing),
            hint="give the operators the uids they had; allow_non_restored_state=True drops their state",
        )
    before = {uid: vertex.max_parallelism for vertex in manifest.vertices for uid in vertex.operators}
    # Event time is kept by key group too: with others a key would have the time of some other key.
    for uid in sorted(_keyed_operators(manifest) | (_timed_operators(manifest) & _receivers_by_key(graph))):
        if uid in max_parallelism and before[uid] != max_parallelism[uid]:
            raise ConfigurationError(
                f'the state of operator "{uid}" in chk-{manifest.checkpoint} has {before[uid]} key groups, '
                f"the job has {max_parallelism[uid]}",
                hint=f"set max_parallelism={before[uid]}: it can't change as long as the state lives",
            )


def key_groups_of(manifest: Manifest) -> int | None:
    """Into how many key groups the snapshot's keyed state, or else its event time, is divided; None: it has neither, or
    operators differ."""
    keyed = _keyed_operators(manifest) or _timed_operators(manifest)
    found = {shape.max_parallelism for shape in manifest.vertices if keyed.intersection(shape.operators)}
    return found.pop() if len(found) == 1 else None


def _operators_with_something(manifest: Manifest) -> set[str]:
    # How far event time was is no reason to keep an operator: a map without state has that too, at a chain's head.
    state = {
        part.operator
        for task in manifest.tasks
        for part in task.parts
        if part.chunks and part.name not in (WATERMARK_STATE, INPUT_TIME_STATE)
    }
    state |= _keyed_operators(manifest)
    unread = {uid for uid, data in manifest.sources.items() if _has_unread_splits(data)}
    return state | unread


def _has_unread_splits(assigner: bytes) -> bool:
    state = decode_assigner(assigner)
    return bool(state.unassigned) or not state.complete


def _keyed_operators(manifest: Manifest) -> set[str]:
    in_parts = {part.operator for task in manifest.tasks for part in task.parts if part.kind == "keyed" and part.chunks}
    in_databases = {database.operator for task in manifest.tasks for database in task.databases}
    return in_parts | in_databases | {table.operator for task in manifest.tasks for table in task.tables}


def _timed_operators(manifest: Manifest) -> set[str]:
    """At the head of a chain that event time had come to."""
    return {
        part.operator for task in manifest.tasks for part in task.parts if part.name == INPUT_TIME_STATE and part.chunks
    }


def _receivers_by_key(graph: ExecutionGraph) -> set[str]:
    return {edge.receiver for edge in graph.edges if edge.partitioning is Partitioning.HASH}
