"""What is the count, sum, minimum, maximum or reduction per key so far?

Running results: every record updates the state of its key and is answered by the new result, as in Flink without a
window. Or only the newest result of a key leaves, with each batch or after a while.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from operator import attrgetter, itemgetter
from typing import Any, ClassVar, NoReturn

from cutwater.batches import Batch, ObjectBatch, at_one_time, comparable_values, row_maker, rows_of, times_of
from cutwater.graph.keys import KeySelector
from cutwater.operators.aggregations import Aggregation, AggregationKind, ValueSelector, summand
from cutwater.operators.contract import PYTHON_ROWS_MAX, OperatorContext, OperatorSnapshot
from cutwater.operators.holding import HoldingOperator
from cutwater.operators.keyed_values import MISSING, KeyedValues
from cutwater.operators.user_code import NO_RECORD, keys_of, last_taken, map_rows, raise_user_error
from cutwater.protocol.ids import CheckpointId
from cutwater.protocol.state_layout import StateLayout
from cutwater.state.contract import Aggregate, KeyedBackend
from cutwater.state.copies import copied, copied_values
from cutwater.state.values import ATOMS


class RunningOperator(HoldingOperator):
    """A value per key, which every record of the key updates. Without `hold_seconds` every record has a result."""

    typed_rows_max = PYTHON_ROWS_MAX

    state_name: ClassVar[str]
    #: What the result is called in a row; empty: as the state.
    result_name: ClassVar[str] = ""

    def __init__(self, key: KeySelector, hold_seconds: float | None = None) -> None:
        super().__init__(hold_seconds or 0.0)
        self._key = key
        self._holds = hold_seconds is not None
        #: By key, the newest result; without anything changeable that the state keeps.
        self._held: dict[Any, Any] = {}
        self._backend: KeyedBackend | None = None

    def open(self, context: OperatorContext) -> None:
        super().open(context)
        self._one_key = len(self._key.columns) <= 1
        self._row = row_maker((*self._key.names, self.result_name or self.state_name))
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
        if not self._holds:
            self.context.emit(ObjectBatch(self._records_of(keys, self._given_out(results, inputs)), times))
            return
        last = {key: row for row, key in enumerate(keys)}.values()
        newest = self._given_out([results[row] for row in last], inputs)
        self._held.update(zip([keys[row] for row in last], newest, strict=True))
        self._hold(times)

    def _emit_held(self, latest_ms: int | None) -> None:
        held, self._held = self._held, {}
        records = self._records_of(list(held), list(held.values()))
        self.context.emit(at_one_time(ObjectBatch(records), latest_ms))

    def freeze(self, checkpoint: CheckpointId) -> OperatorSnapshot:
        assert self._backend is not None, "not open"
        return OperatorSnapshot(keyed=self._backend.freeze(), layout=self.layout)

    def close(self) -> None:
        if self._backend is not None:
            self._backend.close()

    @abstractmethod
    def _inputs_of(self, batch: Batch, keys: list[Any]) -> list[Any]:
        """What the state is updated with, one per record."""

    @abstractmethod
    def _update(self, keys: list[Any], inputs: Iterator[Any]) -> list[Any]:
        """Updates the state record by record; one result each, without its key. The hot loop."""

    def _given_out(self, results: list[Any], inputs: list[Any]) -> list[Any]:
        """The results of a batch without anything changeable that the state keeps."""
        return results

    def _records_of(self, keys: list[Any], results: list[Any]) -> list[Any]:
        """What leaves: a row of the key's columns and the result. Made for a whole batch at once, without a loop."""
        parts = [keys] if self._one_key else zip(*keys, strict=True)
        return list(map(self._row, zip(*parts, results, strict=True)))

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
    """A row of the key and how many so far."""

    state_name = "count"

    @property
    def layout(self) -> StateLayout:
        return (("count", "count"),)

    def _inputs_of(self, batch: Batch, keys: list[Any]) -> list[Any]:
        return keys

    def _update(self, keys: list[Any], inputs: Iterator[Any]) -> list[Any]:
        group_of, groups = self._values.group_of, self._values.groups()
        results = []
        for key in inputs:
            counts = groups[group_of[key]]
            counts[key] = count = counts.get(key, 0) + 1
            results.append(count)
        return results


