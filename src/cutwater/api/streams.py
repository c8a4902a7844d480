"""What can be done with a stream?

A stream is a description: each operation adds an operator to the environment's graph and returns the stream of its
output. Nothing runs before `Environment.execute` or `submit`.
"""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import replace
from html import escape
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Generic, Literal, NoReturn, Unpack, overload

import pyarrow as pa

from cutwater.api.connected import ConnectedStreams
from cutwater.api.dataflow import Dataflow, Input, OperatorSettings, Output, spread
from cutwater.api.joins import Key, LookupKind, LookupTime, Select, check_key, lookup_stream
from cutwater.api.keyed import KeyedStream
from cutwater.api.suggestions import unknown_operation
from cutwater.api.tables import data_frame, text_table
from cutwater.api.typing import AsyncFunction, ProcessFunction, R, T, U
from cutwater.api.watermarks import refuse_settings_of_source, refuse_without_source
from cutwater.api.windows import positive_count
from cutwater.batches import TIME_COLUMN, TIME_METADATA, Row, schema_with_times, time_column_of
from cutwater.columns.expressions import Column, col, lit
from cutwater.config import refuse_unknown
from cutwater.connectors import sinks
from cutwater.connectors.contract import Sink
from cutwater.dead_letters import OnError, check_on_error
from cutwater.durations import Duration, parse_duration
from cutwater.errors import ConfigurationError, GraphError, SchemaError, UserError
from cutwater.graph.keys import KeySelector
from cutwater.graph.model import ColumnUse, Partitioning
from cutwater.operators.async_map import AsyncMapOperator, CallRules
from cutwater.operators.columns import FilterRowsOperator, Outputs, SelectOperator, filtered_schema, selected_schema
from cutwater.operators.event_time import (
    AssignTimestampsOperator,
    TimestampSelector,
    TimeUnit,
    check_time_column,
    timed_schema,
)
from cutwater.operators.guarded_rows import (
    GuardedFilterOperator,
    GuardedFlatMapOperator,
    GuardedKeyOperator,
    GuardedMapOperator,
)
from cutwater.operators.guarded_timestamps import GuardedTimestampsOperator
from cutwater.operators.limit import LimitOperator
from cutwater.operators.process import FunctionContext, ProcessOperator
from cutwater.operators.rows import FilterOperator, FlatMapOperator, MapBatchesOperator, MapOperator
from cutwater.operators.schemas import WithSchemaOperator
from cutwater.protocol.event_time import WatermarkStrategy
from cutwater.retry import Retry

if TYPE_CHECKING:
    import pandas as pd


