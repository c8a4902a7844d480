"""What are several built-in aggregates per key so far, on Python values, in one pass?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from cutwater.batches import Batch, row_maker
from cutwater.graph.keys import KeySelector
from cutwater.operators.aggregations import Aggregation
from cutwater.operators.contract import OperatorContext
from cutwater.operators.keyed import PlainValues, RunningOperator
from cutwater.operators.keyed_values import MISSING
from cutwater.operators.windows.folds import Several
from cutwater.protocol.state_layout import StateLayout
from cutwater.state.copies import copied_values


class RunningFolds(RunningOperator):
    """A named row for each record: the key's columns and the aggregates so far."""

    state_name = "aggregates"

    def __init__(
        self, key: KeySelector, aggregations: tuple[tuple[str, Aggregation], ...], hold_seconds: float | None = None
    ) -> None:
        super().__init__(key, hold_seconds)
        self._fold = Several(dict(aggregations))
        self._names = (*key.names, *(name for name, _ in aggregations))

    @property
    def layout(self) -> StateLayout:
        return self._fold.layout

    def open(self, context: OperatorContext) -> None:
        super().open(context)
        self._plain = PlainValues(self._values.is_empty())

    def _inputs_of(self, batch: Batch, keys: list[Any]) -> list[Any]:
        self._inputs = self._fold.inputs_of(batch, self.context.name)
        return list(range(len(keys)))

    def _update(self, keys: list[Any], inputs: Iterator[Any]) -> list[Any]:
        group_of, groups = self._values.group_of, self._values.groups()
        add, result_of, columns = self._fold.add, self._fold.result, self._inputs
        make, one_key = row_maker(self._names), self._one_key
        results = []
        for index in inputs:
            key = keys[index]
            accumulators = groups[group_of[key]]
            accumulators[key] = grown = add(accumulators.get(key, MISSING), columns, (index,))
            results.append(make(((key,) if one_key else key) + tuple(result_of(grown))))
        return results

    def _given_out(self, results: list[Any], inputs: list[Any]) -> list[Any]:
        return results if self._plain.only(*self._inputs) else copied_values(results)

    def _records_of(self, keys: list[Any], results: list[Any]) -> list[Any]:
        return results  # rows already
