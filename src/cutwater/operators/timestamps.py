"""When did each record of a batch happen?

A timestamp is a column or field of the record, or what a function says of it. It becomes milliseconds since the epoch,
rounded down; a time without a zone is UTC. One that is missing, further in the future than can be true, or beyond what
64 bits of milliseconds hold is bad: such a record is refused by name, or dropped and counted.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any, Literal, NoReturn

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cutwater.batches import TIME_METADATA, Batch, Times, rows_of, schema_with_times, take_rows, with_times
from cutwater.errors import BadTimestampError
from cutwater.operators.contract import OperatorContext
from cutwater.operators.user_code import map_rows, name_of, shown
from cutwater.protocol.watermarks import MAX_TIMESTAMP_MS

#: (times, parts): a number in the unit is this many milliseconds, or so many of them are one.
_MS_PER_UNIT: dict[str, tuple[int, int]] = {"s": (1000, 1), "ms": (1, 1), "us": (1, 1000), "ns": (1, 1_000_000)}
_MS_PER_DAY = 86_400_000

TimeUnit = Literal["s", "ms", "us", "ns"]
_Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class TimestampSelector:
    """Where a record's timestamp is: a column or field, or what a function says; `unit` is that of plain numbers."""

    column: str | None = None
    function: Callable[[Any], Any] | None = None
    unit: TimeUnit = "ms"

    @property
    def getter(self) -> Callable[[Any], Any]:
        """Of the timestamp of one record."""
        return self.function if self.function is not None else _field_getter(self.column or "")

    def describe(self) -> str:
        return self.column if self.column is not None else name_of(self.function)


class TimestampReader:
    """Reads timestamps for one operator in one task."""

    def __init__(
        self, selector: TimestampSelector, *, max_ahead_ms: int | None, drop_bad: bool, context: OperatorContext
    ) -> None:
        self._selector = selector
        self._max_ahead_ms = max_ahead_ms
        self._drop_bad = drop_bad
        self._context = context

    def read(self, batch: Batch) -> tuple[Batch, Times]:
        """The good records of the batch with their times; the bad ones are counted, or raise `BadTimestampError`."""
        column = self._column_of(batch)
        times, beyond = _milliseconds(column, self._selector.unit)
        bad = self._bad(column, times, beyond)
        if bad is not None:
            if not self._drop_bad:
                self._refuse(batch, column, times, int(np.argmax(bad)), beyond)
            good = np.flatnonzero(~bad)
            self._context.metrics.bad_timestamps += batch.num_rows - len(good)
            batch, times = take_rows(batch, good), times[good]
        return self._timed(batch, times), times

    def _bad(self, column: pa.Array, times: Times, beyond: _Mask | None) -> _Mask | None:
        """None: all are good, which is the quick way."""
        limit_ms = MAX_TIMESTAMP_MS
        if self._max_ahead_ms is not None:
            limit_ms = min(limit_ms, self._context.wall_ms() + self._max_ahead_ms)
        if not column.null_count and beyond is None and (not len(times) or int(times.max()) <= limit_ms):
            return None
        bad: _Mask = times > limit_ms
        if column.null_count:
            bad |= column.is_null().to_numpy(zero_copy_only=False)
        return bad if beyond is None else bad | beyond

    def _column_of(self, batch: Batch) -> pa.Array:
        """The timestamps as an Arrow array of a type that `_milliseconds` knows."""
        selector = self._selector
        if isinstance(batch, pa.RecordBatch) and selector.column is not None:
            check_time_column(batch.schema, selector, unit_given=True)
            return batch.column(selector.column)
        found = map_rows(selector.getter, rows_of(batch), operator=self._context.name)
        try:
            return _as_array(found)
        except (pa.ArrowException, ValueError, TypeError) as error:
            record = shown(rows_of(batch)[_culprit(found)])
            raise BadTimestampError(
                f'operator "{self._context.name}" got a timestamp that is none',
                detail=f"{selector.describe()} of {record} is {shown(found[_culprit(found)])}",
                hint="give a datetime or a date, or a number of milliseconds since the epoch (unit=… for another "
                "unit), always of the same kind; None where there is no timestamp",
            ) from error

    def _timed(self, batch: Batch, times: Times) -> Batch:
        if isinstance(batch, pa.RecordBatch) and _carries_time(batch.schema, self._selector):
            return batch.replace_schema_metadata(
                {**(batch.schema.metadata or {}), TIME_METADATA: str(self._selector.column).encode()}
            )
        return with_times(batch, times)

    def _refuse(self, batch: Batch, column: pa.Array, times: Times, index: int, beyond: _Mask | None) -> NoReturn:
        record = _shown_row(batch, index)
        if not column[index].is_valid:
            fact, said = "has no timestamp", "null"
        elif beyond is not None and beyond[index]:
            fact, said = "has a timestamp that no clock can show", _readable(column, index)
        else:
            fact = "has a timestamp in the far future, which would end all windows"
            said = _readable_ms(int(times[index]))
        raise BadTimestampError(
            f'a record of operator "{self._context.name}" {fact}',
            detail=f"{self._selector.describe()} is {said}; the record: {record}",
            hint='bad_timestamps="drop" drops and counts such records; max_ahead="30d" or None allows more',
        )