class DataStream(Generic[T]):
    """A stream of records. Every operation also takes `uid`, `name`, `parallelism` and `chaining` by keyword.

    Operations that call a function for each record take `on_error`: "fail" (the job fails), "skip" (the record is
    dropped and counted) or "dead_letter" (it goes to `side_output("errors")` as a `DeadLetter`).
    """

    def __init__(self, dataflow: Dataflow, outputs: tuple[Output, ...]) -> None:
        self._dataflow = dataflow
        self._outputs = outputs

    @property
    def schema(self) -> pa.Schema | None:
        """The columns of a typed stream; None: a stream of Python values, or of batches that nobody has described."""
        first = self._outputs[0].schema
        same = all(output.schema is not None and output.schema.equals(first) for output in self._outputs)
        return first if same else None

    def assign_timestamps(
        self,
        timestamp: str | Callable[[T], Any],
        watermarks: WatermarkStrategy,
        *,
        unit: TimeUnit | None = None,
        on_error: OnError = "fail",
        **settings: Unpack[OperatorSettings],
    ) -> DataStream[T]:
        """Event time: when each record happened (a column or field, or a function of it), and how time advances.

        Timestamps are datetimes, or numbers in `unit` since the epoch (milliseconds if left out; a column of integers
        needs it said). Called on a source's own stream, every split of the source has a clock of its own; anywhere
        else a new operator assigns the timestamps, and replaces those that the records had. Only such an operator goes
        on after a record on which a function fails (`on_error`); bad timestamps are for the watermark strategy.
        """
        selector = _timestamp_selector(timestamp, unit)
        if not isinstance(watermarks, WatermarkStrategy):
            raise ConfigurationError(
                f"{watermarks!r} is no watermark strategy", hint='give one of cw.watermarks, e.g. bounded("5s")'
            )
        schema = self.schema
        if schema is not None:
            check_time_column(schema, selector, unit_given=unit is not None)
            schema = timed_schema(schema, selector)
        refuse_unknown(settings, OperatorSettings.__annotations__, of="the operation 'assign_timestamps'")
        check_on_error(on_error, operation="assign_timestamps")
        if on_error != "fail":
            self._check_guarded_timestamps(selector, on_error)
            refuse_without_source(watermarks)
            guarded = (selector, watermarks, on_error)
            return self._derive(
                "assign_timestamps", GuardedTimestampsOperator, guarded, self._inputs(), settings, None, schema
            )
        if len(self._outputs) == 1 and self._dataflow.time_source(self._outputs[0], selector, watermarks):
            refuse_settings_of_source(settings)
            return DataStream(self._dataflow, (replace(self._outputs[0], schema=schema),))
        refuse_without_source(watermarks)
        arguments = (selector, watermarks)
        reads = None
        if selector.column is not None:
            reads = ColumnUse(frozenset({selector.column}), hands_on=True)
        return self._derive(
            "assign_timestamps", AssignTimestampsOperator, arguments, self._inputs(), settings, None, schema, reads
        )

    def map(
        self, function: Callable[[T], R], *, on_error: OnError = "fail", **settings: Unpack[OperatorSettings]
    ) -> DataStream[R]:
        """One record for each: what the function returns."""
        return self._apply("map", (MapOperator, GuardedMapOperator), function, on_error, settings)

    def async_map(
        self,
        function: AsyncFunction[T, R] | Callable[[T], Awaitable[R]],
        *,
        capacity: int = 100,
        timeout: Duration | None = "5s",
        ordered: bool = True,
        retry: Retry | None = None,
        on_error: OnError = "fail",
        **settings: Unpack[OperatorSettings],
    ) -> DataStream[R]:
        """One record for each: what the coroutine returns. Each task has up to `capacity` records under way.

        `function` is an `async def` function of the record, or an object with such a method `process`, which may have
        `open(context)` and `close()` for a session. An attempt may take `timeout`; `retry=cw.retry.fixed(…)` makes
        several. With `ordered=False` results leave as they come, but never behind a watermark that came after their
        record. Records under way are part of snapshots and called for again after a failure: calls can happen twice,
        results count once.
        """
        if not callable(getattr(function, "process", function)):
            raise UserError(f"async_map needs an async function, not {function!r}")
        check_on_error(on_error, operation="async_map")
        rules = _call_rules(capacity, timeout, ordered, retry, on_error)
        return self._derive("async_map", AsyncMapOperator, (function, rules), self._inputs(), settings, function)

    def flat_map(
        self,
        function: Callable[[T], Iterable[R]],
        *,
        on_error: OnError = "fail",
        **settings: Unpack[OperatorSettings],
    ) -> DataStream[R]:
        """Any number of records for each: what the function returns as an iterable, or yields."""
        return self._apply("flat_map", (FlatMapOperator, GuardedFlatMapOperator), function, on_error, settings)

    def filter(
        self,
        condition: Column | Callable[[T], Any],
        *,
        on_error: OnError = "fail",
        **settings: Unpack[OperatorSettings],
    ) -> DataStream[T]:
        """The records for which the function, or on a typed stream the column expression, is true."""
        if not isinstance(condition, Column):
            operators = FilterOperator, GuardedFilterOperator
            return self._apply("filter", operators, condition, on_error, settings, schema=self.schema)
        _refuse_without_function(on_error, operation="filter", given="a column expression")
        schema = filtered_schema(self._typed_schema("filter"), condition, where="filter")
        reads = ColumnUse(condition.columns, hands_on=True)
        return self._derive("filter", FilterRowsOperator, (condition,), self._inputs(), settings, None, schema, reads)

    def select(self, *columns: str | Column, **named: Any) -> DataStream[Row]:
        """On a typed stream: these columns and no others; new ones are expressions, `total=cw.col("a") * 2`."""
        outputs, settings = _outputs(columns, named)
        return self._project("select", outputs, settings, keeps_all=False)

    def with_columns(self, *columns: Column, **named: Any) -> DataStream[Row]:
        """On a typed stream: all columns, with these added or replaced."""
        outputs, settings = _outputs(columns, named)
        return self._project("with_columns", outputs, settings, keeps_all=True)

    def with_schema(self, schema: pa.Schema, **settings: Unpack[OperatorSettings]) -> DataStream[Row]:
        """A typed stream: records (dicts, dataclasses, tuples …) become rows of this schema, typed batches are cast."""
        if not isinstance(schema, pa.Schema):
            raise ConfigurationError(f"{schema!r} is no schema", hint='give pa.schema([("name", pa.string()), …])')
        known = self.schema
        carries = known is not None and time_column_of(known) is not None
        promised = schema_with_times(schema) if carries else schema
        return self._derive("with_schema", WithSchemaOperator, (schema,), self._inputs(), settings, None, promised)

    def map_batches(
        self,
        function: Callable[[Any], Any],
        *,
        schema: pa.Schema | None = None,
        format: Literal["pandas"] | None = None,  # noqa: A002 — the word that Spark uses
        **settings: Unpack[OperatorSettings],
    ) -> DataStream:
        """Whole batches: Arrow record batches of a typed stream, lists of values of any other; or, with
        `format="pandas"`, DataFrames of both. The function returns any of these, or an iterable of them.

        `schema` promises what the function returns, so that what follows can run on columns. If it has the column of
        the event time, that stays the event time.
        """
        if not callable(function):
            raise UserError(f"map_batches needs a function, not {function!r}")
        if format not in (None, "pandas"):
            raise ConfigurationError(f"format can't be {format!r}", hint='choose "pandas", or leave it out')
        promised = None if schema is None else _with_times_of(self.schema, schema)
        arguments = (function, promised, format == "pandas")
        return self._derive("map_batches", MapBatchesOperator, arguments, self._inputs(), settings, function, promised)

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
        """A function of record and context, or an object with `process(record, context)`; may have side outputs."""
        check_on_error(on_error, operation="process")
        return self._derive("process", ProcessOperator, (function, on_error), self._inputs(), settings, function)

    def side_output(self, tag: str) -> DataStream:
        """What a function sent to `context.side_output(tag, value)`, or late records under the tag of `late_output`, or
        under "errors" the dead letters of `on_error="dead_letter"`."""
        self._dataflow.check_side_output(tag, [output.sender for output in self._outputs])
        return DataStream(self._dataflow, tuple(replace(output, tag=tag, schema=None) for output in self._outputs))

    @overload
    def key_by(self, key: Callable[[T], U], /, *, on_error: OnError = "fail") -> KeyedStream[U, T]: ...
    @overload
    def key_by(self, *keys: str | int | Sequence[str], on_error: OnError = "fail") -> KeyedStream[Any, T]: ...
    def key_by(self, *keys: Any, on_error: OnError = "fail") -> KeyedStream[Any, T]:
        """Records with the same key go to the same task: a column or field, several of them (also as a list), a
        position of a tuple or list, or a function.

        Another `on_error` than "fail" adds an operator, which asks for each key first.
        """
        if self._is_broadcast:
            raise GraphError("a broadcast stream can't be keyed", hint="key_by without broadcast(): it spreads anew")
        selector = _key_selector(keys, self.schema)
        check_key(self, selector, where="key_by")
        check_on_error(on_error, operation="key_by")
        if on_error == "fail":
            return KeyedStream(self, selector)
        if self.schema is not None and selector.function is None:
            _refuse_without_function(on_error, operation="key_by", given="columns of a typed stream")
        arguments = (selector, on_error)
        inputs, settings = self._inputs(), self._settings_beside()
        guarded = self._derive("key_by", GuardedKeyOperator, arguments, inputs, settings, None, self.schema)
        return KeyedStream(guarded, selector)

    def union(self, *others: DataStream[U]) -> DataStream[T | U]:
        """The records of all these streams, in the order in which they arrive."""
        for other in others:
            if not isinstance(other, DataStream):
                raise GraphError(f"a stream can't be united with {other!r}", hint="unite streams before key_by")
            self._dataflow.check_same(other._dataflow)
        outputs = self._outputs + tuple(output for other in others for output in other._outputs)
        return DataStream(self._dataflow, outputs)

    def connect(self, other: DataStream[U] | KeyedStream[Any, U]) -> ConnectedStreams[T, U]:
        """Two streams for one function that tells them apart; the other may be `broadcast()`."""
        return ConnectedStreams(self, other)

    def join(self, *_: object, **__: object) -> NoReturn:
        """For keyed streams only."""
        raise GraphError(
            "a stream without a key can't be joined",
            hint="key_by both by what must be equal: left.key_by(…).join(right.key_by(…), …)",
        )

    def lookup(
        self,
        versions: DataStream,
        *,
        key: Key,
        on: Key,
        time: LookupTime = "event",
        how: LookupKind = "inner",
        select: Select | None = None,
        late_output: str | None = None,
        **settings: Unpack[OperatorSettings],
    ) -> DataStream:
        """Each record with the version of its `key` (`on` is the version's) that was valid at the record's time.

        `versions` is a broadcast stream; a version is valid from its own event time to that of the next one of its key.
        A record waits until the watermark of both streams has passed it, so that no version is missed; with
        `time="latest"` it leaves at once, with the newest version that has come. `how="left"` also gives records
        without a version, with None in its place; `select`, `late_output` and what a pair looks like: see
        `KeyedStream.join`.
        """
        return lookup_stream(
            self,
            versions,
            stream_key=None,
            key=key,
            on=on,
            time=time,
            how=how,
            select=select,
            late_output=late_output,
            settings=settings,
        )

    def broadcast(self) -> DataStream[T]:
        """Every task of the next operator gets every record."""
        return DataStream(self._dataflow, spread(self._outputs, Partitioning.BROADCAST))

    def rebalance(self) -> DataStream[T]:
        """Records go to the tasks of the next operator in turn."""
        return DataStream(self._dataflow, spread(self._outputs, Partitioning.REBALANCE))

    def sink_to(self, sink: Sink, **settings: Unpack[OperatorSettings]) -> None:
        """Ends the stream in a sink."""
        self._dataflow.add_sink(sink, self._inputs(), settings)

    def limit(self, count: int, **settings: Unpack[OperatorSettings]) -> DataStream[T]:
        """The first records that come, and no others. Which ones come first isn't promised, unless there is one task.

        `execute_and_collect`, `to_pandas` and `show` on it end as soon as they have them, also with a source that has
        no end; a job that is executed goes on reading.
        """
        limit = positive_count(count, option="limit")
        if "parallelism" in settings:
            raise ConfigurationError("limit counts all records, in one task", hint="leave out parallelism")
        own: OperatorSettings = {**settings, "parallelism": 1}
        reads = ColumnUse(frozenset(), hands_on=True)
        return self._derive("limit", LimitOperator, (limit,), self._inputs(), own, None, self.schema, reads)

    def print(self, prefix: str | None = None, **settings: Unpack[OperatorSettings]) -> None:
        """Ends the stream on the screen of the driver: a line for each record, behind `prefix> ` if there is one."""
        self.sink_to(sinks.stdout(prefix), **settings)

    def show(self, count: int = 20, *, timeout: Duration | None = None) -> None:
        """Prints the first records as a table: runs what this stream needs, and nothing else, until they are there.

        For looking: takes no checkpoint, writes to no sink, and ends as soon as there are `count` records, at the end
        of the input, or after `timeout` with what has come. Sources may have no end.
        """
        records = self._first(positive_count(count, option="the number of records"), timeout)
        more = f"\nthe first {count} records" if len(records) == count else ""
        sys.stdout.write(f"{text_table(records, self.schema)}{more}\n")

    def to_pandas(self) -> pd.DataFrame:
        """The records as a pandas DataFrame: runs what this stream needs to the end of its bounded input.

        Rows, dicts, dataclasses and named tuples become columns of their names, tuples c0, c1, …, anything else one
        column `value`. Of a source without an end, say how many: `stream.limit(1000).to_pandas()`.
        """
        endless = self._dataflow.endless_sources(self._outputs)
        if endless and self._dataflow.limit_of(self._outputs) is None:
            raise GraphError(
                f"{endless[0]} has no end, and a DataFrame has one",
                hint="say how many records: stream.limit(1000).to_pandas()",
            )
        return data_frame(self.execute_and_collect(), self.schema)

    def execute_and_collect(self) -> list[T]:
        """Runs what this stream needs, and nothing else, to the end of its bounded input; the records as they came."""
        limit = self._dataflow.limit_of(self._outputs)
        if limit is not None:
            return self._first(limit, None)
        sink = sinks.collect()
        flow = self._dataflow.copy()  # so that the job stays as it was written
        collected = flow.add_sink(sink, self._inputs(), {})
        self._dataflow.run(flow.upstream_of(collected.sender))
        return sink.collected.take()

    def __repr__(self) -> str:
        schema = self.schema
        columns = "" if schema is None else f", columns: {_shown_columns(schema)}"
        return f"<DataStream of {self._dataflow.describe(self._outputs)}{columns}>"

    def _repr_html_(self) -> str:
        return f"<div>{escape(repr(self))}</div>{self._dataflow.picture_of(self._outputs)}"

    if not TYPE_CHECKING:  # type checkers know what there is

        def __getattr__(self, name: str) -> NoReturn:
            raise unknown_operation(type(self), name)

    # From here on: for keyed and connected streams, which are friends.

    def _first(self, count: int, timeout: Duration | None) -> list[Any]:
        return self._dataflow.first_records(self._inputs(), count, timeout)

    @property
    def _is_broadcast(self) -> bool:
        return all(output.partitioning is Partitioning.BROADCAST for output in self._outputs)

    def _inputs(self, *, port: int = 0, key: KeySelector | None = None) -> list[Input]:
        return [Input(output, port, key) for output in self._outputs]

    def _check_guarded_timestamps(self, selector: TimestampSelector, on_error: OnError) -> None:
        if self.schema is not None and selector.function is None:
            _refuse_without_function(on_error, operation="assign_timestamps", given="a column of a typed stream")
        if len(self._outputs) == 1 and self._dataflow.can_time_source(self._outputs[0]):
            raise ConfigurationError(
                f'on_error="{on_error}" is of no use in assign_timestamps on a source\'s own stream',
                detail="the source assigns these timestamps itself, split by split",
                hint='let the function return None for such records, with bad_timestamps="drop"; '
                "or put an operation in between that refuses them: filter(…, on_error=…)",
            )

    def _settings_beside(self) -> OperatorSettings:
        """Of an operator that should run where the records are."""
        before = [self._dataflow.node_of(output) for output in self._outputs]
        explicit = {node.parallelism for node in before if node.parallelism_is_explicit}
        return {"parallelism": explicit.pop()} if len(before) == 1 and explicit else {}

    def _derive(
        self,
        operation: str,
        operator: Callable[..., Any],
        arguments: tuple[Any, ...],
        inputs: list[Input],
        settings: OperatorSettings,
        function: object = None,
        schema: pa.Schema | None = None,
        reads: ColumnUse | None = None,
    ) -> DataStream:
        """Adds an operator and returns its output."""
        added = self._dataflow.add(
            operation, operator, arguments, inputs, settings, function=function, schema=schema, reads=reads
        )
        return DataStream(self._dataflow, (added,))

    def _typed_schema(self, operation: str) -> pa.Schema:
        schema = self.schema
        if schema is None:
            raise SchemaError(
                f"{operation} on columns needs a typed stream",
                hint="declare one: with_schema(pa.schema([…])), or map_batches(…, schema=…)",
            )
        return schema

    def _project(self, operation: str, outputs: Outputs, settings: OperatorSettings, *, keeps_all: bool) -> DataStream:
        schema = self._typed_schema(operation)
        time = time_column_of(schema)
        needs = frozenset(column for _, expression in outputs for column in expression.columns)
        reads = ColumnUse(needs if time is None else needs | {time}, hands_on=keeps_all)
        projected = selected_schema(schema, outputs, keeps_all=keeps_all, where=operation)
        arguments = (outputs, keeps_all)
        return self._derive(operation, SelectOperator, arguments, self._inputs(), settings, None, projected, reads)

    def _apply(
        self,
        operation: str,
        operators: tuple[Callable[..., Any], Callable[..., Any]],
        function: Callable[..., Any],
        on_error: OnError,
        settings: OperatorSettings,
        schema: pa.Schema | None = None,
    ) -> DataStream:
        """`operators`: the plain one, and the one that goes on after a failure."""
        if not callable(function):
            raise UserError(f"{operation} needs a function, not {function!r}")
        check_on_error(on_error, operation=operation)
        plain, guarded = operators
        fails = on_error == "fail"
        operator, arguments = (plain, (function,)) if fails else (guarded, (function, on_error))
        return self._derive(operation, operator, arguments, self._inputs(), settings, function, schema)


