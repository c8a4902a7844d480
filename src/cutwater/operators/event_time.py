"""When did a record happen, and how far has event time come?

`EventTime` reads timestamps off batches and feeds the clocks of the splits they came from. A source does that itself,
split by split; `AssignTimestampsOperator` does it anywhere else, for all that passes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cutwater.batches import (
    TIME_METADATA,
    Batch,
    Times,
    milliseconds_of,
    rows_of,
    schema_with_times,
    take_rows,
    with_times,
)
from cutwater.errors import BadTimestampError
from cutwater.operators.contract import FrozenList, Operator, OperatorContext, OperatorSnapshot
from cutwater.operators.user_code import map_rows, name_of, raise_user_error, shown
from cutwater.protocol.event_time import SplitClocks, WatermarkStrategy
from cutwater.protocol.ids import CheckpointId
from cutwater.protocol.watermarks import MAX_TIMESTAMP_MS

WATERMARK_STATE = "watermark"
_THE_STREAM = ""
_MS_PER_UNIT: dict[str, tuple[int, int]] = {"s": (1000, 1), "ms": (1, 1), "us": (1, 1000), "ns": (1, 1_000_000)}

TimeUnit = Literal["s", "ms", "us", "ns"]


@dataclass(frozen=True, slots=True)
class TimestampSelector:
    """Where a record's timestamp is: a column or field, or what a function says; `unit` is that of plain numbers."""

    column: str | None = None
    function: Callable[[Any], Any] | None = None
    unit: TimeUnit = "ms"

    def describe(self) -> str:
        return self.column if self.column is not None else name_of(self.function)


