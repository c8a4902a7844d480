"""Which columns do built-in aggregates read, keep and give out?

Each aggregate is made of values that can be kept per key and merged: a mean is a sum and a count. Aggregates that need
the same value share it. The plan is made when the job is written, so that what can't work is refused there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cutwater.batches import TIME_COLUMN, decoded, viewless, with_nulls_in_sight
from cutwater.errors import UserError
from cutwater.operators.aggregations import Aggregation, AggregationKind
from cutwater.operators.columns import check_column
from cutwater.state.columnar.buffers import is_text, plain_type
from cutwater.state.columnar.key_index import can_be_indexed
from cutwater.state.columnar.layout import TableLayout, ValueLayout
from cutwater.state.columnar.value_columns import Kind, can_be_aggregated

_PARTIAL = "__partial_"


@dataclass(frozen=True, slots=True)
class StoredValue:
    """A value kept per key: of a column, or of the rows (None)."""

    kind: Kind
    column: str | None
    layout: ValueLayout


@dataclass(frozen=True, slots=True)
class Result:
    """An aggregate in the output, and the stored values that it is made of."""

    name: str
    kind: AggregationKind
    stored: tuple[int, ...]
    type: pa.DataType


@dataclass(frozen=True, slots=True)
class AggregatePlan:
    """Keys, stored values and results of one operator."""

    keys: tuple[pa.Field, ...]
    values: tuple[StoredValue, ...]
    results: tuple[Result, ...]
    #: The stored value that counts rows; always there when it was asked for.
    row_count: int | None

    @property
    def key_names(self) -> list[str]:
        return [field.name for field in self.keys]

    @property
    def layout(self) -> TableLayout:
        return TableLayout(self.keys, tuple(value.layout for value in self.values))

    @property
    def columns(self) -> frozenset[str]:
        """What is read of the input."""
        return frozenset(self.key_names) | {value.column for value in self.values if value.column is not None}

    @property
    def result_fields(self) -> list[pa.Field]:
        return [pa.field(result.name, result.type) for result in self.results]

    @property
    def partial_schema(self) -> pa.Schema:
        """Of rows that were aggregated before the shuffle: the keys and the stored values."""
        keys = [pa.field(field.name, plain_type(field.type)) for field in self.keys]
        return pa.schema([*keys, *(pa.field(name, value.layout.stored) for name, value in self._partials())])

    def keys_of(self, batch: pa.RecordBatch) -> list[pa.Array]:
        return [_without_views(batch.column(name)) for name in self.key_names]

    def inputs_of(self, batch: pa.RecordBatch) -> list[pa.Array | None]:
        """What the stored values are updated with, of rows as they came."""
        return [_input_of(value, batch) for value in self.values]

    def partial_inputs_of(self, batch: pa.RecordBatch) -> list[pa.Array | None]:
        """The same, of rows that were aggregated before the shuffle."""
        return [batch.column(name) for name, _ in self._partials()]

    def partial_row_counts_of(self, batch: pa.RecordBatch) -> pa.Array:
        """How many records each of these rows stands for."""
        assert self.row_count is not None
        return batch.column(self._partials()[self.row_count][0])

    def results_of(self, stored: Sequence[pa.Array]) -> list[pa.Array]:
        """The output's columns, of the stored values of as many keys or rows."""
        return [_result_of(result, stored) for result in self.results]

    def _partials(self) -> list[tuple[str, StoredValue]]:
        return [(f"{_PARTIAL}{position}", value) for position, value in enumerate(self.values)]


