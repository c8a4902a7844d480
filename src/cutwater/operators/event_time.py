"""When did a record happen, and how far has event time come?

`EventTime` feeds the clocks of the splits that records came from with their timestamps (see `timestamps`), and tells
when event time advances. A source does that itself, split by split; `AssignTimestampsOperator` does it anywhere else,
for all that passes.
"""

from __future__ import annotations

from math import ceil
from typing import Any, ClassVar, NamedTuple

import msgspec

from cutwater.batches import Batch, Times, rows_of
from cutwater.errors import UserFunctionError
from cutwater.operators.contract import FrozenList, Operator, OperatorContext, OperatorSnapshot
from cutwater.operators.timestamps import (
    TimestampReader,
    TimestampSelector,
    TimeUnit,
    check_time_column,
    timed_schema,
)
from cutwater.operators.user_code import raise_user_error, shown
from cutwater.protocol.event_time import SplitClocks, WatermarkStrategy, bounded_watermark, limited_watermark
from cutwater.protocol.group_time import TaskTime
from cutwater.protocol.group_time import restored_watermark as slowest_of
from cutwater.protocol.ids import CheckpointId
from cutwater.protocol.watermarks import MAX_TIMESTAMP_MS, MIN_TIMESTAMP_MS

__all__ = [
    "AssignTimestampsOperator",
    "EventTime",
    "TimeUnit",
    "TimedBatch",
    "TimestampSelector",
    "check_time_column",
    "frozen_watermark",
    "restored_watermark",
    "timed_schema",
]

WATERMARK_STATE = "watermark"
_THE_STREAM = ""
#: A periodic generator is not asked more often than this while its split is silent.
_ASK_SECONDS_MIN = 0.005

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(tuple[int, int, int]).decode


class TimedBatch(NamedTuple):
    """Records with their times, and what their split promises once they have been passed on (None: nothing new)."""

    batch: Batch
    watermark_ms: int | None


class EventTime:
    """Timestamps and watermarks of one operator in one task."""

    def __init__(self, selector: TimestampSelector, strategy: WatermarkStrategy, context: OperatorContext) -> None:
        self._strategy = strategy
        self._context = context
        self._timestamps = TimestampReader(
            selector, max_ahead_ms=strategy.max_ahead_ms, drop_bad=strategy.bad_timestamps == "drop", context=context
        )
        self.clocks = SplitClocks(strategy.idle_after_seconds, restored_watermark(context))
        self._generators: dict[str, Any] = {}
        self._emitted_ms: int | None = None
        self._emitted_at_seconds: float | None = None
        self._ask_every_seconds = max(strategy.every_seconds, _ASK_SECONDS_MIN)
        self._asked_at_seconds: dict[str, float] = {}
        self._told_idle = False

    # Splits.

    def opened(self, split: str, watermark_ms: int | None = None) -> None:
        """The split counts from now on. After a restore also when it waits for its turn to be read."""
        self.clocks.opened(split, watermark_ms)
        if self._strategy.kind == "custom" and split not in self._generators:
            assert self._strategy.generator is not None
            try:
                self._generators[split] = self._strategy.generator()
            except Exception as error:
                raise_user_error(
                    error, function=self._strategy.generator, operator=self._context.name, moment="for a new split"
                )

    def finished(self, split: str) -> None:
        self.clocks.finished(split)
        self._generators.pop(split, None)
        self._asked_at_seconds.pop(split, None)

    def may_read(self, split: str, limit_ms: int | None) -> bool:
        """False: the split is too far ahead of other sources."""
        reached = self.clocks.watermark_of(split)
        return limit_ms is None or reached is None or reached <= limit_ms

    # Records.

    def take(self, split: str, batch: Batch, injected_ms: int | None = None) -> TimedBatch | None:
        """The batch with its times, without records whose timestamp can't be true; None: there is no other.

        The split's clock stands still until the batch has been `passed` on.
        """
        timed, times = self._timestamps.read(batch)
        if timed.num_rows:
            return TimedBatch(timed, self._watermark_after(split, timed, times, injected_ms))
        return None

    def passed(self, split: str, watermark_ms: int | None) -> None:
        """A batch of the split has been emitted: its watermark may follow."""
        self.clocks.spoke(split, watermark_ms)

    def silent(self, split: str, injected_ms: int | None = None) -> None:
        """The split was asked and had nothing. Its watermark may advance all the same."""
        now_seconds = self._context.now_seconds()
        if self._strategy.kind == "injected":
            self._note(split, injected_ms)
        elif self._strategy.kind == "custom" and self._may_ask(split, now_seconds):
            self._note(split, self._ask(split))
        self.clocks.silent(split, now_seconds)

    def tell(self, *, now: bool = False) -> None:
        """Emits the watermark if it has advanced; not too often while records are dense, unless `now`."""
        seconds = self._context.now_seconds()
        clocks = self.clocks
        clocks.merge()
        reached = clocks.watermark_ms
        idle = clocks.all_idle
        advanced = reached is not None and (self._emitted_ms is None or reached > self._emitted_ms)
        # Receivers that get none of the records hear by a watermark that this task counts again; and before it falls
        # idle all is told, since a watermark behind the idle marker would take it back.
        if reached is not None and ((advanced and (now or idle or self._is_time(seconds))) or self._resumed(idle)):
            self._emitted_ms, self._emitted_at_seconds, self._told_idle = reached, seconds, False
            self._context.emit_watermark(reached)
        if idle and not self._told_idle:
            self._told_idle = True
            self._context.emit_idle()

    def next_look_seconds(self) -> float | None:
        """When somebody may fall silent, or has to be asked: not before `silent` and `tell` are worth a call."""
        times = [] if (look := self.clocks.next_look_seconds()) is None else [look]
        times += [asked + self._ask_every_seconds for asked in self._asked_at_seconds.values()]
        return min(times, default=None)

    def _is_time(self, now_seconds: float) -> bool:
        told = self._emitted_at_seconds
        return told is None or now_seconds - told >= self._strategy.every_seconds

    def _resumed(self, idle: bool) -> bool:
        return self._told_idle and not idle

    def _watermark_after(self, split: str, batch: Batch, times: Times, injected_ms: int | None) -> int | None:
        match self._strategy.kind:
            case "bounded":
                return bounded_watermark(int(times.max()), self._strategy.out_of_orderness_ms)
            case "injected":
                return None if injected_ms is None else limited_watermark(injected_ms)
            case "custom":
                return self._custom_watermark(split, batch, times)

    # Injected and custom watermarks.

    def _note(self, split: str, watermark_ms: int | None) -> None:
        if watermark_ms is not None:
            self.clocks.advanced(split, limited_watermark(watermark_ms))

    def _custom_watermark(self, split: str, batch: Batch, times: Times) -> int | None:
        """The highest that the generator says: one that goes back is not followed."""
        generator = self._generators[split]
        reached: int | None = None
        record: Any = None
        if hasattr(generator, "on_event"):
            try:
                for record, time in zip(rows_of(batch), times.tolist(), strict=True):
                    said = generator.on_event(record, time)
                    if said is not None:
                        reached = self._checked(said) if reached is None else max(reached, self._checked(said))
            except Exception as error:
                raise_user_error(error, function=generator.on_event, operator=self._context.name, record=record)
        said = self._ask(split)
        return said if reached is None else reached if said is None else max(reached, said)

    def _may_ask(self, split: str, now_seconds: float) -> bool:
        asked = self._asked_at_seconds.get(split)
        return asked is None or now_seconds >= asked + self._ask_every_seconds

    def _ask(self, split: str) -> int | None:
        """What a periodic generator says now."""
        generator = self._generators[split]
        if not hasattr(generator, "on_periodic"):
            return None
        self._asked_at_seconds[split] = self._context.now_seconds()
        try:
            said = generator.on_periodic()
            return None if said is None else self._checked(said)
        except Exception as error:
            raise_user_error(error, function=generator.on_periodic, operator=self._context.name, moment="when asked")

    def _checked(self, said: Any) -> int:
        if isinstance(said, int) and not isinstance(said, bool):
            return limited_watermark(said)
        raise UserFunctionError(
            f'the watermark generator of operator "{self._context.name}" returned what is no watermark',
            detail=f"{type(said).__name__}: {shown(said)}",
            hint="return a whole number of milliseconds since the epoch, or None",
        )


