"""Which key group, and which task, does every row of a batch belong to?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cutwater.batches import decoded, picked, with_nulls_in_sight
from cutwater.errors import KeyTypeError
from cutwater.protocol.key_groups import subtask_of
from cutwater.state.columnar import hashing
from cutwater.state.columnar.buffers import Codes, Integers, codes_of, integers_of, is_string, is_text, text_of
from cutwater.state.columnar.compiling import kernel
from cutwater.state.columnar.key_index import identity_of

#: Days and microseconds from the first day of the calendar, which Python counts as 1, to the epoch.
_EPOCH_DAYS = 719_163
_EPOCH_MICROSECONDS = _EPOCH_DAYS * 86_400_000_000
_MICROSECONDS_PER_UNIT = {"s": 1_000_000, "ms": 1_000, "us": 1}


class RowGroups:
    """The key groups of rows; remembers those of the last dictionary. Used by one thread."""

    def __init__(self, max_parallelism: int) -> None:
        self._max_parallelism = max_parallelism
        self._dictionary: tuple[tuple[int, ...], pa.Array, Codes] | None = None

    def of(self, columns: Sequence[pa.Array]) -> Codes:
        """One group per row; the columns have no nulls."""
        if len(columns) > 1:
            return self._of_tuples(columns)
        column = columns[0]
        if isinstance(column, pa.DictionaryArray):
            return self._of_dictionary(column.dictionary)[codes_of(column)]
        return self._of_values(column)

    def _of_dictionary(self, values: pa.Array) -> Codes:
        identity = identity_of(values)
        if self._dictionary is None or self._dictionary[0] != identity:
            self._dictionary = (identity, values, self._of_values(values))
        return self._dictionary[2]

    def _of_values(self, column: pa.Array) -> Codes:
        crcs = hashing.start(len(column), b"")
        _add(crcs, column, framed=False)
        return hashing.finish(crcs, self._max_parallelism)

    def _of_tuples(self, columns: Sequence[pa.Array]) -> Codes:
        crcs = hashing.start(len(columns[0]), b"t")
        for column in columns:
            _add(crcs, decoded(column), framed=True)
        return hashing.finish(crcs, self._max_parallelism)


class RowRouting:
    """Sorts the rows of a batch by the task that they go to."""

    def __init__(self, *, max_parallelism: int, receivers: int) -> None:
        self._groups = RowGroups(max_parallelism)
        self._receivers = receivers
        self._task_of_group: Codes = np.array(
            [subtask_of(group, receivers, max_parallelism) for group in range(max_parallelism)], dtype=np.int32
        )

    def parts(self, batch: pa.RecordBatch, keys: Sequence[pa.Array]) -> list[pa.RecordBatch]:
        """One part per receiver, which may be empty; the rows of each stay in order."""
        order, ends = _sorted_by_task(self._groups.of(keys), self._task_of_group, self._receivers)
        if ends[-1] == 0:
            return [batch.slice(0, 0)] * self._receivers
        full = np.flatnonzero(np.diff(ends, prepend=0) == ends[-1])
        if len(full):  # all to one
            return [batch if task == full[0] else batch.slice(0, 0) for task in range(self._receivers)]
        rows = picked(batch, pa.array(order))
        starts = [0, *ends[:-1].tolist()]
        return [rows.slice(start, end - start) for start, end in zip(starts, ends.tolist(), strict=True)]


@kernel
def _sorted_by_task(
    groups: Codes, task_of_group: Codes, receivers: int
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int64]]:
    """Row numbers, those for task 0 first, and where each task's part ends."""
    counts = np.zeros(receivers, dtype=np.int64)
    for row in range(len(groups)):
        counts[task_of_group[groups[row]]] += 1
    next_place = np.zeros(receivers, dtype=np.int64)
    for task in range(1, receivers):
        next_place[task] = next_place[task - 1] + counts[task - 1]
    order = np.empty(len(groups), dtype=np.int32)
    for row in range(len(groups)):
        task = task_of_group[groups[row]]
        order[next_place[task]] = row
        next_place[task] += 1
    return order, next_place


def refuse_null_keys(batch: pa.RecordBatch, columns: Sequence[str], *, operator: str) -> None:
    """A null is no key: raises for the first row that has one."""
    for name in columns:
        column = with_nulls_in_sight(batch.column(name))
        if column.null_count:
            _refuse_null(batch, name, column, operator)


def _refuse_null(batch: pa.RecordBatch, name: str, column: pa.Array, operator: str) -> NoReturn:
    row = int(np.argmin(column.is_valid().to_numpy(zero_copy_only=False)))
    raise KeyTypeError(
        f'a record on its way to operator "{operator}" has no key',
        detail=f'column "{name}" is null in {batch.slice(row, 1).to_pylist()[0]}',
        hint=f'drop such records, filter(cw.col("{name}").is_valid()), or give them a key with fill_null',
    )


def _add(crcs: hashing.Crcs, column: pa.Array, *, framed: bool) -> None:
    kind = column.type
    if is_text(kind):
        text = text_of(column)
        hashing.add_bytes(crcs, text.offsets, text.data, ord("s" if is_string(kind) else "b"), framed)
        return
    numbers = integers_of(column)
    prefix = b"i"
    if pa.types.is_date32(kind):
        numbers, prefix = numbers + _EPOCH_DAYS, b"di"
    elif pa.types.is_date64(kind):
        numbers, prefix = numbers // 86_400_000 + _EPOCH_DAYS, b"di"
    elif pa.types.is_timestamp(kind):
        numbers = _microseconds(numbers, kind.unit) + _EPOCH_MICROSECONDS
        prefix = b"Di" if kind.tz is None else b"Zi"
    hashing.add_integers(crcs, numbers, np.frombuffer(prefix, dtype=np.uint8), framed)


def _microseconds(numbers: Integers, unit: str) -> Integers:
    """Python's clock is no finer: keys that differ in nanoseconds only share a group."""
    return numbers // 1_000 if unit == "ns" else numbers * _MICROSECONDS_PER_UNIT[unit]
