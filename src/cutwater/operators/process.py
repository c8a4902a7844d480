"""How does a user's function with state and side outputs meet the stream?

The function is an object with `process(record, context)` and, if it likes, `open(context)`, `on_timer(time_ms,
context)` and `close()`; or a plain function of record and context. What it yields, returns in a list, or emits through
the context leaves as one batch per input batch, at the event time of the record or timer it answers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from inspect import isgeneratorfunction
from itertools import pairwise, repeat
from typing import Any, Literal, NoReturn, overload

import numpy as np

from cutwater.batches import Batch, ObjectBatch, Times, rows_of, times_of
from cutwater.dead_letters import ERRORS, OnError
from cutwater.errors import UserError
from cutwater.graph.keys import KeySelector
from cutwater.operators.contract import PYTHON_ROWS_MAX, Operator, OperatorContext, OperatorSnapshot
from cutwater.operators.failing import FailedRecords
from cutwater.operators.key_time import KeyTime, TimersAhead, known
from cutwater.operators.spreading import checked_kind
from cutwater.operators.state_handles import StateHandles
from cutwater.operators.timers import EVENT_TIMERS, PROCESSING_TIMERS, take_due, time_ms_of
from cutwater.operators.user_code import USER_FAILURES, keys_of, map_rows, name_of, raise_user_error, shown
from cutwater.protocol.ids import CheckpointId
from cutwater.protocol.timers import Timer
from cutwater.state.contract import (
    Aggregate,
    AggregatingState,
    KeyedBackend,
    ListState,
    MapState,
    ReducingState,
    TimerState,
    V,
    ValueState,
)
from cutwater.state.copies import copied, copied_values
from cutwater.state.sharing import Sharing
from cutwater.state.ttl import Ttl

ProcessFunction = Callable[[Any, Any], Iterable[Any] | None]
TimerKind = Literal["event", "processing"]

#: What timers put out leaves in batches of about this many records.
_TIMED_OUTPUTS_MAX = 4096


class FunctionContext:
    """What a user's function may use. Valid in `open`, `process` and `on_timer`; state handles and timers mean the
    current key."""

    __slots__ = (
        "_backend",
        "_handles",
        "_no_state_hint",
        "_no_timer_hint",
        "_operator",
        "_outputs",
        "_sharing",
        "_side_outputs",
        "_timers",
        "_wall_ms",
        "metrics",
        "parallelism",
        "subtask",
        "timer_kind",
        "timestamp_ms",
        "watermark_ms",
    )

    def __init__(self, context: OperatorContext, backend: KeyedBackend | None, *, no_state_hint: str = "") -> None:
        self.subtask = context.subtask
        self.parallelism = context.parallelism
        #: The user's own counters, gauges and histograms.
        self.metrics = context.user_metrics
        #: The event time of the current record, or that of the timer in `on_timer`; None: it has none.
        self.timestamp_ms: int | None = None
        #: How far event time has come, for the current key if there is one; None: not known yet.
        self.watermark_ms: int | None = None
        #: In `on_timer`: which kind of timer it is.
        self.timer_kind: TimerKind | None = None
        self._operator = context.name
        self._backend = backend
        self._handles: StateHandles | None = None
        self._no_state_hint = no_state_hint or "key_by first: keyed state belongs to a key"
        self._no_timer_hint = no_state_hint or "key_by first: a timer belongs to a key"
        self._timers: dict[TimerKind, TimerState] | None = None
        self._wall_ms = context.wall_ms
        #: Once it is on, what leaves is copied: it may be an object that the state keeps.
        self._sharing = Sharing(self._copy_outputs)
        self._outputs: list[Any] = []
        self._side_outputs: dict[str, tuple[list[Any], list[int]]] = {}

    @property
    def current_key(self) -> Any:
        return self._keyed("the current key").current_key

    @property
    def processing_time_ms(self) -> int:
        """The wall clock, in milliseconds since the epoch."""
        return self._wall_ms()

    def register_event_timer(self, time: Any) -> None:
        """Calls `on_timer` for the current key when the watermark has come to this time: milliseconds since the epoch,
        or an aware datetime. If it is there already: behind the current batch. Registered twice, it is called once."""
        self._timers_of("event").register(time_ms_of(time))

    def register_processing_timer(self, time: Any) -> None:
        """The same by the wall clock. Timers that are still open when the input ends are never called."""
        self._timers_of("processing").register(time_ms_of(time))

    def delete_event_timer(self, time: Any) -> None:
        """A timer that isn't there is no error."""
        self._timers_of("event").delete(time_ms_of(time))

    def delete_processing_timer(self, time: Any) -> None:
        self._timers_of("processing").delete(time_ms_of(time))

    @overload
    def value_state(
        self,
        name: str,
        default: None = None,
        *,
        type: type[V],
        ttl: Ttl | None = None,
    ) -> ValueState[V | None]: ...
    @overload
    def value_state(
        self,
        name: str,
        default: None = None,
        *,
        type: Any = None,
        ttl: Ttl | None = None,
    ) -> ValueState: ...
    @overload
    def value_state(
        self,
        name: str,
        default: V,
        *,
        type: Any = None,
        ttl: Ttl | None = None,
    ) -> ValueState[V]: ...
    def value_state(
        self,
        name: str,
        default: Any = None,
        *,
        type: Any = None,  # noqa: A002 — what it is
        ttl: Ttl | None = None,
    ) -> ValueState:
        """One value per key.

        Here and below: `type`, a dataclass, named tuple, msgspec struct, pydantic model, Arrow schema or plain type,
        makes the state survive changes of the class; without it values are pickled. `ttl=cw.Ttl("1h")`: what was not
        written for an hour is forgotten.
        """
        return self._states(name).value_state(name, default, type, ttl)

    def list_state(self, name: str, *, type: Any = None, ttl: Ttl | None = None) -> ListState:  # noqa: A002
        """A list per key; `type` is that of its items."""
        return self._states(name).list_state(name, type, ttl)

    def map_state(self, name: str, *, type: Any = None, ttl: Ttl | None = None) -> MapState:  # noqa: A002
        """A mapping per key; `type` is that of its values."""
        return self._states(name).map_state(name, type, ttl)

    def reducing_state(
        self,
        name: str,
        reduce: Callable[[V, V], V],
        *,
        type: Any = None,  # noqa: A002
        ttl: Ttl | None = None,
    ) -> ReducingState[V]:
        """What the function makes of all values that were added."""
        return self._states(name).reducing_state(name, reduce, type, ttl)

    def aggregating_state(
        self,
        name: str,
        aggregate: Aggregate,
        *,
        type: Any = None,  # noqa: A002
        ttl: Ttl | None = None,
    ) -> AggregatingState:
        """The result of an aggregate of all values that were added; `type` is that of its accumulator."""
        return self._states(name).aggregating_state(name, aggregate, type, ttl)

    def emit(self, value: Any) -> None:
        """Sends a value down the main output, as yielding it would."""
        self._outputs.append(copied(value) if self._sharing.on else value)

    def side_output(self, tag: str, value: Any) -> None:
        """Sends a value down the side output of this tag."""
        sent = self._side_outputs.get(tag)
        if sent is None:
            sent = self._side_outputs[tag] = ([], [])
        sent[0].append(copied(value) if self._sharing.on else value)
        if self.timestamp_ms is not None:
            sent[1].append(self.timestamp_ms)

    def _states(self, name: str) -> StateHandles:
        backend = self._keyed(f'state "{name}"')
        if self._handles is None:
            self._handles = StateHandles(backend, operator=self._operator, wall_ms=self._wall_ms, sharing=self._sharing)
        return self._handles

    def _sweep(self) -> None:
        """Between two batches."""
        if self._handles is not None:
            self._handles.sweep()

    def _pickled(self) -> tuple[tuple[str, str], ...]:
        """Between two batches: see `StateHandles.pickled`."""
        return () if self._handles is None else self._handles.pickled()

    def _keyed(self, wanted: str) -> KeyedBackend:
        if self._backend is None:
            raise UserError(
                f'operator "{self._operator}" asks for {wanted}, but has no key here', hint=self._no_state_hint
            )
        return self._backend

    def _timers_of(self, kind: TimerKind) -> TimerState:
        if self._timers is None:
            raise UserError(f'operator "{self._operator}" sets a timer it can\'t have here', hint=self._no_timer_hint)
        return self._timers[kind]

    def _copy_outputs(self) -> None:
        """The state is about to keep something changeable, which may have been emitted already. In place: the loops
        below go on adding."""
        self._outputs[:] = copied_values(self._outputs)
        for values, _ in self._side_outputs.values():
            values[:] = copied_values(values)

    def _outputs_so_far(self) -> tuple[int, dict[str, int]]:
        sent = self._side_outputs  # mostly empty
        return len(self._outputs), {tag: len(values) for tag, (values, _) in sent.items()} if sent else {}

    def _take_back(self, since: tuple[int, dict[str, int]]) -> None:
        """All that was put out since. In place, as above."""
        outputs, side_outputs = since
        del self._outputs[outputs:]
        for tag, (values, times) in list(self._side_outputs.items()):
            if tag in side_outputs:
                del values[side_outputs[tag] :], times[side_outputs[tag] :]
            else:
                del self._side_outputs[tag]

    def _take_outputs(self) -> tuple[list[Any], dict[str, tuple[list[Any], list[int]]]]:
        taken = self._outputs, self._side_outputs
        self._outputs, self._side_outputs = [], {}
        return taken


