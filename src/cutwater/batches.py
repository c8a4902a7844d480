"""What is a batch of records, and how does a row function see it?

A typed stream carries Arrow record batches; a stream of arbitrary Python values carries `ObjectBatch`es. Row functions
see plain values: the value itself, or a named tuple for each row of a typed batch.

Event time travels with the records: an `ObjectBatch` has it beside its values, a typed batch in the column that its
schema's metadata names. A projection that leaves that column out carries it on as `__time`, which row functions and
sinks don't see.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cutwater.errors import SchemaError

#: Schema metadata of a typed batch: the name of the column with the event time (a timestamp, or int64 milliseconds).
TIME_METADATA = b"cutwater.time"
#: Where event time travels when no column of the user's holds it; always the last column.
TIME_COLUMN = "__time"

Times: TypeAlias = npt.NDArray[np.int64]
"""Event times in milliseconds since the epoch, one per record."""

_MILLISECONDS = pa.timestamp("ms")


@dataclass(slots=True)
class ObjectBatch:
    """Records of a stream without a schema; never empty in a channel. `times` None: nobody has assigned any."""

    values: list[Any]
    times: Times | None = None

    @property
    def num_rows(self) -> int:
        return len(self.values)


Batch: TypeAlias = ObjectBatch | pa.RecordBatch


class Row(tuple[Any, ...]):
    """A record with named fields: a row of a typed stream, a result. It unpacks and compares like a tuple."""

    __slots__ = ()

    #: As they were given; of a field that Python can't use, `_fields` has another.
    _names: ClassVar[tuple[str, ...]] = ()
    #: What the fields are called in JSON and files: the names, unless two are the same.
    _columns: ClassVar[tuple[str, ...]] = ()

    def _asdict(self) -> dict[str, Any]:
        return dict(zip(self._columns, self, strict=True))

    def __reduce__(self) -> tuple[Any, ...]:
        # The class of a row exists in no module, so it is pickled as its names and values.
        return make_row, (self._names, tuple(self))

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...


@lru_cache(maxsize=256)
def row_maker(names: tuple[str, ...]) -> Callable[[Iterable[Any]], Row]:
    """Makes the row of some values, in the order of the names; those that Python can't use become _0, _1, …"""
    model: Any = namedtuple("Row", names, rename=True)  # type: ignore[misc]  # kept until its parts are taken: collected, it would have none
    # Made for every record: without `__new__`, which is written in Python, a row costs little more than a tuple.
    left_out = ("__new__", "__getnewargs__", "_asdict")
    named = {name: part for name, part in vars(model).items() if name not in left_out}
    # `getattr(row, "unit price")` works, and `row._id`.
    fields: tuple[str, ...] = model._fields
    for name, field in zip(names, fields, strict=True):
        if name not in named and not hasattr(Row, name):
            named[name] = named[field]
    columns = names if len(set(names)) == len(names) else fields
    return type("Row", (Row,), {**named, "__slots__": (), "__module__": __name__, "_names": names, "_columns": columns})


def make_row(names: tuple[str, ...], values: Iterable[Any]) -> Row:
    """One row, as `rows_of` makes them."""
    return row_maker(names)(values)


def field_names(record: tuple[Any, ...]) -> tuple[str, ...] | None:
    """Of a named tuple; those of a row as its columns are called. None: it has none."""
    return record._columns if isinstance(record, Row) else getattr(record, "_fields", None)


def packed(values: list[Any]) -> Any:
    """What can be pickled in place of the list, and becomes it when it is read: rows of one kind name their fields
    once, which takes a fifth of the time."""
    kind = type(values[0]) if values else None
    if kind is None or not issubclass(kind, Row) or set(map(type, values)) != {kind}:
        return values
    return _PackedRows(kind._names, list(map(tuple, values)))


@dataclass(frozen=True, slots=True)
class _PackedRows:
    names: tuple[str, ...]
    values: list[tuple[Any, ...]]

    def __reduce__(self) -> tuple[Any, ...]:
        return unpacked, (self.names, self.values)


def unpacked(names: tuple[str, ...], values: list[tuple[Any, ...]]) -> list[Row]:
    """The list that was `packed`."""
    return list(map(row_maker(names), values))


def rows_of(batch: Batch) -> list[Any]:
    """The records as a row function sees them."""
    if isinstance(batch, ObjectBatch):
        return batch.values
    batch = without_time_column(batch)
    make = row_maker(tuple(batch.schema.names))
    return list(map(make, zip(*(column.to_pylist() for column in batch.columns), strict=True)))


def without_time_column(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The columns that the user knows of."""
    names = batch.schema.names
    return batch.select(names[:-1]) if names and names[-1] == TIME_COLUMN else batch


def decoded(column: pa.Array) -> pa.Array:
    """The values themselves, if the column has codes of a dictionary."""
    return column.dictionary_decode() if isinstance(column, pa.DictionaryArray) else column


def comparable_values(column: pa.Array) -> list[Any]:
    """The values in Python, for keys and comparisons. Moments with a time zone are in UTC: of two in one zone Python
    compares what the clocks show, and in autumn they show an hour twice."""
    column = decoded(column)
    kind = column.type
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        column = column.cast(pa.timestamp(kind.unit, "UTC"))
    values: list[Any] = column.to_pylist()
    return values


def with_nulls_in_sight(column: pa.Array) -> pa.Array:
    """The same values; a dictionary may itself hold a null, which no bitmap of the rows shows."""
    return decoded(column) if isinstance(column, pa.DictionaryArray) and column.dictionary.null_count else column


def viewless(kind: pa.DataType) -> pa.DataType:
    """The type of the same values whose texts lie one behind the other: Arrow can't pick single rows of views."""
    if pa.types.is_string_view(kind):
        return pa.string()
    if pa.types.is_binary_view(kind):
        return pa.binary()
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(viewless(field.type)) for field in kind])
    if pa.types.is_map(kind):
        return pa.map_(viewless(kind.key_type), viewless(kind.item_type))
    if pa.types.is_list(kind):
        return pa.list_(viewless(kind.value_type))
    return pa.large_list(viewless(kind.value_type)) if pa.types.is_large_list(kind) else kind


