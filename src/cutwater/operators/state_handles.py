"""How does a function get state of a declared type, or with a time to live?

Layers around the backend's handles: first what stamps entries with a time, outermost what turns values of the type into
plain data.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any, TypeVar

from cutwater.state.contract import (
    Aggregate,
    AggregatingState,
    KeyedBackend,
    ListState,
    MapState,
    ReducingState,
    ValueState,
)
from cutwater.state.sharing import UNWATCHED, Sharing
from cutwater.state.ttl import ExpiringStates, Ttl
from cutwater.state.typed import (
    Codec,
    TypedAggregatingState,
    TypedListState,
    TypedMapState,
    TypedReducingState,
    TypedValueState,
    check_restored,
    codec_of,
)
from cutwater.state.values import class_in

_State = TypeVar("_State")

_SWEPT_KEYS = 64
"""Keys whose state with a time to live is looked at after every batch."""


class StateHandles:
    """The keyed state of one function. By the loop's thread only."""

    def __init__(
        self,
        backend: KeyedBackend,
        *,
        operator: str,
        wall_ms: Callable[[], int],
        sharing: Sharing = UNWATCHED,
    ) -> None:
        """`sharing` is told of what the function puts into its state, and of what a restored one may hold."""
        self._backend = backend
        self._operator = operator
        self._sharing = sharing
        self._expiring = ExpiringStates(backend, wall_ms, sharing)
        self._has_expiring = False
        #: States without a declared type that no value was seen of yet, and how to get the one of the current key: as
        #: it is stored, because to look at it must not make it live longer.
        self._untyped: dict[str, Callable[[], Any]] = {}
        self._pickled: list[tuple[str, str]] = []

    def pickled(self) -> tuple[tuple[str, str], ...]:
        """(state, class) of those that hold objects of a class, without a type that says how to store them.

        Between two batches: one value of each state is looked at, once.
        """
        for name, value_of_key in list(self._untyped.items()):
            key = next(iter(self._backend.keys(name)), None)
            if key is not None:
                del self._untyped[name]
                self._backend.set_current_key(key)
                found = class_in(value_of_key())
                self._pickled += [(name, found)] if found else []
        return tuple(self._pickled)

    def sweep(self) -> None:
        """Between two batches: looks for a few entries that have expired."""
        if self._has_expiring:
            self._expiring.sweep(_SWEPT_KEYS)

    def value_state(self, name: str, default: Any, kind: Any, ttl: Ttl | None) -> ValueState:
        return self._looked_at(name, self._value_state(name, default, kind, ttl))

    def list_state(self, name: str, kind: Any, ttl: Ttl | None) -> ListState:
        return self._looked_at(name, self._list_state(name, kind, ttl))

    def map_state(self, name: str, kind: Any, ttl: Ttl | None) -> MapState:
        return self._looked_at(name, self._map_state(name, kind, ttl))

    def reducing_state(self, name: str, reduce: Callable[[Any, Any], Any], kind: Any, ttl: Ttl | None) -> ReducingState:
        return self._looked_at(name, self._reducing_state(name, reduce, kind, ttl))

    def aggregating_state(self, name: str, aggregate: Aggregate, kind: Any, ttl: Ttl | None) -> AggregatingState:
        return self._looked_at(name, self._aggregating_state(name, aggregate, kind, ttl))

    def _looked_at(self, name: str, state: _State) -> _State:
        if not self._sharing.on and not self._backend.is_plain(name):  # it was restored
            self._sharing.begin()
        return state

    def _value_state(self, name: str, default: Any, kind: Any, ttl: Ttl | None) -> ValueState:
        if kind is not None:
            return self._typed_value(name, default, kind, ttl)
        if ttl is not None:
            state = self._expiring_value(name, default, ttl)
        else:
            state = self._backend.value_state(name, default, sharing=self._sharing)
        self._untyped[name] = self._backend.value_state(name).value
        return state

    def _list_state(self, name: str, kind: Any, ttl: Ttl | None) -> ListState:
        inner: ListState
        if ttl is None:
            inner = self._backend.list_state(name, sharing=self._sharing)
        else:
            inner = self._with_ttl().list_state(name, ttl)
        if kind is None:
            self._untyped[name] = self._backend.list_state(name).get
            return inner
        codec = self._checked(name, kind, lambda: iter(inner.get()))
        return TypedListState(inner, codec)

    def _map_state(self, name: str, kind: Any, ttl: Ttl | None) -> MapState:
        inner: MapState
        if ttl is None:
            inner = self._backend.map_state(name, sharing=self._sharing)
        else:
            inner = self._with_ttl().map_state(name, ttl)
        if kind is None:
            stored = self._backend.map_state(name)
            self._untyped[name] = lambda: tuple(islice(stored.items(), 1))
            return inner
        codec = self._checked(name, kind, lambda: (value for _, value in inner.items()))
        return TypedMapState(inner, codec)

    def _reducing_state(
        self, name: str, reduce: Callable[[Any, Any], Any], kind: Any, ttl: Ttl | None
    ) -> ReducingState:
        if kind is not None:
            return TypedReducingState(self._typed_value(name, None, kind, ttl), reduce)
        if ttl is not None:
            expiring = self._with_ttl().reducing_state(name, reduce, ttl)
            self._untyped[name] = self._backend.value_state(name).value
            return expiring
        state = self._backend.reducing_state(name, reduce, sharing=self._sharing)
        self._untyped[name] = state.get
        return state

    def _aggregating_state(self, name: str, aggregate: Aggregate, kind: Any, ttl: Ttl | None) -> AggregatingState:
        if kind is not None:
            return TypedAggregatingState(self._typed_value(name, None, kind, ttl), aggregate)
        if ttl is not None:
            return self._with_ttl().aggregating_state(name, aggregate, ttl)
        return self._backend.aggregating_state(name, aggregate, sharing=self._sharing)

    def _typed_value(self, name: str, default: Any, kind: Any, ttl: Ttl | None) -> TypedValueState:
        if ttl is None:
            inner = self._backend.value_state(name, sharing=self._sharing)
        else:
            inner = self._expiring_value(name, None, ttl)

        def stored() -> Iterator[Any]:
            value = inner.value()
            return iter(()) if value is None else iter((value,))

        return TypedValueState(inner, self._checked(name, kind, stored), default)

    def _expiring_value(self, name: str, default: Any, ttl: Ttl | None) -> ValueState:
        assert ttl is not None
        return self._with_ttl().value_state(name, default, ttl)

    def _with_ttl(self) -> ExpiringStates:
        self._has_expiring = True
        return self._expiring

    def _checked(self, name: str, kind: Any, stored_of_key: Callable[[], Iterator[Any]]) -> Codec:
        codec = codec_of(kind, state=name)

        def stored() -> Iterator[Any]:
            for key in self._backend.keys(name):
                self._backend.set_current_key(key)
                yield from stored_of_key()

        check_restored(codec, stored(), state=name, operator=self._operator)
        return codec
