"""How does a batch shrink before it is sent?

Rows of one key (and one slice of event time) become one row of stored values, which the receiver merges.
"""

from __future__ import annotations

import pyarrow as pa

from cutwater.batches import Batch, at_one_time, decoded, latest_of, times_of
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
        slices = self._slices
        numbers = None if slices is None else slices.numbers_of(slice_times_of(batch, self.context.name))
        keys = self._plan.keys_of(batch)
        groups = group_rows(keys, numbers)
        columns = [decoded(key.take(pa.array(groups.first_rows))) for key in keys]
        columns += self._values_of(batch, groups)
        if slices is None or numbers is None:
            made = pa.RecordBatch.from_arrays(columns, schema=self._schema)
            self.context.emit(at_one_time(made, latest_of(times_of(batch))))
        else:
            columns.append(pa.array(slices.starts_of(numbers[groups.first_rows])))
            self.context.emit(pa.RecordBatch.from_arrays(columns, schema=self._schema))

    def _values_of(self, batch: pa.RecordBatch, groups: Groups) -> list[pa.Array]:
        values = []
        for stored, inputs in zip(self._plan.values, self._plan.inputs_of(batch), strict=True):
            column = value_column(stored.kind, stored.layout.inputs)
            column.make_room(groups.count)
            column.add(groups.ids, inputs)
            values.append(column.results(slice(0, groups.count)))
        return values
