"""What do select, with_columns and a filter by expression do with a typed batch, and with its event time?

The schemas of their outputs are pure functions of the input's, so that a job knows its types when it is written; the
batches at runtime have exactly these schemas.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from cutwater.batches import TIME_COLUMN, TIME_METADATA, Batch, picked, time_column_of
from cutwater.columns.expressions import Alias, Column, Field
from cutwater.columns.failures import EvaluationFailed, first_offending_row, shown_row
from cutwater.errors import UserError, UserFunctionError
from cutwater.operators.contract import Operator
from cutwater.operators.user_code import NO_RECORD, raise_user_error

Outputs = tuple[tuple[str, Column], ...]
"""Names and expressions of new columns."""


@dataclass(frozen=True, slots=True)
class Projection:
    """What each column of an output is computed from, on inputs of one schema."""

    expressions: tuple[Column, ...]
    schema: pa.Schema


def project(schema: pa.Schema, outputs: Outputs, *, keeps_all: bool, where: str) -> Projection:
    """Checks every expression; raises `UserError` for one that doesn't fit, and for names that can't be.

    `keeps_all`: all columns stay where they are, an output of the same name takes its column's place. Event time that
    no output holds any more is carried on as `__time`, the last column.
    """
    _check_names(outputs, where=where)
    columns: dict[str, Column] = {}
    if keeps_all:
        columns = {name: Field(name) for name in schema.names if name != TIME_COLUMN}
    columns.update(outputs)
    metadata = dict(schema.metadata or {})
    time = time_column_of(schema)
    if time is not None:
        holder = _holder_of(time, columns)
        if holder is None:
            holder = TIME_COLUMN
            columns[TIME_COLUMN] = Field(time)
        metadata[TIME_METADATA] = holder.encode()
    fields = [_field(name, expression, schema, where=where) for name, expression in columns.items()]
    return Projection(tuple(columns.values()), pa.schema(fields, metadata=metadata or None))


def selected_schema(schema: pa.Schema, outputs: Outputs, *, keeps_all: bool, where: str) -> pa.Schema:
    """Of the batches that `SelectOperator` emits for inputs of this schema."""
    return project(schema, outputs, keeps_all=keeps_all, where=where).schema


def filtered_schema(schema: pa.Schema, expression: Column, *, where: str) -> pa.Schema:
    """Of the batches that `FilterRowsOperator` emits: the same; raises `UserError` if it is not a condition."""
    kind = expression.check(schema, where=where)
    if not pa.types.is_boolean(kind):
        raise UserError(
            f'expression "{expression}" of {where} is not a condition',
            detail=f"it gives {kind}, not bool",
            hint="compare it with something, as in col(…) > 0",
        )
    return schema


def check_column(schema: pa.Schema, name: str, where: str) -> None:
    """Raises when the stream has no such column."""
    if name not in schema.names:
        raise UserError(
            f'the stream has no column "{name}" for {where}',
            detail="its columns: "
            + ", ".join(f"{field.name} {field.type}" for field in schema if field.name != TIME_COLUMN),
        )


class SelectOperator(Operator):
    """New columns from expressions, in place of the old ones or beside them."""

    def __init__(self, outputs: Outputs, keeps_all: bool) -> None:
        self._outputs = outputs
        self._keeps_all = keeps_all
        self._input_schema: pa.Schema | None = None
        self._projection: Projection | None = None

    def process(self, batch: Batch, port: int) -> None:
        typed = _typed(batch, operator=self.context.name)
        if not typed.num_rows:
            return
        projection = self._projection_of(typed.schema)
        arrays = [_evaluate(expression, typed, operator=self.context.name) for expression in projection.expressions]
        for array, field, expression in zip(arrays, projection.schema, projection.expressions, strict=True):
            if array.type != field.type:
                _refuse_type(expression, found=array.type, promised=field.type, operator=self.context.name)
        self.context.emit(pa.RecordBatch.from_arrays(arrays, schema=projection.schema))

    def _projection_of(self, schema: pa.Schema) -> Projection:
        if self._projection is None or not schema.equals(self._input_schema, check_metadata=True):
            where = _where(self.context.name)
            self._projection = project(schema, self._outputs, keeps_all=self._keeps_all, where=where)
            self._input_schema = schema
        return self._projection


class FilterRowsOperator(Operator):
    """The rows for which the expression is true; null drops a row, as in SQL."""

    def __init__(self, expression: Column) -> None:
        self._expression = expression
        self._checked_schema: pa.Schema | None = None

    def process(self, batch: Batch, port: int) -> None:
        typed = _typed(batch, operator=self.context.name)
        if self._checked_schema is None or not typed.schema.equals(self._checked_schema):
            filtered_schema(typed.schema, self._expression, where=_where(self.context.name))
            self._checked_schema = typed.schema
        mask = _evaluate(self._expression, typed, operator=self.context.name)
        if not pa.types.is_boolean(mask.type):
            _refuse_type(self._expression, found=mask.type, promised=pa.bool_(), operator=self.context.name)
        kept = mask.true_count
        if kept:
            self.context.emit(typed if kept == typed.num_rows else picked(typed, mask))


def _where(operator: str) -> str:
    return f'operator "{operator}"'


def _typed(batch: Batch, *, operator: str) -> pa.RecordBatch:
    if isinstance(batch, pa.RecordBatch):
        return batch
    raise UserError(
        f'operator "{operator}" works on columns, but its input has none',
        detail="the stream carries Python values",
        hint="give the stream a schema before, or use map and filter with functions of a record",
    )


def _check_names(outputs: Outputs, *, where: str) -> None:
    seen = set()
    for name, expression in outputs:
        if name == TIME_COLUMN:
            raise UserError(
                f'a column of {where} can\'t be called "{TIME_COLUMN}"',
                detail=f'it is the name under which event time travels; the expression is "{expression}"',
                hint="choose another name; event time goes along by itself",
            )
        if name in seen:
            raise UserError(f'two columns of {where} are called "{name}"', hint="rename one by .alias(…)")
        seen.add(name)


def _holder_of(time: str, columns: dict[str, Column]) -> str | None:
    """The output that passes event time on untouched: under its own name, else the first."""
    holders = [name for name, expression in columns.items() if _passed_on(expression) == time]
    return time if time in holders else next(iter(holders), None)


def _passed_on(expression: Column) -> str | None:
    """The column that an expression only renames."""
    while isinstance(expression, Alias):
        expression = expression.aliased
    return expression.field if isinstance(expression, Field) else None


def _field(name: str, expression: Column, schema: pa.Schema, *, where: str) -> pa.Field:
    """A column that is passed on keeps what is said of it: whether nulls may occur, and its metadata."""
    kind = expression.check(schema, where=where)
    source = _passed_on(expression)
    return pa.field(name, kind) if source is None else schema.field(source).with_name(name)


def _evaluate(expression: Column, batch: pa.RecordBatch, *, operator: str) -> Any:
    try:
        return expression.array(batch)
    except EvaluationFailed as failure:
        if failure.function is None:
            raise expression.explain(failure, batch, where=_where(operator)) from failure.cause
        row = first_offending_row(expression.array, batch, expression.columns)
        raise_user_error(
            failure.cause,
            function=failure.function,
            operator=operator,
            record=NO_RECORD if row is None else _Shown(shown_row(row)),
            moment=f'on a batch, in the expression "{expression}"',
        )


def _refuse_type(expression: Column, *, found: pa.DataType, promised: pa.DataType, operator: str) -> None:
    raise UserFunctionError(
        f'expression "{expression}" of operator "{operator}" changed its type',
        detail=f"{promised} on an empty batch, {found} on this one",
        hint="a function given to apply() must return one type; say which: .apply(f, returns=…)",
    )


class _Shown(str):
    """A record that is already a text."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)
