"""When does a window fire?

    stream.window(cw.tumbling("1h")).trigger(cw.triggers.continuous_event("1min")).sum("price")

Without a trigger, time windows fire once, at their end. A trigger of your own is an object with `on_element(record,
timestamp_ms, window, context)`, and `on_event_time(time_ms, window, context)`, `on_processing_time`, `on_merge(window,
context)` and `clear(window, context)` where it needs them; the first three return a `TriggerResult`.
"""

from __future__ import annotations

from typing import Any

from cutwater.api.windows import positive_count, positive_ms
from cutwater.durations import Duration
from cutwater.operators.windows.triggers import (
    ContinuousEventTimeTrigger,
    ContinuousProcessingTimeTrigger,
    CountTrigger,
    EventTimeTrigger,
    NeverTrigger,
    ProcessingTimeTrigger,
    PurgingRunTrigger,
    PurgingTrigger,
    RunTrigger,
    Trigger,
    TriggerContext,
    TriggerResult,
    as_trigger,
)

__all__ = [
    "Trigger",
    "TriggerContext",
    "TriggerResult",
    "continuous_event",
    "continuous_processing",
    "count",
    "event_time",
    "never",
    "processing_time",
    "purging",
]


def event_time() -> Trigger:
    """At the window's end by event time, and again for every record that comes later and is allowed to."""
    return EventTimeTrigger()


def processing_time() -> Trigger:
    """At the window's end by the wall clock."""
    return ProcessingTimeTrigger()


def count(records: int) -> Trigger:
    """At every so many records. The window keeps what it has: see `purging`."""
    return CountTrigger(positive_count(records, option="the count of a trigger"))


def continuous_event(interval: Duration) -> Trigger:
    """At every such interval of event time, and at the window's end."""
    return ContinuousEventTimeTrigger(positive_ms(interval, option="the interval of a trigger"))


def continuous_processing(interval: Duration) -> Trigger:
    """At every such interval of the wall clock; a window of processing time also at its end."""
    return ContinuousProcessingTimeTrigger(positive_ms(interval, option="the interval of a trigger"))


def never() -> Trigger:
    """Not at all: a window takes records in, and is dropped at its end."""
    return NeverTrigger()


def purging(trigger: Any) -> Trigger:
    """As the given trigger, but a window that has fired starts empty."""
    inner = as_trigger(trigger)
    return PurgingRunTrigger(inner) if isinstance(inner, RunTrigger) else PurgingTrigger(inner)