def _shown_columns(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name} {field.type}" for field in schema if field.name != TIME_COLUMN)


def _call_rules(
    capacity: int, timeout: Duration | None, ordered: bool, retry: Retry | None, on_error: OnError
) -> CallRules:
    if isinstance(capacity, bool) or not isinstance(capacity, int) or capacity < 1:
        raise ConfigurationError(f"capacity must be a whole number from 1, not {capacity!r}")
    timeout_seconds = None if timeout is None else parse_duration(timeout, option="timeout")
    if timeout_seconds == 0:
        raise ConfigurationError("timeout must be longer than nothing", hint="timeout=None: a call may take for ever")
    if retry is not None and not isinstance(retry, Retry):
        raise ConfigurationError(
            f"{retry!r} doesn't say when to retry", hint='give one of cw.retry, e.g. fixed(attempts=3, delay="100ms")'
        )
    return CallRules(capacity, timeout_seconds, ordered, retry, on_error)


def _refuse_without_function(on_error: OnError, *, operation: str, given: str) -> None:
    check_on_error(on_error, operation=operation)
    if on_error != "fail":
        raise ConfigurationError(
            f'on_error="{on_error}" is of no use in {operation}',
            detail=f"{given} can't fail on a single record",
            hint="leave it out, or give a function of the record",
        )