class AssignTimestampsOperator(Operator):
    """Timestamps and watermarks for a stream that isn't a source's own output: all of it is one split."""

    forwards_time: ClassVar[bool] = False
    forwards_idleness: ClassVar[bool] = False

    def __init__(self, selector: TimestampSelector, strategy: WatermarkStrategy) -> None:
        self._selector = selector
        self._strategy = strategy
        self._complete = False

    def open(self, context: OperatorContext) -> None:
        super().open(context)
        self._event_time = EventTime(self._selector, self._strategy, context)
        self._event_time.opened(_THE_STREAM, restored_watermark(context))

    def process(self, batch: Batch, port: int) -> None:
        timed = self._event_time.take(_THE_STREAM, batch)
        if timed is not None:
            self.context.emit(timed.batch)
            self._event_time.passed(_THE_STREAM, timed.watermark_ms)
        self._event_time.tell()

    def on_idle_input(self) -> None:
        if not self._complete:
            self._event_time.silent(_THE_STREAM)
            self._event_time.tell(now=True)

    def next_wall_ms(self) -> int | None:
        """Only wakes the task: if nothing has come by then, `on_idle_input` is called."""
        look = None if self._complete else self._event_time.next_look_seconds()
        if look is None:
            return None
        return self.context.wall_ms() + max(1, ceil((look - self.context.now_seconds()) * 1000))

    def on_watermark(self, timestamp_ms: int) -> None:
        if timestamp_ms == MAX_TIMESTAMP_MS:  # the input is complete, whatever the clocks say
            self._complete = True
            self._event_time.tell(now=True)
            self.context.emit_watermark(timestamp_ms)

    def freeze(self, checkpoint: CheckpointId) -> OperatorSnapshot:
        return OperatorSnapshot(lists=frozen_watermark(self.context, self._event_time.clocks.watermark_ms))


def frozen_watermark(
    context: OperatorContext, watermark_ms: int | None, name: str = WATERMARK_STATE
) -> tuple[FrozenList, ...]:
    """How far event time had come in a task, as operator state that every task gets all of."""
    if watermark_ms is None:
        return ()
    return (FrozenList(name, (_encode((context.subtask, context.parallelism, watermark_ms)),), "union"),)


def restored_watermark(context: OperatorContext, name: str = WATERMARK_STATE) -> int | None:
    """Where event time goes on after a restore: where this task was, or the slowest, if there were more or fewer.

    A task in which event time hadn't begun has told nothing: if it was one of them, it begins anew. What keys see is
    for `KeyTime` to say.
    """
    told = [TaskTime(*_decode(item)) for item in context.restored_lists.get(name, [])]
    reached_ms = slowest_of(
        told, subtask=context.subtask, parallelism=context.parallelism, same_inputs=context.same_inputs
    )
    return None if reached_ms == MIN_TIMESTAMP_MS else reached_ms
