"""What can be done with a stream?

A stream is a description: each operation adds an operator to the environment's graph and returns the stream of its
output. Nothing runs before `Environment.execute` or `submit`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, Unpack

import pyarrow as pa

from cutwater.api.connected import ConnectedStreams
from cutwater.api.dataflow import Dataflow, Input, OperatorSettings, Output, spread
from cutwater.api.keyed import KeyedStream
from cutwater.connectors import sinks
from cutwater.connectors.contract import Sink
from cutwater.errors import ConfigurationError, GraphError, UserError
from cutwater.graph.keys import KeySelector
from cutwater.graph.model import Partitioning
from cutwater.operators.event_time import (
    AssignTimestampsOperator,
    TimestampSelector,
    TimeUnit,
    check_time_column,
    timed_schema,
)
from cutwater.operators.process import ProcessOperator
from cutwater.operators.rows import FilterOperator, FlatMapOperator, MapBatchesOperator, MapOperator
from cutwater.protocol.event_time import WatermarkStrategy


class DataStream:
    """A stream of records. Every operation also takes `uid`, `name`, `parallelism` and `chaining` by keyword."""

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
        timestamp: str | Callable[[Any], Any],
        watermarks: WatermarkStrategy,
        *,
        unit: TimeUnit | None = None,
        **settings: Unpack[OperatorSettings],
    ) -> DataStream:
        """Event time: when each record happened (a column or field, or a function of it), and how time advances.

        Timestamps are datetimes, or numbers in `unit` since the epoch (milliseconds if left out; a column of integers
        needs it said). Called on a source's own stream, every split of the source has a clock of its own; anywhere
        else a new operator assigns the timestamps, and replaces those that the records had.
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
        if len(self._outputs) == 1 and self._dataflow.time_source(self._outputs[0], selector, watermarks):
            return DataStream(self._dataflow, (replace(self._outputs[0], schema=schema),))
        arguments = (selector, watermarks)
        return self._derive(
            "assign_timestamps", AssignTimestampsOperator, arguments, self._inputs(), settings, schema=schema
        )

    def map(self, function: Callable[[Any], Any], **settings: Unpack[OperatorSettings]) -> DataStream:
        """One record for each: what the function returns."""
        return self._apply("map", MapOperator, function, settings)

    def flat_map(self, function: Callable[[Any], Iterable[Any]], **settings: Unpack[OperatorSettings]) -> DataStream:
        """Any number of records for each: what the function returns as an iterable, or yields."""
        return self._apply("flat_map", FlatMapOperator, function, settings)

    def filter(self, function: Callable[[Any], Any], **settings: Unpack[OperatorSettings]) -> DataStream:
        """The records for which the function is true."""
        return self._apply("filter", FilterOperator, function, settings, schema=self.schema)

    def map_batches(self, function: Callable[[Any], Any], **settings: Unpack[OperatorSettings]) -> DataStream:
        """Whole batches: Arrow record batches of a typed stream, lists of values of any other."""
        return self._apply("map_batches", MapBatchesOperator, function, settings)

    def process(self, function: Any, **settings: Unpack[OperatorSettings]) -> DataStream:
        """A function of record and context, or an object with `process(record, context)`; may have side outputs."""
        return self._derive("process", ProcessOperator, (function,), self._inputs(), settings, function)

    def side_output(self, tag: str) -> DataStream:
        """What `process` sent to `context.side_output(tag, value)`."""
        return DataStream(self._dataflow, tuple(replace(output, tag=tag, schema=None) for output in self._outputs))

    def key_by(self, *keys: str | Callable[[Any], Any]) -> KeyedStream:
        """Records with the same key go to the same task: a column or field, several of them, or a function."""
        if self._is_broadcast:
            raise GraphError("a broadcast stream can't be keyed", hint="key_by without broadcast(): it spreads anew")
        return KeyedStream(self, _key_selector(keys))

    def union(self, *others: DataStream) -> DataStream:
        """The records of all these streams, in the order in which they arrive."""
        for other in others:
            if not isinstance(other, DataStream):
                raise GraphError(f"a stream can't be united with {other!r}", hint="unite streams before key_by")
            self._dataflow.check_same(other._dataflow)
        outputs = self._outputs + tuple(output for other in others for output in other._outputs)
        return DataStream(self._dataflow, outputs)

    def connect(self, other: DataStream | KeyedStream) -> ConnectedStreams:
        """Two streams for one function that tells them apart; the other may be `broadcast()`."""
        return ConnectedStreams(self, other)

    def broadcast(self) -> DataStream:
        """Every task of the next operator gets every record."""
        return DataStream(self._dataflow, spread(self._outputs, Partitioning.BROADCAST))

    def rebalance(self) -> DataStream:
        """Records go to the tasks of the next operator in turn."""
        return DataStream(self._dataflow, spread(self._outputs, Partitioning.REBALANCE))

    def sink_to(self, sink: Sink, **settings: Unpack[OperatorSettings]) -> None:
        """Ends the stream in a sink."""
        self._dataflow.add_sink(sink, self._inputs(), settings)

    def execute_and_collect(self) -> list[Any]:
        """Runs what this stream needs, and nothing else, to the end of its bounded input; the records as they came."""
        sink = sinks.collect()
        flow = self._dataflow.copy()  # so that the job stays as it was written
        collected = flow.add_sink(sink, self._inputs(), {})
        self._dataflow.run(flow.upstream_of(collected.sender))
        return sink.collected.take()

    # From here on: for keyed and connected streams, which are friends.

    @property
    def _is_broadcast(self) -> bool:
        return all(output.partitioning is Partitioning.BROADCAST for output in self._outputs)

    def _inputs(self, *, port: int = 0, key: KeySelector | None = None) -> list[Input]:
        return [Input(output, port, key) for output in self._outputs]

    def _derive(
        self,
        operation: str,
        operator: Callable[..., Any],
        arguments: tuple[Any, ...],
        inputs: list[Input],
        settings: OperatorSettings,
        function: object = None,
        schema: pa.Schema | None = None,
    ) -> DataStream:
        """Adds an operator and returns its output."""
        added = self._dataflow.add(operation, operator, arguments, inputs, settings, function=function, schema=schema)
        return DataStream(self._dataflow, (added,))

    def _apply(
        self,
        operation: str,
        operator: Callable[..., Any],
        function: Callable[..., Any],
        settings: OperatorSettings,
        schema: pa.Schema | None = None,
    ) -> DataStream:
        if not callable(function):
            raise UserError(f"{operation} needs a function, not {function!r}")
        return self._derive(operation, operator, (function,), self._inputs(), settings, function, schema)


def _key_selector(keys: tuple[str | Callable[[Any], Any], ...]) -> KeySelector:
    columns = tuple(key for key in keys if isinstance(key, str))
    if keys and len(columns) == len(keys):
        return KeySelector(columns=columns)
    match keys:
        case (function,) if callable(function):
            return KeySelector(function=function)
    raise GraphError(
        f"key_by can't make a key of {', '.join(map(repr, keys)) or 'nothing'}",
        hint='give a column (key_by("word")), several (key_by("city", "day")), or one function of the record',
    )


def _timestamp_selector(timestamp: str | Callable[[Any], Any], unit: TimeUnit | None) -> TimestampSelector:
    if unit not in (None, "s", "ms", "us", "ns"):
        raise ConfigurationError(f"unit can't be {unit!r}", hint='choose "s", "ms", "us" or "ns"')
    if isinstance(timestamp, str):
        return TimestampSelector(column=timestamp, unit=unit or "ms")
    if callable(timestamp):
        return TimestampSelector(function=timestamp, unit=unit or "ms")
    raise ConfigurationError(f"{timestamp!r} names no timestamp", hint="give a column, or a function of the record")