def _key_selector(keys: tuple[Any, ...], schema: pa.Schema | None) -> KeySelector:
    if len(keys) == 1 and isinstance(keys[0], list | tuple):
        keys = tuple(keys[0])
    if len(keys) == 1 and callable(keys[0]):
        return KeySelector(function=keys[0])
    if keys and all(isinstance(key, str) for key in keys):
        return KeySelector(columns=keys)
    if keys and all(isinstance(key, int) and not isinstance(key, bool) for key in keys):
        return KeySelector(function=itemgetter(*keys)) if schema is None else _columns_at(keys, schema)
    raise GraphError(
        f"key_by can't make a key of {', '.join(map(repr, keys)) or 'nothing'}",
        hint='give a column (key_by("word")), several (key_by("city", "day")), a position of a tuple (key_by(0)), '
        "or one function of the record",
    )


def _columns_at(positions: tuple[int, ...], schema: pa.Schema) -> KeySelector:
    names = [name for name in schema.names if name != TIME_COLUMN]
    try:
        return KeySelector(columns=tuple(names[position] for position in positions))
    except IndexError:
        raise GraphError(
            f"the stream has no column at position {max(positions)}", detail=f"its columns are {', '.join(names)}"
        ) from None


def _with_times_of(known: pa.Schema | None, schema: pa.Schema) -> pa.Schema:
    """The schema, in which the column that was the event time still is."""
    name = None if known is None else time_column_of(known)
    if known is None or name is None or name not in schema.names or time_column_of(schema) is not None:
        return schema
    if not schema.field(name).type.equals(known.field(name).type):
        return schema
    return schema.with_metadata({**(schema.metadata or {}), TIME_METADATA: name.encode()})


