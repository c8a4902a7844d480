"""What does a window keep of its records?

An accumulator, wherever the result can grow record by record; all records only where a function or an evictor wants to
see them. Accumulators of our own are replaced, never changed, so that a frozen view may share them.
"""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from itertools import chain
from typing import Any, ClassVar

from cutwater.batches import Batch, ObjectBatch, rows_of
from cutwater.operators.aggregations import Aggregation, ValueSelector
from cutwater.operators.keyed import values_of
from cutwater.operators.keyed_values import MISSING
from cutwater.state.contract import Aggregate


class Fold(ABC):
    """How accumulators grow. One per operator and task; `MISSING` is the accumulator of no record."""

    #: The accumulator may be changed in place by a user's function: each owner needs its own.
    mutable: ClassVar[bool] = False
    #: The result may be changed in place, and shares with the accumulator.
    exposes: ClassVar[bool] = False
    #: Where `add` is among the indices; a failure asks it which record is to blame.
    remaining: Iterator[int]

    @abstractmethod
    def inputs_of(self, batch: Batch, operator: str) -> Sequence[Any]:
        """What each record contributes."""

    @abstractmethod
    def add(self, accumulator: Any, inputs: Sequence[Any], indices: Sequence[int]) -> Any:
        """The accumulator with the inputs at these positions added, one at least, in this order."""

    @abstractmethod
    def merge(self, one: Any, other: Any) -> Any:
        """Of two accumulators of records."""

    @abstractmethod
    def result(self, accumulator: Any) -> Any:
        """What the window gives."""

    @property
    def function(self) -> object:
        """What to blame for a failure."""
        return type(self).__name__.lower()


class Count(Fold):
    def inputs_of(self, batch: Batch, operator: str) -> Sequence[Any]:
        return ()

    def add(self, accumulator: Any, inputs: Sequence[Any], indices: Sequence[int]) -> Any:
        return len(indices) if accumulator is MISSING else accumulator + len(indices)

    def merge(self, one: Any, other: Any) -> Any:
        return one + other

    def result(self, accumulator: Any) -> Any:
        return accumulator


class _OfValue(Fold):
    """Of what the selector picks. None counts for nothing, as in SQL; of Nones alone the result is None."""

    exposes = True

    def __init__(self, value: ValueSelector) -> None:
        self._value = value

    def inputs_of(self, batch: Batch, operator: str) -> Sequence[Any]:
        return values_of(self._value, batch, operator=operator)

    def add(self, accumulator: Any, inputs: Sequence[Any], indices: Sequence[int]) -> Any:
        self.remaining = iter(indices)
        values = (value for value in map(inputs.__getitem__, self.remaining) if value is not None)
        if accumulator is MISSING or accumulator is None:
            first = next(values, None)
            return None if first is None else self._grown(self._of_first(first), values)
        return self._grown(accumulator, values)

    def merge(self, one: Any, other: Any) -> Any:
        if one is None or other is None:
            return other if one is None else one
        return self._merged(one, other)

    def result(self, accumulator: Any) -> Any:
        return accumulator

    def _of_first(self, value: Any) -> Any:
        return value

    @abstractmethod
    def _grown(self, accumulator: Any, values: Iterator[Any]) -> Any: ...

    @abstractmethod
    def _merged(self, one: Any, other: Any) -> Any: ...


class Sum(_OfValue):
    """Left to right, so that the sum of floats does not depend on the batches they came in."""

    def _grown(self, accumulator: Any, values: Iterator[Any]) -> Any:
        return reduce(operator.add, values, accumulator)

    def _merged(self, one: Any, other: Any) -> Any:
        return one + other


class Min(_OfValue):
    """Of equal ones the first."""

    def _grown(self, accumulator: Any, values: Iterator[Any]) -> Any:
        return min(chain((accumulator,), values))

    def _merged(self, one: Any, other: Any) -> Any:
        return min(one, other)


class Max(_OfValue):
    """Of equal ones the first."""

    def _grown(self, accumulator: Any, values: Iterator[Any]) -> Any:
        return max(chain((accumulator,), values))

    def _merged(self, one: Any, other: Any) -> Any:
        return max(one, other)


class Mean(_OfValue):
    """Sum and count."""

    def _of_first(self, value: Any) -> Any:
        return value, 1

    def _grown(self, accumulator: Any, values: Iterator[Any]) -> Any:
        total, count = accumulator
        for value in values:
            total += value
            count += 1
        return total, count

    def _merged(self, one: Any, other: Any) -> Any:
        return one[0] + other[0], one[1] + other[1]

    def result(self, accumulator: Any) -> Any:
        return None if accumulator is None else accumulator[0] / accumulator[1]