class EventTime:
    """Timestamps and watermarks of one operator in one task."""

    def __init__(self, selector: TimestampSelector, strategy: WatermarkStrategy, context: OperatorContext) -> None:
        self._selector = selector
        self._strategy = strategy
        self._context = context
        self.clocks = SplitClocks(strategy.idle_after_seconds)
        self._generators: dict[str, Any] = {}
        self._emitted_ms: int | None = None
        self._emitted_at_seconds = -1.0
        self._told_idle = False

    # Splits.

    def opened(self, split: str, watermark_ms: int | None = None) -> None:
        self.clocks.opened(split, self._context.now_seconds(), watermark_ms)
        if self._strategy.kind == "custom":
            assert self._strategy.generator is not None
            self._generators[split] = self._strategy.generator()

    def finished(self, split: str) -> None:
        self.clocks.finished(split)
        self._generators.pop(split, None)

    def may_read(self, split: str, limit_ms: int | None) -> bool:
        """False: the split is too far ahead of other sources."""
        reached = self.clocks.watermark_of(split)
        return limit_ms is None or reached is None or reached <= limit_ms

    # Records.

    def take(self, split: str, batch: Batch, injected_ms: int | None = None) -> Batch | None:
        """The batch with its times, without records whose timestamp can't be true; their clock moves on."""
        times, good = self._times_of(batch)
        if good is not None:
            self._context.metrics.bad_timestamps += batch.num_rows - len(good)
            batch, times = take_rows(batch, good), times[good]
        timed = self._timed(batch, times)
        if batch.num_rows:
            watermark_ms = self._watermark_after(split, timed, times, injected_ms)
            self.clocks.spoke(split, watermark_ms, self._context.now_seconds())
            self._told_idle = False
            return timed
        return None

    def tell(self, *, now: bool = False) -> None:
        """Emits the watermark if it has advanced; not too often while records are dense, unless `now`."""
        seconds = self._context.now_seconds()
        self.clocks.look(seconds)
        reached = self.clocks.watermark_ms
        advanced = reached is not None and (self._emitted_ms is None or reached > self._emitted_ms)
        if advanced and (now or seconds - self._emitted_at_seconds >= self._strategy.every_seconds):
            assert reached is not None
            self._emitted_ms, self._emitted_at_seconds = reached, seconds
            self._context.emit_watermark(reached)
        if self.clocks.all_idle and not self._told_idle:
            self._told_idle = True
            self._context.emit_idle()

    def _watermark_after(self, split: str, batch: Batch, times: Times, injected_ms: int | None) -> int | None:
        match self._strategy.kind:
            case "bounded":
                return int(times.max()) - self._strategy.out_of_orderness_ms - 1
            case "injected":
                return injected_ms
            case "custom":
                return self._custom_watermark(self._generators[split], batch, times)

    def _custom_watermark(self, generator: Any, batch: Batch, times: Times) -> int | None:
        reached: int | None = None
        record: Any = None
        try:
            if hasattr(generator, "on_event"):
                for record, time in zip(rows_of(batch), times.tolist(), strict=True):
                    said = generator.on_event(record, time)
                    reached = said if reached is None or (said is not None and said > reached) else reached
            if hasattr(generator, "on_periodic"):
                said = generator.on_periodic()
                reached = said if reached is None or (said is not None and said > reached) else reached
        except Exception as error:
            raise_user_error(error, function=generator, operator=self._context.name, record=record)
        return reached

    # Timestamps.

    def _times_of(self, batch: Batch) -> tuple[Times, np.ndarray[Any, Any] | None]:
        """Milliseconds, and the positions of the good ones if some are bad."""
        column = self._column_of(batch)
        missing = column.null_count > 0
        known = pc.fill_null(column, pa.scalar(0, pa.int64()).cast(column.type)) if missing else column
        times = _milliseconds(known, self._selector.unit)
        limit_ms = self._limit_ms()
        if not missing and (limit_ms is None or not len(times) or int(times.max()) <= limit_ms):
            return times, None
        bad = times > (MAX_TIMESTAMP_MS if limit_ms is None else limit_ms)
        if missing:
            bad |= column.is_null().to_numpy(zero_copy_only=False)
        if self._strategy.bad_timestamps == "fail":
            self._refuse(batch, times, int(np.argmax(bad)), column)
        return times, np.flatnonzero(~bad)

    def _limit_ms(self) -> int | None:
        ahead = self._strategy.max_ahead_ms
        return None if ahead is None else self._context.wall_ms() + ahead

    def _column_of(self, batch: Batch) -> pa.Array:
        """The timestamps as an Arrow array: a timestamp type, or int64 in the selector's unit."""
        selector = self._selector
        if selector.column is not None and isinstance(batch, pa.RecordBatch):
            return batch.column(selector.column)
        if selector.function is not None:
            found = map_rows(selector.function, rows_of(batch), operator=self._context.name)
        else:
            found = map_rows(_field_getter(selector.column or ""), rows_of(batch), operator=self._context.name)
        return self._as_array(found, batch)

    def _as_array(self, found: list[Any], batch: Batch) -> pa.Array:
        try:
            array = pa.array(found)
            if pa.types.is_floating(array.type):
                array = pc.floor(array).cast(pa.int64())
            if pa.types.is_integer(array.type) or pa.types.is_null(array.type):
                return array.cast(pa.int64())
            return array.cast(pa.timestamp("us", getattr(array.type, "tz", None)))
        except (pa.ArrowException, ValueError, TypeError) as error:
            culprit = next((i for i, value in enumerate(found) if not _is_time(value)), 0)
            raise BadTimestampError(
                f'operator "{self._context.name}" got a timestamp that is none',
                detail=f"{self._selector.describe()} of {shown(rows_of(batch)[culprit])} is {found[culprit]!r}",
                hint="give a datetime, or a number of milliseconds since the epoch (unit=… for another unit)",
            ) from error

    def _timed(self, batch: Batch, times: Times) -> Batch:
        if isinstance(batch, pa.RecordBatch) and _carries_time(batch.schema, self._selector):
            return batch.replace_schema_metadata(
                {**(batch.schema.metadata or {}), TIME_METADATA: str(self._selector.column).encode()}
            )
        return with_times(batch, times)

    def _refuse(self, batch: Batch, times: Times, index: int, column: pa.Array) -> None:
        record = shown(rows_of(take_rows(batch, [index]))[0])
        if not column[index].is_valid:
            fact, detail = "has no timestamp", f"{self._selector.describe()} is null"
        else:
            fact = "has a timestamp in the far future, which would end all windows"
            detail = f"{self._selector.describe()} is {_readable(int(times[index]))}"
        raise BadTimestampError(
            f'a record of operator "{self._context.name}" {fact}',
            detail=f"{detail}; the record: {record}",
            hint='bad_timestamps="drop" drops and counts such records; max_ahead="30d" or None allows more',
        )


