"""Which windows run on columns?

Tumbling and sliding windows of event time that fire once, when they end, with nothing but built-in aggregates of a
typed stream's columns. Rows of one key and window are aggregated before they are sent, unless late ones are asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from cutwater.api.dataflow import Input, OperatorSettings
from cutwater.api.running import aggregated_before_shuffle
from cutwater.operators.aggregations import Aggregation
from cutwater.operators.columnar.plan import AggregatePlan, plan_aggregates
from cutwater.operators.columnar.slices import Slices
from cutwater.operators.columnar.window import WINDOW_END, WINDOW_START, WindowColumnsOperator, window_schema
from cutwater.operators.windows.model import AlignedWindows
from cutwater.operators.windows.operator import WindowSpec
from cutwater.operators.windows.triggers import EventTimeTrigger

if TYPE_CHECKING:
    from cutwater.api.streams import DataStream


def window_on_columns(
    stream: DataStream,
    spec: WindowSpec,
    aggregations: dict[str, Aggregation],
    *,
    operation: str,
    settings: OperatorSettings,
) -> DataStream | None:
    """The windows' results as a typed stream; None: they need Python."""
    schema = stream.schema
    slices = _slices_of(spec)
    plan = None if schema is None or slices is None else _plan(schema, spec, aggregations)
    if plan is None or slices is None:
        return None
    if spec.late_tag is None:
        inputs: list[Input] = aggregated_before_shuffle(
            stream, spec.key, plan, slices, operation=operation, settings=settings
        )
    else:
        inputs = stream._inputs(key=spec.key)  # late records leave with all of their columns
    arguments = (plan, slices, spec.late_tag)
    return stream._derive(operation, WindowColumnsOperator, arguments, inputs, settings, None, window_schema(plan))


def _slices_of(spec: WindowSpec) -> Slices | None:
    match spec.assigner:
        case AlignedWindows(size_ms=size, every_ms=every, offset_ms=offset, time="event") if every <= size:
            pass
        case _:
            return None
    fires_once = type(spec.trigger) is EventTimeTrigger and spec.evictor is None and spec.lateness_ms == 0
    return Slices(size, every, offset) if fires_once else None


def _plan(schema: pa.Schema, spec: WindowSpec, aggregations: dict[str, Aggregation]) -> AggregatePlan | None:
    if not spec.key.columns:
        return None
    bounds = (WINDOW_START, WINDOW_END)
    return plan_aggregates(schema, spec.key.columns, aggregations, fixed=bounds, count_rows=True)