def plan_aggregates(
    schema: pa.Schema,
    keys: Sequence[str],
    aggregations: Mapping[str, Aggregation],
    *,
    fixed: Sequence[str] = (),
    count_rows: bool = False,
) -> AggregatePlan | None:
    """None: some key or value can't take the columnar path. Raises when a column isn't there or a name clashes.

    `fixed` are columns that the operator adds to its output itself. `count_rows`: also when no result needs it.
    """
    for name in keys:
        check_column(schema, name, "key_by")
    taken = {*keys, *fixed, TIME_COLUMN}
    planner = _Planner(schema)
    results = []
    for name, aggregation in aggregations.items():
        if name in taken:
            raise UserError(
                f'the result would have two columns "{name}"', hint="give the aggregate another name: aggregate(n=…)"
            )
        taken.add(name)
        result = planner.result(name, aggregation)
        if result is None:
            return None
        results.append(result)
    fields = tuple(pa.field(name, viewless(schema.field(name).type)) for name in keys)
    if not all(can_be_indexed(field.type) for field in fields):
        return None
    row_count = planner.stored("count", None) if count_rows else None
    return AggregatePlan(fields, tuple(planner.values), tuple(results), row_count)


def check_values(schema: pa.Schema | None, aggregations: Mapping[str, Aggregation]) -> None:
    """Raises when a column that is to be aggregated isn't there, or is to be summed and isn't made of numbers."""
    if schema is None:
        return
    for aggregation in aggregations.values():
        column, kind = aggregation.value, aggregation.kind
        if not isinstance(column, str):
            continue
        check_column(schema, column, kind)
        found = plain_type(schema.field(column).type)
        if kind in ("sum", "mean") and not _can_be_added(found):
            convert = (
                f'convert it before: with_columns({column}=cw.col("{column}").cast("float64")); to join texts, reduce'
            )
            raise UserError(
                f'column "{column}" is {found}: {kind} needs numbers',
                hint=convert if is_text(found) else "integers, floats, decimals and durations can be added",
            )


def _can_be_added(kind: pa.DataType) -> bool:
    numbers = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    return bool(numbers or pa.types.is_boolean(kind) or pa.types.is_duration(kind) or pa.types.is_null(kind))


class _Planner:
    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self.values: list[StoredValue] = []

    def result(self, name: str, aggregation: Aggregation) -> Result | None:
        kind, column = aggregation.kind, aggregation.value
        if kind == "count":
            return Result(name, kind, (self.stored("count", None),), pa.int64())
        if not isinstance(column, str):
            return None
        check_column(self._schema, column, kind)
        inputs = plain_type(self._schema.field(column).type)
        if kind == "mean":
            if not can_be_aggregated(inputs, "sum"):
                return None
            # The sum that a mean needs is one of floats, and shared with a sum of the column where that is one, too.
            total = "sum" if pa.types.is_float64(inputs) else "floatsum"
            stored = (self.stored("sum", column, pa.float64(), name=total), self.stored("count", column))
            return Result(name, kind, stored, pa.float64())
        if not can_be_aggregated(inputs, kind):
            return None
        position = self.stored(kind, column, inputs)
        return Result(name, kind, (position,), self.values[position].layout.stored)

    def stored(
        self, kind: Kind, column: str | None, inputs: pa.DataType | None = None, *, name: str | None = None
    ) -> int:
        """`name`: what the value is called in snapshots, if that is not its kind."""
        named = (name or kind) if column is None else f"{name or kind}_{column}"
        value = StoredValue(kind, column, ValueLayout(named, kind, inputs))
        if value not in self.values:
            self.values.append(value)
        return self.values.index(value)


def _without_views(key: pa.Array) -> pa.Array:
    kind = key.type
    plain = viewless(kind)
    return key if plain is kind else key.cast(plain)


def _input_of(value: StoredValue, batch: pa.RecordBatch) -> pa.Array | None:
    if value.column is None:
        return None
    column = with_nulls_in_sight(batch.column(value.column))
    if value.kind != "count":
        return decoded(column)
    # Values that are there: only a column with nulls needs to be looked at.
    return column.is_valid().cast(pa.int64()) if column.null_count else None


def _result_of(result: Result, stored: Sequence[pa.Array]) -> pa.Array:
    if result.kind != "mean":
        return stored[result.stored[0]]
    total, count = (stored[position] for position in result.stored)
    return pc.divide(total, count.cast(pa.float64())) if len(total) else pa.array(np.empty(0))
