"""How do the records of two streams become pairs?

By key and time: `join` pairs two keyed streams, within bounds of time or within a window; `lookup` pairs a stream with
the versions that a broadcast stream carries. Mistakes are refused on the line where the job is written.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa

from cutwater.api.dataflow import OperatorSettings
from cutwater.batches import schema_with_times, time_column_of
from cutwater.durations import Duration, parse_duration
from cutwater.errors import ConfigurationError, GraphError, KeyTypeError, UserError
from cutwater.graph.keys import KeySelector
from cutwater.operators.columns import check_column
from cutwater.operators.joins.inputs import JOIN_KINDS, JoinInputs, JoinKind
from cutwater.operators.joins.interval import IntervalJoinOperator, OuterIntervalJoinOperator
from cutwater.operators.joins.lookup import EventTimeLookupOperator, LatestLookupOperator, LookupInputs
from cutwater.operators.joins.pairing import ColumnPairing, Pairing, pairing_of
from cutwater.operators.joins.windowed import AlignedWindowJoinOperator, SessionWindowJoinOperator
from cutwater.operators.windows.model import AlignedWindows, GlobalWindows, SessionWindows

if TYPE_CHECKING:
    from cutwater.api.keyed import KeyedStream
    from cutwater.api.streams import DataStream

Select = Callable[[Any, Any], Any]
#: One tag for the late records of both sides, or one for each.
LateOutput = str | tuple[str, str]
#: A column or field, several, or a function of the record.
Key = str | Sequence[str] | Callable[[Any], Any]
LookupKind = Literal["inner", "left"]
LookupTime = Literal["event", "latest"]

#: What is finer than event time itself is an error of floating point.
_DIGITS = 6


def join_streams(
    left: KeyedStream,
    right: KeyedStream,
    *,
    between: tuple[Duration, Duration] | None,
    window: Any,
    how: JoinKind,
    select: Select | None,
    late_output: LateOutput | None,
    settings: OperatorSettings,
) -> DataStream:
    """The stream of the pairs."""
    _check_right_side(right)
    left._stream._dataflow.check_same(right._stream._dataflow)
    _check_choice("how", how, JOIN_KINDS)
    _check_select(select)
    if (between is None) == (window is None):
        raise GraphError(
            "a join needs either `between` or `window`" + (", not both" if between is not None else ""),
            hint='join(other, between=("-5s", "5s")), or join(other, window=cw.tumbling("10s"))',
        )
    keys = left._key, right._key
    pairing = _pairing_of(select, (left._stream, right._stream), keys)
    inputs = JoinInputs(keys, pairing, how, _late_tags(late_output))
    ports = left._stream._inputs(port=0, key=left._key) + right._stream._inputs(port=1, key=right._key)
    operator, arguments = _interval_join(between, how) if window is None else _window_join(window)
    return left._stream._derive("join", operator, (inputs, *arguments), ports, settings, select, _schema_of(pairing))


def lookup_stream(
    stream: DataStream,
    versions: DataStream,
    *,
    stream_key: KeySelector | None,
    key: Key | None,
    on: Key,
    time: LookupTime,
    how: LookupKind,
    select: Select | None,
    late_output: str | None,
    settings: OperatorSettings,
) -> DataStream:
    """The stream of the records with their versions."""
    if not getattr(versions, "_is_broadcast", False):
        raise GraphError(
            "lookup needs a broadcast stream to look things up in",
            detail=f"it got {_kind_of(versions)}",
            hint="lookup(versions.broadcast(), …): every task then knows every version",
        )
    stream._dataflow.check_same(versions._dataflow)
    if stream._is_broadcast:
        raise GraphError(
            "the records of a lookup are broadcast", hint="broadcast the versions only, or each pair comes many times"
        )
    _check_choice("how", how, ("inner", "left"))
    _check_choice("time", time, ("event", "latest"))
    _check_select(select)
    if late_output is not None and not isinstance(late_output, str):
        raise ConfigurationError(f"late_output is the tag of a side output, not {late_output!r}")
    asked = stream_key if key is None and stream_key is not None else _selector_of("key", key)
    offered = _selector_of("on", on)
    check_key(stream, asked, where="lookup(key=…)")
    check_key(versions, offered, where="lookup(on=…)")
    pairing = _pairing_of(select, (stream, versions), (asked, offered))
    inputs = LookupInputs(asked, offered, pairing, how == "left", stream_key, late_output)
    ports = stream._inputs(port=0, key=stream_key) + versions._inputs(port=1)
    operator = EventTimeLookupOperator if time == "event" else LatestLookupOperator
    # The latest version can be looked up without event time; then the pairs have none either.
    timed = time == "event" or (stream.schema is not None and time_column_of(stream.schema) is not None)
    schema = _schema_of(pairing, timed=timed)
    return stream._derive("lookup", operator, (inputs,), ports, settings, select, schema)


def _check_right_side(right: Any) -> None:
    if hasattr(right, "_key"):
        return
    if getattr(right, "_is_broadcast", False):
        raise GraphError(
            "the right side of a join is broadcast",
            hint="lookup(versions, on=…) joins with a broadcast stream; else key_by it without broadcast()",
        )
    raise GraphError(
        "a join needs two keyed streams",
        detail=f"the right side is {_kind_of(right)}",
        hint="key_by both by what must be equal: left.key_by(…).join(right.key_by(…), …)",
    )


def _interval_join(between: Any, how: JoinKind) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    return IntervalJoinOperator if how == "inner" else OuterIntervalJoinOperator, _bounds_of(between)


def _window_join(window: Any) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    if isinstance(window, AlignedWindows | SessionWindows) and window.time != "event":
        raise GraphError(
            "the windows of a join are windows of event time", hint=f"leave out time={window.time!r} of the window"
        )
    match window:
        case AlignedWindows():
            return AlignedWindowJoinOperator, (window,)
        case SessionWindows():
            return SessionWindowJoinOperator, (window,)
        case GlobalWindows():
            raise GraphError(
                f"streams can't be joined in {window.describe()} windows",
                detail="such a window has no end in time, so nobody knows when its pairs are complete",
                hint='join by time: window=cw.tumbling("10s"), or between=("-5s", "5s")',
            )
    raise ConfigurationError(
        f"{window!r} is no window",
        hint='give one of cw.tumbling("10s"), cw.sliding("10s", every="1s"), cw.session("5s")',
    )


def _pairing_of(
    select: Select | None, streams: tuple[DataStream, DataStream], keys: tuple[KeySelector, KeySelector]
) -> Pairing:
    one, other = keys[0].columns, keys[1].columns
    if one and other and len(one) != len(other):
        raise GraphError(
            "the keys of the two streams can't be equal",
            detail=f"{len(one)} columns ({', '.join(one)}) and {len(other)} ({', '.join(other)})",
            hint="key both by as many columns, in the same order",
        )
    schemas = [stream.schema for stream in streams]
    for schema, columns in zip(schemas, (one, other), strict=True):
        for name in columns:
            if schema is not None and name not in schema.names:
                raise GraphError(
                    f'the stream has no column "{name}" to join by', detail=f"its columns: {', '.join(schema.names)}"
                )
    return pairing_of(select, schemas, left_key=one, right_key=other)


def _schema_of(pairing: Pairing, *, timed: bool = True) -> pa.Schema | None:
    if not isinstance(pairing, ColumnPairing):
        return None
    return schema_with_times(pairing.schema) if timed else pairing.schema


def _bounds_of(between: Any) -> tuple[int, int]:
    """Lower and upper in milliseconds. Event time is whole milliseconds, so the bounds are rounded inwards."""
    if not isinstance(between, tuple | list) or len(between) != 2:
        raise ConfigurationError(
            f"between must be two bounds, not {between!r}", hint='between=("-5s", "5s"): right.time - left.time'
        )
    lower = round(_signed_seconds(between[0], "the lower bound of between") * 1000, _DIGITS)
    upper = round(_signed_seconds(between[1], "the upper bound of between") * 1000, _DIGITS)
    if lower > upper:
        raise ConfigurationError(
            "the bounds of between are reversed",
            detail=f"{between[0]!r} is more than {between[1]!r}",
            hint=f"between=({between[1]!r}, {between[0]!r})",
        )
    if math.ceil(lower) > math.floor(upper):
        raise ConfigurationError(
            f"no two times lie between={between!r}", detail="event time is counted in milliseconds"
        )
    return math.ceil(lower), math.floor(upper)


def _signed_seconds(bound: Any, option: str) -> float:
    match bound:
        case str() if bound.lstrip().startswith(("-", "+")):
            sign = -1 if bound.lstrip()[0] == "-" else 1
            return sign * parse_duration(bound.lstrip()[1:], option=option)
        case timedelta() if bound < timedelta(0):
            return -parse_duration(-bound, option=option)
    return parse_duration(bound, option=option)


def _late_tags(late_output: Any) -> tuple[str | None, str | None]:
    match late_output:
        case None | str():
            return late_output, late_output
        case (str() as left, str() as right):
            return left, right
    raise ConfigurationError(
        f"late_output is the tag of a side output, or one for each side, not {late_output!r}",
        hint='late_output="late", or late_output=("late_left", "late_right")',
    )


def check_key(stream: DataStream, key: KeySelector, *, where: str) -> None:
    """Raises when a typed stream hasn't a column of the key, or one that can't be a key."""
    schema = stream.schema
    if schema is None:
        return
    for name in key.columns:
        check_column(schema, name, where)
        kind = schema.field(name).type
        if pa.types.is_nested(kind):
            raise KeyTypeError(
                f'column "{name}" can\'t be a key: it is {kind}',
                hint="make a key of parts of it with a function: key_by(lambda row: …)",
            )


def _selector_of(option: str, key: Any) -> KeySelector:
    if isinstance(key, str):
        return KeySelector(columns=(key,))
    if isinstance(key, list | tuple) and key and all(isinstance(column, str) for column in key):
        return KeySelector(columns=tuple(key))
    if callable(key):
        return KeySelector(function=key)
    raise GraphError(
        f"lookup can't use {option}={key!r}",
        hint="give a column, a list of columns, or a function: key= of the record, on= of the version",
    )


def _check_choice(option: str, value: Any, choices: Sequence[str]) -> None:
    if value not in choices:
        known = ", ".join(f'"{choice}"' for choice in choices)
        raise ConfigurationError(f"{option} can't be {value!r}", hint=f"choose one of {known}")


def _check_select(select: Any) -> None:
    if select is not None and not callable(select):
        raise UserError(f"select needs a function of two records, not {select!r}")


def _kind_of(stream: Any) -> str:
    if hasattr(stream, "_key"):
        return "a keyed stream"
    return "a stream without a key" if hasattr(stream, "_outputs") else f"{stream!r}, no stream"
