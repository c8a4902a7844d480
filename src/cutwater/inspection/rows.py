"""How does the state of any snapshot become rows?

Of every form the same table comes out: `key_group`, `key`, `namespace` where a key has several entries, `value`; of
columnar state the columns it has; of operator state the number and the bytes of each item.

Whose snapshot it is need not be known: no code of it runs. What can be read only by running some, values of the user's
classes, shows as `<pickled, …: needs trust>`, unless the caller trusts its author.
"""

from __future__ import annotations

import pickle
import tempfile
from collections.abc import Iterator
from contextlib import closing
from typing import Any, cast

import pyarrow as pa

from cutwater.canonical import TEXT_SUFFIX, opaque_columns, to_batch, with_group
from cutwater.errors import ConfigurationError, CutwaterError, SnapshotDamagedError
from cutwater.inspection.snapshots import StatePart
from cutwater.operators.windows.model import GlobalWindow, TimeWindow
from cutwater.pickles import Loads, Opaque, plain_loads
from cutwater.protocol.timers import Timer
from cutwater.snapshots.format import DatabaseFiles
from cutwater.snapshots.format import StatePart as ChunkedPart
from cutwater.snapshots.reader import DatabaseRestore, read_parts
from cutwater.snapshots.storage import Storage, open_storage, split_url
from cutwater.snapshots.tables import TablesRestore
from cutwater.state.heap_rows import canonical_kind, entries_of, in_rows
from cutwater.state.rocksdb.database import open_frozen
from cutwater.state.rocksdb.rows import rows_of
from cutwater.state.values import Pair, load_pairs

ROWS_MAX = 65_536
_ALL_GROUPS = range(1 << 15)
_plain_loads = plain_loads(TimeWindow, GlobalWindow, Timer)


def read(part: StatePart, *, trust: bool = False) -> Iterator[pa.RecordBatch]:
    """The rows of a part in the form of savepoints. Reads, and may block; raises `SnapshotDamagedError`.

    `trust`: unpickles values, which runs whatever code the author of the snapshot put there.
    """
    try:
        for batch in _batches(part, loads_for(trust=trust)):
            batch.validate(full=True)  # Arrow believes what a file says of its own buffers
            yield batch
    except CutwaterError:
        raise
    except Exception as error:  # bytes that are as they were written, but not by us
        raise SnapshotDamagedError(
            f'state "{part.state}" of operator "{part.operator}" can\'t be read',
            detail=f"{type(error).__name__}: {error}",
        ) from error


def _batches(part: StatePart, loads: Loads) -> Iterator[pa.RecordBatch]:
    root, folder = split_url(part.url)
    storage = open_storage(root)
    for chunked in part.task.parts:
        yield from _of_chunks(read_parts(storage, folder, part.task), chunked, loads)
    for database in part.task.databases:
        yield from _of_database(storage, folder, database, part.state, loads)
    tables = TablesRestore(storage, folder, [part.task], part.operator, _ALL_GROUPS)
    yield from tables.batches()


def loads_for(*, trust: bool) -> Loads:
    """How pickles of a snapshot are read."""
    return pickle.loads if trust else _plain_loads


def raw(batch: pa.RecordBatch) -> pa.RecordBatch:
    """For programs: everything, or `ConfigurationError` if some values could not be read."""
    opaque = opaque_columns(batch)
    if opaque:
        raise ConfigurationError(
            f'the column "{opaque[0]}" holds pickles that are more than plain data',
            detail="to read them runs the code that their author put there",
            hint='if you trust where the snapshot comes from: .option("trust", "true")',
        )
    return batch


def readable(batch: pa.RecordBatch) -> pa.RecordBatch:
    """For people and SQL: the text of a value in place of its pickle."""
    columns = {name: batch.column(name) for name in batch.schema.names}
    for name in [name for name in columns if name.endswith(TEXT_SUFFIX) and name.removesuffix(TEXT_SUFFIX) in columns]:
        columns[name.removesuffix(TEXT_SUFFIX)] = columns.pop(name)
    return pa.RecordBatch.from_arrays(list(columns.values()), list(columns))


def _of_chunks(data: bytes, part: ChunkedPart, loads: Loads) -> Iterator[pa.RecordBatch]:
    chunks = [(chunk.group, data[chunk.offset : chunk.offset + chunk.length]) for chunk in part.chunks]
    if part.kind != "keyed":
        numbers, items = [number for number, _ in chunks], [item for _, item in chunks]
        yield pa.RecordBatch.from_arrays(
            [pa.array(numbers, pa.int64()), pa.array(items, pa.binary())], ["item", "data"]
        )
    elif part.form == "columns":
        for group, chunk in chunks:
            with pa.ipc.open_stream(chunk) as reader:
                yield with_group(reader.read_next_batch(), group)
    else:
        kind = part.form or "value"
        entries = (
            (group, *entry)
            for group, chunk in chunks
            for entry in entries_of(kind, _pairs(load_pairs(chunk, state=part.name, group=group, loads=loads), kind))
        )
        for rows in in_rows(part.name, canonical_kind(kind), entries, ROWS_MAX):
            yield to_batch(rows)


def _pairs(loaded: Any, kind: str) -> list[Pair]:
    """With one row for what could not be read at all."""
    if isinstance(loaded, Opaque):
        key = {"pane": (loaded, loaded), "timer": (0, loaded, loaded)}.get(kind, loaded)
        return [(key, {loaded: loaded} if kind == "map" else loaded)]
    if kind == "map":
        return [(key, {value: value} if isinstance(value, Opaque) else value) for key, value in loaded]
    return cast(list[Pair], loaded)


def _of_database(
    storage: Storage, folder: str, database: DatabaseFiles, state: str, loads: Loads
) -> Iterator[pa.RecordBatch]:
    with tempfile.TemporaryDirectory(prefix="cutwater-state-") as local:
        DatabaseRestore(storage, folder, database, None, is_ours=False).fetch(local)
        with closing(open_frozen(local)) as entries:
            for rows in rows_of(entries, database.kinds, ROWS_MAX, only=state, loads=loads):
                yield to_batch(rows)
