"""How is the first typed job spared the compiler?

Every kernel is called once with a few rows of each kind that it knows; Numba keeps what it compiles on disk.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from cutwater.operators.columnar.slices import Slices
from cutwater.state.columnar.grouping import group_rows
from cutwater.state.columnar.key_groups import RowRouting
from cutwater.state.columnar.layout import TableLayout, ValueLayout
from cutwater.state.columnar.table import AggregateTable, FrozenTables, restored_tables

_TEXT = pa.array(["a", "b", "a"])
_KEYS = {
    "text": [_TEXT],
    "encoded text": [_TEXT.dictionary_encode()],
    "whole numbers": [pa.array([1, 2, 1])],
    "tuples": [_TEXT, pa.array([1, 2, 1])],
}
_VALUES = (
    ValueLayout("count_0", "count", None),
    ValueLayout("sum_1", "sum", pa.int64()),
    ValueLayout("sum_2", "sum", pa.float64()),
    ValueLayout("min_3", "min", pa.int64()),
    ValueLayout("max_4", "max", pa.float64()),
)


def warm_up() -> Iterator[str]:
    """Compiles, or loads, every kernel; yields what comes next. Takes some twenty seconds the first time."""
    for name, keys in _KEYS.items():
        yield f"keys: {name}"
        _use(keys)
    yield "slices of event time"
    Slices(10, 5).numbers_of(np.array([1, 7], dtype=np.int64))


def _use(keys: list[pa.Array]) -> None:
    fields = tuple(pa.field(str(position), key.type) for position, key in enumerate(keys))
    layout = TableLayout(fields, _VALUES)
    rows = len(keys[0])
    inputs = [None if value.inputs is None else pa.array([1] * rows, type=value.inputs) for value in _VALUES]
    table = AggregateTable(layout)
    slots = table.add(keys, inputs)
    for column, values in zip(table.values, inputs, strict=True):
        column.run(slots, values)
    group_rows(keys, np.arange(rows))
    RowRouting(max_parallelism=8, receivers=2).parts(pa.RecordBatch.from_arrays([keys[0]], ["key"]), keys)
    frozen = FrozenTables("state", layout, 8)
    frozen.add(table)
    restored_tables(list(frozen.chunks()), "state", layout, operator="warm-up")
