"""What does a type checker know of streams?

A stream is generic in its records, a keyed one in its keys, too. Written without parameters, a stream is one of `Any`;
so is what types can't tell, such as side outputs and pairs of a join.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterable
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    # With a default, so that `cw.DataStream` alone stays a good annotation. At run time it isn't needed, and typing
    # of Python 3.11 doesn't have it.
    from typing_extensions import TypeVar

    from cutwater.operators.process import FunctionContext
    from cutwater.operators.windows.contexts import WindowContext

    T = TypeVar("T", default=Any, covariant=True)
    K = TypeVar("K", default=Any, covariant=True)
    First = TypeVar("First", default=Any, covariant=True)
    Second = TypeVar("Second", default=Any, covariant=True)
else:
    from typing import TypeVar

    T = TypeVar("T", covariant=True)
    K = TypeVar("K", covariant=True)
    First = TypeVar("First", covariant=True)
    Second = TypeVar("Second", covariant=True)

#: Of what an operation makes.
R = TypeVar("R")
#: Of another stream, and of what is given.
U = TypeVar("U")
_In = TypeVar("_In", contravariant=True)
_Key = TypeVar("_Key", contravariant=True)
_Out = TypeVar("_Out", covariant=True)


class ProcessFunction(Protocol[_In, _Out]):
    """An object for `process`; it may also have `open(context)`, `on_timer(time_ms, context)` and `close()`."""

    def process(self, record: _In, context: FunctionContext, /) -> Iterable[_Out] | None: ...


class AsyncFunction(Protocol[_In, _Out]):
    """An object for `async_map`; it may also have `open(context)` and `close()`."""

    def process(self, record: _In, /) -> Awaitable[_Out]: ...


class WindowFunction(Protocol[_Key, _Out]):
    """An object for `process` of windows."""

    def process(self, key: _Key, records: list[Any], context: WindowContext, /) -> Iterable[_Out] | None: ...
