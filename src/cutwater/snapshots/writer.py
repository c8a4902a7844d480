"""How does the frozen state of a task become part of a snapshot?

All of a task's state is one run of bytes with an index. A small run travels in the manifest, a larger one is one file.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from typing import Literal, Protocol
from urllib.parse import quote

import xxhash

from cutwater.protocol.ids import TaskId
from cutwater.snapshots.format import Chunk, DataFile, PartKind, StatePart, TaskSnapshot
from cutwater.snapshots.storage import Storage

_NAME_LENGTH_MAX = 160


class FrozenKeyed(Protocol):
    """`state.contract.FrozenKeyedState`, as seen from here."""

    def chunks(self) -> Iterator[tuple[str, int, bytes]]: ...


class FrozenItems(Protocol):
    """`operators.contract.FrozenList`, as seen from here: operators are above us."""

    @property
    def name(self) -> str: ...
    @property
    def items(self) -> tuple[bytes, ...]: ...
    @property
    def redistribution(self) -> Literal["split", "union"]: ...


class FrozenOperator(Protocol):
    """`operators.contract.OperatorSnapshot`, as seen from here."""

    @property
    def keyed(self) -> FrozenKeyed | None: ...
    @property
    def lists(self) -> Sequence[FrozenItems]: ...


def write_task_snapshot(
    storage: Storage | None,
    folder: str,
    attempt: int,
    task: TaskId,
    states: Sequence[tuple[str, FrozenOperator]],
    inline_bytes_max: int,
) -> TaskSnapshot:
    """Writes what (operator uid, frozen state) give. On a background thread; blocks until the bytes are durable.

    `folder` is the snapshot's, from the storage's root. Without a storage everything is inline.
    """
    run = _Run()
    for operator, frozen in states:
        if frozen.keyed is not None:
            for name, group, data in frozen.keyed.chunks():
                run.add(operator, name, "keyed", group, data)
        for items in frozen.lists:
            run.begin(operator, items.name, items.redistribution)
            for index, item in enumerate(items.items):
                run.add(operator, items.name, items.redistribution, index, item)
    data = run.data()
    if storage is None or len(data) <= inline_bytes_max:
        return TaskSnapshot(task.vertex, task.subtask, run.parts(), inline=data)
    file = DataFile(f"{sanitise(task.vertex)}-{task.subtask}-a{attempt}.state", len(data), run.checksum())
    storage.write(f"{folder}/{file.path}" if folder else file.path, data)
    return TaskSnapshot(task.vertex, task.subtask, run.parts(), file=file)


def sanitise(name: str) -> str:
    """A file name for any text; different texts have different names."""
    quoted = quote(name, safe="")
    if len(quoted) <= _NAME_LENGTH_MAX:
        return quoted
    # A "+" is never left by `quote`, so no short name can look like this one.
    return f"{quoted[:100]}+{xxhash.xxh3_128_hexdigest(name.encode('utf-8', 'surrogatepass'))}"


class _Run:
    """Bytes that grow chunk by chunk, with index and checksum; no step holds the GIL for long."""

    def __init__(self) -> None:
        # Of a BytesIO the whole value can be had without another copy.
        self._buffer = io.BytesIO()
        self._hash = xxhash.xxh3_128()
        self._chunks: dict[tuple[str, str, PartKind], list[Chunk]] = {}

    def begin(self, operator: str, name: str, kind: PartKind) -> list[Chunk]:
        return self._chunks.setdefault((operator, name, kind), [])

    def add(self, operator: str, name: str, kind: PartKind, group: int, data: bytes) -> None:
        self.begin(operator, name, kind).append(Chunk(group, self._buffer.tell(), len(data)))
        self._buffer.write(data)
        self._hash.update(data)

    def data(self) -> bytes:
        return self._buffer.getvalue()

    def checksum(self) -> str:
        return self._hash.hexdigest()

    def parts(self) -> tuple[StatePart, ...]:
        return tuple(StatePart(*identity, tuple(chunks)) for identity, chunks in self._chunks.items())
