"""When does a window give its result?

A trigger is asked for every record and every timer it has set. It has no fields that change: what it must remember of a
window lives in that window's state (`context.value_state`), so that it survives a failure.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from enum import Enum
from typing import Any, Protocol

from cutwater.errors import UserError
from cutwater.operators.windows.model import TimeKind, Window
from cutwater.protocol.watermarks import MAX_TIMESTAMP_MS


class TriggerResult(Enum):
    """What happens to the window now."""

    CONTINUE = 0
    FIRE = 1
    PURGE = 2
    FIRE_AND_PURGE = 3

    @property
    def fires(self) -> bool:
        return self is TriggerResult.FIRE or self is TriggerResult.FIRE_AND_PURGE

    @property
    def purges(self) -> bool:
        return self is TriggerResult.PURGE or self is TriggerResult.FIRE_AND_PURGE


CONTINUE, FIRE = TriggerResult.CONTINUE, TriggerResult.FIRE


class WindowValue(Protocol):
    """One value of one name for the current window."""

    def value(self) -> Any: ...
    def update(self, value: Any) -> None: ...
    def clear(self) -> None: ...


class TriggerContext(Protocol):
    """What a trigger may use; all of it speaks of the current key and window."""

    #: How far event time has come; None: not known yet.
    watermark_ms: int | None
    #: What the windows' own time is.
    time: TimeKind

    @property
    def processing_time_ms(self) -> int: ...
    @property
    def current_key(self) -> Any: ...
    def value_state(self, name: str, default: Any = None) -> WindowValue: ...
    def merge_state(self, name: str, merge: Callable[[Any, Any], Any]) -> Any:
        """In `on_merge`: the values that the merged windows have under this name become one; None if none has any."""
        ...

    def register_event_timer(self, time: Any) -> None: ...
    def register_processing_timer(self, time: Any) -> None: ...
    def delete_event_timer(self, time: Any) -> None: ...
    def delete_processing_timer(self, time: Any) -> None: ...


class Trigger(ABC):
    """Derive from this for a trigger of your own, or write a class with the same methods."""

    @abstractmethod
    def on_element(
        self, record: Any, timestamp_ms: int | None, window: Window, context: TriggerContext
    ) -> TriggerResult:
        """A record came into the window, and is in it already when the window fires now."""

    def on_event_time(self, time_ms: int, window: Window, context: TriggerContext) -> TriggerResult:
        """An event-time timer of this window is due; also called when the window is cleaned up."""
        return CONTINUE

    def on_processing_time(self, time_ms: int, window: Window, context: TriggerContext) -> TriggerResult:
        return CONTINUE

    def on_merge(self, window: Window, context: TriggerContext) -> None:
        """Sessions became one: set the timers of the new one. Without this method, it can't trigger sessions."""
        raise NotImplementedError

    def clear(self, window: Window, context: TriggerContext) -> None:
        """The window goes: delete the timers that are still set. Its state goes by itself."""

    @property
    def can_merge(self) -> bool:
        return type(self).on_merge is not Trigger.on_merge


class RunTrigger(Trigger):
    """A trigger that doesn't look at the records, so that it can answer for many at a time."""

    #: As long as the window is not over, one answer for its first record holds for all of them.
    asked_once = True

    @abstractmethod
    def on_run(
        self, count: int, timestamp_ms: int | None, window: Window, context: TriggerContext
    ) -> tuple[int, TriggerResult]:
        """`count` records come, the first at this time: for how many of them the answer is, one at least."""

    def on_element(
        self, record: Any, timestamp_ms: int | None, window: Window, context: TriggerContext
    ) -> TriggerResult:
        return self.on_run(1, timestamp_ms, window, context)[1]


class EventTimeTrigger(RunTrigger):
    """When the watermark passes the window's end; then for every record that is late but allowed."""

    def on_run(
        self, count: int, timestamp_ms: int | None, window: Window, context: TriggerContext
    ) -> tuple[int, TriggerResult]:
        if _is_over(window, context):
            return 1, FIRE
        context.register_event_timer(window.max_timestamp_ms)
        return count, CONTINUE

    def on_event_time(self, time_ms: int, window: Window, context: TriggerContext) -> TriggerResult:
        return FIRE if time_ms == window.max_timestamp_ms else CONTINUE

    def on_merge(self, window: Window, context: TriggerContext) -> None:
        if not _is_over(window, context):
            context.register_event_timer(window.max_timestamp_ms)

    def clear(self, window: Window, context: TriggerContext) -> None:
        context.delete_event_timer(window.max_timestamp_ms)


