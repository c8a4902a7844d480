"""What does the runtime ask of a state backend?

A backend belongs to one operator of one task. `freeze` is the short synchronous part of a snapshot: what it returns
never changes, however the state goes on. Turning it into bytes is the asynchronous part, on a background thread.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from cutwater.protocol.timers import Timer


class FrozenKeyedState(Protocol):
    """Keyed state as it was at a barrier."""

    def chunks(self) -> Iterator[tuple[str, int, bytes]]:
        """(state name, key group, bytes), ordered by name and group. On a background thread, once."""
        ...


class ValueState(Protocol):
    """One value for the current key."""

    def value(self) -> Any: ...
    def update(self, value: Any) -> None: ...
    def clear(self) -> None: ...


class ListState(Protocol):
    """A list for the current key."""

    def get(self) -> list[Any]: ...
    def add(self, value: Any) -> None: ...
    def update(self, values: Iterable[Any]) -> None: ...
    def clear(self) -> None: ...


class MapState(Protocol):
    """A mapping for the current key."""

    def get(self, key: Any, default: Any = None) -> Any: ...
    def put(self, key: Any, value: Any) -> None: ...
    def remove(self, key: Any) -> None: ...
    def items(self) -> list[tuple[Any, Any]]: ...
    def __contains__(self, key: Any) -> bool: ...
    def clear(self) -> None: ...


class ReducingState(Protocol):
    """One value for the current key, folded from all added ones."""

    def get(self) -> Any: ...
    def add(self, value: Any) -> None: ...
    def clear(self) -> None: ...


class AggregatingState(Protocol):
    """An accumulator for the current key; `get` returns its result."""

    def get(self) -> Any: ...
    def add(self, value: Any) -> None: ...
    def clear(self) -> None: ...


class TimerState(Protocol):
    """Wake-up calls of one notion of time. A timer is its time, key and namespace: registered twice, it fires once.

    Keyed state: what is registered is in the snapshots, and moves with its key group. To fire timers in order while
    they may register others, take them time by time: `due(next_time())` until `next_time()` is beyond the clock.
    """

    def register(self, time_ms: int, namespace: Any = None) -> bool:
        """For the current key; True if the timer is new. The namespace must be hashable, and be kept unchanged."""
        ...

    def delete(self, time_ms: int, namespace: Any = None) -> bool:
        """Of the current key; True if the timer was there."""
        ...

    def due(self, upto_ms: int) -> list[Timer]:
        """Takes out the timers of all keys at or before this time: by time, then in the order of registration."""
        ...

    def next_time(self) -> int | None:
        """The time of the earliest timer of all keys. Quick."""
        ...


class Aggregate(Protocol):
    """How an aggregate grows: PyFlink's AggregateFunction."""

    def create_accumulator(self) -> Any: ...
    def add(self, value: Any, accumulator: Any) -> Any: ...
    def get_result(self, accumulator: Any) -> Any: ...
    def merge(self, accumulator: Any, other: Any) -> Any: ...


@dataclass(frozen=True, slots=True)
class KeyedBackendSettings:
    """Which part of the key space this task owns."""

    max_parallelism: int
    groups: range


class KeyedBackend(ABC):
    """The keyed state of one operator of one task. Used by the loop's thread only."""

    @abstractmethod
    def set_current_key(self, key: Any) -> None:
        """All handles now speak of this key."""

    @property
    @abstractmethod
    def current_key(self) -> Any: ...

    @abstractmethod
    def value_state(self, name: str, default: Any = None) -> ValueState: ...

    @abstractmethod
    def list_state(self, name: str) -> ListState: ...

    @abstractmethod
    def map_state(self, name: str) -> MapState: ...

    @abstractmethod
    def reducing_state(self, name: str, reduce: Callable[[Any, Any], Any]) -> ReducingState: ...

    @abstractmethod
    def aggregating_state(self, name: str, aggregate: Aggregate) -> AggregatingState: ...

    @abstractmethod
    def timer_state(self, name: str) -> TimerState:
        """The timers of this name: the same object at every call, restored ones are in it."""

    @abstractmethod
    def keys(self, name: str) -> Iterator[Any]:
        """Every key that has state of this name here."""

    @abstractmethod
    def freeze(self) -> FrozenKeyedState:
        """The state as it is now. Must be quick: the stream waits for it."""

    @abstractmethod
    def restore(self, chunks: Iterable[tuple[str, int, bytes]]) -> None:
        """Loads chunks of earlier snapshots; groups outside of this task's range are never passed. Before any use."""

    @abstractmethod
    def size(self) -> int:
        """How many (key, name) entries there are."""

    def close(self) -> None:
        """Releases what the backend holds."""
