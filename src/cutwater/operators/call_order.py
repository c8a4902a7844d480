"""In which order do the results of calls leave, and what may they not overtake?

Calls are added in the order of their records, and marks in between: watermarks, which no record from before may come
behind. In order: a result leaves when all calls before it have. As completed: a result leaves when all marks before it
have, and a mark when all calls before it have.

    order = AsCompleted()
    first, second = Call("a", None), Call("b", None)
    order.add(first), order.mark(watermark), order.add(second)
    order.finished(second)
    list(order.leaving())  # []: the watermark is between
    order.finished(first)
    list(order.leaving())  # [first, watermark, second]
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

Mark = Callable[[], None]
"""Called when it leaves."""


class Call:
    """One record, and what became of it. One per record, so it is small."""

    __slots__ = ("done", "error", "record", "result", "segment", "time_ms")

    def __init__(self, record: Any, time_ms: int | None) -> None:
        self.record = record
        self.time_ms = time_ms
        self.done = False
        self.result: Any = None
        self.error: BaseException | None = None
        self.segment: _Segment | None = None


class CallOrder(ABC):
    """The calls that have not left, and the marks between them."""

    def __init__(self) -> None:
        self._calls = 0

    def __len__(self) -> int:
        """Calls that have not left."""
        return self._calls

    def add(self, call: Call) -> None:
        self._calls += 1
        self._append(call)

    @abstractmethod
    def mark(self, mark: Mark) -> None:
        """Behind all calls so far."""

    @abstractmethod
    def finished(self, call: Call) -> None:
        """Its result or error is known."""

    def leaving(self) -> Iterator[Call | Mark]:
        """Those that may leave now. What was taken out is gone."""
        for item in self._take():
            if isinstance(item, Call):
                self._calls -= 1
            yield item

    @abstractmethod
    def pending(self) -> Iterator[Call]:
        """The calls that have not left, as they were added."""

    @abstractmethod
    def _append(self, call: Call) -> None: ...

    @abstractmethod
    def _take(self) -> Iterator[Call | Mark]: ...


class InOrder(CallOrder):
    """As the records came in."""

    def __init__(self) -> None:
        super().__init__()
        self._queue: deque[Call | Mark] = deque()

    def mark(self, mark: Mark) -> None:
        self._queue.append(mark)

    def finished(self, call: Call) -> None:
        call.done = True

    def pending(self) -> Iterator[Call]:
        return (item for item in self._queue if isinstance(item, Call))

    def _append(self, call: Call) -> None:
        self._queue.append(call)

    def _take(self) -> Iterator[Call | Mark]:
        queue = self._queue
        while queue and (not isinstance(queue[0], Call) or queue[0].done):
            yield queue.popleft()


class _Segment:
    """The calls between two marks."""

    __slots__ = ("calls", "finished", "mark")

    def __init__(self) -> None:
        #: Those that have not left, in order: a dict is a set that knows it.
        self.calls: dict[Call, None] = {}
        self.finished: list[Call] = []
        #: What comes behind them; None: more calls.
        self.mark: Mark | None = None


class AsCompleted(CallOrder):
    """As the calls are done, between two marks."""

    def __init__(self) -> None:
        super().__init__()
        self._segments: deque[_Segment] = deque([_Segment()])

    def mark(self, mark: Mark) -> None:
        self._segments[-1].mark = mark
        self._segments.append(_Segment())

    def finished(self, call: Call) -> None:
        call.done = True
        assert call.segment is not None, "a call that was never added"
        call.segment.finished.append(call)

    def pending(self) -> Iterator[Call]:
        return (call for segment in self._segments for call in segment.calls)

    def _append(self, call: Call) -> None:
        call.segment = self._segments[-1]
        call.segment.calls[call] = None

    def _take(self) -> Iterator[Call | Mark]:
        while True:
            first = self._segments[0]
            finished, first.finished = first.finished, []
            for call in finished:
                del first.calls[call]
                yield call
            if first.calls or first.mark is None:
                return
            self._segments.popleft()
            yield first.mark
