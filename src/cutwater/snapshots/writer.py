"""How does the frozen state of a task become part of a snapshot?

All of a task's state is one run of bytes with an index. A small run travels in the manifest, a larger one is one file.
State in a database is its files: those that an earlier snapshot has brought to the storage are only named.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal, Protocol

import pyarrow as pa

from cutwater.canonical import StateKind
from cutwater.errors import ConfigurationError
from cutwater.protocol.ids import AttemptNumber, CheckpointId, TaskId
from cutwater.protocol.state_layout import StateLayout
from cutwater.snapshots.checksums import Checksum, checksum_of, checksum_of_file
from cutwater.snapshots.format import (
    AttachedFile,
    Chunk,
    DatabaseFiles,
    DataFile,
    PartKind,
    SharedFile,
    StatePart,
    StateTable,
    TaskSnapshot,
)
from cutwater.snapshots.local_files import LocalFiles
from cutwater.snapshots.names import attached_name, shared_name, snapshot_folder, state_name
from cutwater.snapshots.storage import Storage
from cutwater.snapshots.tables import SavepointFolder, write_tables

SMALL_FILE_BYTES_MAX = 16 * 1024
ATTACHED_PIECE_BYTES = 8 << 20
"""Of what a savepoint copies for its sinks, so much is in memory at once, per task."""


class FrozenFiles(Protocol):
    """`state.contract.FrozenFiles`, as seen from here."""

    @property
    def groups(self) -> range: ...
    @property
    def stored(self) -> Mapping[str, SharedFile]: ...
    def files(self) -> dict[str, str]: ...
    def written(self, checkpoint: CheckpointId, files: Mapping[str, SharedFile]) -> None: ...
    def discard(self) -> None: ...


class FrozenKeyed(Protocol):
    """`state.contract.FrozenKeyedState`, as seen from here."""

    @property
    def database(self) -> FrozenFiles | None: ...
    @property
    def kinds(self) -> Mapping[str, str]: ...
    def tables(self, rows_max: int) -> Iterator[tuple[str, StateKind, pa.RecordBatch]]: ...

    def chunks(self) -> Iterator[tuple[str, int, bytes]]: ...


class FrozenItems(Protocol):
    """`operators.contract.FrozenList`, as seen from here: operators are above us."""

    @property
    def name(self) -> str: ...
    @property
    def items(self) -> tuple[bytes, ...]: ...
    @property
    def redistribution(self) -> Literal["split", "union"]: ...


class FrozenAttachment(Protocol):
    """`connectors.contract.Attachment`, as seen from here."""

    @property
    def name(self) -> str: ...
    @property
    def pieces(self) -> Callable[[], Iterable[bytes]]: ...


class FrozenOperator(Protocol):
    """`operators.contract.OperatorSnapshot`, as seen from here."""

    @property
    def keyed(self) -> FrozenKeyed | None: ...
    @property
    def lists(self) -> Sequence[FrozenItems]: ...
    @property
    def pickled(self) -> tuple[tuple[str, str], ...]: ...
    @property
    def layout(self) -> StateLayout: ...
    @property
    def attachments(self) -> Callable[[], Sequence[FrozenAttachment]]: ...


@dataclass(frozen=True, slots=True)
class Destination:
    """Where the snapshots of a job go. Without a storage everything is inline."""

    storage: Storage | None
    job_id: str
    attempt: AttemptNumber
    inline_bytes_max: int
    #: Where copies of the files of databases stay, for a restart on the same host.
    local: LocalFiles | None = None
    #: Checksums that a signature can rely on.
    strong_checksums: bool = False


def write_task_snapshot(
    to: Destination, checkpoint: CheckpointId, task: TaskId, states: Sequence[tuple[str, FrozenOperator]]
) -> TaskSnapshot:
    """Writes what (operator uid, frozen state) give. On a background thread; blocks until the bytes are durable."""
    run = _Run(strong=to.strong_checksums)
    databases, new_bytes = _write_databases(to, checkpoint, task, states)
    for operator, frozen in states:
        if frozen.keyed is not None:
            for name, group, data in frozen.keyed.chunks():
                run.add(operator, name, "keyed", group, data, form=frozen.keyed.kinds.get(name, ""))
        run.add_lists(operator, frozen.lists)
    data = run.data()
    file = None
    if to.storage is not None and len(data) > to.inline_bytes_max:
        file = DataFile(state_name(task, to.attempt), len(data), run.checksum())
        to.storage.write(f"{snapshot_folder(to.job_id, checkpoint)}/{file.path}", data)
    return TaskSnapshot(
        task.vertex,
        task.subtask,
        run.parts(),
        inline=data if file is None else None,
        file=file,
        databases=databases,
        pickled=_pickled(states),
        layouts=_layouts(states),
        new_bytes=new_bytes + len(data),
    )


def write_task_savepoint(
    to: SavepointFolder, task: TaskId, states: Sequence[tuple[str, FrozenOperator]]
) -> TaskSnapshot:
    """The same in the form of savepoints: keyed state as tables, copies of prepared output, the rest as one file."""
    run = _Run(strong=to.strong_checksums)
    tables: list[StateTable] = []
    for operator, frozen in states:
        if frozen.keyed is not None:
            tables += write_tables(to, task, operator, frozen.keyed)
        run.add_lists(operator, frozen.lists)
    attached = _write_attachments(to, task, states)
    data = run.data()
    file = DataFile(state_name(task, to.attempt), len(data), run.checksum())
    to.write(file.path, data)
    new_bytes = len(data) + sum(table.size_bytes for table in tables) + sum(copy.size_bytes for copy in attached)
    return TaskSnapshot(
        task.vertex,
        task.subtask,
        run.parts(),
        file=file,
        tables=tuple(tables),
        attached=attached,
        pickled=_pickled(states),
        layouts=_layouts(states),
        new_bytes=new_bytes,
    )


def _write_attachments(
    to: SavepointFolder, task: TaskId, states: Sequence[tuple[str, FrozenOperator]]
) -> tuple[AttachedFile, ...]:
    found = [(operator, attachment) for operator, frozen in states for attachment in frozen.attachments()]
    written = []
    for number, (operator, attachment) in enumerate(found):
        pieces = []
        for piece, data in enumerate(_gathered(attachment.pieces())):
            path = attached_name(task, number, piece, to.attempt)
            to.write(path, data)
            pieces.append(DataFile(path, len(data), checksum_of(data, strong=to.strong_checksums)))
        written.append(AttachedFile(operator, attachment.name, tuple(pieces)))
    return tuple(written)


def _gathered(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """The same bytes in fewer pieces."""
    gathered = bytearray()
    for piece in pieces:
        gathered += piece
        if len(gathered) >= ATTACHED_PIECE_BYTES:
            yield bytes(gathered)
            gathered.clear()
    if gathered:
        yield bytes(gathered)


def _pickled(states: Sequence[tuple[str, FrozenOperator]]) -> tuple[tuple[str, str, str], ...]:
    return tuple((operator, state, kind) for operator, frozen in states for state, kind in frozen.pickled)


def _layouts(states: Sequence[tuple[str, FrozenOperator]]) -> dict[str, StateLayout]:
    return {operator: frozen.layout for operator, frozen in states if frozen.layout}


def _write_databases(
    to: Destination, checkpoint: CheckpointId, task: TaskId, states: Sequence[tuple[str, FrozenOperator]]
) -> tuple[tuple[DatabaseFiles, ...], int]:
    found, new_bytes = [], 0
    for number, (operator, frozen) in enumerate(states):
        files = None if frozen.keyed is None else frozen.keyed.database
        if files is not None:
            try:
                path_of = partial(shared_name, task, number, checkpoint, to.attempt)
                kinds = {} if frozen.keyed is None else dict(frozen.keyed.kinds)
                database, bytes_of_it = _write_database(to, files, operator, kinds, path_of)
                files.written(checkpoint, {file.name: file for file in database.files})
            finally:
                files.discard()
            found.append(database)
            new_bytes += bytes_of_it
    return tuple(found), new_bytes


def _write_database(
    to: Destination, frozen: FrozenFiles, operator: str, kinds: dict[str, str], path_of: Callable[[str], str]
) -> tuple[DatabaseFiles, int]:
    if to.storage is None:
        raise ConfigurationError(
            "state in a database needs a storage for its snapshots",
            hint='set Checkpoints(storage=…), or state_backend="memory"',
        )
    small: dict[str, bytes] = {}
    shared: list[SharedFile] = []
    new_bytes = 0
    for name, path in frozen.files().items():
        file = frozen.stored.get(name)
        if file is None:
            size_bytes, checksum = checksum_of_file(path, strong=to.strong_checksums)
            new_bytes += size_bytes
            if size_bytes <= min(to.inline_bytes_max, SMALL_FILE_BYTES_MAX):
                small[name] = Path(path).read_bytes()
                continue
            file = SharedFile(name, path_of(name), size_bytes, checksum)
            to.storage.upload(f"{to.job_id}/{file.path}", path)
        if to.local is not None:
            to.local.keep(file, path)
        shared.append(file)
    if to.local is not None:
        to.local.keep_only([*shared, *frozen.stored.values()])
    groups = frozen.groups
    return DatabaseFiles(operator, groups.start, groups.stop - 1, tuple(shared), small, kinds), new_bytes


class _Run:
    """Bytes that grow chunk by chunk, with index and checksum; no step holds the GIL for long."""

    def __init__(self, *, strong: bool) -> None:
        # Of a BytesIO the whole value can be had without another copy.
        self._buffer = io.BytesIO()
        self._checksum = Checksum(strong=strong)
        self._chunks: dict[tuple[str, str, PartKind, str], list[Chunk]] = {}

    def add(self, operator: str, name: str, kind: PartKind, group: int, data: bytes, *, form: str = "") -> None:
        self._begin(operator, name, kind, form).append(Chunk(group, self._buffer.tell(), len(data)))
        self._buffer.write(data)
        self._checksum.update(data)

    def add_lists(self, operator: str, lists: Sequence[FrozenItems]) -> None:
        """Operator state; an empty list is a part too."""
        for items in lists:
            self._begin(operator, items.name, items.redistribution)
            for index, item in enumerate(items.items):
                self.add(operator, items.name, items.redistribution, index, item)

    def _begin(self, operator: str, name: str, kind: PartKind, form: str = "") -> list[Chunk]:
        return self._chunks.setdefault((operator, name, kind, form), [])

    def data(self) -> bytes:
        return self._buffer.getvalue()

    def checksum(self) -> str:
        return self._checksum.text()

    def parts(self) -> tuple[StatePart, ...]:
        return tuple(
            StatePart(operator, name, kind, tuple(chunks), form)
            for (operator, name, kind, form), chunks in self._chunks.items()
        )
