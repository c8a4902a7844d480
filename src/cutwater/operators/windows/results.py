"""How does what a window holds become records?"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any

from cutwater.batches import row_maker
from cutwater.errors import UserError
from cutwater.graph.keys import KeySelector
from cutwater.operators.spreading import checked_kind
from cutwater.operators.windows.contexts import WindowContext
from cutwater.operators.windows.model import TimeWindow, Window

WindowFunction = Callable[[Any, Any, Any], Iterable[Any] | None]


class Results(ABC):
    """Turns a result of one key and window into output."""

    #: A user's object with `open` and `close`, if there is one.
    function: Any = None

    @abstractmethod
    def emit(self, key: Any, window: Window, result: Any, context: WindowContext) -> None:
        """Appends any number of records to the context's outputs."""


class Rows(Results):
    """A named row: the key's columns, the window's start and end if it has them, the aggregates."""

    def __init__(self, key: KeySelector, names: tuple[str, ...], *, windowed: bool, several: bool) -> None:
        self.names = (*key.names, *(("window_start", "window_end") if windowed else ()), *names)
        self._one_key = len(key.columns) <= 1
        self._several = several
        self._make = row_maker(self.names)

    def emit(self, key: Any, window: Window, result: Any, context: WindowContext) -> None:
        keys = (key,) if self._one_key else key
        times = (window.start, window.end) if isinstance(window, TimeWindow) else ()
        context._outputs.append(self._make((*keys, *times, *(result if self._several else (result,)))))

    def __reduce__(self) -> Any:  # the row's class exists in no module
        return _rows, (self.names, self._one_key, self._several)


class Plain(Results):
    """The result itself."""

    def emit(self, key: Any, window: Window, result: Any, context: WindowContext) -> None:
        context._outputs.append(result)


class Processed(Results):
    """What a user's function makes of the key, its records (or its one aggregate) and the window."""

    def __init__(self, function: Any, *, aggregate_names: tuple[str, ...] | None, of_records: bool) -> None:
        self.function = function
        self._process = _window_function_of(function)
        self._of_records = of_records
        self._names = aggregate_names

    def emit(self, key: Any, window: Window, result: Any, context: WindowContext) -> None:
        if self._names is not None:
            result = row_maker(self._names)(result)
        outputs = self._process(key, result if self._of_records else [result], context)
        if outputs is not None:
            checked_kind(outputs, self._process, context._operator)
            for output in outputs:
                context.emit(output)


def _rows(names: tuple[str, ...], one_key: bool, several: bool) -> Rows:
    rows = Rows.__new__(Rows)
    rows.names, rows._one_key, rows._several, rows._make = names, one_key, several, row_maker(names)
    return rows


def _window_function_of(function: Any) -> WindowFunction:
    if isinstance(function, type):
        raise UserError(
            f'"{function.__name__}" is a class, not a function', hint=f"pass an object: {function.__name__}()"
        )
    process: WindowFunction | None = getattr(function, "process", function if callable(function) else None)
    if process is None:
        raise UserError(
            f'an object of type "{type(function).__name__}" can\'t process windows',
            hint="give it a method process(self, key, records, context), or pass a function of these three",
        )
    return process
