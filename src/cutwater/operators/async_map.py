"""How does a stream go on while records wait for an answer from elsewhere?

For each record a coroutine is called, many at the same time, on an event loop off the task's thread. A record whose
result has not left is part of every snapshot, and is called for again after a restore: so calls may happen twice, and
results count once. Barriers pass at once; watermarks keep their places among the records.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from itertools import groupby, repeat
from typing import Any, Final, NoReturn

import numpy as np

from cutwater.batches import Batch, ObjectBatch, Times, rows_of, times_of
from cutwater.dead_letters import ERRORS, DeadLetter, OnError
from cutwater.operators.call_order import AsCompleted, Call, CallOrder, InOrder, Mark
from cutwater.operators.calling import Caller
from cutwater.operators.contract import (
    PYTHON_ROWS_MAX,
    EventLoop,
    FinishedCalls,
    FrozenList,
    Operator,
    OperatorContext,
    OperatorSnapshot,
)
from cutwater.operators.failing import FailedRecords
from cutwater.operators.user_code import USER_FAILURES, raise_user_error
from cutwater.protocol.ids import CheckpointId
from cutwater.retry import Retry
from cutwater.state.values import dump_value, load_value

CALLS_STATE = "calls"
#: Records beyond the capacity that are taken in so that a barrier behind them can pass.
AHEAD_OF_BARRIER_MAX = 10_000
#: Stands for the call of the function's `open`.
_OPEN: Final = object()


@dataclass(frozen=True, slots=True)
class CallRules:
    """What the author says of the calls."""

    #: Records of one task that are under way at most: called for, or done and waiting for those before them.
    capacity: int
    timeout_seconds: float | None
    #: Results leave in the order of the records.
    ordered: bool
    retry: Retry | None
    on_error: OnError


class AsyncMapOperator(Operator):
    """One result for each record."""

    typed_rows_max = PYTHON_ROWS_MAX

    def __init__(self, function: Any, rules: CallRules) -> None:
        self._caller = Caller(function, timeout_seconds=rules.timeout_seconds, retry=rules.retry)
        self._capacity = rules.capacity
        self._failed = None if rules.on_error == "fail" else FailedRecords(rules.on_error)
        self._order: CallOrder = InOrder() if rules.ordered else AsCompleted()
        #: Those of them that were not begun.
        self._waiting: deque[Call] = deque()
        self._loop: EventLoop | None = None
        #: The outputs are connected.
        self._started = False
        #: The function is open, or doesn't want to be.
        self._opened = False

    @property
    def side_tags(self) -> frozenset[str]:
        return frozenset() if self._failed is None else self._failed.side_tags

    def open(self, context: OperatorContext) -> None:
        super().open(context)
        if self._failed is not None:
            self._failed.open(context)
        self._caller.belong_to(context)
        for item in context.restored_lists.get(CALLS_STATE, []):
            self._add(*load_value(item, state=CALLS_STATE))
        self._loop = context.event_loop(self._on_finished)
        if self._caller.opens:
            self._loop.start([(_OPEN, self._caller.open)])
        else:
            self._opened = True

    def on_start(self) -> None:
        self._started = True
        self._begin_calls()

    def process(self, batch: Batch, port: int) -> None:
        times = times_of(batch)
        timed: Iterable[int | None] = repeat(None) if times is None else times.tolist()
        for record, time_ms in zip(rows_of(batch), timed, strict=False):
            self._add(record, time_ms)
        self._begin_calls()

    def has_room(self) -> bool:
        return len(self._order) < self._capacity

    def has_room_ahead_of_barrier(self) -> bool:
        return len(self._order) < self._capacity + AHEAD_OF_BARRIER_MAX

    def in_turn(self, leave: Mark) -> None:
        if self._order:
            self._order.mark(leave)
        else:
            leave()

    def drained(self) -> bool:
        return not self._order

    def freeze(self, checkpoint: CheckpointId) -> OperatorSnapshot:
        items = tuple(
            dump_value((call.record, call.time_ms), state=CALLS_STATE, key=call.record)
            for call in self._order.pending()
        )
        return OperatorSnapshot(lists=(FrozenList(CALLS_STATE, items),) if items else ())

    def close(self) -> None:
        loop, self._loop = self._loop, None
        if loop is None:
            return
        # Also if it failed to open half-way.
        last = self._caller.close if self._caller.closes else None
        try:
            loop.close(last)
        except USER_FAILURES as error:
            self._raise(error, self._caller.function.close, moment="when it was closed")

    def _add(self, record: Any, time_ms: int | None) -> None:
        call = Call(record, time_ms)
        self._order.add(call)
        self._waiting.append(call)

    def _begin_calls(self) -> None:
        """As many as may be under way; not before their results could leave."""
        waiting = self._waiting
        if not (self._started and self._opened and waiting):
            return
        under_way = len(self._order) - len(waiting)
        begun = [waiting.popleft() for _ in range(min(self._capacity - under_way, len(waiting)))]
        if begun:
            assert self._loop is not None, "the operator is closed"
            answer = self._caller.answer
            self._loop.start([(call, partial(answer, call.record)) for call in begun])

    def _on_finished(self, finished: FinishedCalls) -> None:
        if self._loop is None:
            return  # closed meanwhile; the next attempt calls again
        for call, result, error in finished:
            if call is _OPEN:
                self._on_opened(error)
                continue
            if error is not None and self._failed is None:
                self._raise(error, self._caller.process, record=call.record)
            call.result, call.error = result, error
            self._order.finished(call)
        self._let_leave()
        self._begin_calls()

    def _on_opened(self, error: BaseException | None) -> None:
        if error is not None:
            self._raise(error, self._caller.function.open, moment="when it was opened")
        self._opened = True

    def _let_leave(self) -> None:
        """Emits results in batches as large as can be: one for all between two watermarks."""
        calls: list[Call] = []
        for item in self._order.leaving():
            if isinstance(item, Call):
                calls.append(item)
            else:
                self._emit(calls)
                calls = []
                item()
        self._emit(calls)

    def _emit(self, calls: list[Call]) -> None:
        good = [call for call in calls if call.error is None] if self._failed is not None else calls
        for batch in _batches((call.result, call.time_ms) for call in good):
            self.context.emit(batch)
        if len(good) < len(calls):
            letters = ((self._letter_of(call), call.time_ms) for call in calls if call.error is not None)
            for batch in _batches((letter, time_ms) for letter, time_ms in letters if letter is not None):
                self.context.emit_side(ERRORS, batch)

    def _letter_of(self, call: Call) -> DeadLetter | None:
        assert self._failed is not None, "a failure ends the task"
        assert call.error is not None, "no failure, no letter"
        return self._failed.taken(call.error, function=self._caller.process, record=call.record)

    def _raise(self, error: BaseException, function: object, **where: Any) -> NoReturn:
        raise_user_error(error, function=function, operator=self.context.name, **where)


def _batches(timed: Iterable[tuple[Any, int | None]]) -> Iterable[ObjectBatch]:
    """One, unless some have an event time and others have none, as after a restore with another program."""
    for has_time, group in groupby(timed, lambda pair: pair[1] is not None):
        values, milliseconds = zip(*group, strict=True)
        times: Times | None = np.array(milliseconds, dtype=np.int64) if has_time else None
        yield ObjectBatch(list(values), times)
