"""How is the state of built-in aggregates kept as columns, frozen and restored?

A table has one row per key: the key's columns and one column per aggregated value. To freeze it is to copy the values,
a few milliseconds for a million keys; keys never change and are shared. In a snapshot it is Arrow, a part for each key
group.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from cutwater.canonical import StateKind, to_stream, with_group
from cutwater.errors import SerializationError
from cutwater.state.columnar.buffers import Codes
from cutwater.state.columnar.key_groups import RowGroups
from cutwater.state.columnar.key_index import KeyIndex
from cutwater.state.columnar.layout import TableLayout
from cutwater.state.columnar.value_columns import ValueColumn, value_column

_NAMESPACE = "namespace"
"""Of a state that has several tables; a single one goes without."""
_PORTION_ROWS = 65_536

Span = tuple[int, int, int]
"""A key group, and from where to where it is."""


class GroupOrder:
    """Where the rows of each key group are in a table. Known as long as no key is added: none is ever removed."""

    def __init__(self) -> None:
        self._known: tuple[int, int, Codes, list[Span]] | None = None

    def of(self, keys: Sequence[pa.Array], max_parallelism: int) -> tuple[Codes, list[Span]]:
        """All rows by their group, and from where to where in that order each group is. By any thread."""
        rows, known = len(keys[0]), self._known
        if known is None or known[:2] != (rows, max_parallelism):
            groups = RowGroups(max_parallelism).of(keys)
            order = np.argsort(groups.astype(np.int16), kind="stable").astype(np.int32)  # 16 bits: sorted by counting
            starts = np.flatnonzero(np.diff(groups[order], prepend=-1))
            ends = [*starts[1:].tolist(), rows]
            spans = list(zip(groups[order[starts]].tolist(), starts.tolist(), ends, strict=True))
            known = self._known = (rows, max_parallelism, order, spans)
        return known[2], known[3]


class AggregateTable:
    """The values of all keys. Used by the loop's thread only."""

    def __init__(self, layout: TableLayout) -> None:
        self.layout = layout
        self._index = KeyIndex([field.type for field in layout.keys])
        self.group_order = GroupOrder()
        self.values: list[ValueColumn] = [value_column(value.kind, value.inputs) for value in layout.values]

    def __len__(self) -> int:
        return self._index.count

    def slots_of(self, keys: Sequence[pa.Array]) -> Codes:
        """Each row's slot, with room in all value columns. No nulls."""
        slots = self._index.slots_of(keys)
        for column in self.values:
            column.make_room(self._index.count)
        return slots

    def add(self, keys: Sequence[pa.Array], inputs: Sequence[pa.Array | None]) -> Codes:
        """Updates the values of each row's key; the rows' slots."""
        slots = self.slots_of(keys)
        for column, values in zip(self.values, inputs, strict=True):
            column.add(slots, values)
        return slots

    def as_batch(self) -> pa.RecordBatch:
        """All keys and their values as they are now; later changes don't show in it."""
        everything = slice(0, len(self))
        values = [column.results(everything) for column in self.values]
        return pa.RecordBatch.from_arrays([*self._index.keys(), *values], schema=self.layout.schema)

    def merge(self, other: pa.RecordBatch) -> None:
        """Adds what `as_batch` of another table of this layout gave."""
        keys = len(self.layout.keys)
        self.add(other.columns[:keys], other.columns[keys:])