class Several(Fold):
    """Built-in aggregates side by side; the result is the tuple of theirs."""

    exposes = True

    def __init__(self, folds: Sequence[Fold]) -> None:
        self._folds = tuple(folds)
        self._adding = self._folds[0]

    @property
    def remaining(self) -> Iterator[int]:  # type: ignore[override]
        return self._adding.remaining

    @property
    def function(self) -> object:
        return self._adding.function

    def inputs_of(self, batch: Batch, operator: str) -> Sequence[Any]:
        return [fold.inputs_of(batch, operator) for fold in self._folds]

    def add(self, accumulator: Any, inputs: Sequence[Any], indices: Sequence[int]) -> Any:
        parts = (MISSING,) * len(self._folds) if accumulator is MISSING else accumulator
        grown = []
        for fold, part, values in zip(self._folds, parts, inputs, strict=True):
            self._adding = fold
            grown.append(fold.add(part, values, indices))
        return tuple(grown)

    def merge(self, one: Any, other: Any) -> Any:
        return tuple([fold.merge(*parts) for fold, *parts in zip(self._folds, one, other, strict=True)])

    def result(self, accumulator: Any) -> Any:
        return tuple([fold.result(part) for fold, part in zip(self._folds, accumulator, strict=True)])


class Reduce(Fold):
    """What a function makes of two records; the first stands for itself."""

    mutable = True
    exposes = True

    def __init__(self, function: Callable[[Any, Any], Any]) -> None:
        self._reduce = function

    @property
    def function(self) -> object:
        return self._reduce

    def inputs_of(self, batch: Batch, operator: str) -> Sequence[Any]:
        return rows_of(batch)

    def add(self, accumulator: Any, inputs: Sequence[Any], indices: Sequence[int]) -> Any:
        self.remaining = iter(indices)
        records = map(inputs.__getitem__, self.remaining)
        return reduce(self._reduce, records, next(records) if accumulator is MISSING else accumulator)

    def merge(self, one: Any, other: Any) -> Any:
        return self._reduce(one, other)

    def result(self, accumulator: Any) -> Any:
        return accumulator


class AggregateWith(Fold):
    """The accumulator of a user's aggregate."""

    mutable = True
    exposes = True

    def __init__(self, aggregate: Aggregate) -> None:
        self._aggregate = aggregate

    @property
    def function(self) -> object:
        return self._aggregate

    def inputs_of(self, batch: Batch, operator: str) -> Sequence[Any]:
        return rows_of(batch)

    def add(self, accumulator: Any, inputs: Sequence[Any], indices: Sequence[int]) -> Any:
        self.remaining = iter(indices)
        if accumulator is MISSING:
            accumulator = self._aggregate.create_accumulator()
        add = self._aggregate.add
        for record in map(inputs.__getitem__, self.remaining):
            accumulator = add(record, accumulator)
        return accumulator

    def merge(self, one: Any, other: Any) -> Any:
        return self._aggregate.merge(one, other)

    def result(self, accumulator: Any) -> Any:
        return self._aggregate.get_result(accumulator)


class Records(Fold):
    """The records themselves, as tuples within a tuple.

    A tuple that isn't larger than the next is joined with it: there are never more than log2(n) of them, and adding a
    record copies as many references, however long the window. Nothing is changed in place, so freezing costs nothing.
    """

    exposes = True

    def inputs_of(self, batch: Batch, operator: str) -> Sequence[Any]:
        return rows_of(batch)

    def add(self, accumulator: Any, inputs: Sequence[Any], indices: Sequence[int]) -> Any:
        records = tuple([inputs[index] for index in indices])
        return (records,) if accumulator is MISSING else _joined(accumulator, records)

    def merge(self, one: Any, other: Any) -> Any:
        return _joined(one, tuple(self.result(other)))

    def result(self, accumulator: Any) -> list[Any]:
        return list(chain.from_iterable(accumulator))


def _joined(parts: tuple[tuple[Any, ...], ...], last: tuple[Any, ...]) -> tuple[tuple[Any, ...], ...]:
    kept = len(parts)
    while kept and len(parts[kept - 1]) <= len(last):
        kept -= 1
        last = parts[kept] + last
    return (*parts[:kept], last)


def fold_of(aggregation: Aggregation) -> Fold:
    """The object form of a built-in aggregate."""
    match aggregation.kind:
        case "count":
            return Count()
        case "sum":
            return Sum(aggregation.value)
        case "min":
            return Min(aggregation.value)
        case "max":
            return Max(aggregation.value)
        case "mean":
            return Mean(aggregation.value)


def result_of(fold: Fold, records: list[Any], operator: str) -> Any:
    """What the fold gives for these records and no others; one at least."""
    inputs = fold.inputs_of(ObjectBatch(records), operator)
    return fold.result(fold.add(MISSING, inputs, range(len(records))))