class ProcessingTimeTrigger(RunTrigger):
    """When the wall clock passes the window's end."""

    def on_run(
        self, count: int, timestamp_ms: int | None, window: Window, context: TriggerContext
    ) -> tuple[int, TriggerResult]:
        context.register_processing_timer(window.max_timestamp_ms)
        return count, CONTINUE

    def on_processing_time(self, time_ms: int, window: Window, context: TriggerContext) -> TriggerResult:
        return FIRE if time_ms == window.max_timestamp_ms else CONTINUE

    def on_merge(self, window: Window, context: TriggerContext) -> None:
        context.register_processing_timer(window.max_timestamp_ms)

    def clear(self, window: Window, context: TriggerContext) -> None:
        context.delete_processing_timer(window.max_timestamp_ms)


class CountTrigger(RunTrigger):
    """At every so many records of the window."""

    asked_once = False

    def __init__(self, count: int) -> None:
        self.count = count

    def on_run(
        self, count: int, timestamp_ms: int | None, window: Window, context: TriggerContext
    ) -> tuple[int, TriggerResult]:
        seen = context.value_state("count", 0)
        before = seen.value()
        if before + count < self.count:
            seen.update(before + count)
            return count, CONTINUE
        seen.clear()
        return max(1, self.count - before), FIRE  # two sessions that become one may have more than enough

    def on_merge(self, window: Window, context: TriggerContext) -> None:
        context.merge_state("count", int.__add__)


class ContinuousEventTimeTrigger(RunTrigger):
    """At every interval of event time while the window is open, and at its end."""

    def __init__(self, interval_ms: int) -> None:
        self.interval_ms = interval_ms

    def on_run(
        self, count: int, timestamp_ms: int | None, window: Window, context: TriggerContext
    ) -> tuple[int, TriggerResult]:
        if _is_over(window, context):
            return 1, FIRE
        if timestamp_ms is None:
            raise UserError(
                "a trigger of event time got a record without a timestamp",
                hint='assign_timestamps first, e.g. with cw.watermarks.bounded("5s"), or trigger by processing time',
            )
        context.register_event_timer(window.max_timestamp_ms)
        if context.value_state("next").value() is None:
            self._set_next(timestamp_ms - timestamp_ms % self.interval_ms, window, context)
        return count, CONTINUE

    def on_event_time(self, time_ms: int, window: Window, context: TriggerContext) -> TriggerResult:
        if time_ms == window.max_timestamp_ms:
            return FIRE
        if context.value_state("next").value() != time_ms:
            return CONTINUE
        if context.watermark_ms == window.max_timestamp_ms == MAX_TIMESTAMP_MS:
            context.value_state("next").clear()  # a window without an end, at the end of time: else it fires for ever
        else:
            self._set_next(time_ms, window, context)
        return FIRE

    def on_merge(self, window: Window, context: TriggerContext) -> None:
        if not _is_over(window, context):
            context.register_event_timer(window.max_timestamp_ms)
        earliest = context.merge_state("next", min)
        if earliest is not None:
            context.register_event_timer(earliest)

    def clear(self, window: Window, context: TriggerContext) -> None:
        context.delete_event_timer(window.max_timestamp_ms)
        earliest = context.value_state("next").value()
        if earliest is not None:
            context.delete_event_timer(earliest)

    def _set_next(self, after_ms: int, window: Window, context: TriggerContext) -> None:
        time_ms = min(after_ms + self.interval_ms, window.max_timestamp_ms)
        context.value_state("next").update(time_ms)
        context.register_event_timer(time_ms)


class ContinuousProcessingTimeTrigger(RunTrigger):
    """At every interval of the wall clock while the window is open; a window of processing time also at its end."""

    def __init__(self, interval_ms: int) -> None:
        self.interval_ms = interval_ms

    def on_run(
        self, count: int, timestamp_ms: int | None, window: Window, context: TriggerContext
    ) -> tuple[int, TriggerResult]:
        if context.value_state("next").value() is None:
            now_ms = context.processing_time_ms
            self._set_next(now_ms - now_ms % self.interval_ms, window, context)
        return count, CONTINUE

    def on_processing_time(self, time_ms: int, window: Window, context: TriggerContext) -> TriggerResult:
        if context.time == "processing" and time_ms == window.max_timestamp_ms:
            return FIRE
        if context.value_state("next").value() != time_ms:
            return CONTINUE
        self._set_next(time_ms, window, context)
        return FIRE

    def on_merge(self, window: Window, context: TriggerContext) -> None:
        earliest = context.merge_state("next", min)
        if earliest is not None:
            context.register_processing_timer(earliest)

    def clear(self, window: Window, context: TriggerContext) -> None:
        earliest = context.value_state("next").value()
        if earliest is not None:
            context.delete_processing_timer(earliest)

    def _set_next(self, after_ms: int, window: Window, context: TriggerContext) -> None:
        time_ms = after_ms + self.interval_ms
        if context.time == "processing":
            time_ms = min(time_ms, window.max_timestamp_ms)
        context.value_state("next").update(time_ms)
        context.register_processing_timer(time_ms)