class FrozenTables:
    """Tables of one operator as they were at a barrier, each with its namespace (a window): a `FrozenKeyedState`."""

    database = None

    def __init__(self, name: str, layout: TableLayout, max_parallelism: int) -> None:
        self._name = name
        self._layout = layout
        self._max_parallelism = max_parallelism
        self._tables: list[tuple[int, pa.RecordBatch, GroupOrder]] = []

    def add(self, table: AggregateTable, namespace: int = 0) -> None:
        if len(table):
            self._tables.append((namespace, table.as_batch(), table.group_order))

    @property
    def kinds(self) -> dict[str, str]:
        return {self._name: "columns"}

    def chunks(self) -> Iterator[tuple[str, int, bytes]]:
        """(state name, key group, an Arrow stream), ordered by group."""
        for group, rows in self._by_group():
            yield self._name, group, to_stream(rows)

    def tables(self, rows_max: int) -> Iterator[tuple[str, StateKind, pa.RecordBatch]]:
        """(state name, kind, rows with their key group in front), ordered by group."""
        for group, rows in self._by_group():
            for first in range(0, rows.num_rows, rows_max):
                part = rows.slice(first, rows_max)
                yield self._name, "columns", with_group(part, group)

    def _by_group(self) -> Iterator[tuple[int, pa.RecordBatch]]:
        tables, self._tables = self._tables, []
        if not tables:
            return
        if [namespace for namespace, _, _ in tables] == [0]:
            _, whole, group_order = tables.pop()
        else:
            whole = pa.concat_batches(
                [_with_namespaces(batch, _repeated(namespace, batch.num_rows)) for namespace, batch, _ in tables]
            )
            group_order = GroupOrder()
        first_key = whole.num_columns - len(self._layout.schema)
        keys = whole.columns[first_key : first_key + len(self._layout.keys)]
        order, spans = group_order.of(keys, self._max_parallelism)
        for portion in _portions(spans):
            first, last = portion[0][1], portion[-1][2]
            rows = whole.take(pa.array(order[first:last]))
            for group, start, end in portion:
                yield group, rows.slice(start - first, end - start)


def _portions(spans: list[Span]) -> Iterator[list[Span]]:
    """Groups that are taken at once: one by one takes longer, all together would be a copy of everything."""
    portion: list[Span] = []
    for span in spans:
        portion.append(span)
        if span[2] - portion[0][1] >= _PORTION_ROWS:
            yield portion
            portion = []
    if portion:
        yield portion


def restored_tables(
    chunks: Iterable[tuple[str, int, bytes]], name: str, layout: TableLayout, *, operator: str
) -> dict[int, AggregateTable]:
    """The tables that `FrozenTables` held, by namespace. Raises for state of any other name: it must not be lost."""
    batches = []
    for found, _, data in chunks:
        if found != name:
            raise SerializationError(
                f'the restored state of operator "{operator}" is not columnar',
                detail=f'the snapshot has its state "{found}", which was written on Python values',
                hint="give the operator a new uid to start it empty, or keep the stream untyped",
            )
        batches.append(_from_bytes(data, layout, operator=operator))
    if not batches:
        return {}
    whole = pa.concat_batches(batches)
    namespaces = whole.column(_NAMESPACE).to_numpy()
    rows = whole.drop_columns([_NAMESPACE])
    tables: dict[int, AggregateTable] = {}
    for namespace in np.unique(namespaces).tolist():
        tables[namespace] = AggregateTable(layout)
        tables[namespace].merge(rows.filter(pa.array(namespaces == namespace)))
    return tables


def _with_namespaces(batch: pa.RecordBatch, namespaces: pa.Array) -> pa.RecordBatch:
    schema = batch.schema.insert(0, pa.field(_NAMESPACE, pa.int64()))
    return pa.RecordBatch.from_arrays([namespaces, *batch.columns], schema=schema)


def _repeated(namespace: int, rows: int) -> pa.Array:
    return pa.array(np.full(rows, namespace, dtype=np.int64))


def _from_bytes(data: bytes, layout: TableLayout, *, operator: str) -> pa.RecordBatch:
    try:
        with pa.ipc.open_stream(data) as reader:
            batch = reader.read_next_batch()
    except (pa.ArrowException, ValueError, StopIteration) as error:
        raise SerializationError(
            f'the restored state of operator "{operator}" is not a table', detail=str(error)
        ) from error
    rows = layout.matched(batch, operator=operator)
    namespaces = batch.column(_NAMESPACE) if _NAMESPACE in batch.schema.names else _repeated(0, rows.num_rows)
    return _with_namespaces(rows, namespaces)