def check_time_column(schema: pa.Schema, selector: TimestampSelector, *, unit_given: bool) -> None:
    """Raises when a typed stream has no such column, or one that can't be a time."""
    column = selector.column
    if column is None:
        return
    if schema.names.count(column) != 1:
        raise BadTimestampError(
            f'the stream has {"two columns" if column in schema.names else "no column"} "{column}" to take timestamps '
            "from",
            detail="its columns: " + ", ".join(f"{field.name} {field.type}" for field in schema),
        )
    kind = schema.field(column).type
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind) or (pa.types.is_integer(kind) and unit_given):
        return
    hint = 'say what its numbers mean: assign_timestamps(…, unit="ms")'
    if not pa.types.is_integer(kind):
        hint = "cast it: with_columns(t=cw.col(…).cast(pa.timestamp('ms'))), or give a function of the record"
    raise BadTimestampError(f'column "{column}" is no timestamp', detail=f"its type is {kind}", hint=hint)


def check_timestamp(value: Any) -> None:
    """Raises `BadTimestampError` for what can't be one; None and times that can't be true are for the strategy."""
    if _family(type(value)) == "other":
        raise BadTimestampError("the function gave a timestamp that is none", detail=f"it is {shown(value)}")


def timed_schema(schema: pa.Schema, selector: TimestampSelector) -> pa.Schema:
    """Of the batches that `TimestampReader` gives out."""
    if not _carries_time(schema, selector):
        return schema_with_times(schema)
    return schema.with_metadata({**(schema.metadata or {}), TIME_METADATA: str(selector.column).encode()})


def _carries_time(schema: pa.Schema, selector: TimestampSelector) -> bool:
    """The column itself can travel as the event time."""
    if selector.column is None:
        return False
    kind = schema.field(selector.column).type
    return bool(pa.types.is_timestamp(kind) or (pa.types.is_int64(kind) and selector.unit == "ms"))


def _milliseconds(column: pa.Array, unit: TimeUnit) -> tuple[Times, _Mask | None]:
    """Milliseconds, zero for nulls, and where they don't fit into 64 bits (None: nowhere)."""
    kind = column.type
    if pa.types.is_timestamp(kind):
        return _scaled(_integers(column.view(pa.int64())), *_MS_PER_UNIT[kind.unit])
    if pa.types.is_date32(kind):
        return _scaled(_integers(column.cast(pa.int32()).cast(pa.int64())), _MS_PER_DAY, 1)
    if pa.types.is_date64(kind):
        return _integers(column.view(pa.int64())), None
    if pa.types.is_floating(kind):
        return _from_floats(column, unit)
    if pa.types.is_uint64(kind):
        unsigned = column.fill_null(0).to_numpy()
        too_large: _Mask = unsigned > MAX_TIMESTAMP_MS
        times, beyond = _scaled(np.where(too_large, 0, unsigned).astype(np.int64), *_MS_PER_UNIT[unit])
        if not too_large.any():
            return times, beyond
        return times, too_large if beyond is None else too_large | beyond
    return _scaled(_integers(column.cast(pa.int64())), *_MS_PER_UNIT[unit])


def _integers(column: pa.Array) -> Times:
    numbers: Times = (column.fill_null(0) if column.null_count else column).to_numpy()
    return numbers


