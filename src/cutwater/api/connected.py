"""How do two streams meet in one function?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, NoReturn, Unpack

from cutwater.api.dataflow import OperatorSettings
from cutwater.api.suggestions import unknown_operation
from cutwater.api.typing import First, Second
from cutwater.dead_letters import OnError, check_on_error
from cutwater.errors import GraphError
from cutwater.graph.keys import KeySelector
from cutwater.operators.connect import BroadcastConnectOperator, ConnectOperator

if TYPE_CHECKING:
    from cutwater.api.keyed import KeyedStream
    from cutwater.api.streams import DataStream


class ConnectedStreams(Generic[First, Second]):
    """The first stream, and the second: both keyed, neither keyed, or the second broadcast."""

    def __init__(
        self, first: DataStream[First] | KeyedStream[Any, First], second: DataStream[Second] | KeyedStream[Any, Second]
    ) -> None:
        self._first, self._first_key = _parts(first)
        self._second, self._second_key = _parts(second)
        self._first._dataflow.check_same(self._second._dataflow)
        if self._first._is_broadcast:
            raise GraphError(
                "the first of two connected streams is broadcast",
                hint="connect the other way round: records.connect(rules)",
            )
        if not self._second._is_broadcast and (self._first_key is None) != (self._second_key is None):
            raise GraphError(
                "one of two connected streams is keyed, the other isn't",
                hint="key_by both, so that equal keys meet; or neither; or broadcast() the second",
            )

    if not TYPE_CHECKING:  # type checkers know what there is

        def __getattr__(self, name: str) -> NoReturn:
            raise unknown_operation(type(self), name)

    def process(self, function: Any, *, on_error: OnError = "fail", **settings: Unpack[OperatorSettings]) -> DataStream:
        """Broadcast: `process` and `process_broadcast`; else `process1` and `process2`, or `map1` and `map2`.

        `on_error` is for records of both streams, but not for those of a broadcast stream, which all tasks must learn.
        """
        check_on_error(on_error, operation="connect().process")
        inputs = self._first._inputs(port=0, key=self._first_key) + self._second._inputs(port=1, key=self._second_key)
        if self._second._is_broadcast:
            arguments: tuple[Any, ...] = (function, self._first_key, on_error)
            return self._first._derive("connect", BroadcastConnectOperator, arguments, inputs, settings, function)
        keys = None if self._first_key is None else (self._first_key, self._second_key)
        return self._first._derive("connect", ConnectOperator, (function, keys, on_error), inputs, settings, function)


def _parts(stream: DataStream | KeyedStream) -> tuple[DataStream, KeySelector | None]:
    # Asked by attribute: the classes live in modules that import this one.
    plain: Any = getattr(stream, "_stream", stream)
    return plain, getattr(stream, "_key", None)
