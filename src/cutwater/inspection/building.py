"""How is a savepoint made from tables: a new one, or a changed copy of an old one?

Whoever has the rows writes them as table files, here or in other processes, and names what came out; then one manifest
puts them in the place of what the old savepoint had of these states. Everything else of it is copied.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

import msgspec
import pyarrow as pa

from cutwater.canonical import GROUP, StateKind, StateRows, from_batch, to_batch
from cutwater.errors import ConfigurationError, SnapshotDamagedError
from cutwater.inspection.rows import loads_for
from cutwater.inspection.snapshots import OpenSnapshot, open_snapshot
from cutwater.pickles import has_opaque
from cutwater.protocol.checkpoint_events import CheckpointKind
from cutwater.protocol.ids import AttemptNumber, TaskId
from cutwater.protocol.key_groups import default_max_parallelism, key_group
from cutwater.snapshots.documents import seal
from cutwater.snapshots.format import FORMAT_VERSION, Manifest, StateTable, TaskSnapshot, VertexShape
from cutwater.snapshots.names import manifest_name
from cutwater.snapshots.reader import MANIFEST
from cutwater.snapshots.storage import absolute_url, open_storage, split_url
from cutwater.snapshots.tables import SavepointFolder, write_tables

_NO_JOB = "none"


@dataclass(frozen=True, slots=True)
class NewState:
    """A state to be written into a savepoint. Can be pickled: each part of its rows may be written elsewhere."""

    url: str
    operator: str
    state: str
    kind: StateKind
    max_parallelism: int
    attempt: AttemptNumber
    #: Pickles among the rows may be of classes, and run code.
    trust: bool = False

    def write_part(self, number: int, batches: Iterable[pa.RecordBatch]) -> list[StateTable]:
        """Writes some rows, in any order. A key group in them is ignored, but for columnar state."""
        root, folder = split_url(self.url)
        to = SavepointFolder(open_storage(root), folder, self.attempt)
        return write_tables(to, TaskId(self.operator, number), self.operator, _Rows(self, batches))


@dataclass(frozen=True, slots=True)
class _Rows:
    new: NewState
    batches: Iterable[pa.RecordBatch]

    def tables(self, rows_max: int) -> Iterator[tuple[str, StateKind, pa.RecordBatch]]:
        for batch in self.batches:
            if batch.num_rows:
                yield self.new.state, self.new.kind, _grouped(batch, self.new)


def _grouped(batch: pa.RecordBatch, new: NewState) -> pa.RecordBatch:
    """Ordered by key group."""
    if new.kind == "columns":
        if GROUP not in batch.schema.names:
            raise ConfigurationError(
                f'the rows of columnar state "{new.state}" have no column "{GROUP}"',
                hint="read the state first, and keep its columns",
            )
        return batch.sort_by(GROUP)
    if GROUP not in batch.schema.names:
        groups = pa.nulls(batch.num_rows, pa.int32())
        batch = pa.RecordBatch.from_arrays([groups, *batch.columns], [GROUP, *batch.schema.names])
    rows = from_batch(batch, new.state, new.kind, loads=loads_for(trust=new.trust))
    if any(map(has_opaque, (*rows.keys, *(rows.namespaces or ()), *rows.values))):
        raise ConfigurationError(
            f'the rows of state "{new.state}" hold pickles that are more than plain data',
            detail="to read them runs the code that their author put there",
            hint='if you trust where they come from: .option("trust", "true")',
        )
    found = [key_group(key, new.max_parallelism) for key in rows.keys]
    order = sorted(range(len(found)), key=found.__getitem__)

    def ordered(values: list[object]) -> list[object]:
        return [values[index] for index in order]

    namespaces = None if rows.namespaces is None else ordered(rows.namespaces)
    return to_batch(
        StateRows(
            rows.name,
            rows.kind,
            [found[index] for index in order],
            ordered(rows.keys),
            namespaces,
            ordered(rows.values),
        )
    )


@dataclass(slots=True)
class SavepointBuilder:
    """One savepoint under construction, in the process that publishes it."""

    url: str
    base: OpenSnapshot | None = None
    drop: frozenset[str] = frozenset()
    _attempt: int = field(init=False, default=1)

    def __post_init__(self) -> None:
        there = _manifest_at(self.url)
        if self.base is None:
            self.base = there
        if self.base is not None and self.base.manifest.kind != CheckpointKind.SAVEPOINT:
            raise ConfigurationError(
                f'"{self.base.url}" is a checkpoint, and only savepoints can be changed',
                hint="take a savepoint of the job first",
            )
        attempts = [snapshot.manifest.attempt for snapshot in (there, self.base) if snapshot is not None]
        self._attempt = max(attempts, default=0) + 1

    def new_state(
        self,
        operator: str,
        state: str,
        *,
        kind: StateKind | None = None,
        max_parallelism: int | None = None,
        trust: bool = False,
    ) -> NewState:
        """Left out, kind and key groups are those of the old savepoint, or a value and the default number."""
        known = self._known(operator, state)
        groups = max_parallelism or self._max_parallelism_of(operator) or default_max_parallelism(1)
        found = kind or (known.kind if known is not None else "value")
        return NewState(self.url, operator, state, found, groups, AttemptNumber(self._attempt), trust)

    def publish(self, new: NewState, tables: Sequence[StateTable]) -> Manifest:
        """Makes the savepoint complete, with these tables in place of what it had of the state."""
        manifest = self._changed(new, tables)
        root, folder = split_url(self.url)
        storage = open_storage(root)
        if not storage.create_if_absent(
            f"{folder}/{manifest_name(manifest.attempt)}", seal(manifest, about=MANIFEST, secret=None)
        ):
            raise ConfigurationError(f'"{self.url}" was changed by another process in the meantime', hint="try again")
        return manifest

    def _changed(self, new: NewState, tables: Sequence[StateTable]) -> Manifest:
        base = None if self.base is None else self.base.manifest
        kept = [] if base is None else [self._without(task, new) for task in base.tasks]
        first = max((task.subtask + 1 for task in kept if task.vertex == new.operator), default=0)
        added = [
            TaskSnapshot(new.operator, first + number, (), inline=b"", tables=(table,))
            for number, table in enumerate(tables)
        ]
        vertices = [] if base is None else [_at(vertex, new) for vertex in base.vertices]
        if not any(new.operator in vertex.operators for vertex in vertices):
            vertices.append(VertexShape(new.operator, (new.operator,), 1, new.max_parallelism))
        sources = {} if base is None else {uid: data for uid, data in base.sources.items() if uid not in self.drop}
        return Manifest(
            version=FORMAT_VERSION,
            job_id=_NO_JOB if base is None else base.job_id,
            job_name=_NO_JOB if base is None else base.job_name,
            checkpoint=0 if base is None else base.checkpoint,
            attempt=self._attempt,
            kind=CheckpointKind.SAVEPOINT,
            created_at=datetime.now(UTC).isoformat(timespec="seconds"),
            vertices=tuple(vertices),
            tasks=(*kept, *added),
            sources=sources,
        )

    def _without(self, task: TaskSnapshot, new: NewState) -> TaskSnapshot:
        """What stays of a task, copied into the new folder."""
        tables = tuple(
            table
            for table in task.tables
            if table.operator not in self.drop and (table.operator, table.name) != (new.operator, new.state)
        )
        parts = tuple(part for part in task.parts if part.operator not in self.drop)
        attached = tuple(file for file in task.attached if file.operator not in self.drop)
        files = [table.path for table in tables] + ([task.file.path] if task.file is not None else [])
        self._copy(files + [piece.path for file in attached for piece in file.pieces])
        return msgspec.structs.replace(task, parts=parts, tables=tables, attached=attached)

    def _copy(self, paths: Sequence[str]) -> None:
        assert self.base is not None
        if self.base.url == self.url:
            return
        root, folder = split_url(self.url)
        storage = open_storage(root)
        for path in paths:
            storage.write(f"{folder}/{path}", self.base.storage.read(f"{self.base.folder}/{path}"))

    def _known(self, operator: str, state: str) -> StateTable | None:
        if self.base is None:
            return None
        for task in self.base.manifest.tasks:
            for table in task.tables:
                if (table.operator, table.name) == (operator, state):
                    return table
        return None

    def _max_parallelism_of(self, operator: str) -> int | None:
        vertices = () if self.base is None else self.base.manifest.vertices
        own = next((vertex.max_parallelism for vertex in vertices if operator in vertex.operators), None)
        return own or next((vertex.max_parallelism for vertex in vertices), None)


def savepoint_builder(path: str, *, base: str | None = None, drop: Iterable[str] = ()) -> SavepointBuilder:
    """Of a savepoint at this path: a new one, a changed copy of `base`, or what is there already with changes."""
    return SavepointBuilder(absolute_url(path), None if base is None else open_snapshot(base), frozenset(drop))


def _manifest_at(url: str) -> OpenSnapshot | None:
    try:
        return open_snapshot(url)
    except SnapshotDamagedError:
        return None


def _at(vertex: VertexShape, new: NewState) -> VertexShape:
    if new.operator not in vertex.operators:
        return vertex
    return msgspec.structs.replace(vertex, max_parallelism=new.max_parallelism)
