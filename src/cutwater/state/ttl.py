"""How does state go away that was not touched for a while?

Each entry (a value, an item of a list, an entry of a map) carries the time at which it was last written, or read.
An expired entry is never returned. It is deleted when it is met; a sweeper meets a few more after every batch, so that
keys that never come again go too. Where a snapshot is written entry by entry, expired ones are left out of it: that is
everywhere but in the checkpoints of databases.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeVar

from cutwater.durations import Duration, parse_duration
from cutwater.errors import ConfigurationError
from cutwater.state.contract import Aggregate, KeyedBackend, ListState, MapState, ValueState
from cutwater.state.sharing import UNWATCHED, Sharing
from cutwater.state.values import Pair, copy_value, is_immutable

Clock = Callable[[], int]
State = TypeVar("State", bound="Expiring")
#: (Time of the last write or read in ms, what the user gave.)
Stamped = tuple[int, Any]


@dataclass(frozen=True, slots=True)
class Ttl:
    """State that expires by the wall clock.

    `refresh="write"`: so long after an entry was written. `"read"`: after it was last written or read.
    """

    after: Duration
    refresh: Literal["write", "read"] = "write"

    def __post_init__(self) -> None:
        if parse_duration(self.after, option="after") <= 0:
            raise ConfigurationError("state must live longer than zero")
        if self.refresh not in ("write", "read"):
            raise ConfigurationError(f"refresh can't be {self.refresh!r}", hint='choose "write" or "read"')

    @property
    def after_ms(self) -> int:
        return round(parse_duration(self.after) * 1_000)


class Expiring(Protocol):
    """State of the current key that may have expired."""

    def purge(self) -> None:
        """Deletes what has expired of the current key."""
        ...


class _Stamps:
    """When is what was stamped too old?"""

    __slots__ = ("_after_ms", "now_ms", "on_read")

    def __init__(self, ttl: Ttl, now_ms: Clock) -> None:
        self._after_ms = ttl.after_ms
        self.now_ms = now_ms
        self.on_read = ttl.refresh == "read"

    def lives(self, stamped: Stamped) -> bool:
        return stamped[0] > self.expired_at_ms()

    def expired_at_ms(self) -> int:
        """What was stamped then, or before, has expired."""
        return self.now_ms() - self._after_ms

    def stamp(self, value: Any) -> Stamped:
        return self.now_ms(), value


class TtlValueState:
    __slots__ = ("_default", "_inner", "_name", "_stamps")

    def __init__(self, inner: ValueState, stamps: _Stamps, name: str, default: Any = None) -> None:
        self._inner = inner
        self._stamps = stamps
        self._name = name
        self._default = default

    def value(self) -> Any:
        stamped = self._living()
        if stamped is None:
            default = self._default
            return default if is_immutable(default) else copy_value(default, state=self._name, key=None)
        if self._stamps.on_read:
            self.update(stamped[1])
        return stamped[1]

    def update(self, value: Any) -> None:
        self._inner.update(self._stamps.stamp(value))

    def clear(self) -> None:
        self._inner.clear()

    def purge(self) -> None:
        self._living()

    def _living(self) -> Stamped | None:
        stamped: Stamped | None = self._inner.value()
        if stamped is not None and not self._stamps.lives(stamped):
            self._inner.clear()
            return None
        return stamped


class TtlListState:
    """Every item expires by itself."""

    __slots__ = ("_inner", "_stamps")

    def __init__(self, inner: ListState, stamps: _Stamps) -> None:
        self._inner = inner
        self._stamps = stamps

    def get(self) -> list[Any]:
        living = self._living()
        if living and self._stamps.on_read:
            self.update([value for _, value in living])
        return [value for _, value in living]

    def add(self, value: Any) -> None:
        self._inner.add(self._stamps.stamp(value))

    def update(self, values: Iterable[Any]) -> None:
        self._inner.update([self._stamps.stamp(value) for value in values])

    def clear(self) -> None:
        self._inner.clear()

    def purge(self) -> None:
        self._living()

    def _living(self) -> list[Stamped]:
        found = self._inner.get()
        living = [stamped for stamped in found if self._stamps.lives(stamped)]
        if len(living) < len(found):
            self._inner.update(living)
        return living


class TtlMapState:
    """Every entry expires by itself."""

    __slots__ = ("_inner", "_stamps")

    def __init__(self, inner: MapState, stamps: _Stamps) -> None:
        self._inner = inner
        self._stamps = stamps

    def get(self, key: Any, default: Any = None) -> Any:
        stamped = self._living(key)
        if stamped is None:
            return default
        if self._stamps.on_read:
            self.put(key, stamped[1])
        return stamped[1]

    def put(self, key: Any, value: Any) -> None:
        self._inner.put(key, self._stamps.stamp(value))

    def remove(self, key: Any) -> None:
        self._inner.remove(key)

    def items(self) -> list[tuple[Any, Any]]:
        self.purge()
        found = [(key, value) for key, (_, value) in self._inner.items()]
        if self._stamps.on_read:
            for key, value in found:
                self.put(key, value)
        return found

    def __contains__(self, key: Any) -> bool:
        return self._living(key) is not None

    def clear(self) -> None:
        self._inner.clear()

    def purge(self) -> None:
        for key, stamped in self._inner.items():
            if not self._stamps.lives(stamped):
                self._inner.remove(key)

    def _living(self, key: Any) -> Stamped | None:
        stamped: Stamped | None = self._inner.get(key)
        if stamped is not None and not self._stamps.lives(stamped):
            self._inner.remove(key)
            return None
        return stamped


class TtlReducingState:
    __slots__ = ("_reduce", "_value")

    def __init__(self, value: TtlValueState, reduce: Callable[[Any, Any], Any]) -> None:
        self._value = value
        self._reduce = reduce

    def get(self) -> Any:
        return self._value.value()

    def add(self, value: Any) -> None:
        current = self._value._living()
        self._value.update(value if current is None else self._reduce(current[1], value))

    def clear(self) -> None:
        self._value.clear()

    def purge(self) -> None:
        self._value.purge()


class TtlAggregatingState:
    __slots__ = ("_aggregate", "_value")

    def __init__(self, value: TtlValueState, aggregate: Aggregate) -> None:
        self._value = value
        self._aggregate = aggregate

    def get(self) -> Any:
        """The result, or None if nothing was added."""
        current = self._value._living()
        if current is None:
            return None
        if self._value._stamps.on_read:
            self._value.update(current[1])
        return self._aggregate.get_result(current[1])

    def add(self, value: Any) -> None:
        current = self._value._living()
        accumulator = self._aggregate.create_accumulator() if current is None else current[1]
        self._value.update(self._aggregate.add(value, accumulator))

    def clear(self) -> None:
        self._value.clear()

    def purge(self) -> None:
        self._value.purge()


class ExpiringStates:
    """The states with a time to live of one operator, and what sweeps them. By the loop's thread only."""

    def __init__(self, backend: KeyedBackend, now_ms: Clock, sharing: Sharing = UNWATCHED) -> None:
        self._backend = backend
        self._sharing = sharing
        self._now_ms = now_ms
        self._states: dict[str, Expiring] = {}
        self._stamps_of: dict[str, _Stamps] = {}
        self._rounds: dict[str, Iterator[Any]] = {}

    def value_state(self, name: str, default: Any, ttl: Ttl) -> TtlValueState:
        return self._kept(name, self._value(name, ttl, default))

    def list_state(self, name: str, ttl: Ttl) -> TtlListState:
        return self._kept(
            name, TtlListState(self._backend.list_state(name, sharing=self._sharing), self._stamps(name, ttl))
        )

    def map_state(self, name: str, ttl: Ttl) -> TtlMapState:
        return self._kept(
            name, TtlMapState(self._backend.map_state(name, sharing=self._sharing), self._stamps(name, ttl))
        )

    def reducing_state(self, name: str, reduce: Callable[[Any, Any], Any], ttl: Ttl) -> TtlReducingState:
        return self._kept(name, TtlReducingState(self._value(name, ttl), reduce))

    def aggregating_state(self, name: str, aggregate: Aggregate, ttl: Ttl) -> TtlAggregatingState:
        return self._kept(name, TtlAggregatingState(self._value(name, ttl), aggregate))

    def sweep(self, keys_max: int) -> None:
        """Looks at a few keys of each state, round by round; between two records. Leaves another current key."""
        for name, state in self._states.items():
            keys = self._rounds.get(name)
            if keys is None:
                keys = self._rounds[name] = self._backend.keys(name)
            for _ in range(keys_max):
                key = next(keys, _NO_KEY)
                if key is _NO_KEY:
                    del self._rounds[name]
                    break
                self._backend.set_current_key(key)
                state.purge()

    def _value(self, name: str, ttl: Ttl, default: Any = None) -> TtlValueState:
        inner = self._backend.value_state(name, sharing=self._sharing)
        return TtlValueState(inner, self._stamps(name, ttl), name, default)

    def _stamps(self, name: str, ttl: Ttl) -> _Stamps:
        if not isinstance(ttl, Ttl):
            raise ConfigurationError(f"ttl can't be {ttl!r}", hint='give cw.Ttl("1h")')
        stamps = self._stamps_of[name] = _Stamps(ttl, self._now_ms)
        self._backend.expired_at_ms = self._expired_at_ms
        return stamps

    def _expired_at_ms(self) -> dict[str, int]:
        return {name: stamps.expired_at_ms() for name, stamps in self._stamps_of.items()}

    def _kept(self, name: str, state: State) -> State:
        self._states[name] = state
        return state


_NO_KEY: Any = object()


def living(kind: str, stored: Any, expired_at_ms: int) -> Any:
    """What has not expired of an entry, or of the items of a list; None: nothing."""
    if kind == "list":
        return [stamped for stamped in stored if stamped[0] > expired_at_ms] or None
    return stored if stored[0] > expired_at_ms else None


def living_pairs(kind: str, pairs: Iterable[Pair], expired_at_ms: int) -> list[Pair]:
    """Of the keys and values of a state as the heap keeps them: of a map a dict."""
    if kind == "map":
        kept = (
            (key, {inner: stamped for inner, stamped in entries.items() if stamped[0] > expired_at_ms})
            for key, entries in pairs
        )
    else:
        kept = ((key, living(kind, stored, expired_at_ms)) for key, stored in pairs)
    return [(key, stored) for key, stored in kept if stored]
