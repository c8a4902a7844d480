"""How does an aggregate of a keyed stream become operators?

On columns where the stream has a schema, the key is made of columns and the values are too; on Python values else.
Unless each record has a result, rows are aggregated before they are sent to the task of their key.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa

from cutwater.api.dataflow import Input, OperatorSettings, Output
from cutwater.batches import time_column_of
from cutwater.durations import Duration, parse_duration
from cutwater.errors import ConfigurationError
from cutwater.graph.keys import KeySelector
from cutwater.graph.model import ColumnUse
from cutwater.operators.aggregations import Aggregation
from cutwater.operators.columnar.partial import PartialAggregateOperator
from cutwater.operators.columnar.plan import AggregatePlan, check_values, plan_aggregates
from cutwater.operators.columnar.running import HeldColumnsOperator, RunningColumnsOperator, running_schema
from cutwater.operators.columnar.slices import Slices

if TYPE_CHECKING:
    from cutwater.api.streams import DataStream

#: One result for every record, one for every key of a batch, or at most one for every key in so long ("1s").
Update = Literal["record", "batch"] | Duration


def hold_seconds_of(update: Update) -> float | None:
    """How long a result waits for newer ones of its key; None: not at all, every record has its own."""
    if update == "record":
        return None
    if update == "batch":
        return 0.0
    try:
        return parse_duration(update, option="update")
    except ConfigurationError as error:
        raise ConfigurationError(
            f"update can't be {update!r}", hint='choose "record", "batch", or a duration like "1s"'
        ) from error


def running_aggregates(
    stream: DataStream,
    key: KeySelector,
    aggregations: Mapping[str, Aggregation],
    *,
    operation: str,
    update: Update,
    on_values: tuple[Callable[..., Any], tuple[Any, ...]],
    settings: OperatorSettings,
    function: object = None,
) -> DataStream:
    """The running aggregates of a keyed stream; `on_values` is the operator (and its arguments) for Python values."""
    hold_seconds = hold_seconds_of(update)
    schema = stream.schema
    check_values(schema, aggregations)
    plan = plan_aggregates(schema, key.columns, aggregations) if schema is not None and key.columns else None
    if plan is None:
        operator, arguments = on_values
        inputs = stream._inputs(key=key)
        return stream._derive(operation, operator, (key, *arguments, hold_seconds), inputs, settings, function)
    timed = schema is not None and time_column_of(schema) is not None
    result = running_schema(plan, timed=timed)
    if hold_seconds is not None:
        inputs = aggregated_before_shuffle(stream, key, plan, None, operation=operation, settings=settings)
        return stream._derive(operation, HeldColumnsOperator, (plan, hold_seconds), inputs, settings, function, result)
    reads = column_use(plan, schema)
    inputs = stream._inputs(key=key)
    return stream._derive(operation, RunningColumnsOperator, (plan,), inputs, settings, function, result, reads)


def aggregated_before_shuffle(
    stream: DataStream,
    key: KeySelector,
    plan: AggregatePlan,
    slices: Slices | None,
    *,
    operation: str,
    settings: OperatorSettings,
) -> list[Input]:
    """Keyed inputs of partial rows: an operator in front of the shuffle for each of the stream's outputs."""
    return [
        Input(_partial(stream, output, position, plan, slices, operation=operation, settings=settings), key=key)
        for position, output in enumerate(stream._outputs)
    ]


def column_use(plan: AggregatePlan, schema: pa.Schema | None) -> ColumnUse:
    """What the columnar operators read of their input."""
    time = None if schema is None else time_column_of(schema)
    needs = plan.columns if time is None else plan.columns | {time}
    return ColumnUse(needs, as_keys=frozenset(plan.key_names))


def _partial(
    stream: DataStream,
    output: Output,
    position: int,
    plan: AggregatePlan,
    slices: Slices | None,
    *,
    operation: str,
    settings: OperatorSettings,
) -> Output:
    sender = stream._dataflow.node_of(output)
    # Always as many tasks as the sender has: the two are one chain, also when the job is rescaled.
    own: OperatorSettings = {"parallelism": sender.parallelism} if sender.parallelism_is_explicit else {}
    uid = settings.get("uid")
    if uid is not None:
        own["uid"] = f"{uid}-partial" if len(stream._outputs) == 1 else f"{uid}-partial-{position}"
    reads = column_use(plan, output.schema)
    return stream._dataflow.add(
        f"partial_{operation}", PartialAggregateOperator, (plan, slices), [Input(output)], own, reads=reads
    )
