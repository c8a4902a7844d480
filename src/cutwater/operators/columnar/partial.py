"""How does a batch shrink before it is sent?

Rows of one key (and one slice of event time) become one row of stored values, which the receiver merges. Where that
saves little, because nearly every row has a key of its own, rows are sent as they are, each a partial result of one.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from cutwater.batches import Batch, Times, times_of, with_times
from cutwater.operators.columnar.plan import AggregatePlan
from cutwater.operators.columnar.slices import SLICE_COLUMN, Slices, slice_times_of
from cutwater.operators.contract import Operator
from cutwater.state.columnar.grouping import Groups, group_rows
from cutwater.state.columnar.key_groups import refuse_null_keys
from cutwater.state.columnar.value_columns import value_column


class PartialAggregateOperator(Operator):
    """Keys and stored values of each batch; with `slices`, each slice of event time apart. Keeps nothing."""

    def __init__(self, plan: AggregatePlan, slices: Slices | None = None) -> None:
        self._plan = plan
        self._slices = slices
        schema = plan.partial_schema
        self._schema = schema if slices is None else schema.append(pa.field(SLICE_COLUMN, pa.int64()))

    def process(self, batch: Batch, port: int) -> None:
        assert isinstance(batch, pa.RecordBatch)
        refuse_null_keys(batch, self._plan.key_names, operator=self.context.name)
        starts = None if self._slices is None else self._slices.starts_of(slice_times_of(batch, self.context.name))
        keys = self._plan.keys_of(batch)
        groups = group_rows(keys, None if starts is None else starts // self._step)
        columns = [_plain(key.take(pa.array(groups.first_rows))) for key in keys]
        columns += self._values_of(batch, groups)
        if starts is not None:
            columns.append(pa.array(starts[groups.first_rows]))
        made = pa.RecordBatch.from_arrays(columns, schema=self._schema)
        self.context.emit(made if self._slices is not None else with_latest_time(made, times_of(batch)))

    @property
    def _step(self) -> int:
        assert self._slices is not None
        return self._slices.step_ms

    def _values_of(self, batch: pa.RecordBatch, groups: Groups) -> list[pa.Array]:
        values = []
        for stored, inputs in zip(self._plan.values, self._plan.inputs_of(batch), strict=True):
            column = value_column(stored.kind, stored.layout.inputs)
            column.make_room(groups.count)
            column.add(groups.ids, inputs)
            values.append(column.results(slice(0, groups.count)))
        return values


def with_latest_time(batch: pa.RecordBatch, times: Times | None) -> pa.RecordBatch:
    """Rows that stand for many records: they happened when the last of them did."""
    if times is None or not len(times):
        return batch
    timed: pa.RecordBatch = with_times(batch, np.full(batch.num_rows, times.max(), dtype=np.int64))
    return timed


def _plain(column: pa.Array) -> pa.Array:
    return column.dictionary_decode() if isinstance(column, pa.DictionaryArray) else column
