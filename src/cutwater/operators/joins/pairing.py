"""What does a pair of records look like?

What `select` makes of the two; else one row with the columns of both sides, if both are typed; else a tuple of the two.
A side that is missing (outer joins) is None, and its columns are null.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np
import pyarrow as pa

from cutwater.batches import Batch, ObjectBatch, Times, rows_of, with_times, without_time_column
from cutwater.errors import GraphError, UserError
from cutwater.operators.user_code import last_taken, raise_user_error

LEFT, RIGHT = 0, 1
_SUFFIX = "_right"


class Pairing(Protocol):
    """Turns records into what waits for a partner, and pairs of these into batches. Never blocks."""

    #: A pair holds the very objects that it is made of, or a function gets them.
    hands_on_rows: ClassVar[bool]

    def rows_of(self, batch: Batch, port: int, *, operator: str) -> list[Any]:
        """The records of a batch in the form in which they wait."""
        ...

    def batch_of(self, lefts: list[Any], rights: list[Any], times: list[int] | None, *, operator: str) -> Batch:
        """The pairs, in order; None stands for a missing side. No times: nobody has assigned any."""
        ...


@dataclass(frozen=True, slots=True)
class TuplePairing:
    """(left, right)."""

    hands_on_rows: ClassVar[bool] = True

    def rows_of(self, batch: Batch, port: int, *, operator: str) -> list[Any]:
        return rows_of(batch)

    def batch_of(self, lefts: list[Any], rights: list[Any], times: list[int] | None, *, operator: str) -> Batch:
        return ObjectBatch(list(zip(lefts, rights, strict=True)), _array_of(times))


@dataclass(frozen=True, slots=True)
class SelectPairing:
    """What the user's function makes of the two."""

    hands_on_rows: ClassVar[bool] = True

    select: Callable[[Any, Any], Any]

    def rows_of(self, batch: Batch, port: int, *, operator: str) -> list[Any]:
        return rows_of(batch)

    def batch_of(self, lefts: list[Any], rights: list[Any], times: list[int] | None, *, operator: str) -> Batch:
        select = self.select
        pairs = list(zip(lefts, rights, strict=True))
        remaining = iter(pairs)
        try:
            values = [select(left, right) for left, right in remaining]
        except Exception as error:
            raise_user_error(
                error, function=select, operator=operator, record=last_taken(pairs, remaining), moment="on a pair"
            )
        return ObjectBatch(values, _array_of(times))


