"""How does state go on changing while a snapshot of it is being written?

A table holds one dict per key group. To freeze it is to keep references to its dicts and to mark every group as shared:
O(groups), whatever the number of keys. The first write to a shared group copies that group's dict (copy on write), and
a changeable value is copied when it is first handed out after that. Once no frozen view is left, nothing is copied.

    shared[i]  private[i]     whose are the values of group i?
    1          (any)          all of them also a frozen view's, and the dict too
    0          {key, …}       the dict is ours, and of the changeable values those of these keys
    0          None           all ours
"""

from __future__ import annotations

import time
import weakref
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import islice
from typing import Any

import pyarrow as pa

from cutwater.canonical import StateKind, to_batch
from cutwater.errors import InternalError
from cutwater.state.heap_rows import canonical_kind, entries_of, in_rows
from cutwater.state.ttl import living_pairs
from cutwater.state.values import ATOMS, Pair, copy_value, dump_pairs, is_immutable

#: pickle holds the GIL for a whole call, so a large group becomes several chunks: the stream never waits long.
PAIRS_PER_CHUNK_MAX = 4096

_NEVER: Mapping[str, int] = {}

FrozenTable = tuple[str, int, list[dict[Any, Any]]]
"""Name, first group, one dict per group."""


class FrozenTables:
    """Tables as they were at a barrier: a `FrozenKeyedState`. Made on the loop's thread, read on another."""

    __slots__ = ("__weakref__", "_expired_at_ms", "_tables", "kinds", "live")

    database = None

    def __init__(
        self, tables: list[FrozenTable], kinds: Mapping[str, str], expired_at_ms: Mapping[str, int] = _NEVER
    ) -> None:
        self._tables = tables
        self._expired_at_ms = expired_at_ms
        self.kinds = kinds
        #: False once all bytes are made: from then on the stream may change what it shared with this view.
        self.live = True

    def chunks(self) -> Iterator[tuple[str, int, bytes]]:
        """(state name, key group, bytes), ordered by name and group; a large group comes as several chunks."""
        with self._read_once():
            for name, first, dicts in self._tables:
                for group, pairs in enumerate(dicts, first):
                    for part in self._parts(name, pairs):
                        yield name, group, dump_pairs(part, state=name)
                        time.sleep(0)  # lets the stream's thread have the GIL

    def tables(self, rows_max: int) -> Iterator[tuple[str, StateKind, pa.RecordBatch]]:
        """(state name, kind, rows), in the form of savepoints."""
        with self._read_once():
            for name, first, dicts in self._tables:
                entries = (
                    (group, *entry)
                    for group, pairs in enumerate(dicts, first)
                    for part in self._parts(name, pairs)
                    for entry in entries_of(self.kinds.get(name, "value"), part)
                )
                kind = canonical_kind(self.kinds.get(name, "value"))
                yield from ((name, kind, to_batch(rows)) for rows in in_rows(name, kind, entries, rows_max))

    def _parts(self, name: str, pairs: dict[Any, Any]) -> Iterator[list[Pair]]:
        """Small enough to be written at once, without what has expired."""
        expired_at_ms = self._expired_at_ms.get(name)
        rest = iter(pairs.items())
        while part := list(islice(rest, PAIRS_PER_CHUNK_MAX)):
            if expired_at_ms is not None:
                part = living_pairs(self.kinds.get(name, "value"), part, expired_at_ms)
            if part:
                yield part

    @contextmanager
    def _read_once(self) -> Iterator[None]:
        if not self.live:
            raise InternalError("a frozen state was read twice")
        try:
            yield
        finally:
            self._tables = []
            self.live = False


class FrozenViews:
    """The frozen views that still need what they share with the running state."""

    def __init__(self) -> None:
        self._views: list[weakref.ref[FrozenTables]] = []

    def add(self, view: FrozenTables) -> None:
        self._views.append(weakref.ref(view))

    def any_live(self) -> bool:
        """False also when a view was given up unread: an aborted checkpoint just drops it."""
        if self._views:
            self._views = [ref for ref in self._views if (view := ref()) is not None and view.live]
        return bool(self._views)


class KeyGroupTable:
    """All values of one state name: one dict per key group. Used by the loop's thread only.

    An operator that loops over a batch itself takes `group_dict_for_write` once per group and batch. It replaces
    values there and never changes one in place.
    """

    __slots__ = ("_groups", "_views", "dicts", "name", "private", "shared")

    def __init__(self, name: str, groups: range, views: FrozenViews) -> None:
        self.name = name
        self._groups = groups
        self._views = views
        #: By position in the task's range of groups, as are the next two.
        self.dicts: list[dict[Any, Any]] = [{} for _ in groups]
        self.shared = bytearray(len(groups))
        self.private: list[set[Any] | None] = [None] * len(groups)

    def group_dict_for_write(self, group: int) -> dict[Any, Any]:
        """The group's own dict, valid until the next freeze."""
        index = self._index(group)
        if self.shared[index]:
            self._unshare(index)
        return self.dicts[index]

    def freeze(self) -> FrozenTable:
        count = len(self._groups)
        self.shared = bytearray(b"\x01") * count
        return self.name, self._groups.start, self.dicts[:]

    def put(self, index: int, key: Any, value: Any) -> None:
        if self.shared[index]:
            self._unshare(index)
        self.dicts[index][key] = value
        private = self.private[index]
        if private is not None and type(value) not in ATOMS:
            private.add(key)

    def remove(self, index: int, key: Any) -> None:
        if key in self.dicts[index]:
            if self.shared[index]:
                self._unshare(index)
            del self.dicts[index][key]

    def own(self, index: int, key: Any, value: Any) -> Any:
        """This value of this key, or a copy put in its place: safe to be changed by whoever gets it."""
        if not self.shared[index]:
            private = self.private[index]
            if private is None or key in private:
                return value
        if is_immutable(value):
            return value
        if not self._views.any_live():
            self._settle()
            return value
        if self.shared[index]:
            self._unshare(index)
        value = copy_value(value, state=self.name, key=key)
        self.put(index, key, value)
        return value

    def _unshare(self, index: int) -> None:
        if not self._views.any_live():
            self._settle()
            return
        self.dicts[index] = self.dicts[index].copy()
        self.shared[index] = 0
        self.private[index] = set()

    def _settle(self) -> None:
        """No frozen view is left: everything is ours again."""
        count = len(self._groups)
        self.shared = bytearray(count)
        self.private = [None] * count

    def _index(self, group: int) -> int:
        if group not in self._groups:
            raise InternalError(
                f'key group {group} of state "{self.name}" is not of this task', detail=f"it owns {self._groups}"
            )
        return group - self._groups.start
