"""How does a user's function reach the state of the current key?

A handle is a table and a cursor; the backend moves the cursor, all handles of the operator follow. What a handle
returns may be changed in place until the record is done; what is to last must be handed to `update`, `add` or `put`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cutwater.state.contract import Aggregate
from cutwater.state.folds import MISSING, AggregatingOperations, ListOperations, ReducingOperations, StoredValue
from cutwater.state.sharing import Sharing
from cutwater.state.tables import KeyGroupTable
from cutwater.state.values import ATOMS, copy_value, is_immutable


class Cursor:
    """The current key, and the position of its group in the task's range."""

    __slots__ = ("index", "key")

    def __init__(self) -> None:
        self.key: Any = None
        self.index = -1


class HeapHandle(StoredValue):
    """What all handles share. Used by the loop's thread only, while a key is set; never blocks."""

    __slots__ = ("_cursor", "_sharing", "_table")

    def __init__(self, table: KeyGroupTable, cursor: Cursor, sharing: Sharing) -> None:
        self._table = table
        self._cursor = cursor
        self._sharing = sharing

    def clear(self) -> None:
        self._table.remove(self._cursor.index, self._cursor.key)

    def _owned(self) -> Any:
        """The stored value, safe to be changed, or `MISSING`."""
        cursor, table = self._cursor, self._table
        value = table.dicts[cursor.index].get(cursor.key, MISSING)
        if value is MISSING or type(value) in ATOMS:
            return value
        return table.own(cursor.index, cursor.key, value)

    def _put(self, value: Any) -> None:
        self._table.put(self._cursor.index, self._cursor.key, value)


class HeapValueState(HeapHandle):
    __slots__ = ("_default", "_default_is_immutable")

    def __init__(self, table: KeyGroupTable, cursor: Cursor, sharing: Sharing, default: Any) -> None:
        super().__init__(table, cursor, sharing)
        self._default = default
        self._default_is_immutable = is_immutable(default)

    def value(self) -> Any:
        cursor, table = self._cursor, self._table
        value = table.dicts[cursor.index].get(cursor.key, MISSING)
        if type(value) in ATOMS:
            return value
        if value is not MISSING:
            return table.own(cursor.index, cursor.key, value)
        if self._default_is_immutable:
            return self._default
        return copy_value(self._default, state=table.name, key=cursor.key)  # no two keys may fill the same list

    def update(self, value: Any) -> None:
        # KeyGroupTable.put, unrolled: this is the hot path.
        cursor, table = self._cursor, self._table
        index = cursor.index
        if table.shared[index] or type(value) not in ATOMS:
            if not self._sharing.on:
                self._sharing.meet(value)
            table.put(index, cursor.key, value)
        else:
            table.dicts[index][cursor.key] = value


class HeapListState(ListOperations, HeapHandle):
    __slots__ = ()


class HeapMapState(HeapHandle):
    __slots__ = ()

    def get(self, key: Any, default: Any = None) -> Any:
        value = self._peek().get(key, MISSING)
        if value is MISSING:
            return default
        return value if type(value) in ATOMS else self._owned()[key]

    def put(self, key: Any, value: Any) -> None:
        if not self._sharing.on:
            self._sharing.meet(value)
        mapping = self._owned()
        if mapping is MISSING:
            self._put({key: value})
        else:
            mapping[key] = value

    def remove(self, key: Any) -> None:
        """A key that isn't there is no error; a mapping without keys is no state."""
        if key not in self:
            return
        mapping = self._owned()
        del mapping[key]
        if not mapping:
            self.clear()

    def items(self) -> list[tuple[Any, Any]]:
        mapping = self._owned()
        return [] if mapping is MISSING else list(mapping.items())

    def __contains__(self, key: Any) -> bool:
        return key in self._peek()

    def _peek(self) -> dict[Any, Any]:
        """To look only: perhaps a frozen view's."""
        return self._table.dicts[self._cursor.index].get(self._cursor.key) or {}


class HeapReducingState(ReducingOperations, HeapHandle):
    __slots__ = ("_reduce",)

    def __init__(
        self, table: KeyGroupTable, cursor: Cursor, sharing: Sharing, reduce: Callable[[Any, Any], Any]
    ) -> None:
        super().__init__(table, cursor, sharing)
        self._reduce = reduce


class HeapAggregatingState(AggregatingOperations, HeapHandle):
    __slots__ = ("_aggregate",)

    def __init__(self, table: KeyGroupTable, cursor: Cursor, sharing: Sharing, aggregate: Aggregate) -> None:
        super().__init__(table, cursor, sharing)
        self._aggregate = aggregate