def _scaled(numbers: Times, times: int, parts: int) -> tuple[Times, _Mask | None]:
    if parts != 1:
        return numbers // parts, None
    if times == 1:
        return numbers, None
    most = MAX_TIMESTAMP_MS // times
    if not len(numbers) or (int(numbers.max()) <= most and int(numbers.min()) >= -most):
        return numbers * times, None
    beyond: _Mask = (numbers > most) | (numbers < -most)
    return np.where(beyond, 0, numbers) * times, beyond


def _from_floats(column: pa.Array, unit: TimeUnit) -> tuple[Times, _Mask | None]:
    times, parts = _MS_PER_UNIT[unit]
    # A float of seconds carries its milliseconds behind the point, so it is scaled before it is rounded down; what only
    # a binary fraction keeps from being whole is whole.
    numbers = column.fill_null(0.0).to_numpy(zero_copy_only=False).astype(np.float64) * times / parts
    nearest = np.round(numbers)
    is_whole = np.abs(numbers - nearest) <= 2 * np.spacing(np.abs(numbers))
    numbers = np.where(is_whole, nearest, np.floor(numbers))
    fits: _Mask = np.abs(numbers) < float(MAX_TIMESTAMP_MS)
    return np.where(fits, numbers, 0.0).astype(np.int64), None if fits.all() else ~fits


def _as_array(found: list[Any]) -> pa.Array:
    """Raises ValueError or TypeError for what is no timestamp, also for a mixture: Arrow would guess."""
    kinds = set(map(type, found))
    if any(kind.__name__ == "NaTType" for kind in kinds):
        found = [None if value != value else value for value in found]
    families = {_family(kind) for kind in kinds} - {""}
    if len(families) > 1 or "other" in families:
        raise TypeError("no timestamp, or a mixture")
    if not families:
        return pa.nulls(len(found), pa.int64())
    try:
        array = pa.array(found)
    except OverflowError:  # whole numbers beyond 64 bits: as floats they are seen to be out of range
        array = pa.array([None if value is None else float(value) for value in found], pa.float64())
    if pa.types.is_floating(array.type):
        # NaN is what pandas writes for "none".
        return pa.array(array.to_numpy(zero_copy_only=False), from_pandas=True)
    return array


def _family(kind: type) -> str:
    """Values of one family can stand beside each other; "" goes with all."""
    if kind is type(None) or kind.__name__ == "NaTType":
        return ""
    if issubclass(kind, bool | np.bool_):
        return "other"
    if issubclass(kind, int | float | np.integer | np.floating):
        return "number"
    if issubclass(kind, datetime):
        return "datetime"
    if issubclass(kind, date):
        return "date"
    return "datetime64" if issubclass(kind, np.datetime64) else "other"


def _culprit(found: list[Any]) -> int:
    """The first that is no timestamp, else the first of another kind than those before it."""
    families = [_family(type(value)) for value in found]
    if "other" in families:
        return families.index("other")
    first = next((family for family in families if family), "")
    return next((index for index, family in enumerate(families) if family not in ("", first)), 0)


def _field_getter(name: str) -> Callable[[Any], Any]:
    def get(record: Any) -> Any:
        return record[name] if isinstance(record, dict) else getattr(record, name)

    get.__name__ = name
    return get


def _shown_row(batch: Batch, index: int) -> str:
    try:
        return shown(rows_of(take_rows(batch, [index]))[0])
    except (ValueError, OverflowError):  # a time that Python's datetime can't hold
        assert isinstance(batch, pa.RecordBatch)
        values = (_readable(column, index) for column in batch.columns)
        return ", ".join(f"{name}={value}" for name, value in zip(batch.schema.names, values, strict=True))


def _readable(column: pa.Array, index: int) -> str:
    try:
        return str(column[index])
    except (ValueError, OverflowError):  # a timestamp that Python's own can't hold
        return str(column.cast(pa.int64())[index]) + f" in {column.type}"


def _readable_ms(timestamp_ms: int) -> str:
    try:
        return str(np.datetime64(timestamp_ms, "ms")) + f" ({timestamp_ms} ms)"
    except (ValueError, OverflowError):
        return f"{timestamp_ms} ms"
