"""How do Python values become typed batches, and how is a promised schema kept?"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from operator import attrgetter
from typing import Any

import pyarrow as pa

from cutwater.batches import Batch, ObjectBatch, times_of, with_times, without_time_column
from cutwater.errors import SchemaError
from cutwater.operators.contract import Operator
from cutwater.operators.user_code import shown
from cutwater.state.columnar.buffers import is_string, is_text, plain_type


class WithSchemaOperator(Operator):
    """Every batch as a typed batch of one schema: values become rows, typed batches must fit."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema

    def process(self, batch: Batch, port: int) -> None:
        if isinstance(batch, ObjectBatch):
            typed = self._typed(batch.values)
        else:
            typed = conforming(without_time_column(batch), self._schema, operator=self.context.name)
        self.context.emit(with_times(typed, times_of(batch)))

    def _typed(self, values: list[Any]) -> pa.RecordBatch:
        fields = list(self._schema)
        columns = []
        for position, field in enumerate(fields):
            found = self._values_of(field.name, position, values, alone=len(fields) == 1)
            columns.append(self._array(found, field, values))
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)

    def _values_of(self, name: str, position: int, values: list[Any], *, alone: bool) -> list[Any]:
        getters: dict[type, Callable[[Any], Any]] = {}
        found = []
        for value in values:
            getter = getters.get(type(value))
            if getter is None:
                getter = getters[type(value)] = _getter(value, name, position, alone=alone)
            try:
                found.append(getter(value))
            except (KeyError, IndexError, AttributeError, TypeError) as error:
                raise SchemaError(
                    f'a record of operator "{self.context.name}" has no field "{name}"',
                    detail=f"{type(error).__name__}: {error}; the record: {shown(value)}",
                    hint="records are dicts, dataclasses, named tuples, or tuples in the order of the schema's columns",
                ) from error
        return found

    def _array(self, found: list[Any], field: pa.Field, values: list[Any]) -> pa.Array:
        try:
            return pa.array(found, type=field.type)
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            culprit = next((row for row, value in enumerate(found) if not _fits(value, field.type)), 0)
            raise SchemaError(
                f'a record of operator "{self.context.name}" doesn\'t fit its schema',
                detail=f'"{field.name}" is {field.type}, not {found[culprit]!r}; the record: {shown(values[culprit])}',
                hint=str(error).partition("\n")[0],
            ) from error


def conforming(batch: pa.RecordBatch, schema: pa.Schema, *, operator: str) -> pa.RecordBatch:
    """The columns of this schema, cast to its types; raises when one is missing or has a value that can't be cast."""
    if batch.schema.equals(schema):
        return batch
    try:
        return batch.select(schema.names).cast(schema)
    except (KeyError, ValueError, pa.ArrowException) as error:
        raise SchemaError(
            f'a batch of operator "{operator}" doesn\'t fit its schema',
            detail=f"{error}; wanted: {one_line(schema)}; found: {one_line(batch.schema)}",
            hint="let every batch have the same columns and types, or change the schema",
        ) from error


def as_promised(batch: pa.RecordBatch, schema: pa.Schema, *, operator: str) -> pa.RecordBatch:
    """The batch with exactly this schema; raises when it has other columns, or columns of other types.

    Another order of the columns, another layout of the same texts, and a column without a single value are no other.
    """
    if batch.schema.equals(schema):
        return batch
    problems = _differences(batch.schema, schema)
    if not problems:
        return conforming(batch, schema, operator=operator)
    raise SchemaError(
        f'a batch of operator "{operator}" doesn\'t have the promised schema',
        detail=f"{'; '.join(problems)}. Promised: {one_line(schema)}; found: {one_line(batch.schema)}",
        hint="return what schema=… says, e.g. batch.select(schema.names).cast(schema), or change schema=…",
    )


def _differences(found: pa.Schema, promised: pa.Schema) -> list[str]:
    missing = [f'"{name}" is missing' for name in promised.names if name not in found.names]
    extra = [f'"{name}" was not promised' for name in found.names if name not in promised.names]
    twice = [f'"{name}" is there twice' for name in promised.names if found.names.count(name) > 1]
    if missing or extra or twice:
        return [*missing, *extra, *twice]
    return [
        f'"{field.name}" is {found.field(field.name).type}, not {field.type}'
        for field in promised
        if not _same_values(found.field(field.name).type, field.type)
    ]


def _same_values(found: pa.DataType, promised: pa.DataType) -> bool:
    """Types that hold the same values, differently laid out; nulls alone are values of any type."""
    found, promised = plain_type(found), plain_type(promised)
    if pa.types.is_null(found) or found.equals(promised):
        return True
    if is_text(found) and is_text(promised):
        return is_string(found) == is_string(promised)
    if pa.types.is_struct(found) and pa.types.is_struct(promised):
        names = [field.name for field in found]
        return names == [field.name for field in promised] and all(
            _same_values(one.type, other.type) for one, other in zip(found, promised, strict=True)
        )
    if _is_list(found) and _is_list(promised):
        return _same_values(found.value_type, promised.value_type)
    return False


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind))


def one_line(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name} {field.type}" for field in schema)


def _getter(value: Any, name: str, position: int, *, alone: bool) -> Callable[[Any], Any]:
    if isinstance(value, dict):
        return lambda record: record[name]
    if hasattr(value, "_fields") or dataclasses.is_dataclass(value):
        return attrgetter(name)
    if isinstance(value, tuple | list):
        return lambda record: record[position]
    if hasattr(value, name):
        return attrgetter(name)
    return (lambda record: record) if alone else attrgetter(name)


def _fits(value: Any, kind: pa.DataType) -> bool:
    try:
        pa.array([value], type=kind)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        return False
    return True