class _RunningOfValue(RunningOperator):
    kind: ClassVar[AggregationKind]

    def __init__(self, key: KeySelector, value: ValueSelector = None, hold_seconds: float | None = None) -> None:
        super().__init__(key, hold_seconds)
        self._value = value

    @property
    def layout(self) -> StateLayout:
        return ((self.kind, Aggregation(self.kind, self._value).described),)

    def open(self, context: OperatorContext) -> None:
        super().open(context)
        self._plain = PlainValues(self._values.is_empty())

    def _inputs_of(self, batch: Batch, keys: list[Any]) -> list[Any]:
        return values_of(self._value, batch, operator=self.context.name)

    def _given_out(self, results: list[Any], inputs: list[Any]) -> list[Any]:
        return results if self._plain.only(inputs) else copied_values(results)


class RunningSum(_RunningOfValue):
    """A row of the key and the sum so far: of anything that can be added but texts.

    Here and below None counts for nothing, as in SQL."""

    state_name = kind = "sum"

    def _update(self, keys: list[Any], inputs: Iterator[Any]) -> list[Any]:
        group_of, groups = self._values.group_of, self._values.groups()
        results = []
        for key, value in zip(keys, inputs, strict=True):
            sums = groups[group_of[key]]
            total = sums.get(key, None)
            if value is not None:
                sums[key] = total = summand(value) if total is None else total + value
            results.append(total)
        return results


class RunningMin(_RunningOfValue):
    """A row of the key and the smallest so far; of equal ones the first, a NaN only if there is nothing else."""

    state_name = kind = "min"

    def _update(self, keys: list[Any], inputs: Iterator[Any]) -> list[Any]:
        group_of, groups = self._values.group_of, self._values.groups()
        results = []
        for key, value in zip(keys, inputs, strict=True):
            minima = groups[group_of[key]]
            current = minima.get(key, None)
            if value is not None and (current is None or value < current or current != current):  # a NaN
                minima[key] = current = value
            results.append(current)
        return results


class RunningMax(_RunningOfValue):
    """A row of the key and the largest so far; of equal ones the first, and a NaN is larger than any number."""

    state_name = kind = "max"

    def _update(self, keys: list[Any], inputs: Iterator[Any]) -> list[Any]:
        group_of, groups = self._values.group_of, self._values.groups()
        results = []
        for key, value in zip(keys, inputs, strict=True):
            maxima = groups[group_of[key]]
            current = maxima.get(key, None)
            if value is not None and (current is None or value > current or value != value):  # a NaN
                maxima[key] = current = value
            results.append(current)
        return results


class RunningReduce(RunningOperator):
    """What the function makes of all records of the key so far; of the first record, the record itself."""

    state_name = "reduce"

    def __init__(
        self, key: KeySelector, function: Callable[[Any, Any], Any], hold_seconds: float | None = None
    ) -> None:
        super().__init__(key, hold_seconds)
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
        copies = not self._holds  # else only the last result of each key leaves, and is copied then
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
        return copied_values(results) if self._holds else results

    def _records_of(self, keys: list[Any], results: list[Any]) -> list[Any]:
        return results


class RunningAggregate(RunningOperator):
    """A row of the key and the aggregate's result so far."""

    state_name = "aggregate"
    result_name = "result"

    def __init__(self, key: KeySelector, aggregate: Aggregate, hold_seconds: float | None = None) -> None:
        super().__init__(key, hold_seconds)
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
        copies = not self._holds
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
            results.append(result)
        return results

    def _given_out(self, results: list[Any], inputs: list[Any]) -> list[Any]:
        return copied_values(results) if self._holds else results


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
        return comparable_values(batch.column(value))
    return map_rows(_picker(value), rows_of(batch), operator=operator)


def _picker(value: str | int | Callable[[Any], Any]) -> Callable[[Any], Any]:
    if isinstance(value, int):
        return itemgetter(value)
    if isinstance(value, str):
        in_dict, in_object = itemgetter(value), attrgetter(value)
        return lambda record: in_dict(record) if isinstance(record, dict) else in_object(record)
    return value
