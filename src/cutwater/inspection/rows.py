"""How does the state of any snapshot become rows?

Of every form the same table comes out: `key_group`, `key`, `namespace` where a key has several entries, `value`; of
columnar state the columns it has; of operator state the number and the bytes of each item.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import closing

import pyarrow as pa

from cutwater.canonical import TEXT_SUFFIX, to_batch, with_group
from cutwater.inspection.snapshots import StatePart
from cutwater.snapshots.format import DatabaseFiles
from cutwater.snapshots.format import StatePart as ChunkedPart
from cutwater.snapshots.reader import DatabaseRestore, read_parts
from cutwater.snapshots.storage import Storage, open_storage, split_url
from cutwater.snapshots.tables import TablesRestore
from cutwater.state.heap_rows import canonical_kind, entries_of, in_rows
from cutwater.state.rocksdb.database import open_frozen
from cutwater.state.rocksdb.rows import rows_of
from cutwater.state.values import load_pairs

ROWS_MAX = 65_536
_ALL_GROUPS = range(1 << 15)


def read(part: StatePart) -> Iterator[pa.RecordBatch]:
    """The rows of a part in the form of savepoints. Reads, and may block."""
    root, folder = split_url(part.url)
    storage = open_storage(root)
    for chunked in part.task.parts:
        yield from _of_chunks(read_parts(storage, folder, part.task), chunked)
    for database in part.task.databases:
        yield from _of_database(storage, folder, database, part.state)
    tables = TablesRestore(storage, folder, [part.task], part.operator, _ALL_GROUPS)
    yield from tables.batches()


def readable(batch: pa.RecordBatch) -> pa.RecordBatch:
    """For people and SQL: the text of a value in place of its pickle."""
    columns = {name: batch.column(name) for name in batch.schema.names}
    for name in [name for name in columns if name.endswith(TEXT_SUFFIX) and name.removesuffix(TEXT_SUFFIX) in columns]:
        columns[name.removesuffix(TEXT_SUFFIX)] = columns.pop(name)
    return pa.RecordBatch.from_arrays(list(columns.values()), list(columns))


def _of_chunks(data: bytes, part: ChunkedPart) -> Iterator[pa.RecordBatch]:
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
            for entry in entries_of(kind, load_pairs(chunk, state=part.name, group=group))
        )
        for rows in in_rows(part.name, canonical_kind(kind), entries, ROWS_MAX):
            yield to_batch(rows)


def _of_database(storage: Storage, folder: str, database: DatabaseFiles, state: str) -> Iterator[pa.RecordBatch]:
    with tempfile.TemporaryDirectory(prefix="cutwater-state-") as local:
        DatabaseRestore(storage, folder, database, None, is_ours=False).fetch(local)
        with closing(open_frozen(local)) as entries:
            for rows in rows_of(entries, database.kinds, ROWS_MAX, only=state):
                yield to_batch(rows)