class AssignTimestampsOperator(Operator):
    """Timestamps and watermarks for a stream that isn't a source's own output: all of it is one split."""

    forwards_time: ClassVar[bool] = False

    def __init__(self, selector: TimestampSelector, strategy: WatermarkStrategy) -> None:
        self._selector = selector
        self._strategy = strategy

    def open(self, context: OperatorContext) -> None:
        super().open(context)
        self._event_time = EventTime(self._selector, self._strategy, context)
        self._event_time.opened(_THE_STREAM, restored_watermark(context))

    def process(self, batch: Batch, port: int) -> None:
        timed = self._event_time.take(_THE_STREAM, batch)
        if timed is not None:
            self.context.emit(timed)
        self._event_time.tell()

    def on_idle_input(self) -> None:
        self._event_time.tell(now=True)

    def on_watermark(self, timestamp_ms: int) -> None:
        if timestamp_ms == MAX_TIMESTAMP_MS:  # the input is complete, whatever the clocks say
            self.context.emit_watermark(timestamp_ms)

    def freeze(self, checkpoint: CheckpointId) -> OperatorSnapshot:
        return OperatorSnapshot(lists=frozen_watermark(self._event_time.clocks.watermark_of(_THE_STREAM)))


def frozen_watermark(watermark_ms: int | None) -> tuple[FrozenList, ...]:
    """How far event time had come, as operator state that every task gets all of."""
    if watermark_ms is None:
        return ()
    return (FrozenList(WATERMARK_STATE, (str(watermark_ms).encode(),), "union"),)


def restored_watermark(context: OperatorContext) -> int | None:
    """Where event time goes on after a restore: where the slowest task was."""
    return min((int(item) for item in context.restored_lists.get(WATERMARK_STATE, [])), default=None)


def check_time_column(schema: pa.Schema, selector: TimestampSelector, *, unit_given: bool) -> None:
    """Raises when a typed stream has no such column, or one that can't be a time."""
    column = selector.column
    if column is None:
        return
    if column not in schema.names:
        raise BadTimestampError(
            f'the stream has no column "{column}" to take timestamps from',
            detail="its columns: " + ", ".join(f"{field.name} {field.type}" for field in schema),
        )
    kind = schema.field(column).type
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind) or (pa.types.is_integer(kind) and unit_given):
        return
    hint = 'say what its numbers mean: assign_timestamps(…, unit="ms")'
    if not pa.types.is_integer(kind):
        hint = "cast it: with_columns(t=cw.col(…).cast(pa.timestamp('ms'))), or give a function of the record"
    raise BadTimestampError(f'column "{column}" is no timestamp', detail=f"its type is {kind}", hint=hint)


def timed_schema(schema: pa.Schema, selector: TimestampSelector) -> pa.Schema:
    """Of the batches that `EventTime` gives out."""
    if not _carries_time(schema, selector):
        return schema_with_times(schema)
    return schema.with_metadata({**(schema.metadata or {}), TIME_METADATA: str(selector.column).encode()})


def _carries_time(schema: pa.Schema, selector: TimestampSelector) -> bool:
    """The column itself can travel as the event time."""
    if selector.column is None:
        return False
    kind = schema.field(selector.column).type
    return bool(pa.types.is_timestamp(kind) or (pa.types.is_int64(kind) and selector.unit == "ms"))


def _milliseconds(column: pa.Array, unit: TimeUnit) -> Times:
    if not pa.types.is_integer(column.type):
        return milliseconds_of(column)
    numbers: Times = column.cast(pa.int64()).to_numpy()
    times, parts = _MS_PER_UNIT[unit]
    if times != 1:
        return numbers * times
    return numbers if parts == 1 else numbers // parts


def _field_getter(name: str) -> Callable[[Any], Any]:
    def get(record: Any) -> Any:
        return record[name] if isinstance(record, dict) else getattr(record, name)

    get.__name__ = name
    return get


def _is_time(value: Any) -> bool:
    return value is None or isinstance(value, int | float) or hasattr(value, "year")


def _readable(timestamp_ms: int) -> str:
    try:
        return str(np.datetime64(timestamp_ms, "ms")) + f" ({timestamp_ms} ms)"
    except (ValueError, OverflowError):
        return f"{timestamp_ms} ms"
