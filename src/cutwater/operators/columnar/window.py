"""What are the built-in aggregates per key and window of event time, without Python per record?

A table of aggregates for each slice of event time that may still change. When the watermark passes the end of a window,
its slices are merged and its rows leave; a slice that no open window needs is dropped as a whole.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cutwater.batches import Batch, schema_with_times
from cutwater.operators.columnar.plan import AggregatePlan
from cutwater.operators.columnar.slices import SLICE_COLUMN, Slices, slice_times_of
from cutwater.operators.contract import Operator, OperatorContext, OperatorSnapshot
from cutwater.operators.key_time import KeyTime
from cutwater.protocol.ids import CheckpointId
from cutwater.state.columnar.buffers import Integers, plain_type
from cutwater.state.columnar.key_groups import RowGroups, refuse_null_keys
from cutwater.state.columnar.table import AggregateTable, FrozenTables, restored_tables

SLICES_STATE = "slices"
WINDOW_START, WINDOW_END = "window_start", "window_end"
WINDOW_TIME = pa.timestamp("ms", "UTC")
ROWS_PER_RESULT_MAX = 65_536


class WindowColumnsOperator(Operator):
    """Takes rows that were aggregated before the shuffle; with a tag for late records, rows as they came."""

    def __init__(self, plan: AggregatePlan, slices: Slices, late_tag: str | None = None) -> None:
        self._plan = plan
        self._slices = slices
        self._late_tag = late_tag
        self._partial = late_tag is None
        self._schema = window_schema(plan)

    def open(self, context: OperatorContext) -> None:
        super().open(context)
        self._tables = restored_tables(context.restored_keyed(), SLICES_STATE, self._plan.layout, operator=context.name)
        self._key_time = KeyTime(context)
        self._groups = RowGroups(context.max_parallelism)

    def process(self, batch: Batch, port: int) -> None:
        assert isinstance(batch, pa.RecordBatch)
        if not self._partial:
            refuse_null_keys(batch, self._plan.key_names, operator=self.context.name)
        if self._key_time.some_are_ahead:
            for part in self._key_time.parts_by_group(batch, self._groups.of(self._plan.keys_of(batch))):
                self._take(part)
        else:
            self._take(batch)

    def _take(self, batch: pa.RecordBatch) -> None:
        """Rows whose keys have come equally far."""
        if self._partial:
            starts: Integers = batch.column(SLICE_COLUMN).to_numpy()
        else:
            times = slice_times_of(batch, self.context.name)
            starts = self._slices.starts_of(self._slices.numbers_of(times))
        found = np.unique(starts).tolist()
        if len(found) == 1:
            self._add(found[0], batch)
            return
        for start in found:
            self._add(start, batch.take(pa.array(np.flatnonzero(starts == start))))

    def on_watermark(self, timestamp_ms: int) -> None:
        for window in self._due(timestamp_ms):  # before time advances: what keys had reached by then, they have fired
            self._fire(window)
        self._key_time.advance(timestamp_ms)
        for start in [start for start in self._tables if self._is_over(self._slices.last_window_of(start))]:
            del self._tables[start]

    def freeze(self, checkpoint: CheckpointId) -> OperatorSnapshot:
        frozen = FrozenTables(SLICES_STATE, self._plan.layout, self.context.max_parallelism)
        for start, table in self._tables.items():
            frozen.add(table, start)
        return OperatorSnapshot(keyed=frozen, lists=self._key_time.freeze())

    def _add(self, start: int, rows: pa.RecordBatch) -> None:
        if self._is_over(self._slices.last_window_of(start)):
            self._drop(rows)
            return
        table = self._tables.get(start)
        if table is None:
            table = self._tables[start] = AggregateTable(self._plan.layout)
        inputs = self._plan.partial_inputs_of(rows) if self._partial else self._plan.inputs_of(rows)
        table.add(self._plan.keys_of(rows), inputs)

    def _drop(self, rows: pa.RecordBatch) -> None:
        """Too late for all of their windows."""
        if self._late_tag is not None:
            self.context.emit_side(self._late_tag, rows)
        else:
            self.context.metrics.late_records += pc.sum(self._plan.partial_row_counts_of(rows)).as_py()

    def _due(self, upto_ms: int) -> list[int]:
        """Windows with records that end behind the watermark and up to this time, earliest first."""
        size, since_ms = self._slices.size_ms, self._key_time.watermark_ms
        ended = {
            window
            for start in self._tables
            for window in self._slices.windows_of(start)
            if since_ms < window + size - 1 <= upto_ms
        }
        return sorted(ended)

    def _fire(self, window: int) -> None:
        tables = [self._tables[start] for start in self._slices.slices_of(window) if start in self._tables]
        batch = tables[0].as_batch() if len(tables) == 1 else _merged(tables)
        end = window + self._slices.size_ms
        if self._key_time.some_are_ahead:
            batch = self._without_keys_ahead(batch, end)
        for first in range(0, batch.num_rows, ROWS_PER_RESULT_MAX):
            self.context.emit(self._results(batch.slice(first, ROWS_PER_RESULT_MAX), window, end))

    def _without_keys_ahead(self, batch: pa.RecordBatch, end: int) -> pa.RecordBatch:
        """Without the keys that have passed the end of the window: they gave their result in a former task."""
        reached = self._key_time.of_groups(self._groups.of(batch.columns[: len(self._plan.keys)]))
        return batch.filter(pa.array(reached < end - 1))

    def _results(self, batch: pa.RecordBatch, start: int, end: int) -> pa.RecordBatch:
        keys = len(self._plan.keys)
        bounds = [_repeated(start, batch.num_rows), _repeated(end, batch.num_rows)]
        columns = [*batch.columns[:keys], *bounds, *self._plan.results_of(batch.columns[keys:])]
        times = pa.array(np.full(batch.num_rows, end - 1, dtype=np.int64))
        return pa.RecordBatch.from_arrays([*columns, times], schema=self._schema)

    def _is_over(self, window: int) -> bool:
        return window + self._slices.size_ms - 1 <= self._key_time.now_ms


def window_schema(plan: AggregatePlan) -> pa.Schema:
    """Of the results."""
    keys = [pa.field(field.name, plain_type(field.type)) for field in plan.keys]
    bounds = [pa.field(WINDOW_START, WINDOW_TIME), pa.field(WINDOW_END, WINDOW_TIME)]
    return schema_with_times(pa.schema([*keys, *bounds, *plan.result_fields]))


def _merged(tables: Sequence[AggregateTable]) -> pa.RecordBatch:
    whole = AggregateTable(tables[0].layout)
    for table in tables:
        whole.merge(table.as_batch())
    return whole.as_batch()


def _repeated(timestamp_ms: int, rows: int) -> pa.Array:
    return pa.array(np.full(rows, timestamp_ms, dtype=np.int64)).view(WINDOW_TIME)