def _timestamp_selector(timestamp: str | Callable[[Any], Any], unit: TimeUnit | None) -> TimestampSelector:
    if unit not in (None, "s", "ms", "us", "ns"):
        raise ConfigurationError(f"unit can't be {unit!r}", hint='choose "s", "ms", "us" or "ns"')
    if isinstance(timestamp, str):
        return TimestampSelector(column=timestamp, unit=unit or "ms")
    if callable(timestamp):
        return TimestampSelector(function=timestamp, unit=unit or "ms")
    raise ConfigurationError(f"{timestamp!r} names no timestamp", hint="give a column, or a function of the record")


def _outputs(columns: tuple[str | Column, ...], named: dict[str, Any]) -> tuple[Outputs, OperatorSettings]:
    """Names and expressions of a projection; what is no expression is a setting of the operator."""
    settings: Any = {
        name: value
        for name, value in named.items()
        if name in OperatorSettings.__annotations__ and not isinstance(value, Column)
    }
    given = [col(column) if isinstance(column, str) else column for column in columns]
    for column in given:
        if not isinstance(column, Column):
            raise UserError(f"{column!r} is neither a column's name nor an expression", hint='write cw.col("name")')
    outputs = [(column.name, column) for column in given]
    outputs += [
        (name, value if isinstance(value, Column) else lit(value))
        for name, value in named.items()
        if name not in settings
    ]
    if not outputs:
        raise UserError("a projection needs at least one column", hint='select("name", total=cw.col("a") * 2)')
    return tuple(outputs), settings
