"""What do list, reducing and aggregating state make of one stored value per key? The same on every backend."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any

from cutwater.state.contract import Aggregate
from cutwater.state.sharing import Sharing

#: The key has no value.
MISSING: Any = object()


class StoredValue(ABC):
    """The value of the current key."""

    __slots__ = ()

    _sharing: Sharing

    @abstractmethod
    def _owned(self) -> Any:
        """The value, safe to be changed in place, or `MISSING`."""

    @abstractmethod
    def _put(self, value: Any) -> None: ...

    @abstractmethod
    def clear(self) -> None: ...


class ListOperations(StoredValue):
    __slots__ = ()

    def get(self) -> list[Any]:
        """A list of its own; an empty one if nothing was added."""
        values = self._owned()
        return [] if values is MISSING else list(values)

    def add(self, value: Any) -> None:
        if not self._sharing.on:
            self._sharing.meet(value)
        values = self._owned()
        if values is MISSING:
            self._put([value])
        else:
            values.append(value)

    def update(self, values: Iterable[Any]) -> None:
        new = list(values)
        for value in () if self._sharing.on else new:
            self._sharing.meet(value)
        if new:
            self._put(new)
        else:
            self.clear()


class ReducingOperations(StoredValue):
    __slots__ = ()

    _reduce: Callable[[Any, Any], Any]

    def get(self) -> Any:
        value = self._owned()
        return None if value is MISSING else value

    def add(self, value: Any) -> None:
        current = self._owned()
        new = value if current is MISSING else self._reduce(current, value)
        if not self._sharing.on:
            self._sharing.meet(new)
        self._put(new)


class AggregatingOperations(StoredValue):
    __slots__ = ()

    _aggregate: Aggregate

    def get(self) -> Any:
        """The result, or None if nothing was added."""
        accumulator = self._owned()
        return None if accumulator is MISSING else self._aggregate.get_result(accumulator)

    def add(self, value: Any) -> None:
        accumulator = self._owned()
        if accumulator is MISSING:
            accumulator = self._aggregate.create_accumulator()
        accumulator = self._aggregate.add(value, accumulator)
        if not self._sharing.on:
            self._sharing.meet(accumulator)
        self._put(accumulator)
