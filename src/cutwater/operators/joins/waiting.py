"""Where do records wait until the watermark has passed them?

In the state of their key, if their stream is keyed; else in a list of the task, which is dealt out anew when the number
of tasks changes.
"""

from __future__ import annotations

import pickle
from bisect import bisect_right
from collections.abc import Iterable
from typing import Any, Protocol

from cutwater.operators.contract import FrozenList, OperatorContext
from cutwater.operators.joins.buffers import open_buffers
from cutwater.state.contract import FrozenKeyedState, KeyedBackend, TimerState
from cutwater.state.copies import copied_values
from cutwater.state.values import dump_pairs

WAITING_STATE = "waiting"
TIMERS_STATE = "waiting-timers"
_RECORDS_PER_ITEM = 256


class Waiting(Protocol):
    """Things that wait for their time. Used by the loop's thread only."""

    def add(self, keys: Iterable[Any], times: Iterable[int], things: Iterable[Any]) -> None: ...

    def due(self, upto_ms: int) -> tuple[list[int], list[Any]]:
        """Takes out what is at or before this time: times in order, and the things at these times."""
        ...

    def freeze(self) -> tuple[FrozenKeyedState | None, tuple[FrozenList, ...]]: ...

    def close(self) -> None: ...


class WaitingInList:
    """Of the task, whatever the keys."""

    def __init__(self, context: OperatorContext) -> None:
        restored = [pair for item in context.restored_lists.get(WAITING_STATE, []) for pair in pickle.loads(item)]
        restored.sort(key=lambda pair: pair[0])
        self._times: list[int] = [time for time, _ in restored]
        self._things: list[Any] = [thing for _, thing in restored]

    def add(self, keys: Iterable[Any], times: Iterable[int], things: Iterable[Any]) -> None:
        for time, thing in zip(times, things, strict=True):
            insert(self._times, self._things, time, thing)

    def due(self, upto_ms: int) -> tuple[list[int], list[Any]]:
        return take_upto(self._times, self._things, upto_ms)

    def freeze(self) -> tuple[FrozenKeyedState | None, tuple[FrozenList, ...]]:
        pairs = list(zip(self._times, self._things, strict=True))
        items = tuple(
            dump_pairs(pairs[start : start + _RECORDS_PER_ITEM], state=WAITING_STATE)
            for start in range(0, len(pairs), _RECORDS_PER_ITEM)
        )
        return None, (FrozenList(WAITING_STATE, items, "split"),) if items else ()

    def close(self) -> None:
        """Holds nothing."""


class WaitingByKey:
    """In keyed state, with a timer for the first of each key."""

    def __init__(self, context: OperatorContext) -> None:
        self._backend: KeyedBackend = context.keyed_backend()
        self._timers: TimerState = self._backend.timer_state(TIMERS_STATE)
        self._buffers = open_buffers(
            self._backend, WAITING_STATE, max_parallelism=context.max_parallelism, copy=_copy_of
        )

    def add(self, keys: Iterable[Any], times: Iterable[int], things: Iterable[Any]) -> None:
        get = self._buffers.get
        for key, time, thing in zip(keys, times, things, strict=True):
            buffer = get(key)
            if buffer is None:
                self._buffers.put(key, ([time], [thing]))
                self._wake(key, time)
                continue
            if time < buffer[0][0]:
                self._wake(key, time)
            insert(buffer[0], buffer[1], time, thing)
        self._buffers.flush()

    def due(self, upto_ms: int) -> tuple[list[int], list[Any]]:
        pairs: list[tuple[int, Any]] = []
        for timer in self._timers.due(upto_ms):
            buffer = self._buffers.get(timer.key)
            if buffer is None:
                continue
            pairs += zip(*take_upto(buffer[0], buffer[1], upto_ms), strict=True)
            if buffer[0]:
                self._wake(timer.key, buffer[0][0])
            else:
                self._buffers.remove(timer.key)
        self._buffers.flush()
        pairs.sort(key=lambda pair: pair[0])
        # A snapshot that is still being written may share them.
        return [time for time, _ in pairs], copied_values([thing for _, thing in pairs])

    def freeze(self) -> tuple[FrozenKeyedState | None, tuple[FrozenList, ...]]:
        frozen = self._backend.freeze()
        self._buffers.frozen()
        return frozen, ()

    def close(self) -> None:
        self._backend.close()

    def _wake(self, key: Any, time_ms: int) -> None:
        self._backend.set_current_key(key)
        self._timers.register(time_ms)


def insert(times: list[int], things: list[Any], time: int, thing: Any) -> None:
    """Behind those of the same time."""
    if not times or time >= times[-1]:
        times.append(time)
        things.append(thing)
        return
    index = bisect_right(times, time)
    times.insert(index, time)
    things.insert(index, thing)


def take_upto(times: list[int], things: list[Any], upto_ms: int) -> tuple[list[int], list[Any]]:
    """Takes out what is at or before this time."""
    count = bisect_right(times, upto_ms)
    taken = times[:count], things[:count]
    del times[:count], things[:count]
    return taken


def _copy_of(buffer: Any) -> Any:
    times, things = buffer
    return times[:], things[:]
