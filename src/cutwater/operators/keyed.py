"""What is the count, sum, minimum, maximum or reduction per key so far?

Running results: every record updates the state of its key and is answered by the new result, as in Flink without a
window.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from operator import attrgetter, itemgetter
from typing import Any, ClassVar, NoReturn

import numpy as np

from cutwater.batches import Batch, ObjectBatch, rows_of, times_of
from cutwater.graph.keys import KeySelector
from cutwater.operators.aggregations import ValueSelector
from cutwater.operators.contract import PYTHON_ROWS_MAX, Operator, OperatorContext, OperatorSnapshot
from cutwater.operators.keyed_values import MISSING, KeyedValues
from cutwater.operators.user_code import NO_RECORD, keys_of, last_taken, map_rows, raise_user_error
from cutwater.protocol.ids import CheckpointId
from cutwater.state.contract import Aggregate, KeyedBackend
from cutwater.state.copies import copied, copied_values
from cutwater.state.values import ATOMS


class RunningOperator(Operator):
    """A value per key, which every record of the key updates."""

    typed_rows_max = PYTHON_ROWS_MAX

    state_name: ClassVar[str]

    def __init__(self, key: KeySelector, update: str = "record") -> None:
        self._key = key
        self._per_batch = update == "batch"
        self._backend: KeyedBackend | None = None

    def open(self, context: OperatorContext) -> None:
        super().open(context)
        self._backend = context.keyed_backend()
        self._values = KeyedValues(self._backend, self.state_name, context)

    def process(self, batch: Batch, port: int) -> None:
        keys = keys_of(self._key, batch, operator=self.context.name)
        inputs = self._inputs_of(batch, keys)
        remaining = iter(inputs)
        try:
            results = self._update(keys, remaining)
        except Exception as error:
            self._fail(error, keys=keys, inputs=inputs, remaining=remaining, batch=batch)
        times = times_of(batch)
        if self._per_batch:
            # The last result of each key; a dict keeps the place of the first.
            last = {key: row for row, key in enumerate(keys)}
            results = [results[row] for row in last.values()]
            times = None if times is None else np.full(len(results), times.max(), dtype=np.int64)
        self.context.emit(ObjectBatch(self._given_out(results, inputs), times))

    def freeze(self, checkpoint: CheckpointId) -> OperatorSnapshot:
        assert self._backend is not None, "not open"
        return OperatorSnapshot(keyed=self._backend.freeze())

    def close(self) -> None:
        if self._backend is not None:
            self._backend.close()

    @abstractmethod
    def _inputs_of(self, batch: Batch, keys: list[Any]) -> list[Any]:
        """What the state is updated with, one per record."""

    @abstractmethod
    def _update(self, keys: list[Any], inputs: Iterator[Any]) -> list[Any]:
        """Updates the state record by record; one result each. The hot loop."""

    def _given_out(self, results: list[Any], inputs: list[Any]) -> list[Any]:
        """The results of a batch without anything changeable that the state keeps."""
        return results

    @property
    def _function(self) -> object:
        """What to blame for a failure."""
        return self.state_name

    def _fail(
        self, error: Exception, *, keys: list[Any], inputs: list[Any], remaining: Iterator[Any], batch: Batch
    ) -> NoReturn:
        if isinstance(error, TypeError):
            self._values.check(last_taken(keys, remaining))
        # Few records have a Row made for them on the happy path: the culprit gets one now.
        record = last_taken(rows_of(batch), remaining) if inputs else NO_RECORD
        raise_user_error(error, function=self._function, operator=self.context.name, record=record)


class RunningCount(RunningOperator):
    """(key, how many so far)."""

    state_name = "count"

    def _inputs_of(self, batch: Batch, keys: list[Any]) -> list[Any]:
        return keys

    def _update(self, keys: list[Any], inputs: Iterator[Any]) -> list[Any]:
        group_of, groups = self._values.group_of, self._values.groups()
        results = []
        for key in inputs:
            counts = groups[group_of[key]]
            counts[key] = count = counts.get(key, 0) + 1
            results.append((key, count))
        return results


class _RunningOfValue(RunningOperator):
    def __init__(self, key: KeySelector, value: ValueSelector = None, update: str = "record") -> None:
        super().__init__(key, update)
        self._value = value

    def open(self, context: OperatorContext) -> None:
        super().open(context)
        self._plain = PlainValues(self._values.is_empty())

    def _inputs_of(self, batch: Batch, keys: list[Any]) -> list[Any]:
        return values_of(self._value, batch, operator=self.context.name)

    def _given_out(self, results: list[Any], inputs: list[Any]) -> list[Any]:
        return results if self._plain.only(inputs) else copied_values(results)


class RunningSum(_RunningOfValue):
    """(key, sum so far): of anything that can be added. Here and below None counts for nothing, as in SQL."""

    state_name = "sum"

    def _update(self, keys: list[Any], inputs: Iterator[Any]) -> list[Any]:
        group_of, groups = self._values.group_of, self._values.groups()
        results = []
        for key, value in zip(keys, inputs, strict=True):
            sums = groups[group_of[key]]
            total = sums.get(key, None)
            if value is not None:
                sums[key] = total = value if total is None else total + value
            results.append((key, total))
        return results


class RunningMin(_RunningOfValue):
    """(key, smallest so far); of equal ones the first."""

    state_name = "min"

    def _update(self, keys: list[Any], inputs: Iterator[Any]) -> list[Any]:
        group_of, groups = self._values.group_of, self._values.groups()
        results = []
        for key, value in zip(keys, inputs, strict=True):
            minima = groups[group_of[key]]
            current = minima.get(key, None)
            if value is not None and (current is None or value < current):
                minima[key] = current = value
            results.append((key, current))
        return results


class RunningMax(_RunningOfValue):
    """(key, largest so far); of equal ones the first."""

    state_name = "max"

    def _update(self, keys: list[Any], inputs: Iterator[Any]) -> list[Any]:
        group_of, groups = self._values.group_of, self._values.groups()
        results = []
        for key, value in zip(keys, inputs, strict=True):
            maxima = groups[group_of[key]]
            current = maxima.get(key, None)
            if value is not None and (current is None or value > current):
                maxima[key] = current = value
            results.append((key, current))
        return results


class RunningReduce(RunningOperator):
    """What the function makes of all records of the key so far; of the first record, the record itself."""

    state_name = "reduce"

    def __init__(self, key: KeySelector, function: Callable[[Any, Any], Any], update: str = "record") -> None:
        super().__init__(key, update)
        self._reduce = function

    @property
    def _function(self) -> object:
        return self._reduce

    def _inputs_of(self, batch: Batch, keys: list[Any]) -> list[Any]:
        return rows_of(batch)

    def _update(self, keys: list[Any], inputs: Iterator[Any]) -> list[Any]:
        group_of, groups = self._values.group_of, self._values.groups()
        own, first_group = self._values.own, self._values.first_group
        reduce = self._reduce
        copies = not self._per_batch  # else only the last result of each key leaves, and is copied then
        results = []
        for key, record in zip(keys, inputs, strict=True):
            group = group_of[key]
            values = groups[group]
            current = values.get(key, MISSING)
            if current is not MISSING:
                record = reduce(own(group - first_group, key, current), record)
            values[key] = record
            if copies:
                kind = type(record)
                if kind is tuple:
                    for part in record:
                        if type(part) not in ATOMS:
                            record = copied(record)
                            break
                elif kind not in ATOMS:
                    record = copied(record)
            results.append(record)
        return results

    def _given_out(self, results: list[Any], inputs: list[Any]) -> list[Any]:
        return copied_values(results) if self._per_batch else results


class RunningAggregate(RunningOperator):
    """(key, the aggregate's result so far)."""

    state_name = "aggregate"

    def __init__(self, key: KeySelector, aggregate: Aggregate, update: str = "record") -> None:
        super().__init__(key, update)
        self._aggregate = aggregate

    @property
    def _function(self) -> object:
        return self._aggregate

    def _inputs_of(self, batch: Batch, keys: list[Any]) -> list[Any]:
        return rows_of(batch)

    def _update(self, keys: list[Any], inputs: Iterator[Any]) -> list[Any]:
        group_of, groups = self._values.group_of, self._values.groups()
        own, first_group = self._values.own, self._values.first_group
        create, add, result_of = (
            self._aggregate.create_accumulator,
            self._aggregate.add,
            self._aggregate.get_result,
        )
        copies = not self._per_batch
        results = []
        for key, record in zip(keys, inputs, strict=True):
            group = group_of[key]
            accumulators = groups[group]
            current = accumulators.get(key, MISSING)
            before = create() if current is MISSING else own(group - first_group, key, current)
            accumulators[key] = accumulator = add(record, before)
            result = result_of(accumulator)
            if copies and type(result) not in ATOMS:
                result = copied(result)
            results.append((key, result))
        return results

    def _given_out(self, results: list[Any], inputs: list[Any]) -> list[Any]:
        return copied_values(results) if self._per_batch else results


class PlainValues:
    """Whether a state has only ever held numbers, strings and the like: then results may share its values."""

    def __init__(self, so_far: bool) -> None:
        self._so_far = so_far

    def only(self, *added: Sequence[Any]) -> bool:
        """The state now also has some of these."""
        self._so_far = self._so_far and all(ATOMS.issuperset(map(type, values)) for values in added)
        return self._so_far


def values_of(value: ValueSelector, batch: Batch, *, operator: str) -> list[Any]:
    """What the selector picks of every record."""
    if value is None:
        return rows_of(batch)
    if isinstance(value, str | int) and not isinstance(batch, ObjectBatch):
        column: list[Any] = batch.column(value).to_pylist()
        return column
    return map_rows(_picker(value), rows_of(batch), operator=operator)


def _picker(value: str | int | Callable[[Any], Any]) -> Callable[[Any], Any]:
    if isinstance(value, int):
        return itemgetter(value)
    if isinstance(value, str):
        in_dict, in_object = itemgetter(value), attrgetter(value)
        return lambda record: in_dict(record) if isinstance(record, dict) else in_object(record)
    return value
