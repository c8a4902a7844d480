"""What can be done with a stream whose records have a key?

Running results: every record updates the state of its key and is answered by the new result, a `Row` with the columns
of the key (`key` for a function) and a field for each aggregate.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Generic, Literal, NoReturn, Unpack, cast, overload

from cutwater.api.connected import ConnectedStreams
from cutwater.api.dataflow import OperatorSettings
from cutwater.api.joins import Key, LateOutput, LookupKind, LookupTime, Select, join_streams, lookup_stream
from cutwater.api.running import Update, hold_seconds_of, running_aggregates
from cutwater.api.suggestions import unknown_operation
from cutwater.api.typing import K, ProcessFunction, R, T, U
from cutwater.api.windowed import WindowedStream, windowed
from cutwater.batches import Row
from cutwater.dead_letters import OnError, check_on_error
from cutwater.durations import Duration
from cutwater.errors import UserError
from cutwater.graph.keys import KeySelector
from cutwater.operators.aggregations import Aggregation, AggregationKind, ValueSelector
from cutwater.operators.joins.inputs import JoinKind
from cutwater.operators.keyed import (
    RunningAggregate,
    RunningCount,
    RunningMax,
    RunningMin,
    RunningReduce,
    RunningSum,
)
from cutwater.operators.keyed_folds import RunningFolds
from cutwater.operators.process import FunctionContext, KeyedProcessOperator
from cutwater.operators.windows.model import Assigner
from cutwater.state.contract import Aggregate

if TYPE_CHECKING:
    from cutwater.api.streams import DataStream


class KeyedStream(Generic[K, T]):
    """A stream and its key. Every operation also takes `uid`, `name`, `parallelism` and `chaining` by keyword."""

    def __init__(self, stream: DataStream, key: KeySelector) -> None:
        self._stream = stream
        self._key = key

    def count(self, *, update: Update = "record", **settings: Unpack[OperatorSettings]) -> DataStream[Row]:
        """A row of the key and `count`, how many so far, for every record; `update="batch"`: for every key of a batch,
        once; `update="1s"`: for every key at most once a second, and at each checkpoint."""
        return self._running("count", None, RunningCount, (), update, settings)

    def sum(
        self, value: ValueSelector = None, *, update: Update = "record", **settings: Unpack[OperatorSettings]
    ) -> DataStream[Row]:
        """A row of the key and `sum`, so far; `value` picks what to add: a column or field, a position, a function;
        None: the record."""
        return self._running("sum", value, RunningSum, (value,), update, settings)

    def min(
        self, value: ValueSelector = None, *, update: Update = "record", **settings: Unpack[OperatorSettings]
    ) -> DataStream[Row]:
        """A row of the key and `min`, the smallest so far."""
        return self._running("min", value, RunningMin, (value,), update, settings)

    def max(
        self, value: ValueSelector = None, *, update: Update = "record", **settings: Unpack[OperatorSettings]
    ) -> DataStream[Row]:
        """A row of the key and `max`, the largest so far."""
        return self._running("max", value, RunningMax, (value,), update, settings)

    def reduce(
        self,
        function: Callable[[T, T], T],
        *,
        update: Update = "record",
        **settings: Unpack[OperatorSettings],
    ) -> DataStream[T]:
        """What the function makes of the reduction so far and the record; the first record stands for itself."""
        if not callable(function):
            raise UserError(f"reduce needs a function of two arguments, not {function!r}")
        return self._apply("reduce", RunningReduce, (function, hold_seconds_of(update)), settings, function)

    def mean(
        self, value: ValueSelector = None, *, update: Update = "record", **settings: Unpack[OperatorSettings]
    ) -> DataStream[Row]:
        """A row of the key and `mean`, so far."""
        named = {"mean": Aggregation("mean", value)}
        return self._named("mean", named, update, settings, _label(value))

    def aggregate(
        self, aggregate: Aggregate | None = None, *, update: Update = "record", **named: Any
    ) -> DataStream[Row]:
        """A row of the key and `result`, that of the aggregate so far: an object with `create_accumulator()`,
        `add(record, accumulator)` and `get_result(accumulator)`. Or several of `cw.agg` in one pass, by the names of
        their fields."""
        aggregations = {name: value for name, value in named.items() if isinstance(value, Aggregation)}
        settings = cast(OperatorSettings, {name: value for name, value in named.items() if name not in aggregations})
        if aggregations:
            if aggregate is not None:
                raise UserError("aggregate takes an object or named aggregates, not both")
            return self._named("aggregate", aggregations, update, settings)
        for method in ("create_accumulator", "add", "get_result"):
            if isinstance(aggregate, type) or not callable(getattr(aggregate, method, None)):
                raise UserError(
                    f"{aggregate!r} is not an aggregate",
                    hint="pass an object with create_accumulator(), add(value, accumulator), get_result(accumulator), "
                    "or aggregates of cw.agg by name: aggregate(total=cw.agg.sum(…))",
                )
        return self._apply("aggregate", RunningAggregate, (aggregate, hold_seconds_of(update)), settings, aggregate)

    @overload
    def process(  # what it puts out by emit alone is not told by its type
        self,
        function: Callable[[T, FunctionContext], None],
        *,
        on_error: OnError = "fail",
        **settings: Unpack[OperatorSettings],
    ) -> DataStream: ...
    @overload
    def process(
        self,
        function: ProcessFunction[T, R] | Callable[[T, FunctionContext], Iterable[R] | None],
        *,
        on_error: OnError = "fail",
        **settings: Unpack[OperatorSettings],
    ) -> DataStream[R]: ...
    def process(self, function: Any, *, on_error: OnError = "fail", **settings: Unpack[OperatorSettings]) -> DataStream:
        """A function of record and context, or an object with `process(record, context)`; state is the key's own."""
        check_on_error(on_error, operation="process")
        return self._apply("process", KeyedProcessOperator, (function, on_error), settings, function)

    def side_output(self, tag: str) -> DataStream:
        """That of the stream before its key; with `key_by(…, on_error="dead_letter")`, `"errors"` has the records for
        which there is no key."""
        return self._stream.side_output(tag)

    def window(self, assigner: Assigner) -> WindowedStream[K, T]:
        """The records of each key in windows: `cw.tumbling`, `sliding`, `session`, `global_window`, `count_window`."""
        return windowed(self._stream, self._key, assigner)

    def connect(self, other: DataStream[U] | KeyedStream[Any, U]) -> ConnectedStreams[T, U]:
        """Two keyed streams that share state by key; or the other is `broadcast()` and seen by every task."""
        return ConnectedStreams(self, other)

    @overload
    def join(
        self,
        right: KeyedStream[Any, U],
        *,
        between: tuple[Duration, Duration] | None = None,
        window: Assigner | None = None,
        how: Literal["inner"] = "inner",
        select: Callable[[T, U], R],
        late_output: LateOutput | None = None,
        **settings: Unpack[OperatorSettings],
    ) -> DataStream[R]: ...
    @overload
    def join(
        self,
        right: KeyedStream[Any, U],
        *,
        between: tuple[Duration, Duration] | None = None,
        window: Assigner | None = None,
        how: Literal["left", "right", "full"],
        select: Callable[[Any, Any], R],
        late_output: LateOutput | None = None,
        **settings: Unpack[OperatorSettings],
    ) -> DataStream[R]: ...
    @overload
    def join(
        self,
        right: KeyedStream[Any, U],
        *,
        between: tuple[Duration, Duration] | None = None,
        window: Assigner | None = None,
        how: JoinKind = "inner",
        select: None = None,
        late_output: LateOutput | None = None,
        **settings: Unpack[OperatorSettings],
    ) -> DataStream: ...
    def join(
        self,
        right: KeyedStream,
        *,
        between: tuple[Duration, Duration] | None = None,
        window: Assigner | None = None,
        how: JoinKind = "inner",
        select: Select | None = None,
        late_output: LateOutput | None = None,
        **settings: Unpack[OperatorSettings],
    ) -> DataStream:
        """Pairs of records of equal keys: of times close to each other (`between`), or of one window (`window`).

        `between=("-5s", "5s")` bounds right.time - left.time, both ends included; a pair leaves when its second record
        comes, at the later time of the two. Pairs of a window leave when it ends, at its last moment. `how="left"`,
        `"right"` or `"full"` also gives the records of these sides that found no partner, once none can come any more,
        with None for the other side.

        A pair is what `select(left, right)` returns. Without it, the columns of both sides if both streams have a
        schema, the key once and a clashing name of the right side as `name_right`; else the tuple (left, right).

        Records older than the watermark come too late; they are counted (`JobStatus.late_records`), or go to the side
        output `late_output`: one tag, or one for each side.
        """
        return join_streams(
            self,
            right,
            between=between,
            window=window,
            how=how,
            select=select,
            late_output=late_output,
            settings=settings,
        )

    def lookup(
        self,
        versions: DataStream,
        *,
        on: Key,
        key: Key | None = None,
        time: LookupTime = "event",
        how: LookupKind = "inner",
        select: Select | None = None,
        late_output: str | None = None,
        **settings: Unpack[OperatorSettings],
    ) -> DataStream:
        """`DataStream.lookup`; `key` is the stream's own if left out, and records wait in the state of their key."""
        return lookup_stream(
            self._stream,
            versions,
            stream_key=self._key,
            key=key,
            on=on,
            time=time,
            how=how,
            select=select,
            late_output=late_output,
            settings=settings,
        )

    def __repr__(self) -> str:
        return f"<KeyedStream by {self._key.describe()}: {self._stream!r}>"

    def _repr_html_(self) -> str:
        return self._stream._repr_html_()

    if not TYPE_CHECKING:  # type checkers know what there is

        def __getattr__(self, name: str) -> NoReturn:
            raise unknown_operation(type(self), name)

    def _named(
        self,
        operation: str,
        aggregations: dict[str, Aggregation],
        update: Update,
        settings: OperatorSettings,
        function: object = None,
    ) -> DataStream:
        return running_aggregates(
            self._stream,
            self._key,
            aggregations,
            operation=operation,
            update=update,
            on_values=(RunningFolds, (tuple(aggregations.items()),)),
            settings=settings,
            function=function,
        )

    def _running(
        self,
        kind: AggregationKind,
        value: ValueSelector,
        operator: Callable[..., Any],
        arguments: tuple[Any, ...],
        update: Update,
        settings: OperatorSettings,
    ) -> DataStream:
        return running_aggregates(
            self._stream,
            self._key,
            {kind: Aggregation(kind, value)},
            operation=kind,
            update=update,
            on_values=(operator, arguments),
            settings=settings,
            function=_label(value),
        )

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
