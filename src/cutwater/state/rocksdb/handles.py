"""How does a user's function reach the state of the current key, when it lies in RocksDB?

As on the heap: what a handle returns may be changed in place until the record is done; what is to last must be handed
to `update`, `add` or `put`. The entries of a map are entries of the database, so a map may be larger than memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from cutwater.protocol.key_groups import canonical_bytes
from cutwater.state.contract import Aggregate
from cutwater.state.folds import MISSING, AggregatingOperations, ListOperations, ReducingOperations, StoredValue
from cutwater.state.handles import Cursor
from cutwater.state.rocksdb.encoding import keys_of
from cutwater.state.rocksdb.entries import Entries
from cutwater.state.sharing import Sharing
from cutwater.state.values import copy_value, is_immutable


class RocksHandle(StoredValue):
    """What the handles of one value per key share. Used by the loop's thread only, while a key is set."""

    __slots__ = ("_cursor", "_entries", "_sharing")

    def __init__(self, entries: Entries, cursor: Cursor, sharing: Sharing) -> None:
        self._entries = entries
        self._cursor = cursor
        self._sharing = sharing

    def clear(self) -> None:
        self._entries.remove(self._cursor.key)

    def _owned(self) -> Any:
        return self._entries.get(self._cursor.key)

    def _put(self, value: Any) -> None:
        self._entries.put(self._cursor.key, value)


class RocksValueState(RocksHandle):
    __slots__ = ("_default", "_default_is_immutable", "_name")

    def __init__(self, entries: Entries, cursor: Cursor, sharing: Sharing, name: str, default: Any) -> None:
        super().__init__(entries, cursor, sharing)
        self._name = name
        self._default = default
        self._default_is_immutable = is_immutable(default)

    def value(self) -> Any:
        value = self._entries.get(self._cursor.key)
        if value is not MISSING:
            return value
        if self._default_is_immutable:
            return self._default
        return copy_value(self._default, state=self._name, key=self._cursor.key)

    def update(self, value: Any) -> None:
        if not self._sharing.on:
            self._sharing.meet(value)
        self._entries.put(self._cursor.key, value)


class RocksListState(ListOperations, RocksHandle):
    """A list that was handed out counts as changed, so adding to it in place is enough."""

    __slots__ = ()


class RocksReducingState(ReducingOperations, RocksHandle):
    __slots__ = ("_reduce",)

    def __init__(self, entries: Entries, cursor: Cursor, sharing: Sharing, reduce: Callable[[Any, Any], Any]) -> None:
        super().__init__(entries, cursor, sharing)
        self._reduce = reduce


class RocksAggregatingState(AggregatingOperations, RocksHandle):
    __slots__ = ("_aggregate",)

    def __init__(self, entries: Entries, cursor: Cursor, sharing: Sharing, aggregate: Aggregate) -> None:
        super().__init__(entries, cursor, sharing)
        self._aggregate = aggregate


class RocksMapState:
    """Identities are (key of the stream, key in the map)."""

    __slots__ = ("_cursor", "_entries", "_scan", "_sharing")

    def __init__(
        self,
        entries: Entries,
        cursor: Cursor,
        sharing: Sharing,
        scan: Callable[[Any], Iterator[tuple[bytes, bytes, bytes]]],
    ) -> None:
        self._entries = entries
        self._cursor = cursor
        self._sharing = sharing
        #: Of a key: (its bytes, the bytes of the key in the map, the stored value) of each entry.
        self._scan = scan

    def get(self, key: Any, default: Any = None) -> Any:
        value = self._entries.get((self._cursor.key, key))
        return default if value is MISSING else value

    def put(self, key: Any, value: Any) -> None:
        if not self._sharing.on:
            self._sharing.meet(value)
        canonical_bytes(key)  # what can't be a key is refused here and not when it is written
        self._entries.put((self._cursor.key, key), value)

    def remove(self, key: Any) -> None:
        """A key that isn't there is no error."""
        if key in self:
            self._entries.remove((self._cursor.key, key))

    def items(self) -> list[tuple[Any, Any]]:
        """In the order of the keys' bytes."""
        self._entries.write()
        key = self._cursor.key
        found = [keys_of(stored, key_data, map_key_data)[1] for key_data, map_key_data, stored in self._scan(key)]
        return [(map_key, self._entries.get((key, map_key))) for map_key in found]

    def __contains__(self, key: Any) -> bool:
        return self._entries.get((self._cursor.key, key)) is not MISSING

    def clear(self) -> None:
        for key in [key for key, _ in self.items()]:
            self.remove(key)
