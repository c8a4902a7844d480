"""What can be done with a stream whose records have a key?

Running results: every record updates the state of its key and is answered by the new result.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Unpack

from cutwater.api.connected import ConnectedStreams
from cutwater.api.dataflow import OperatorSettings
from cutwater.errors import UserError
from cutwater.graph.keys import KeySelector
from cutwater.operators.aggregations import ValueSelector
from cutwater.operators.keyed import (
    RunningAggregate,
    RunningCount,
    RunningMax,
    RunningMin,
    RunningReduce,
    RunningSum,
)
from cutwater.operators.process import KeyedProcessOperator
from cutwater.state.contract import Aggregate

if TYPE_CHECKING:
    from cutwater.api.streams import DataStream


class KeyedStream:
    """A stream and its key. Every operation also takes `uid`, `name`, `parallelism` and `chaining` by keyword."""

    def __init__(self, stream: DataStream, key: KeySelector) -> None:
        self._stream = stream
        self._key = key

    def count(self, **settings: Unpack[OperatorSettings]) -> DataStream:
        """(key, how many so far), for every record."""
        return self._apply("count", RunningCount, (), settings)

    def sum(self, value: ValueSelector = None, **settings: Unpack[OperatorSettings]) -> DataStream:
        """(key, sum so far); `value` picks what to add: a field, a position, a function; None: the record itself."""
        return self._apply("sum", RunningSum, (value,), settings, _label(value))

    def min(self, value: ValueSelector = None, **settings: Unpack[OperatorSettings]) -> DataStream:
        """(key, smallest so far)."""
        return self._apply("min", RunningMin, (value,), settings, _label(value))

    def max(self, value: ValueSelector = None, **settings: Unpack[OperatorSettings]) -> DataStream:
        """(key, largest so far)."""
        return self._apply("max", RunningMax, (value,), settings, _label(value))

    def reduce(self, function: Callable[[Any, Any], Any], **settings: Unpack[OperatorSettings]) -> DataStream:
        """What the function makes of the reduction so far and the record; the first record stands for itself."""
        if not callable(function):
            raise UserError(f"reduce needs a function of two arguments, not {function!r}")
        return self._apply("reduce", RunningReduce, (function,), settings, function)

    def aggregate(self, aggregate: Aggregate, **settings: Unpack[OperatorSettings]) -> DataStream:
        """(key, the aggregate's result so far)."""
        for method in ("create_accumulator", "add", "get_result"):
            if isinstance(aggregate, type) or not callable(getattr(aggregate, method, None)):
                raise UserError(
                    f"{aggregate!r} is not an aggregate",
                    hint="pass an object with create_accumulator(), add(value, accumulator), get_result(accumulator)",
                )
        return self._apply("aggregate", RunningAggregate, (aggregate,), settings, aggregate)

    def process(self, function: Any, **settings: Unpack[OperatorSettings]) -> DataStream:
        """A function of record and context, or an object with `process(record, context)`; state is the key's own."""
        return self._apply("process", KeyedProcessOperator, (function,), settings, function)

    def connect(self, other: DataStream | KeyedStream) -> ConnectedStreams:
        """Two keyed streams that share state by key; or the other is `broadcast()` and seen by every task."""
        return ConnectedStreams(self, other)

    def _apply(
        self,
        operation: str,
        operator: Callable[..., Any],
        arguments: tuple[Any, ...],
        settings: OperatorSettings,
        function: object = None,
    ) -> DataStream:
        inputs = self._stream._inputs(key=self._key)
        return self._stream._derive(operation, operator, (self._key, *arguments), inputs, settings, function)


def _label(value: ValueSelector) -> object:
    """A field's name is a fine name for the operator."""
    return str(value) if isinstance(value, int) else value
