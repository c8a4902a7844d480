"""How does a function of an index become a stream?"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from cutwater.batches import Batch, ObjectBatch
from cutwater.connectors.contract import Discovery, ReaderContext, Record, Source, SplitReader
from cutwater.connectors.failures import user_function_failed
from cutwater.connectors.settings import check_callable, check_positive
from cutwater.errors import ConfigurationError
from cutwater.protocol.splits import Split


def generator(
    function: Callable[[int], Record], *, count: int | None = None, per_second: float | None = None, splits: int = 8
) -> GeneratorSource[Record]:
    """A source of `function(0)`, `function(1)`, …: `count` values, or without end; at most `per_second` in all.

    Replayable, if the function always gives the same value for an index: it is called again after a failure. Split s
    of n generates the indexes s, s + n, s + 2n, …; a split is in order, the whole stream only nearly so.

    `splits` is 8 whatever the parallelism, so that the splits are the same when the job is restored at another one.
    Tasks beyond the eighth have nothing to do: give a multiple of the highest parallelism you plan for, and keep it
    over restores. The rate isn't caught up on after a pause, but for a second's worth.
    """
    check_callable("function", function)
    if count is not None and (isinstance(count, bool) or not isinstance(count, int) or count < 0):
        raise ConfigurationError("count must be a whole number, not negative, or None", detail=f"it is {count!r}")
    if per_second is not None:
        check_positive("per_second", per_second, whole=False)
    check_positive("splits", splits)
    return GeneratorSource(function, count, per_second, splits)


class _Lane(msgspec.Struct, frozen=True, array_like=True):
    """Every `of`-th index, from `first` on."""

    first: int
    of: int


class GeneratorSource(Source[Record]):
    """Eager: the splits run side by side, as the rate is shared among them."""

    eager = True

    def __init__(
        self, function: Callable[[int], Record], count: int | None, per_second: float | None, splits: int
    ) -> None:
        self._function = function
        self._count = count
        self.bounded = count is not None
        self._per_second = per_second
        self._splits = splits

    @property
    def name(self) -> str:
        return f"generator({getattr(self._function, '__name__', 'function')})"

    def discover(self, parallelism: int) -> Discovery:
        lanes = [_Lane(first, self._splits) for first in range(self._splits)]
        return Discovery(
            tuple(Split(f"{lane.first}/{lane.of}", msgspec.msgpack.encode(lane)) for lane in lanes), complete=True
        )

    def reader(self, split: Split, position: Any, context: ReaderContext) -> SplitReader:
        lane = msgspec.msgpack.decode(split.payload, type=_Lane)
        pace = None
        if self._per_second is not None:
            pace = Pace(lane.of / self._per_second, offset_seconds=lane.first / self._per_second)
        index = lane.first if position is None else position
        return GeneratorReader(self._function, self._count, index=index, stride=lane.of, pace=pace)


class GeneratorReader(SplitReader):
    """Position: the next index."""

    def __init__(
        self, function: Callable[[int], Any], count: int | None, *, index: int, stride: int, pace: Pace | None
    ) -> None:
        self._function = function
        self._count = count
        self._index = index
        self._stride = stride
        self._pace = pace

    def read(self, limit: int, now_seconds: float) -> Batch | None:
        if self._count is not None:
            limit = min(limit, len(range(self._index, self._count, self._stride)))
        if self._pace is not None:
            limit = min(limit, self._pace.due(now_seconds))
        if limit <= 0:
            return None
        stop = self._index + limit * self._stride
        values = self._generate(range(self._index, stop, self._stride))
        self._index = stop
        if self._pace is not None:
            self._pace.took(limit)
        return ObjectBatch(values)

    def _generate(self, indexes: range) -> list[Any]:
        values = []
        for index in indexes:  # not map(): a StopIteration from the function would end it silently
            try:
                values.append(self._function(index))
            except Exception as error:
                raise user_function_failed("the generator's function", error, given=f"index {index}") from error
        return values

    @property
    def position(self) -> int:
        return self._index

    @property
    def finished(self) -> bool:
        return self._count is not None and self._index >= self._count

    def wake_at(self) -> float | None:
        return None if self._pace is None else self._pace.next_at


class Pace:
    """When is the next record due? One every `step_seconds`, the first after `offset_seconds`.

    The offset makes the splits take turns instead of all firing at once. Lateness is caught up on, up to a second's
    worth of records.
    """

    def __init__(self, step_seconds: float, *, offset_seconds: float) -> None:
        self._step_seconds = step_seconds
        self._offset_seconds = offset_seconds
        self._burst_max = max(1, int(1 / step_seconds))
        #: None before the first look at the clock.
        self.next_at: float | None = None

    def due(self, now_seconds: float) -> int:
        """Records that may be read now."""
        if self.next_at is None:
            self.next_at = now_seconds + self._offset_seconds
        if now_seconds < self.next_at:
            return 0
        due = int((now_seconds - self.next_at) / self._step_seconds) + 1
        if due > self._burst_max:
            due = self._burst_max
            self.next_at = now_seconds - (due - 1) * self._step_seconds
        return due

    def took(self, records: int) -> None:
        assert self.next_at is not None, "due() comes first"
        self.next_at += records * self._step_seconds
