"""What can be done with the windows of a keyed stream?

    windows = orders.key_by("city").window(cw.tumbling("1h")).allowed_lateness("5min").late_output("late")
    totals = windows.aggregate(orders=cw.agg.count(), revenue=cw.agg.sum("price"))
    totals.side_output("late")

A result is a named row: the columns of the key (`key` for a function), `window_start` and `window_end` (datetimes in
UTC; count windows and the global one have none), and a field for each aggregate. Its event time is the last millisecond
of its window.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Generic, NoReturn, Unpack, cast, overload

from cutwater.api.columnar_windows import window_on_columns
from cutwater.api.dataflow import Build, OperatorSettings, SourceBuild
from cutwater.api.suggestions import unknown_operation
from cutwater.api.typing import K, R, T, WindowFunction
from cutwater.batches import Row
from cutwater.durations import Duration, parse_duration
from cutwater.errors import ConfigurationError, GraphError, UserError
from cutwater.graph.keys import KeySelector
from cutwater.operators.aggregations import Aggregation, ValueSelector
from cutwater.operators.columnar.partial import PartialAggregateOperator
from cutwater.operators.columnar.plan import check_values
from cutwater.operators.columnar.running import HeldColumnsOperator, RunningColumnsOperator
from cutwater.operators.columns import FilterRowsOperator, SelectOperator
from cutwater.operators.keyed import (
    RunningAggregate,
    RunningCount,
    RunningMax,
    RunningMin,
    RunningReduce,
    RunningSum,
)
from cutwater.operators.limit import LimitOperator
from cutwater.operators.process import KeyedProcessOperator, ProcessOperator
from cutwater.operators.rows import FilterOperator, FlatMapOperator, MapBatchesOperator, MapOperator
from cutwater.operators.schemas import WithSchemaOperator
from cutwater.operators.windows.aligned import AlignedWindowOperator, GlobalWindowOperator
from cutwater.operators.windows.contexts import WindowContext
from cutwater.operators.windows.evictors import CountEvictor, as_evictor
from cutwater.operators.windows.folds import AggregateWith, Fold, Records, Reduce, Several, fold_of
from cutwater.operators.windows.model import AlignedWindows, Assigner, GlobalWindows, SessionWindows
from cutwater.operators.windows.operator import WindowSpec
from cutwater.operators.windows.results import Plain, Processed, Results, Rows
from cutwater.operators.windows.sessions import SessionWindowOperator
from cutwater.operators.windows.triggers import (
    CountTrigger,
    EventTimeTrigger,
    ProcessingTimeTrigger,
    PurgingRunTrigger,
    Trigger,
    as_trigger,
)
from cutwater.state.contract import Aggregate

if TYPE_CHECKING:
    from cutwater.api.streams import DataStream

#: They hand on the event times of their input, and have none to give of their own.
_WITHOUT_TIMES_OF_THEIR_OWN = (
    MapOperator,
    LimitOperator,
    FlatMapOperator,
    FilterOperator,
    ProcessOperator,
    KeyedProcessOperator,
    RunningAggregate,
    RunningCount,
    RunningMax,
    RunningMin,
    RunningReduce,
    RunningSum,
    WithSchemaOperator,
    SelectOperator,
    FilterRowsOperator,
    MapBatchesOperator,
    PartialAggregateOperator,
    RunningColumnsOperator,
    HeldColumnsOperator,
)


@dataclass(frozen=True, slots=True, repr=False)
class WindowedStream(Generic[K, T]):
    """A keyed stream cut into windows. Each step returns a new one; every aggregation is an operation of the job, and
    also takes `uid`, `name`, `parallelism` and `chaining` by keyword."""

    _stream: DataStream
    _key: KeySelector
    _assigner: Assigner
    _trigger: Trigger | None = None
    _evictor: Any = None
    _lateness_ms: int = 0
    _late_tag: str | None = None

    # How the windows behave.

    def trigger(self, trigger: Any) -> WindowedStream[K, T]:
        """When the windows fire: one of `cw.triggers`, or one of your own."""
        self._refuse_for_count_windows("trigger")
        checked = as_trigger(trigger)
        if isinstance(self._assigner, SessionWindows) and not checked.can_merge:
            raise ConfigurationError(
                f"sessions become one, and {trigger!r} can't follow them",
                hint="give the trigger a method on_merge(self, window, context) that sets the timers of the new window",
            )
        return replace(self, _trigger=checked)

    def evictor(self, evictor: Any) -> WindowedStream[K, T]:
        """Which records a window leaves out: one of `cw.evictors`, or one of your own. The windows keep all records."""
        self._refuse_for_count_windows("evictor")
        return replace(self, _evictor=as_evictor(evictor))

    def allowed_lateness(self, lateness: Duration) -> WindowedStream[K, T]:
        """Windows stay for so long behind their end; each record that comes meanwhile fires them anew."""
        self._refuse_without_event_time("allowed_lateness")
        return replace(self, _lateness_ms=round(parse_duration(lateness, option="allowed_lateness") * 1000))

    def late_output(self, tag: str) -> WindowedStream[K, T]:
        """Records that are too late go to this side output of the result; without it they are dropped and counted."""
        self._refuse_without_event_time("late_output")
        if not isinstance(tag, str) or not tag:
            raise ConfigurationError(f"late_output needs the tag of a side output, not {tag!r}")
        return replace(self, _late_tag=tag)

    # What they give.

    def count(self, **settings: Unpack[OperatorSettings]) -> DataStream[Row]:
        """How many records: field `count`."""
        return self._built_in({"count": Aggregation("count")}, "count", settings)

    def sum(self, value: ValueSelector = None, **settings: Unpack[OperatorSettings]) -> DataStream[Row]:
        """Field `sum`; `value` picks what to add: a column or field, a position, a function; None: the record itself.
        Here and below, a value that is None counts for nothing, as in SQL."""
        return self._built_in({"sum": Aggregation("sum", value)}, "sum", settings)

    def min(self, value: ValueSelector = None, **settings: Unpack[OperatorSettings]) -> DataStream[Row]:
        """The smallest: field `min`."""
        return self._built_in({"min": Aggregation("min", value)}, "min", settings)

    def max(self, value: ValueSelector = None, **settings: Unpack[OperatorSettings]) -> DataStream[Row]:
        """The largest: field `max`."""
        return self._built_in({"max": Aggregation("max", value)}, "max", settings)

    def mean(self, value: ValueSelector = None, **settings: Unpack[OperatorSettings]) -> DataStream[Row]:
        """Field `mean`."""
        return self._built_in({"mean": Aggregation("mean", value)}, "mean", settings)

    @overload
    def reduce(
        self, function: Callable[[T, T], T], *, process: None = None, **settings: Unpack[OperatorSettings]
    ) -> DataStream[T]: ...
    @overload
    def reduce(
        self, function: Callable[[T, T], T], *, process: Any, **settings: Unpack[OperatorSettings]
    ) -> DataStream: ...
    def reduce(
        self, function: Callable[[Any, Any], Any], *, process: Any = None, **settings: Unpack[OperatorSettings]
    ) -> DataStream:
        """The reduced record itself; or what `process` makes of the key, a list with the reduced record, and the
        context."""
        if not callable(function):
            raise UserError(f"reduce needs a function of two arguments, not {function!r}")
        results = Plain() if process is None else Processed(process, aggregate_names=None, of_records=False)
        return self._apply("reduce", Reduce(function), results, settings, function)

    def aggregate(self, aggregate: Aggregate | None = None, *, process: Any = None, **named: Any) -> DataStream:
        """An object with `create_accumulator()`, `add(record, accumulator)`, `get_result(accumulator)` and, for
        sessions, `merge(one, other)`: field `result`. Or several of `cw.agg` by the names of their fields. `process`
        gets a list with the one result."""
        aggregations = {name: value for name, value in named.items() if isinstance(value, Aggregation)}
        settings = cast(OperatorSettings, {name: value for name, value in named.items() if name not in aggregations})
        if aggregations:
            if aggregate is not None:
                raise UserError("aggregate takes an object or named aggregates, not both")
            return self._built_in(aggregations, "aggregate", settings, process)
        if isinstance(aggregate, Aggregation):
            raise UserError("an aggregate of cw.agg needs a name", hint="aggregate(total=cw.agg.sum(…))")
        self._check_aggregate(aggregate)
        assert aggregate is not None
        if process is None:
            results: Results = self._rows(("result",), several=False)
        else:
            results = Processed(process, aggregate_names=None, of_records=False)
        return self._apply("aggregate", AggregateWith(aggregate), results, settings, aggregate)

    @overload
    def process(  # what it puts out by emit alone is not told by its type
        self, function: Callable[[K, list[T], WindowContext], None], **settings: Unpack[OperatorSettings]
    ) -> DataStream: ...
    @overload
    def process(
        self,
        function: WindowFunction[K, R] | Callable[[K, list[T], WindowContext], Iterable[R] | None],
        **settings: Unpack[OperatorSettings],
    ) -> DataStream[R]: ...
    def process(self, function: Any, **settings: Unpack[OperatorSettings]) -> DataStream:
        """A function of key, records and context, or an object with `process(key, records, context)`; `context.window`
        has `start` and `end`. The records are in the order of their arrival, unless sessions became one, and must not
        be changed in place."""
        results = Processed(function, aggregate_names=None, of_records=True)
        return self._apply("process", Records(), results, settings, function)

    def __repr__(self) -> str:
        return f"<WindowedStream, {self._assigner.describe()} windows by {self._key.describe()}: {self._stream!r}>"

    if not TYPE_CHECKING:  # type checkers know what there is

        def __getattr__(self, name: str) -> NoReturn:
            raise unknown_operation(type(self), name)

    def _built_in(
        self, aggregations: dict[str, Aggregation], operation: str, settings: OperatorSettings, process: Any = None
    ) -> DataStream:
        check_values(self._stream.schema, aggregations)
        names = tuple(aggregations)
        several = operation == "aggregate"
        if process is None:
            results: Results = self._rows(names, several=several)
        else:
            results = Processed(process, aggregate_names=names, of_records=False)
        fold = Several(aggregations) if several else fold_of(next(iter(aggregations.values())))
        return self._apply(operation, fold, results, settings, process, aggregations if process is None else None)

    def _rows(self, names: tuple[str, ...], *, several: bool) -> Rows:
        rows = Rows(self._key, names, windowed=not isinstance(self._assigner, GlobalWindows), several=several)
        twice = [name for name, times in Counter(rows.names).items() if times > 1]
        if twice:
            raise ConfigurationError(
                f'a result would have two fields "{twice[0]}"',
                detail=f"its fields: {', '.join(rows.names)}",
                hint="name the aggregate otherwise: aggregate(total=cw.agg.sum(…))",
            )
        return rows

    def _apply(
        self,
        operation: str,
        fold: Fold,
        results: Results,
        settings: OperatorSettings,
        function: object = None,
        aggregations: dict[str, Aggregation] | None = None,
    ) -> DataStream:
        trigger, evictor = self._trigger_and_evictor()
        spec = WindowSpec(
            key=self._key,
            assigner=self._assigner,
            trigger=trigger,
            fold=fold,
            results=results,
            evictor=evictor,
            lateness_ms=self._lateness_ms,
            late_tag=self._late_tag,
        )
        if not isinstance(self._assigner, GlobalWindows) and self._assigner.time == "event":
            _check_times(self._stream)
        name = f"window_{operation}"
        if aggregations is not None:
            typed = window_on_columns(self._stream, spec, aggregations, operation=name, settings=settings)
            if typed is not None:
                return typed
        inputs = self._stream._inputs(key=self._key)
        return self._stream._derive(name, _operator_for(spec), (spec,), inputs, settings, function)

    def _trigger_and_evictor(self) -> tuple[Trigger, Any]:
        assigner = self._assigner
        if not isinstance(assigner, GlobalWindows):
            by_time = EventTimeTrigger() if assigner.time == "event" else ProcessingTimeTrigger()
            return self._trigger or by_time, self._evictor
        if assigner.count is None:
            if self._trigger is None:
                raise ConfigurationError(
                    "a global window has no end, so it never fires by itself",
                    hint="say when: window(cw.global_window()).trigger(cw.triggers.count(100))",
                )
            return self._trigger, self._evictor
        if assigner.every is None:
            return PurgingRunTrigger(CountTrigger(assigner.count)), None
        return CountTrigger(assigner.every), CountEvictor(assigner.count, after=False)

    def _check_aggregate(self, aggregate: object) -> None:
        merges = isinstance(self._assigner, SessionWindows)
        for method in ("create_accumulator", "add", "get_result", *(("merge",) if merges else ())):
            if isinstance(aggregate, type) or not callable(getattr(aggregate, method, None)):
                raise UserError(
                    f"{aggregate!r} is not an aggregate" + (" for sessions, which become one" if merges else ""),
                    detail=f"it has no method {method}",
                    hint="pass an object with create_accumulator(), add(record, accumulator), get_result(accumulator) "
                    "and, for sessions, merge(one, other); or aggregates of cw.agg by name",
                )

    def _refuse_for_count_windows(self, step: str) -> None:
        if isinstance(self._assigner, GlobalWindows) and self._assigner.count is not None:
            raise ConfigurationError(
                f"{step} makes no sense for count windows, which have their own",
                hint=f"window(cw.global_window()).trigger(cw.triggers.count({self._assigner.count})) lets you choose",
            )

    def _refuse_without_event_time(self, step: str) -> None:
        assigner = self._assigner
        if isinstance(assigner, GlobalWindows):
            why = f"records are never too late for {assigner.describe()} windows"
        elif assigner.time == "processing":
            why = "a record belongs to the processing time in which it arrives, so it is never late"
        else:
            return
        raise ConfigurationError(f"{step} means nothing here", detail=why)


def windowed(stream: DataStream, key: KeySelector, assigner: Any) -> WindowedStream:
    """The stream in windows of one of `cw.tumbling`, `sliding`, `session`, `global_window`, `count_window`."""
    if not isinstance(assigner, AlignedWindows | SessionWindows | GlobalWindows):
        raise ConfigurationError(f"{assigner!r} is no window", hint='give e.g. cw.tumbling("10s")')
    return WindowedStream(stream, key, assigner)


def _operator_for(spec: WindowSpec) -> Callable[[WindowSpec], Any]:
    """What runs the windows on Python values."""
    match spec.assigner:
        case AlignedWindows():
            return AlignedWindowOperator
        case SessionWindows():
            return SessionWindowOperator
        case GlobalWindows():
            return GlobalWindowOperator


def _check_times(stream: DataStream) -> None:
    """Raises if it is certain that the stream has no event time.

    A schema doesn't tell: Python values that became typed rows carry the times that they had.
    """
    upstream = [stream._dataflow.upstream_of(output.sender) for output in stream._outputs]
    nodes = {uid: node for graph in upstream for uid, node in graph.nodes.items()}
    if all(_has_no_times_of_its_own(node.build) for node in nodes.values()):
        raise GraphError(
            "event-time windows need timestamps, and nothing before this window assigns any",
            hint='stream.assign_timestamps("column", cw.watermarks.bounded("5s")).key_by(…), '
            'or window by the wall clock: time="processing"',
        )


def _has_no_times_of_its_own(build: Any) -> bool:
    match build:
        case SourceBuild():
            return build.timestamps is None
        case Build():
            return build.operator in _WITHOUT_TIMES_OF_THEIR_OWN
    return False