class ColumnPairing:
    """One row of the columns of both sides: the key once, and a name of the right that the left has too with a suffix.

    The names of the left's key stand for both: where the left is missing they hold the key of the right.
    """

    hands_on_rows: ClassVar[bool] = False

    def __init__(
        self, left: pa.Schema, right: pa.Schema, *, left_key: tuple[str, ...] = (), right_key: tuple[str, ...] = ()
    ) -> None:
        """The keys are columns that equal each other pair by pair; empty: the key is no column."""
        assert len(left_key) == len(right_key)
        self._inputs = _without_time(left), _without_time(right)
        key_types = [
            _common_type(self._inputs[LEFT].field(one), self._inputs[RIGHT].field(other))
            for one, other in zip(left_key, right_key, strict=True)
        ]
        self._sides = (
            _Side(self._inputs[LEFT], dict(zip(left_key, key_types, strict=True))),
            _Side(self._inputs[RIGHT], dict(zip(right_key, key_types, strict=True))),
        )
        left_names, right_names = self._sides[LEFT].names, self._sides[RIGHT].names
        #: For a missing left: the position in the right row of each of its columns, or -1.
        right_of = {one: right_names.index(other) for one, other in zip(left_key, right_key, strict=True)}
        self._left_from_right = [right_of.get(name, -1) for name in left_names]
        self._right_kept = [index for index, name in enumerate(right_names) if name not in right_key]
        self.schema = self._joined_schema()

    def rows_of(self, batch: Batch, port: int, *, operator: str) -> list[Any]:
        self._check(batch, port, operator)
        return self._sides[port].rows_of(without_time_column(batch))

    def batch_of(self, lefts: list[Any], rights: list[Any], times: list[int] | None, *, operator: str) -> Batch:
        if None in lefts:
            lefts = [self._left_of(right) if left is None else left for left, right in zip(lefts, rights, strict=True)]
        if None in rights:
            missing = (None,) * len(self._sides[RIGHT].names)
            rights = [missing if right is None else right for right in rights]
        right_columns = list(zip(*rights, strict=True))
        columns = [*zip(*lefts, strict=True), *(right_columns[index] for index in self._right_kept)]
        storage_types = [*self._sides[LEFT].storage, *(self._sides[RIGHT].storage[index] for index in self._right_kept)]
        arrays = [
            _from_storage(pa.array(values, storage), field.type)
            for values, storage, field in zip(columns, storage_types, self.schema, strict=True)
        ]
        batch = pa.RecordBatch.from_arrays(arrays, schema=self.schema)
        return with_times(batch, _array_of(times))

    def _left_of(self, right: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(None if index < 0 else right[index] for index in self._left_from_right)

    def _joined_schema(self) -> pa.Schema:
        fields = list(self._sides[LEFT].fields)
        taken = {field.name for field in fields}
        for index in self._right_kept:
            field = self._sides[RIGHT].fields[index]
            name = field.name
            while name in taken:
                name += _SUFFIX
            taken.add(name)
            fields.append(field.with_name(name))
        return pa.schema(fields)

    def _check(self, batch: Batch, port: int, operator: str) -> None:
        expected = self._inputs[port]
        found = None if isinstance(batch, ObjectBatch) else without_time_column(batch).schema
        if found is not None and found.equals(expected):
            return
        if found is not None and found.names == expected.names and found.types == expected.types:
            return  # they differ in what may be null
        came = "Python values" if found is None else _described(found)
        raise UserError(
            f'a batch of the {"left" if port == LEFT else "right"} side of operator "{operator}" has other columns',
            detail=f"expected: {_described(expected)}; found: {came}",
            hint="a typed stream has one schema; give select=… to join whatever comes",
        )


class _Side:
    """How the rows of one side wait: plain tuples, with times and dates as the integers they are stored as."""

    def __init__(self, schema: pa.Schema, key_types: dict[str, pa.DataType]) -> None:
        self.names: list[str] = schema.names
        self.fields = [
            pa.field(field.name, key_types.get(field.name, _plain(field.type)), metadata=field.metadata)
            for field in schema
        ]
        self.storage = [_storage_type(field.type) for field in self.fields]

    def rows_of(self, batch: pa.RecordBatch) -> list[Any]:
        columns = [
            _to_storage(column, field.type, storage).to_pylist()
            for column, field, storage in zip(batch.columns, self.fields, self.storage, strict=True)
        ]
        return list(zip(*columns, strict=True))


def pairing_of(
    select: Callable[[Any, Any], Any] | None,
    schemas: Sequence[pa.Schema | None],
    *,
    left_key: tuple[str, ...],
    right_key: tuple[str, ...],
) -> TuplePairing | SelectPairing | ColumnPairing:
    """By what is known when the job is written."""
    left, right = schemas
    if select is not None:
        return SelectPairing(select)
    if left is None or right is None:
        return TuplePairing()
    if not (left_key and right_key):
        left_key = right_key = ()
    return ColumnPairing(left, right, left_key=left_key, right_key=right_key)


def _array_of(times: list[int] | None) -> Times | None:
    return None if times is None else np.array(times, dtype=np.int64)


def _without_time(schema: pa.Schema) -> pa.Schema:
    empty = pa.RecordBatch.from_arrays([pa.array([], field.type) for field in schema], schema=schema)
    return without_time_column(empty).schema.remove_metadata()


def _common_type(left: pa.Field, right: pa.Field) -> pa.DataType:
    one, other = _plain(left.type), _plain(right.type)
    if one.equals(other):
        return one
    try:
        return pa.unify_schemas(
            [pa.schema([("key", one)]), pa.schema([("key", other)])], promote_options="permissive"
        ).types[0]
    except pa.ArrowTypeError as error:
        raise GraphError(
            f'the keys "{left.name}" and "{right.name}" can\'t be equal',
            detail=f"{left.name} is {left.type}, {right.name} is {right.type}",
            hint="cast one of them before key_by",
        ) from error


def _plain(kind: pa.DataType) -> pa.DataType:
    """A column that waits row by row is not encoded."""
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def _storage_type(kind: pa.DataType) -> pa.DataType:
    """Integers instead of objects of `datetime`: smaller, faster, and no nanosecond is lost."""
    if pa.types.is_date32(kind) or pa.types.is_time32(kind):
        return pa.int32()
    if (
        pa.types.is_timestamp(kind)
        or pa.types.is_duration(kind)
        or pa.types.is_date64(kind)
        or pa.types.is_time64(kind)
    ):
        return pa.int64()
    return kind


def _to_storage(column: pa.Array, kind: pa.DataType, storage: pa.DataType) -> pa.Array:
    if not column.type.equals(kind):
        column = column.cast(kind)
    return column if storage.equals(kind) else column.view(storage)


def _from_storage(column: pa.Array, kind: pa.DataType) -> pa.Array:
    return column if column.type.equals(kind) else column.view(kind)


def _described(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name} {field.type}" for field in schema)
