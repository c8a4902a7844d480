"""How far has event time come for the keys of an operator?

Nearly always as far as the task's watermark. For some time after a change of parallelism some keys may be further
(`protocol.group_time`): then a batch is taken in parts whose keys have come equally far, and `now_ms` is the time of
the part at hand. Lateness, triggers and functions go by `now_ms`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from heapq import heappop, heappush
from typing import Any

import msgspec
import numpy as np

from cutwater.batches import Batch, Times, take_rows
from cutwater.operators.contract import FrozenList, OperatorContext
from cutwater.operators.event_time import WATERMARK_STATE
from cutwater.protocol.group_time import Floor, GroupTime, TaskTime
from cutwater.protocol.key_groups import KeyGroups
from cutwater.protocol.timers import Timer
from cutwater.protocol.watermarks import MIN_TIMESTAMP_MS
from cutwater.state.columnar.buffers import Codes
from cutwater.state.contract import KeyedBackend, TimerState


class _Told(msgspec.Struct, frozen=True, array_like=True):
    """A `TaskTime` in a snapshot; without floors it is the first three only."""

    subtask: int
    parallelism: int
    watermark_ms: int
    floors: tuple[Floor, ...] = ()


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_Told).decode


class KeyTime:
    """Event time in one operator of one task. Used by the loop's thread only.

    `MIN_TIMESTAMP_MS` stands for a time before event time has begun.
    """

    def __init__(self, context: OperatorContext, *, keyed: bool = True, told: Iterable[TaskTime] | None = None) -> None:
        """`told`: what the tasks of the snapshot have told, if it isn't where `freeze` puts it."""
        self._context = context
        self._group_of = KeyGroups(context.max_parallelism).of
        self._groups = GroupTime.restored(
            list(_told_in(context) if told is None else told),
            subtask=context.subtask,
            parallelism=context.parallelism,
            groups=context.groups if keyed else range(0),
            max_parallelism=context.max_parallelism,
            same_inputs=context.same_inputs,
        )
        #: Of the keys at hand; between two batches, that of the task.
        self.now_ms = self._groups.watermark_ms
        #: The time of some keys is further than the watermark.
        self.some_are_ahead = bool(self._groups.floors)

    @property
    def watermark_ms(self) -> int:
        """The task's."""
        return self._groups.watermark_ms

    def advance(self, timestamp_ms: int) -> None:
        self._groups.advance(timestamp_ms)
        self.now_ms = self._groups.watermark_ms
        self.some_are_ahead = bool(self._groups.floors)

    # While some keys are ahead.

    @property
    def furthest_ms(self) -> int:
        """Of all keys."""
        return max(self._groups.floors.values(), default=self._groups.watermark_ms)

    def turn_to(self, key: Any) -> None:
        """`now_ms` is this key's until the next turn."""
        self.now_ms = self._groups.of(self._group_of(key))

    def turn_back(self) -> None:
        """`now_ms` is the task's again."""
        self.now_ms = self._groups.watermark_ms

    def parts(self, batch: Batch, keys: Iterable[Any]) -> Iterator[Batch]:
        """The records by how far their keys are, each key's in order; `now_ms` is what a part's keys have reached."""
        return self.parts_by_group(batch, np.fromiter(map(self._group_of, keys), np.int32, batch.num_rows))

    def parts_by_group(self, batch: Batch, groups: Codes) -> Iterator[Batch]:
        """The same, by the key group of each record."""
        times = self.of_groups(groups)
        for time_ms in np.unique(times).tolist():
            self.now_ms = time_ms
            yield take_rows(batch, np.flatnonzero(times == time_ms))
        self.turn_back()

    def of_groups(self, groups: Codes) -> Times:
        """How far each of these key groups is."""
        reached: Times = np.full(self._context.max_parallelism, self._groups.watermark_ms, np.int64)
        for group, time_ms in self._groups.floors.items():
            reached[group] = time_ms
        return reached[groups]

    # Snapshots.

    def before_the_end_ms(self, key: Any) -> int | None:
        """How far event time came for this key before the input ended; None: it had not begun."""
        return known(self._groups.before_the_end(self._group_of(key)))

    def told(self) -> TaskTime | None:
        """For a snapshot; None: there is nothing to tell."""
        return self._groups.told(subtask=self._context.subtask, parallelism=self._context.parallelism)

    def freeze(self) -> tuple[FrozenList, ...]:
        """As operator state that every task gets all of."""
        told = self.told()
        if told is None:
            return ()
        fields: tuple[Any, ...] = (told.subtask, told.parallelism, told.watermark_ms)
        item = _encode((*fields, told.floors) if told.floors else fields)
        return (FrozenList(WATERMARK_STATE, (item,), "union"),)


def known(time_ms: int) -> int | None:
    """As users see it: None before event time has begun."""
    return None if time_ms == MIN_TIMESTAMP_MS else time_ms


def _told_in(context: OperatorContext) -> Iterator[TaskTime]:
    for item in context.restored_lists.get(WATERMARK_STATE, []):
        told = _decode(item)
        yield TaskTime(told.subtask, told.parallelism, told.watermark_ms, told.floors)


class TimersAhead:
    """The event-time timers of a task some of whose keys are ahead: a timer that its key has passed is due at once.

    A `TimerState`. What its key has passed was registered since: the timers before it have had their call.
    """

    def __init__(self, timers: TimerState, backend: KeyedBackend, time: KeyTime) -> None:
        self._timers = timers
        self._set_current_key: Callable[[Any], None] = backend.set_current_key
        self._backend = backend
        self._time = time
        #: (time, number, timer), as a heap. All of them are registered too, and count only as long as they are.
        self._passed: list[tuple[int, int, Timer]] = []
        self._numbered = 0
        for timer in timers.due(time.furthest_ms):  # one may have been set by the wall clock, just before the snapshot
            self._set_current_key(timer.key)
            time.turn_to(timer.key)
            self.register(timer.time_ms, timer.namespace)
        time.turn_back()

    def register(self, time_ms: int, namespace: Any = None) -> bool:
        is_new = self._timers.register(time_ms, namespace)
        if is_new and time_ms <= self._time.now_ms:
            timer = Timer(time_ms, self._backend.current_key, namespace)
            heappush(self._passed, (time_ms, self._numbered, timer))
            self._numbered += 1
        return is_new

    def delete(self, time_ms: int, namespace: Any = None) -> bool:
        return self._timers.delete(time_ms, namespace)

    def due(self, upto_ms: int) -> list[Timer]:
        """The earliest of those that were passed; if there are none, those up to this watermark of the task."""
        if not self._passed:
            return self._timers.due(upto_ms)
        time_ms, due = self._passed[0][0], []
        while self._passed and self._passed[0][0] == time_ms:
            timer = heappop(self._passed)[2]
            self._set_current_key(timer.key)
            if self._timers.delete(time_ms, timer.namespace):
                due.append(timer)
        return due

    def next_time(self) -> int | None:
        """`MIN_TIMESTAMP_MS`: some are due whatever the watermark."""
        return MIN_TIMESTAMP_MS if self._passed else self._timers.next_time()