class Guarded:
    """A function of record and context that fails on no record. What a failed call had put out is taken back; what it
    did to state and timers stays."""

    def __init__(self, process: ProcessFunction, failed: FailedRecords, blamed: object) -> None:
        self._process = process
        self._failed = failed
        self._blamed = blamed
        self._kind: Any = None

    def __call__(self, record: Any, context: FunctionContext) -> None:
        before = context._outputs_so_far()
        original = copied(record) if self._failed.keeps else record  # it may be changed before the failure
        try:
            outputs = self._process(record, context)
            if outputs is not None:
                if type(outputs) is not self._kind:
                    self._kind = checked_kind(outputs, self._blamed, context._operator, record)
                for output in outputs:
                    context.emit(output)
        except USER_FAILURES as error:
            letter = self._failed.taken(error, function=self._blamed, record=original)
            context._take_back(before)
            if letter is not None:
                context.side_output(ERRORS, letter)


class FunctionOperator(Operator):
    """Opens and closes a user's object, runs its methods over rows, and sends what they put out."""

    typed_rows_max = PYTHON_ROWS_MAX

    def __init__(self, function: Any, on_error: OnError = "fail") -> None:
        if isinstance(function, type):
            raise UserError(
                f'"{function.__name__}" is a class, not a function', hint=f"pass an object: {function.__name__}()"
            )
        self._function = function
        self._failed = None if on_error == "fail" else FailedRecords(on_error)
        self._on_timer: ProcessFunction | None = getattr(function, "on_timer", None)
        self._backend: KeyedBackend | None = None
        self._event_timers: TimerState | None = None
        self._processing_timers: TimerState | None = None
        self._opened = False

    @property
    def side_tags(self) -> frozenset[str]:
        return frozenset() if self._failed is None else self._failed.side_tags

    @property
    def side_function(self) -> Any:
        return self._function

    def open(self, context: OperatorContext) -> None:
        super().open(context)
        if self._failed is not None:
            self._failed.open(context)
        if self._is_keyed():
            self._backend = context.keyed_backend()
        self._function_context = self._make_function_context(self._backend)
        self._key_time = KeyTime(context, keyed=self._is_keyed())
        self._tell_watermark()
        self._function_context._no_timer_hint = "set timers in process: there is no key in open"
        self._opened = True  # before it is: a failure half-way must still be closed
        if hasattr(self._function, "open"):
            try:
                self._function.open(self._function_context)
            except USER_FAILURES as error:
                self._fail(error, self._function.open, "when it was opened")
        if any(self._function_context._take_outputs()):
            raise UserError(
                f'function "{name_of(self._function)}" of operator "{context.name}" emitted a value in open',
                hint="emit in process: after a failure open runs again, and its output would come twice",
            )
        self._open_timers()

    def on_watermark(self, timestamp_ms: int) -> None:
        self._advance(timestamp_ms)
        if self._event_timers is not None:
            self._fire("event", self._event_timers, self._key_time.watermark_ms)

    def next_wall_ms(self) -> int | None:
        return None if self._processing_timers is None else self._processing_timers.next_time()

    def on_wall_time(self, now_ms: int) -> None:
        if self._processing_timers is not None:
            self._fire("processing", self._processing_timers, now_ms)

    def freeze(self, checkpoint: CheckpointId) -> OperatorSnapshot:
        pickled = tuple(found for context in self._contexts() for found in context._pickled())
        keyed = None if self._backend is None else self._backend.freeze()
        return OperatorSnapshot(keyed, self._key_time.freeze(), pickled, self.layout)

    def close(self) -> None:
        try:
            if self._opened and hasattr(self._function, "close"):
                self._function.close()
        except USER_FAILURES as error:
            self._fail(error, self._function.close, "when it was closed")
        finally:
            self._opened = False
            if self._backend is not None:
                self._backend.close()

    def _is_keyed(self) -> bool:
        return False

    def _guarded(self, process: ProcessFunction, blamed: object = None) -> ProcessFunction:
        """It, or what never fails in its place; `blamed` is what the user wrote, if that is another."""
        return process if self._failed is None else Guarded(process, self._failed, blamed or process)

    def _make_function_context(self, backend: KeyedBackend | None) -> FunctionContext:
        return FunctionContext(self.context, backend)

    # Event time.

    def _contexts(self) -> Iterator[FunctionContext]:
        """All that must know the time."""
        yield self._function_context

    def _advance(self, timestamp_ms: int) -> None:
        some_were_ahead = self._key_time.some_are_ahead
        self._key_time.advance(timestamp_ms)
        self._tell_watermark()
        if some_were_ahead and not self._key_time.some_are_ahead:
            self._open_timers()

    def _tell_watermark(self) -> None:
        for context in self._contexts():
            context.watermark_ms = known(self._key_time.watermark_ms)

    def _tell_now(self) -> None:
        """What the keys at hand have reached."""
        self._function_context.watermark_ms = known(self._key_time.now_ms)

    def _turn_to(self, key: Any) -> None:
        """The state is that of this key, and the time."""
        assert self._backend is not None, "timers without a key"
        self._backend.set_current_key(key)
        if self._key_time.some_are_ahead:
            self._key_time.turn_to(key)
            self._tell_now()

    def _turn_back(self) -> None:
        if self._key_time.some_are_ahead:
            self._key_time.turn_back()
            self._tell_now()

    def _in_step(self, batch: Batch, key: KeySelector | None) -> Iterable[Batch]:
        """The batch in parts whose keys have come equally far; nearly always, and without a key, as it is."""
        return (batch,) if key is None or not self._key_time.some_are_ahead else self._parts(batch, key)

    def _parts(self, batch: Batch, key: KeySelector) -> Iterator[Batch]:
        for part in self._key_time.parts(batch, keys_of(key, batch, operator=self.context.name)):
            self._tell_now()
            yield part
        self._tell_now()

    def _timers_of_events(self, backend: KeyedBackend) -> TimerState:
        timers = backend.timer_state(EVENT_TIMERS)
        return TimersAhead(timers, backend, self._key_time) if self._key_time.some_are_ahead else timers

    # Timers.

    def _open_timers(self) -> None:
        context = self._function_context
        if self._backend is None:
            context._no_timer_hint = "key_by first: a timer belongs to a key"
        elif self._on_timer is None:
            context._no_timer_hint = "give the function's object a method on_timer(self, time_ms, context)"
        else:
            self._event_timers = self._timers_of_events(self._backend)
            self._processing_timers = self._backend.timer_state(PROCESSING_TIMERS)
            context._timers = {"event": self._event_timers, "processing": self._processing_timers}

    def _fire(self, kind: TimerKind, timers: TimerState, upto_ms: int) -> None:
        next_ms = timers.next_time()
        if next_ms is None or next_ms > upto_ms:
            return
        context = self._function_context
        context.timer_kind = kind
        times: list[int] = []
        for timer in take_due(timers, upto_ms, operator=self.context.name):
            context.timestamp_ms = timer.time_ms if kind == "event" else None
            self._call_on_timer(timer, context)
            if kind == "event":
                times += repeat(timer.time_ms, len(context._outputs) - len(times))
            if len(context._outputs) >= _TIMED_OUTPUTS_MAX:
                self._emit_outputs(context, np.array(times, np.int64) if kind == "event" else None)
                times = []
        context.timer_kind = None
        self._turn_back()
        self._emit_outputs(context, np.array(times, np.int64) if kind == "event" else None)

    def _call_on_timer(self, timer: Timer, context: FunctionContext) -> None:
        assert self._on_timer is not None, "timers that nobody can have set"
        self._turn_to(timer.key)
        try:
            outputs = self._on_timer(timer.time_ms, context)
            if outputs is not None:
                checked_kind(outputs, self._on_timer, self.context.name)
                for output in outputs:
                    context.emit(output)
        except USER_FAILURES as error:
            self._fail(error, self._on_timer, f"on the timer of key {shown(timer.key)} at {timer.time_ms}")

    # Records.

    def _run(
        self, process: ProcessFunction, batch: Batch, *, context: FunctionContext, key: KeySelector | None
    ) -> None:
        for part in self._in_step(batch, key):
            self._run_part(process, part, context=context, key=key)
        context._sweep()

    def _run_part(
        self, process: ProcessFunction, batch: Batch, *, context: FunctionContext, key: KeySelector | None
    ) -> None:
        times = times_of(batch)
        keys = None if key is None else keys_of(key, batch, operator=self.context.name)
        if times is not None:
            times = np.repeat(times, self._run_timed_rows(process, rows_of(batch), keys, times, context))
        else:
            context.timestamp_ms = None
            if keys is None:
                self._run_rows(process, rows_of(batch), context)
            else:
                self._run_keyed_rows(process, rows_of(batch), keys, context)
        self._emit_outputs(context, times)
        if self._event_timers is not None:
            self._fire("event", self._event_timers, self._key_time.watermark_ms)

    def _emit_outputs(self, context: FunctionContext, times: Times | None) -> None:
        outputs, side_outputs = context._take_outputs()
        side_batches = [
            # Copied: one record may leave by several ways.
            (tag, ObjectBatch(copied_values(values), np.array(side_times, np.int64) if side_times else None))
            for tag, (values, side_times) in side_outputs.items()
        ]
        if outputs:
            self.context.emit(ObjectBatch(outputs, times))
        for tag, batch in side_batches:
            self.context.emit_side(tag, batch)

    def _run_rows(self, process: ProcessFunction, rows: list[Any], context: FunctionContext) -> None:
        append, sharing = context._outputs.append, context._sharing
        record = kind = None
        try:
            if isgeneratorfunction(process):  # what it gives needs no look
                for record in rows:
                    # Not extend: a generator may call context.emit between two yields.
                    for output in process(record, context):
                        append(copied(output) if sharing.on else output)
                return
            for record in rows:
                outputs = process(record, context)
                if outputs is not None:
                    if type(outputs) is not kind:
                        kind = checked_kind(outputs, process, self.context.name, record)
                    for output in outputs:
                        append(copied(output) if sharing.on else output)
        except USER_FAILURES as error:
            raise_user_error(error, function=process, operator=self.context.name, record=record)

    def _run_keyed_rows(
        self, process: ProcessFunction, rows: list[Any], keys: list[Any], context: FunctionContext
    ) -> None:
        assert self._backend is not None, "a keyed function without a backend"
        set_current_key = self._backend.set_current_key
        append, sharing = context._outputs.append, context._sharing
        record = kind = None
        try:
            if isgeneratorfunction(process):  # what it gives needs no look
                for record, key in zip(rows, keys, strict=True):
                    set_current_key(key)
                    for output in process(record, context):
                        append(copied(output) if sharing.on else output)
                return
            for record, key in zip(rows, keys, strict=True):
                set_current_key(key)
                outputs = process(record, context)
                if outputs is not None:
                    if type(outputs) is not kind:
                        kind = checked_kind(outputs, process, self.context.name, record)
                    for output in outputs:
                        append(copied(output) if sharing.on else output)
        except USER_FAILURES as error:
            raise_user_error(error, function=process, operator=self.context.name, record=record)

    def _run_timed_rows(
        self, process: ProcessFunction, rows: list[Any], keys: list[Any] | None, times: Times, context: FunctionContext
    ) -> list[int]:
        """How many outputs each record has."""
        set_current_key = None if keys is None or self._backend is None else self._backend.set_current_key
        outputs_so_far, sharing = context._outputs, context._sharing
        ends = [0]
        record = kind = None
        try:
            for record, key, context.timestamp_ms in zip(rows, keys or repeat(None), times.tolist(), strict=False):
                if set_current_key is not None:
                    set_current_key(key)
                outputs = process(record, context)
                if outputs is not None:
                    if type(outputs) is not kind:
                        kind = checked_kind(outputs, process, self.context.name, record)
                    for output in outputs:
                        outputs_so_far.append(copied(output) if sharing.on else output)
                ends.append(len(outputs_so_far))
        except USER_FAILURES as error:
            raise_user_error(error, function=process, operator=self.context.name, record=record)
        return [end - start for start, end in pairwise(ends)]

    def _map(self, function: Callable[[Any], Any], batch: Batch, *, key: KeySelector | None) -> None:
        for part in self._in_step(batch, key):
            self._map_part(function, part, key=key)

    def _map_part(self, function: Callable[[Any], Any], batch: Batch, *, key: KeySelector | None) -> None:
        rows = rows_of(batch)
        if key is None:
            outputs = map_rows(function, rows, operator=self.context.name)
        else:
            outputs = self._map_keyed_rows(function, rows, keys_of(key, batch, operator=self.context.name))
        self.context.emit(ObjectBatch(outputs, times_of(batch)))

    def _map_keyed_rows(self, function: Callable[[Any], Any], rows: list[Any], keys: list[Any]) -> list[Any]:
        assert self._backend is not None, "a keyed function without a backend"
        set_current_key, emit = self._backend.set_current_key, self._function_context.emit
        record = None
        try:
            for record, key in zip(rows, keys, strict=True):
                set_current_key(key)
                emit(function(record))
        except USER_FAILURES as error:
            raise_user_error(error, function=function, operator=self.context.name, record=record)
        return self._function_context._take_outputs()[0]

    def _fail(self, error: BaseException, function: object, moment: str) -> NoReturn:
        raise_user_error(error, function=function, operator=self.context.name, moment=moment)


class ProcessOperator(FunctionOperator):
    """Runs the function on every record, without a key."""

    def __init__(self, function: Any, on_error: OnError = "fail") -> None:
        super().__init__(function, on_error)
        self._process = self._guarded(process_method_of(function))

    def process(self, batch: Batch, port: int) -> None:
        self._run(self._process, batch, context=self._function_context, key=None)


class KeyedProcessOperator(FunctionOperator):
    """Runs the function on every record, with the state of the record's key."""

    def __init__(self, key: KeySelector, function: Any, on_error: OnError = "fail") -> None:
        super().__init__(function, on_error)
        self._key = key
        self._process = self._guarded(process_method_of(function))

    def process(self, batch: Batch, port: int) -> None:
        self._run(self._process, batch, context=self._function_context, key=self._key)

    def _is_keyed(self) -> bool:
        return True


def process_method_of(function: Any) -> ProcessFunction:
    """The object's `process`, or the callable itself."""
    process: ProcessFunction | None = getattr(function, "process", function if callable(function) else None)
    if process is None:
        raise UserError(
            f'an object of type "{type(function).__name__}" can\'t process records',
            hint="give it a method process(self, record, context), or pass a function of record and context",
        )
    return process