def time_column_of(schema: pa.Schema) -> str | None:
    """The column with the event time."""
    metadata = schema.metadata
    name: bytes | None = None if metadata is None else metadata.get(TIME_METADATA)
    return None if name is None else name.decode()


def times_of(batch: Batch) -> Times | None:
    """The event time of each record; None: nobody has assigned any."""
    if isinstance(batch, ObjectBatch):
        return batch.times
    name = time_column_of(batch.schema)
    return None if name is None else milliseconds_of(batch.column(name))


def milliseconds_of(column: pa.Array) -> Times:
    """A column without nulls, of timestamps or of int64 milliseconds, as milliseconds; finer units are rounded down."""
    if pa.types.is_timestamp(column.type):
        if column.type.unit in ("us", "ns"):
            per_ms = 1_000 if column.type.unit == "us" else 1_000_000
            finer: Times = column.view(pa.int64()).to_numpy()
            return finer // per_ms
        column = column.cast(pa.timestamp("ms", column.type.tz)).view(pa.int64())
    elif not pa.types.is_int64(column.type):
        column = column.cast(_MILLISECONDS).view(pa.int64())
    times: Times = column.to_numpy()
    return times


def with_times(batch: Batch, times: Times | None) -> Batch:
    """The same records at these times; a typed batch carries them in its last column."""
    if isinstance(batch, ObjectBatch):
        return ObjectBatch(batch.values, times)
    if times is None:
        return batch
    batch = without_time_column(batch)
    schema = schema_with_times(batch.schema)
    return pa.RecordBatch.from_arrays([*batch.columns, pa.array(times)], schema=schema)


def latest_of(times: Times | None) -> int | None:
    return int(times.max()) if times is not None and len(times) else None


def at_one_time(batch: Batch, time_ms: int | None) -> Batch:
    """Rows that stand for many records: they happened when the last of them did."""
    return batch if time_ms is None else with_times(batch, np.full(batch.num_rows, time_ms, dtype=np.int64))


def schema_with_times(schema: pa.Schema) -> pa.Schema:
    """Of batches that carry event time in a column of its own."""
    if schema.names and schema.names[-1] == TIME_COLUMN:
        schema = schema.remove(len(schema.names) - 1)
    schema = schema.append(pa.field(TIME_COLUMN, pa.int64()))
    return schema.with_metadata({**(schema.metadata or {}), TIME_METADATA: TIME_COLUMN.encode()})


def take_rows(batch: Batch, indices: Sequence[int] | npt.NDArray[np.intp]) -> Batch:
    """The rows at these positions, in this order."""
    if isinstance(batch, ObjectBatch):
        values = batch.values
        times = None if batch.times is None else batch.times[np.asarray(indices, dtype=np.intp)]
        return ObjectBatch([values[index] for index in indices], times)
    return picked(batch, pa.array(indices, type=pa.int64()))


def picked(batch: pa.RecordBatch, rows: pa.Array) -> pa.RecordBatch:
    """The rows at these positions, or for which it is true."""
    is_mask = pa.types.is_boolean(rows.type)
    try:
        return batch.filter(rows) if is_mask else batch.take(rows)
    except pa.ArrowNotImplementedError:
        plain = batch.cast(pa.schema([field.with_type(viewless(field.type)) for field in batch.schema]))
    try:
        return (plain.filter(rows) if is_mask else plain.take(rows)).cast(batch.schema)
    except pa.ArrowNotImplementedError as error:
        raise SchemaError(
            "Arrow can't pick single rows of such a batch",
            detail=f"{error}; its columns: {', '.join(f'{field.name} {field.type}' for field in batch.schema)}",
            hint="give the column another type before",
        ) from error


def concatenate(batches: Sequence[Batch]) -> Batch:
    """One batch of all rows; all batches are of one kind and schema."""
    first = batches[0]
    if len(batches) == 1:
        return first
    if isinstance(first, ObjectBatch):
        times = [batch.times for batch in batches]
        return ObjectBatch(
            [value for batch in batches for value in rows_of(batch)],
            None if any(each is None for each in times) else np.concatenate(times),  # type: ignore[arg-type]
        )
    return pa.concat_batches(batches)


def joined(batches: Sequence[Batch]) -> Iterator[Batch]:
    """As few batches as can be, in order: neighbours with the same columns and the same event time become one."""
    begin = 0
    for end in range(1, len(batches) + 1):
        if end == len(batches) or not _can_join(batches[begin], batches[end]):
            yield concatenate(batches[begin:end])
            begin = end


def _can_join(one: Batch, other: Batch) -> bool:
    if isinstance(one, ObjectBatch) or isinstance(other, ObjectBatch):
        both = isinstance(one, ObjectBatch) and isinstance(other, ObjectBatch)
        return both and (one.times is None) is (other.times is None)
    # The metadata names the column of the event time; Arrow would take the first batch's for all.
    same: bool = one.schema.equals(other.schema, check_metadata=True)
    return same
