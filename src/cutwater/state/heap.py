"""How is keyed state kept as plain objects in the worker?

Backends "memory" and "filesystem" keep state alike; they differ only in where its snapshots go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import repeat
from typing import Any

from cutwater.errors import ConfigurationError, InternalError
from cutwater.protocol.key_groups import KeyGroups, key_group
from cutwater.state.contract import (
    Aggregate,
    AggregatingState,
    KeyedBackend,
    KeyedBackendSettings,
    ListState,
    MapState,
    ReducingState,
    RestoredState,
    TimerState,
    ValueState,
    written_by_another_backend,
)
from cutwater.state.handles import (
    Cursor,
    HeapAggregatingState,
    HeapListState,
    HeapMapState,
    HeapReducingState,
    HeapValueState,
)
from cutwater.state.heap_rows import Entry, put_row
from cutwater.state.sharing import UNWATCHED, Sharing
from cutwater.state.tables import FrozenTables, FrozenViews, KeyGroupTable
from cutwater.state.timers import HeapTimerState
from cutwater.state.values import ATOMS, load_pairs

_KNOWN_KEYS_MAX = 262_144


class _GroupIndex(dict[Any, int]):
    """Where a key's group is in the task's range; remembers the keys seen, so that a known one costs one look-up."""

    def __init__(self, max_parallelism: int, groups: range) -> None:
        super().__init__()
        self._max_parallelism = max_parallelism
        self._groups = groups

    def __missing__(self, key: Any) -> int:
        group = key_group(key, self._max_parallelism)
        if group not in self._groups:
            raise InternalError(
                f"key {key!r} was sent to the wrong task",
                detail=f"its key group is {group}, this task owns {self._groups}",
            )
        if len(self) >= _KNOWN_KEYS_MAX:
            self.clear()
        index = self[key] = group - self._groups.start
        return index


class HeapBackend(KeyedBackend):
    """The keyed state of one operator of one task, as dicts. Used by the loop's thread only; never blocks."""

    def __init__(self, settings: KeyedBackendSettings) -> None:
        assert settings.groups.step == 1, settings.groups
        self._groups = settings.groups
        self._count = len(settings.groups)
        self._key_groups = KeyGroups(settings.max_parallelism)
        self._index_of = _GroupIndex(settings.max_parallelism, settings.groups)
        self._cursor = Cursor()
        self._views = FrozenViews()
        self._tables: dict[str, KeyGroupTable] = {}
        self._kinds: dict[str, str] = {}
        self._restored_kinds: dict[str, str] = {}
        self._unplaced: dict[str, list[Entry]] = {}
        self._timers: dict[str, HeapTimerState] = {}

    def set_current_key(self, key: Any) -> None:
        cursor = self._cursor
        try:
            cursor.index = self._index_of[key]
        except TypeError:
            self._key_groups.of(key)  # a key that can't be hashed: says so
            raise
        cursor.key = key

    @property
    def current_key(self) -> Any:
        return self._cursor.key

    def table(self, name: str, kind: str = "value") -> KeyGroupTable:
        """The table behind the handles of this name, for operators that loop over a batch themselves."""
        known = self._kinds.setdefault(name, kind)
        if known != kind:
            raise ConfigurationError(
                f'state "{name}" is a {known} state and can\'t also be a {kind} state',
                hint="give each state of an operator its own name",
            )
        table = self._table(name)
        for group, key, namespace, value in self._unplaced.pop(name, ()):
            put_row(table.group_dict_for_write(group), kind, key, namespace, value)
        return table

    def value_state(self, name: str, default: Any = None, *, sharing: Sharing = UNWATCHED) -> ValueState:
        return HeapValueState(self.table(name, "value"), self._cursor, sharing, default)

    def list_state(self, name: str, *, sharing: Sharing = UNWATCHED) -> ListState:
        return HeapListState(self.table(name, "list"), self._cursor, sharing)

    def map_state(self, name: str, *, sharing: Sharing = UNWATCHED) -> MapState:
        return HeapMapState(self.table(name, "map"), self._cursor, sharing)

    def reducing_state(
        self, name: str, reduce: Callable[[Any, Any], Any], *, sharing: Sharing = UNWATCHED
    ) -> ReducingState:
        return HeapReducingState(self.table(name, "reducing"), self._cursor, sharing, reduce)

    def aggregating_state(self, name: str, aggregate: Aggregate, *, sharing: Sharing = UNWATCHED) -> AggregatingState:
        return HeapAggregatingState(self.table(name, "aggregating"), self._cursor, sharing, aggregate)

    def timer_state(self, name: str) -> TimerState:
        table = self.table(name, "timer")
        timers = self._timers.get(name)
        if timers is None:
            timers = HeapTimerState(table, self._cursor, groups=self._groups, key_groups=self._key_groups)
            self._timers[name] = timers
        return timers

    def keys(self, name: str) -> Iterator[Any]:
        """Every key that has state of this name here; the state may change meanwhile."""
        table = self._tables.get(name)
        if table is None:
            return
        for index in range(self._count):
            entries = table.dicts[index]
            yield from {key: None for _, key, _ in entries} if self._kinds.get(name) == "timer" else list(entries)

    def is_plain(self, name: str) -> bool:
        table = self._tables.get(name)
        return table is None or all(ATOMS.issuperset(map(type, entries.values())) for entries in table.dicts)

    def freeze(self) -> FrozenTables:
        for name in list(self._unplaced):  # nobody has opened it: it stays as it was
            self.table(name, self._restored_kinds[name])
        kinds = {**self._restored_kinds, **self._kinds}
        view = FrozenTables([self._tables[name].freeze() for name in sorted(self._tables)], kinds, self.expired_at_ms())
        self._views.add(view)
        return view

    def restore(self, restored: RestoredState) -> None:
        if restored.databases:
            raise written_by_another_backend("rocksdb", ("memory", "filesystem"))
        self._restored_kinds.update(restored.kinds)
        for name, group, data in restored.chunks:
            self._table(name).group_dict_for_write(group).update(load_pairs(data, state=name, group=group))
        for rows in restored.rows:
            # Whether a map is one dict per key, or its windows are entries of their own, is known when it is opened.
            self._restored_kinds[rows.name] = rows.kind
            namespaces = rows.namespaces or repeat(None)
            entries = zip(rows.groups, rows.keys, namespaces, rows.values, strict=False)
            self._unplaced.setdefault(rows.name, []).extend(entries)

    def size(self) -> int:
        return sum(len(entries) for table in self._tables.values() for entries in table.dicts)

    def close(self) -> None:
        self._tables.clear()

    def _table(self, name: str) -> KeyGroupTable:
        table = self._tables.get(name)
        if table is None:
            table = self._tables[name] = KeyGroupTable(name, self._groups, self._views)
        return table
