"""Which columns does a table of aggregates have, and what are they called in a snapshot?

A key column `city` is `by_city`, the sum of a column `cents` is `sum_cents`. Columns that differ in what they are have
different names, so a table that is restored is matched by names alone.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from cutwater.errors import SerializationError
from cutwater.protocol.state_layout import StateLayout
from cutwater.state.columnar.buffers import is_string, is_text, plain_type
from cutwater.state.columnar.value_columns import Kind, value_column

_KEY = "by_"


@dataclass(frozen=True, slots=True)
class ValueLayout:
    """One aggregated value: its name, and what it is of which type of input (None: of the rows themselves)."""

    name: str
    kind: Kind
    inputs: pa.DataType | None

    @property
    def stored(self) -> pa.DataType:
        return value_column(self.kind, self.inputs).output


@dataclass(frozen=True, slots=True)
class TableLayout:
    """The columns of a table."""

    keys: tuple[pa.Field, ...]
    values: tuple[ValueLayout, ...]

    @property
    def schema(self) -> pa.Schema:
        keys = [pa.field(_KEY + field.name, plain_type(field.type)) for field in self.keys]
        return pa.schema([*keys, *(pa.field(value.name, value.stored) for value in self.values)])

    @property
    def described(self) -> StateLayout:
        """The layout as a manifest has it. The order of the key's parts counts: a key's group depends on it."""
        parts = len(self.keys)
        keys = [
            (_KEY + field.name, f"part {number} of {parts} of the key, {_family(plain_type(field.type))}")
            for number, field in enumerate(self.keys, 1)
        ]
        return (*keys, *((value.name, _family(value.stored)) for value in self.values))

    def matched(self, batch: pa.RecordBatch, *, operator: str) -> pa.RecordBatch:
        """The columns of a restored table that this one has, by their names; raises when they are not what it needs."""
        wanted, found = self.schema, batch.schema
        fits = _keys_in(found) == _keys_in(wanted) and all(
            field.name in found.names and _family(found.field(field.name).type) == _family(field.type)
            for field in wanted
        )
        if fits:
            picked = batch.select(wanted.names)
            try:
                return picked if picked.schema.equals(wanted) else picked.cast(wanted)
            except (pa.ArrowException, ValueError) as error:
                raise _misfit(operator, found, wanted) from error
        raise _misfit(operator, found, wanted)


def _misfit(operator: str, found: pa.Schema, wanted: pa.Schema) -> SerializationError:
    return SerializationError(
        f'the restored state of operator "{operator}" doesn\'t fit its keys and aggregates',
        detail=f"the snapshot has {_one_line(found)}; the program needs {_one_line(wanted)}",
        hint="restore with the keys and aggregates that the snapshot was taken with, or give a new uid",
    )


def _keys_in(schema: pa.Schema) -> list[str]:
    return [name for name in schema.names if name.startswith(_KEY)]


def _family(kind: pa.DataType) -> str:
    """Types whose values are the same, and have the same key groups, count as one."""
    if is_text(kind):
        return "text" if is_string(kind) else "binary"
    if pa.types.is_integer(kind):
        return "whole number"
    return "float" if pa.types.is_floating(kind) else str(kind)


def _one_line(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name} {field.type}" for field in schema)
