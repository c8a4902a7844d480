"""What do a trigger and a window function see of their window?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

from cutwater.errors import UserError
from cutwater.operators.contract import OperatorContext
from cutwater.operators.process import FunctionContext
from cutwater.operators.timers import time_ms_of
from cutwater.operators.windows.model import GLOBAL_WINDOW, TimeKind, Window
from cutwater.operators.windows.panes import Pane, Panes
from cutwater.state.contract import KeyedBackend, TimerState

_NO_STATE: dict[str, Any] = {}


class WindowContext(FunctionContext):
    """For a window function: the window, how far time has come, the state of the key, and side outputs."""

    __slots__ = ("window",)

    def __init__(self, context: OperatorContext, backend: KeyedBackend | None) -> None:
        super().__init__(context, backend)
        self.window: Window = GLOBAL_WINDOW


class PaneContext:
    """A `TriggerContext`. Its operator points it at a window before it asks the trigger."""

    __slots__ = ("_event", "_merged", "_pane", "_processing", "_states", "_wall_ms", "time", "watermark_ms")

    def __init__(
        self, context: OperatorContext, states: Panes, *, event: TimerState, processing: TimerState, time: TimeKind
    ) -> None:
        self.watermark_ms: int | None = None
        self.time = time
        self._wall_ms = context.wall_ms
        self._states = states
        self._event = event
        self._processing = processing
        self._pane: Pane = (None, None)
        self._merged: Sequence[Pane] = ()

    def set_event_timers_in(self, timers: TimerState) -> None:
        self._event = timers

    def point_at(self, pane: Pane, merged: Sequence[Pane] = ()) -> None:
        """The backend's current key must be this pane's."""
        self._pane = pane
        self._merged = merged

    @property
    def processing_time_ms(self) -> int:
        return self._wall_ms()

    @property
    def current_key(self) -> Any:
        return self._pane[0]

    def register_event_timer(self, time: Any) -> None:
        self._event.register(time if type(time) is int else time_ms_of(time), self._pane[1])

    def register_processing_timer(self, time: Any) -> None:
        self._processing.register(time if type(time) is int else time_ms_of(time), self._pane[1])

    def delete_event_timer(self, time: Any) -> None:
        self._event.delete(time if type(time) is int else time_ms_of(time), self._pane[1])

    def delete_processing_timer(self, time: Any) -> None:
        self._processing.delete(time if type(time) is int else time_ms_of(time), self._pane[1])

    def value_state(self, name: str, default: Any = None) -> PaneValue:
        """A value that only this window has; it must not be changed in place."""
        return PaneValue(self._states.of(self._pane[0]), self._pane, name, default)

    def merge_state(self, name: str, merge: Callable[[Any, Any], Any]) -> Any:
        if not self._merged:
            raise UserError("merge_state is for on_merge, where windows become one")
        states = self._states.of(self._pane[0])
        values = [state[name] for pane in self._merged if name in (state := states.get(pane, _NO_STATE))]
        if not values:
            return None
        merged = reduce(merge, values)
        self.value_state(name).update(merged)
        return merged

    def forget(self, pane: Pane) -> None:
        """The state that triggers have for this window."""
        self._states.of(pane[0]).pop(pane, None)


class PaneValue:
    """One named value of one window, beside the others of that window in one dict that is never changed."""

    __slots__ = ("_default", "_name", "_pane", "_states")

    def __init__(self, states: Any, pane: Pane, name: str, default: Any) -> None:
        self._states = states
        self._pane = pane
        self._name = name
        self._default = default

    def value(self) -> Any:
        return self._states.get(self._pane, _NO_STATE).get(self._name, self._default)

    def update(self, value: Any) -> None:
        self._states[self._pane] = {**self._states.get(self._pane, _NO_STATE), self._name: value}

    def clear(self) -> None:
        state = self._states.get(self._pane, _NO_STATE)
        if self._name not in state:
            return
        if len(state) == 1:
            self._states.pop(self._pane, None)
        else:
            self._states[self._pane] = {name: value for name, value in state.items() if name != self._name}
