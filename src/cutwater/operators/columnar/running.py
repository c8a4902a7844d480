"""What are the built-in aggregates per key so far, without Python per record?

One result per record: its key and the values right after it, as the object path gives them. Or one result per key, with
what a batch, or all batches of a while, left behind.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from cutwater.batches import Batch, at_one_time, schema_with_times, times_of, with_times
from cutwater.operators.columnar.plan import AggregatePlan
from cutwater.operators.contract import Operator, OperatorContext, OperatorSnapshot
from cutwater.operators.holding import HoldingOperator
from cutwater.protocol.ids import CheckpointId
from cutwater.protocol.state_layout import StateLayout
from cutwater.state.columnar import key_kernels
from cutwater.state.columnar.buffers import Codes
from cutwater.state.columnar.key_groups import refuse_null_keys
from cutwater.state.columnar.table import AggregateTable, FrozenTables, restored_tables

AGGREGATES_STATE = "aggregates"


class _TableOperator(Operator):
    """One table of aggregates."""

    drops_state_by_name = True

    def __init__(self, plan: AggregatePlan) -> None:
        self._plan = plan

    @property
    def layout(self) -> StateLayout:
        return self._plan.layout.described

    def open(self, context: OperatorContext) -> None:
        super().open(context)
        layout = self._plan.layout
        restored = restored_tables(context.restored_keyed(), AGGREGATES_STATE, layout, operator=context.name)
        self._table = restored.get(0) or AggregateTable(layout)

    def freeze(self, checkpoint: CheckpointId) -> OperatorSnapshot:
        frozen = FrozenTables(AGGREGATES_STATE, self._plan.layout, self.context.max_parallelism)
        frozen.add(self._table)
        return OperatorSnapshot(keyed=frozen, layout=self.layout)

    def _results(self, keys: Sequence[pa.Array], stored: Sequence[pa.Array]) -> pa.RecordBatch:
        columns = [*keys, *self._plan.results_of(stored)]
        names = [*self._plan.key_names, *(result.name for result in self._plan.results)]
        return pa.RecordBatch.from_arrays(columns, names)


class RunningColumnsOperator(_TableOperator):
    """A result for every record."""

    def process(self, batch: Batch, port: int) -> None:
        assert isinstance(batch, pa.RecordBatch)
        refuse_null_keys(batch, self._plan.key_names, operator=self.context.name)
        keys = self._plan.keys_of(batch)
        slots = self._table.slots_of(keys)
        inputs = self._plan.inputs_of(batch)
        stored = [column.run(slots, values) for column, values in zip(self._table.values, inputs, strict=True)]
        self.context.emit(with_times(self._results(keys, stored), times_of(batch)))


class HeldColumnsOperator(HoldingOperator, _TableOperator):
    """A result for every key of the partial rows of a batch, or of all batches of `hold_seconds`."""

    def __init__(self, plan: AggregatePlan, hold_seconds: float) -> None:
        HoldingOperator.__init__(self, hold_seconds)
        _TableOperator.__init__(self, plan)
        #: By slot of the table: UNKNOWN unless its result is held.
        self._marks: Codes = np.empty(0, dtype=np.int32)
        #: Slots, and their keys, whose results are held: some of each batch.
        self._held: list[tuple[Codes, list[pa.Array]]] = []

    def process(self, batch: Batch, port: int) -> None:
        assert isinstance(batch, pa.RecordBatch)
        keys = self._plan.keys_of(batch)
        slots = self._table.add(keys, self._plan.partial_inputs_of(batch))
        rows = self._rows_of_new(slots)
        if len(rows):
            self._held.append((slots[rows], [key.take(pa.array(rows)) for key in keys]))
        self._hold(times_of(batch))

    def _rows_of_new(self, slots: Codes) -> Codes:
        """The first row of each key that isn't held yet. Only marks of held keys are cleaned later: a batch costs what
        its rows cost, however many keys there are."""
        if len(self._marks) < len(self._table):
            more = np.full(2 * len(self._table) - len(self._marks), key_kernels.UNKNOWN, dtype=np.int32)
            self._marks = np.concatenate((self._marks, more))
        rows: Codes = np.empty(len(slots), dtype=np.int32)
        return rows[: key_kernels.first_rows(slots.copy(), self._marks, rows)]

    def _emit_held(self, latest_ms: int | None) -> None:
        held, self._held = self._held, []
        slots = np.concatenate([slots for slots, _ in held])
        self._marks[slots] = key_kernels.UNKNOWN
        keys = [pa.concat_arrays(parts) for parts in zip(*(keys for _, keys in held), strict=True)]
        stored = [column.results(slots) for column in self._table.values]
        self.context.emit(at_one_time(self._results(keys, stored), latest_ms))


def running_schema(plan: AggregatePlan, *, timed: bool) -> pa.Schema:
    """Of the results."""
    schema = pa.schema([*plan.keys, *plan.result_fields])
    return schema_with_times(schema) if timed else schema
