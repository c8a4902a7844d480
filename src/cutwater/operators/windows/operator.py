"""What happens to the records of a window, from the first one to its clean-up?

Flink's rules. A record is added to each of its windows, then the trigger is asked. Event-time windows are cleaned up
when the watermark reaches their end - 1 ms and the allowed lateness; processing-time windows when the wall clock is
beyond their end. A record none of whose windows is still there is late.

At the end of a complete input the watermark is the end of time: event-time windows fire, and before them the last timer
of processing time of each window, so that no result is lost. Count windows never fire in part.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np

from cutwater.batches import Batch, Times, rows_of, take_rows, times_of
from cutwater.errors import UserError
from cutwater.graph.keys import KeySelector
from cutwater.operators.contract import OperatorContext
from cutwater.operators.keyed_values import MISSING
from cutwater.operators.process import FunctionContext, FunctionOperator
from cutwater.operators.timers import PROCESSING_TIMERS, take_due
from cutwater.operators.user_code import keys_of, last_taken, raise_user_error, shown
from cutwater.operators.windows.contexts import PaneContext, WindowContext
from cutwater.operators.windows.evictors import TimedRecord
from cutwater.operators.windows.folds import Fold, Records, result_of
from cutwater.operators.windows.model import Assigner, TimeKind, Window
from cutwater.operators.windows.panes import Pane, Panes
from cutwater.operators.windows.results import Results
from cutwater.operators.windows.triggers import CONTINUE, RunTrigger, Trigger, TriggerResult
from cutwater.protocol.key_groups import KeyGroups
from cutwater.protocol.timers import Timer
from cutwater.protocol.watermarks import MAX_TIMESTAMP_MS
from cutwater.state.contract import KeyedBackend, TimerState
from cutwater.state.copies import copied, copied_values

CONTENTS_STATE = "__window"
TRIGGER_STATE = "__trigger"

#: Results of one advance of time leave in batches of about this many.
_OUTPUTS_MAX = 4096


@dataclass(frozen=True, slots=True)
class WindowSpec:
    """A window operation as it was written."""

    key: KeySelector
    assigner: Assigner
    trigger: Trigger
    fold: Fold
    results: Results
    evictor: Any = None
    lateness_ms: int = 0
    #: The side output of late records; None: they are dropped and counted.
    late_tag: str | None = None


class Arrival:
    """A batch on its way into windows: what of it is needed by position."""

    __slots__ = ("batch", "inputs", "keys", "rows", "times")

    def __init__(self, batch: Batch, keys: list[Any], inputs: Sequence[Any], times: list[int] | None) -> None:
        self.batch = batch
        self.keys = keys
        self.inputs = inputs
        self.times = times
        #: The records, for triggers that want to see them.
        self.rows: list[Any] = []


class WindowOperator(FunctionOperator):
    """The windows of one task's keys; how records find theirs is for subclasses."""

    #: What the windows' own time is. The global window has none, and is never late.
    _time: TimeKind = "event"
    #: A record may be in several windows of its key.
    _overlaps: bool = False

    def __init__(self, spec: WindowSpec) -> None:
        super().__init__(spec.results.function)
        self._on_timer = None  # windows have triggers; an object's on_timer belongs to other uses of it
        self._spec = spec
        self._trigger = spec.trigger
        self._runs = spec.trigger if isinstance(spec.trigger, RunTrigger) else None
        self._evictor = spec.evictor
        #: What windows keep: with an evictor the records and their times, whatever becomes of them.
        self._fold: Fold = spec.fold if spec.evictor is None else Records()
        self._result_times: list[int | None] = []

    def open(self, context: OperatorContext) -> None:
        super().open(context)
        backend = self._keyed_backend
        self._contents = Panes(backend, CONTENTS_STATE, context)
        self._trigger_states = Panes(backend, TRIGGER_STATE, context)
        self._pane_context = PaneContext(
            context, self._trigger_states, event=self._event, processing=self._processing, time=self._time
        )
        self._pane_context.watermark_ms = self._function_context.watermark_ms

    def process(self, batch: Batch, port: int) -> None:
        self._begin()
        for part in self._in_step(batch, self._spec.key):
            self._take(part)
            next_ms = self._event.next_time()
            if next_ms is not None and next_ms <= self._key_time.watermark_ms:
                self._fire_event_timers()
        self._flush()

    def on_watermark(self, timestamp_ms: int) -> None:
        self._begin()
        self._advance(timestamp_ms)
        if timestamp_ms == MAX_TIMESTAMP_MS:
            self._fire_last_processing_timers()
        self._fire_event_timers()
        self._flush()

    def next_wall_ms(self) -> int | None:
        # A millisecond later: while the clock shows a window's last one, records still come into it.
        next_ms = self._processing.next_time()
        return None if next_ms is None else next_ms + 1

    def on_wall_time(self, now_ms: int) -> None:
        self._begin()
        for timer in take_due(self._processing, now_ms - 1, operator=self.context.name):
            self._ask_trigger(timer, "processing")
        self._turn_back()
        self._flush()

    def _is_keyed(self) -> bool:
        return True

    def _make_function_context(self, backend: KeyedBackend | None) -> FunctionContext:
        return WindowContext(self.context, backend)

    def _open_timers(self) -> None:
        self._function_context._no_timer_hint = "a window fires by its trigger: write one with timers, or use process"
        backend = self._keyed_backend
        self._event: TimerState = self._timers_of_events(backend)
        self._processing: TimerState = backend.timer_state(PROCESSING_TIMERS)

    def _advance(self, timestamp_ms: int) -> None:
        super()._advance(timestamp_ms)
        self._pane_context.set_event_timers_in(self._event)
        self._pane_context.watermark_ms = self._function_context.watermark_ms

    def _tell_now(self) -> None:
        super()._tell_now()
        self._pane_context.watermark_ms = self._function_context.watermark_ms

    # For subclasses.

    @abstractmethod
    def _take(self, batch: Batch) -> None:
        """Brings the records into their windows."""

    @abstractmethod
    def _window_of(self, pane: Pane) -> Window | None:
        """The window that timers and triggers know under this name; None: it has gone."""

    @abstractmethod
    def _contents_of(self, pane: Pane) -> Pane:
        """Where the contents of this window are."""

    def _forget(self, pane: Pane) -> None:
        """The window has been cleaned up."""

    @property
    def _keyed_backend(self) -> KeyedBackend:
        assert self._backend is not None, "not open"
        return self._backend

    def _arrived(self, batch: Batch, times: Times | None) -> Arrival:
        name = self.context.name
        listed = None if times is None else times.tolist()
        inputs: Sequence[Any]
        if self._evictor is not None:
            rows = rows_of(batch)
            inputs = list(map(TimedRecord, rows, [None] * len(rows) if listed is None else listed))
        else:
            inputs = self._fold.inputs_of(batch, name)
        arrival = Arrival(batch, keys_of(self._spec.key, batch, operator=name), inputs, listed)
        if self._runs is None:
            arrival.rows = rows_of(batch)
        return arrival

    def _event_times_of(self, batch: Batch) -> Times:
        times = times_of(batch)
        if times is None:
            raise UserError(
                f'operator "{self.context.name}" has event-time windows, but its records have no timestamps',
                detail=f"a record: {shown(rows_of(take_rows(batch, [0]))[0])}",
                hint='assign_timestamps("column", cw.watermarks.bounded("5s")) before the window, '
                'or window by the wall clock: time="processing"',
            )
        return times

    def _is_late(self, max_timestamp_ms: int) -> bool:
        """The window that ends there has been cleaned up."""
        watermark_ms = self._pane_context.watermark_ms
        return (
            self._time == "event"
            and watermark_ms is not None
            and max_timestamp_ms + self._spec.lateness_ms <= watermark_ms
        )

    def _is_over(self, max_timestamp_ms: int) -> bool:
        """The window that ends there has given its result."""
        watermark_ms = self._pane_context.watermark_ms
        return self._time == "event" and watermark_ms is not None and max_timestamp_ms <= watermark_ms

    def _refuse_late(self, batch: Batch, indices: Sequence[int]) -> None:
        if self._spec.late_tag is None:
            self.context.metrics.late_records += len(indices)
        else:
            self.context.emit_side(self._spec.late_tag, take_rows(batch, indices))

    # Records into a window.

    def _add(self, arrival: Arrival, indices: Sequence[int], pane: Pane, window: Window, contents_pane: Pane) -> None:
        """Adds these records to a window, and does what the trigger says."""
        runs = self._runs
        contents = self._contents.of(pane[0])
        if runs is not None and runs.asked_once and not self._is_over(window.max_timestamp_ms):
            current = contents.get(contents_pane, MISSING)
            if current is MISSING:
                self._keyed_backend.set_current_key(pane[0])
                self._pane_context.point_at(pane)
                time_ms = None if arrival.times is None else arrival.times[indices[0]]
                runs.on_run(len(indices), time_ms, window, self._pane_context)
                self._set_clean_up(window, pane[1])
            contents[contents_pane] = self._grown(current, arrival, indices, contents_pane)
            return
        self._keyed_backend.set_current_key(pane[0])
        taken = 0
        while taken < len(indices):
            self._pane_context.point_at(pane)
            count, result = self._ask(arrival, indices[taken:], window)
            run = indices[taken : taken + count]
            current = contents.get(contents_pane, MISSING)
            contents[contents_pane] = self._grown(current, arrival, run, contents_pane)
            taken += count
            if result is not CONTINUE:
                time_ms = None if arrival.times is None else arrival.times[run[-1]]
                self._obey(result, window, contents_pane, time_ms)
        self._set_clean_up(window, pane[1])

    def _ask(self, arrival: Arrival, indices: Sequence[int], window: Window) -> tuple[int, TriggerResult]:
        index = indices[0]
        time_ms = None if arrival.times is None else arrival.times[index]
        if self._runs is not None:
            return self._runs.on_run(len(indices), time_ms, window, self._pane_context)
        record = arrival.rows[index]
        try:
            return 1, self._trigger.on_element(record, time_ms, window, self._pane_context)
        except Exception as error:
            raise_user_error(error, function=_named(self._trigger), operator=self.context.name, record=record)

    def _grown(self, current: Any, arrival: Arrival, indices: Sequence[int], contents_pane: Pane) -> Any:
        fold, inputs, positions = self._fold, arrival.inputs, indices
        if fold.mutable and current is not MISSING:
            current = self._contents.own(contents_pane, current)
        if fold.mutable and self._overlaps:  # the user's function may change a record that other windows have too
            inputs, positions = copied_values([inputs[index] for index in indices]), range(len(indices))
        try:
            return fold.add(current, inputs, positions)
        except Exception as error:
            record = rows_of(arrival.batch)[last_taken(list(indices), fold.remaining)]
            raise_user_error(error, function=fold.function, operator=self.context.name, record=record)

    # Timers.

    def _set_clean_up(self, window: Window, namespace: Any) -> None:
        """The current key's."""
        time_ms = self._clean_up_ms(window)
        if time_ms < MAX_TIMESTAMP_MS:
            (self._event if self._time == "event" else self._processing).register(time_ms, namespace)

    def _clean_up_ms(self, window: Window) -> int:
        lateness_ms = self._spec.lateness_ms if self._time == "event" else 0
        return min(window.max_timestamp_ms + lateness_ms, MAX_TIMESTAMP_MS)

    def _fire_event_timers(self) -> None:
        for timer in take_due(self._event, self._key_time.watermark_ms, operator=self.context.name):
            self._ask_trigger(timer, "event")
            if len(self._result_times) >= _OUTPUTS_MAX:
                self._flush()
        self._turn_back()

    def _fire_last_processing_timers(self) -> None:
        """The input has ended before the wall clock came there: the last timer of each window is called now."""
        last = {(timer.key, timer.namespace): timer for timer in self._processing.due(MAX_TIMESTAMP_MS)}
        for timer in last.values():
            self._ask_trigger(timer, "processing")
        self._processing.due(MAX_TIMESTAMP_MS)  # what they have set for later comes never

    def _ask_trigger(self, timer: Timer, kind: TimeKind) -> None:
        time_ms, key, namespace = timer
        pane = (key, namespace)
        window = self._window_of(pane)
        if window is None:
            return
        self._turn_to(key)
        self._pane_context.point_at(pane)
        ask = self._trigger.on_event_time if kind == "event" else self._trigger.on_processing_time
        try:
            result = ask(time_ms, window, self._pane_context)
        except Exception as error:
            self._blame_trigger(error, timer)
        ends = self._time == kind and time_ms == self._clean_up_ms(window)
        self._obey(result, window, self._contents_of(pane), time_ms if kind == "event" else None, ends=ends)
        if ends:
            self._clean_up(pane, window)

    def _clean_up(self, pane: Pane, window: Window) -> None:
        contents_pane = self._contents_of(pane)
        self._contents.of(pane[0]).pop(contents_pane, None)
        self._clear_trigger(pane, window)
        self._forget(pane)

    def _clear_trigger(self, pane: Pane, window: Window) -> None:
        self._keyed_backend.set_current_key(pane[0])
        self._pane_context.point_at(pane)
        try:
            self._trigger.clear(window, self._pane_context)
        except Exception as error:
            self._blame_trigger(error, None)
        self._pane_context.forget(pane)

    def _blame_trigger(self, error: Exception, timer: Timer | None) -> NoReturn:
        moment = "on a timer" if timer is None else f"on the timer of key {shown(timer.key)} at {timer.time_ms}"
        raise_user_error(error, function=_named(self._trigger), operator=self.context.name, moment=moment)

    # Results.

    def _obey(
        self, result: TriggerResult, window: Window, contents_pane: Pane, time_ms: int | None, *, ends: bool = False
    ) -> None:
        """`time_ms`: of the record or the timer that made the trigger say so, if it is event time."""
        contents = self._contents.of(contents_pane[0])
        if result.fires:
            current = contents.get(contents_pane, MISSING)
            if current is not MISSING:
                if window.max_timestamp_ms < MAX_TIMESTAMP_MS:
                    time_ms = window.max_timestamp_ms
                elif time_ms == MAX_TIMESTAMP_MS:
                    time_ms = self._key_time.before_the_end_ms(contents_pane[0])
                # Else a window without an end: its results have the time of what made it fire.
                shared = not (ends or result.purges) or (self._overlaps and not self._fold.mutable)
                self._fire_window(current, window, contents_pane, time_ms, shared=shared)
        if result.purges:
            contents.pop(contents_pane, None)

    def _fire_window(
        self, current: Any, window: Window, contents_pane: Pane, time_ms: int | None, *, shared: bool
    ) -> None:
        """`shared`: this window goes on with what is given away here, or another one has its records."""
        if self._result_times and (self._result_times[-1] is None) != (time_ms is None):
            self._flush()  # a batch has event times for all of its records, or for none
        context = self._function_context
        assert isinstance(context, WindowContext)
        context.window, context.timestamp_ms = window, time_ms
        key = contents_pane[0]
        try:
            if self._evictor is not None:
                self._emit_after_eviction(current, window, contents_pane, context)
            else:
                if self._fold.exposes:
                    current = copied(current) if shared else self._contents.own(contents_pane, current)
                self._spec.results.emit(key, window, self._fold.result(current), context)
        except Exception as error:
            blamed = self._spec.results.function or self._fold.function
            moment = f"on the window of key {shown(key)} {_shown_window(window)}"
            raise_user_error(error, function=blamed, operator=self.context.name, moment=moment)
        self._result_times += [time_ms] * (len(context._outputs) - len(self._result_times))

    def _emit_after_eviction(self, current: Any, window: Window, contents_pane: Pane, context: WindowContext) -> None:
        evictor, fold = self._evictor, self._spec.fold
        records: list[TimedRecord] = self._fold.result(self._contents.own(contents_pane, current))
        if hasattr(evictor, "evict_before"):
            records = evictor.evict_before(records, window)
        values = copied_values([record.value for record in records])  # the window may go on with these records
        if isinstance(fold, Records):
            self._spec.results.emit(contents_pane[0], window, values, context)
        elif values:
            result = result_of(fold, values, self.context.name)
            self._spec.results.emit(contents_pane[0], window, result, context)
        if hasattr(evictor, "evict_after"):
            records = evictor.evict_after(records, window)
        contents = self._contents.of(contents_pane[0])
        if records:
            contents[contents_pane] = (tuple(records),)
        else:
            contents.pop(contents_pane, None)

    def _begin(self) -> None:
        self._contents.begin()
        self._trigger_states.begin()

    def _flush(self) -> None:
        times, self._result_times = self._result_times, []
        timed = bool(times) and times[0] is not None
        self._emit_outputs(self._function_context, np.array(times, np.int64) if timed else None)


def grouped(pairs: Iterator[Pane], keys: list[Any]) -> dict[Pane, list[int]]:
    """The positions of equal pairs, in the order of their first appearance; the first of a pair is its key."""
    groups: defaultdict[Pane, list[int]] = defaultdict(list)
    try:
        for index, pair in enumerate(pairs):
            groups[pair].append(index)
    except TypeError:
        for key in keys:
            KeyGroups(1).of(key)  # raises what names the key that can't be one
        raise
    return groups


def _named(trigger: Trigger) -> object:
    inner = getattr(trigger, "inner", trigger)
    return inner if inner is trigger else _named(inner)


def _shown_window(window: Window) -> str:
    start_ms = getattr(window, "start_ms", None)
    return "" if start_ms is None else f"from {start_ms} to {window.max_timestamp_ms + 1} ms"