class NeverTrigger(RunTrigger):
    """The window gives nothing by itself."""

    def on_run(
        self, count: int, timestamp_ms: int | None, window: Window, context: TriggerContext
    ) -> tuple[int, TriggerResult]:
        return count, CONTINUE

    def on_merge(self, window: Window, context: TriggerContext) -> None:
        pass


class CustomTrigger(Trigger):
    """An object of a user's class that isn't derived from `Trigger`."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    def on_element(
        self, record: Any, timestamp_ms: int | None, window: Window, context: TriggerContext
    ) -> TriggerResult:
        return self._checked(self.inner.on_element(record, timestamp_ms, window, context), "on_element")

    def on_event_time(self, time_ms: int, window: Window, context: TriggerContext) -> TriggerResult:
        method = getattr(self.inner, "on_event_time", None)
        return CONTINUE if method is None else self._checked(method(time_ms, window, context), "on_event_time")

    def on_processing_time(self, time_ms: int, window: Window, context: TriggerContext) -> TriggerResult:
        method = getattr(self.inner, "on_processing_time", None)
        return CONTINUE if method is None else self._checked(method(time_ms, window, context), "on_processing_time")

    def on_merge(self, window: Window, context: TriggerContext) -> None:
        self.inner.on_merge(window, context)

    def clear(self, window: Window, context: TriggerContext) -> None:
        if hasattr(self.inner, "clear"):
            self.inner.clear(window, context)

    @property
    def can_merge(self) -> bool:
        if isinstance(self.inner, Trigger):
            return self.inner.can_merge
        return callable(getattr(self.inner, "on_merge", None))

    def _checked(self, result: Any, method: str) -> TriggerResult:
        if isinstance(result, TriggerResult):
            return result
        raise UserError(
            f"{type(self.inner).__name__}.{method} returned {result!r}",
            hint="return a member of cw.triggers.TriggerResult, e.g. CONTINUE or FIRE",
        )


class PurgingTrigger(Trigger):
    """As the inner one, but a window that fires is empty afterwards."""

    def __init__(self, inner: Trigger) -> None:
        self.inner = inner

    def on_element(
        self, record: Any, timestamp_ms: int | None, window: Window, context: TriggerContext
    ) -> TriggerResult:
        return _purging(self.inner.on_element(record, timestamp_ms, window, context))

    def on_event_time(self, time_ms: int, window: Window, context: TriggerContext) -> TriggerResult:
        return _purging(self.inner.on_event_time(time_ms, window, context))

    def on_processing_time(self, time_ms: int, window: Window, context: TriggerContext) -> TriggerResult:
        return _purging(self.inner.on_processing_time(time_ms, window, context))

    def on_merge(self, window: Window, context: TriggerContext) -> None:
        self.inner.on_merge(window, context)

    def clear(self, window: Window, context: TriggerContext) -> None:
        self.inner.clear(window, context)

    @property
    def can_merge(self) -> bool:
        return self.inner.can_merge


class PurgingRunTrigger(PurgingTrigger, RunTrigger):
    """Answers for many records at a time, as its inner one does."""

    def __init__(self, inner: RunTrigger) -> None:
        super().__init__(inner)
        self._on_run = inner.on_run
        self.asked_once = inner.asked_once

    def on_run(
        self, count: int, timestamp_ms: int | None, window: Window, context: TriggerContext
    ) -> tuple[int, TriggerResult]:
        taken, result = self._on_run(count, timestamp_ms, window, context)
        return taken, _purging(result)


def as_trigger(trigger: Any) -> Trigger:
    """One of ours as it is; a user's, derived from `Trigger` or not, with its answers checked."""
    if isinstance(trigger, RunTrigger | CustomTrigger | PurgingTrigger):
        return trigger
    if isinstance(trigger, type):
        raise UserError(f'"{trigger.__name__}" is a class, not a trigger', hint=f"pass an object: {trigger.__name__}()")
    if not callable(getattr(trigger, "on_element", None)):
        raise UserError(
            f"{trigger!r} is not a trigger",
            hint="give one of cw.triggers, or an object with on_element(record, timestamp_ms, window, context)",
        )
    return CustomTrigger(trigger)


def _is_over(window: Window, context: TriggerContext) -> bool:
    return context.watermark_ms is not None and window.max_timestamp_ms <= context.watermark_ms


def _purging(result: TriggerResult) -> TriggerResult:
    return TriggerResult.FIRE_AND_PURGE if result is FIRE else result
