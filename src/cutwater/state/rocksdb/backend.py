"""How is keyed state kept in RocksDB: larger than memory, and snapshotted by what changed?

One database per operator and task. To freeze it is to link its files into a folder; files never change, so those of the
last completed checkpoint need not be uploaded again.
"""

from __future__ import annotations

import os
import shutil
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from typing import Any

import pyarrow as pa

from cutwater.canonical import StateKind, to_batch
from cutwater.errors import ConfigurationError, InternalError
from cutwater.protocol.ids import CheckpointId
from cutwater.protocol.key_groups import KeyGroups, canonical_bytes
from cutwater.protocol.timers import Timer
from cutwater.state.contract import (
    Aggregate,
    AggregatingState,
    KeyedBackend,
    KeyedBackendSettings,
    ListState,
    MapState,
    ReducingState,
    RestoredDatabase,
    RestoredState,
    StoredFile,
    TimerState,
    ValueState,
    written_by_another_backend,
)
from cutwater.state.handles import Cursor
from cutwater.state.rocksdb.database import Database, open_frozen
from cutwater.state.rocksdb.encoding import (
    group_start,
    key_prefix,
    keys_of,
    payload_of,
    split,
    state_prefix,
)
from cutwater.state.rocksdb.entries import Entries, Pressure
from cutwater.state.rocksdb.handles import (
    RocksAggregatingState,
    RocksListState,
    RocksMapState,
    RocksReducingState,
    RocksValueState,
)
from cutwater.state.rocksdb.rows import identity_of, rows_of, stored_rows, time_bytes
from cutwater.state.rocksdb.timers import RocksTimerTable
from cutwater.state.sharing import UNWATCHED, Sharing
from cutwater.state.timers import HeapTimerState
from cutwater.state.values import dump_value, load_value

_SORTED_FILE = ".sst"
#: The rest (options, identity, log) is made anew when a database is opened.
_NEEDED = ("CURRENT", "MANIFEST-")


class RocksBackend(KeyedBackend):
    """The keyed state of one operator of one task. Used by the loop's thread only."""

    def __init__(self, settings: KeyedBackendSettings) -> None:
        if settings.local is None:
            raise InternalError("state in RocksDB needs a local folder")
        self._groups = settings.groups
        self._max_parallelism = settings.max_parallelism
        self._group_of = KeyGroups(settings.max_parallelism).of
        self._local = settings.local
        self._memory_bytes = settings.memory_bytes
        self._cursor = Cursor()
        self._pressure = Pressure()
        self._kinds: dict[str, str] = {}
        self._restored_kinds: dict[str, str] = {}
        self._entries: dict[str, Entries] = {}
        self._timers: dict[str, HeapTimerState] = {}
        #: Files that are on the storage, by their name here: those of the last checkpoint that we know to be complete.
        self._stored: dict[str, StoredFile] = {}
        self._completed = CheckpointId(0)
        #: Those of later ones, whose fate we don't know.
        self._written: dict[CheckpointId, dict[str, StoredFile]] = {}
        #: The same, as background threads report it: a queue, since they may do so at any moment.
        self._reported: deque[tuple[CheckpointId, dict[str, StoredFile]]] = deque()
        self._opened: Database | None = None

    # Keys and handles.

    def set_current_key(self, key: Any) -> None:
        if self._pressure.high:
            self._relieve()
        group = self._group_of(key)
        if group not in self._groups:
            raise InternalError(
                f"key {key!r} was sent to the wrong task",
                detail=f"its key group is {group}, this task owns {self._groups}",
            )
        self._cursor.key = key

    @property
    def current_key(self) -> Any:
        return self._cursor.key

    def value_state(self, name: str, default: Any = None, *, sharing: Sharing = UNWATCHED) -> ValueState:
        return RocksValueState(self._values(name, "value"), self._cursor, sharing, name, default)

    def list_state(self, name: str, *, sharing: Sharing = UNWATCHED) -> ListState:
        return RocksListState(self._values(name, "list"), self._cursor, sharing)

    def reducing_state(
        self, name: str, reduce: Callable[[Any, Any], Any], *, sharing: Sharing = UNWATCHED
    ) -> ReducingState:
        return RocksReducingState(self._values(name, "reducing"), self._cursor, sharing, reduce)

    def aggregating_state(self, name: str, aggregate: Aggregate, *, sharing: Sharing = UNWATCHED) -> AggregatingState:
        return RocksAggregatingState(self._values(name, "aggregating"), self._cursor, sharing, aggregate)

    def map_state(self, name: str, *, sharing: Sharing = UNWATCHED) -> MapState:
        state = state_prefix(name)

        def encode(identity: tuple[Any, Any]) -> bytes:
            key, map_key = identity
            return key_prefix(self._group_of(key), state, key) + canonical_bytes(map_key)

        def scan(key: Any) -> Iterator[tuple[bytes, bytes, bytes]]:
            prefix = key_prefix(self._group_of(key), state, key)
            for entry, stored in self._database.scan(prefix, _after(prefix)):
                _, _, key_data, map_key_data = split(entry)
                yield key_data, map_key_data, stored

        entries = self._entries_of(name, "map", encode, lambda identity: identity)
        return RocksMapState(entries, self._cursor, sharing, scan)

    def timer_state(self, name: str) -> TimerState:
        timers = self._timers.get(name)
        if timers is None:
            state = state_prefix(name)

            def encode(timer: Timer) -> bytes:
                prefix = key_prefix(self._group_of(timer.key), state, timer.key)
                return prefix + time_bytes(timer.time_ms) + canonical_bytes(timer.namespace)

            entries = self._entries_of(name, "timer", encode, lambda timer: (timer.key, timer.namespace))
            table = RocksTimerTable(entries, self._registered(name))
            timers = self._timers[name] = HeapTimerState(
                table, self._cursor, groups=self._groups, key_groups=KeyGroups(self._max_parallelism)
            )
        return timers

    def keys(self, name: str) -> Iterator[Any]:
        """Every key that has state of this name here, by key group."""
        last = b""
        for key_data, _, stored in self._stored_entries(name):
            if key_data != last:
                last = key_data
                yield keys_of(stored, key_data)[0]

    def size(self) -> int:
        self._write()
        every = self._database.scan(group_start(self._groups.start), group_start(self._groups.stop))
        return sum(1 for _ in every)

    # Snapshots.

    def freeze(self) -> FrozenDatabase:
        self._write()
        folder = self._local.new_folder("frozen")
        os.rmdir(folder)  # RocksDB wants to make it itself
        self._database.freeze(folder)
        kinds = {**self._restored_kinds, **self._kinds}
        return FrozenDatabase(
            folder, self._groups, kinds, self.expired_at_ms(), self._not_to_upload(), self._reported.append
        )

    def checkpoint_completed(self, checkpoint: CheckpointId) -> None:
        """From now on the files of this checkpoint need not be uploaded again."""
        self._take_reports()
        stored = self._written.pop(checkpoint, None)
        if stored is not None:
            self._stored = stored
        self._completed = checkpoint
        for older in [other for other in self._written if other < checkpoint]:
            del self._written[older]

    def _not_to_upload(self) -> dict[str, StoredFile]:
        """A later checkpoint may have completed before we hear of it, and the one that we know of may be deleted. Only
        those of its files are left then that the later one names, too.
        """
        self._take_reports()
        later = self._written.values()
        return {name: file for name, file in self._stored.items() if all(files.get(name) == file for files in later)}

    def _take_reports(self) -> None:
        while self._reported:
            written, files = self._reported.popleft()
            if written >= self._completed:
                self._written[written] = files

    def restore(self, restored: RestoredState) -> None:
        for _ in restored.chunks:
            raise written_by_another_backend("filesystem", ("rocksdb",))
        self._restored_kinds.update(restored.kinds)
        if restored.databases:
            self._restore_databases(restored.databases)
        for rows in restored.rows:
            self._restored_kinds[rows.name] = rows.kind
            self._database.fill(stored_rows(rows))

    def close(self) -> None:
        if self._opened is not None:
            self._opened.close()
            self._opened = None

    @property
    def _database(self) -> Database:
        if self._opened is None:
            self._opened = Database(self._local.new_folder("state"), memory_bytes=self._memory_bytes)
        return self._opened

    def _restore_databases(self, databases: Sequence[RestoredDatabase]) -> None:
        """The one with most of our groups becomes ours, cut to them; of the others ours are taken over."""
        first, *others = sorted(databases, key=lambda one: -_overlap(one.groups, self._groups))
        folder = self._local.new_folder("state")
        first.fetch(folder)
        self._opened = Database(folder, memory_bytes=self._memory_bytes)
        if first.groups == self._groups:
            self._stored = _unchanging(first.stored)
        else:
            self._opened.clip(self._groups, self._max_parallelism)
        for other in others:
            copy = self._local.new_folder("other")
            other.fetch(copy)
            database = Database(copy, memory_bytes=self._memory_bytes)
            try:
                self._opened.take_in(database, _common(other.groups, self._groups))
            finally:
                database.close()

    # Entries.

    def _values(self, name: str, kind: str) -> Entries:
        state = state_prefix(name)

        def encode(key: Any) -> bytes:
            return key_prefix(self._group_of(key), state, key)

        return self._entries_of(name, kind, encode, lambda key: (key,))

    def _entries_of(
        self, name: str, kind: str, encode: Callable[[Any], bytes], keys_in: Callable[[Any], tuple[Any, ...]]
    ) -> Entries:
        known = self._kinds.setdefault(name, kind)
        if known != kind:
            raise ConfigurationError(
                f'state "{name}" is a {known} state and can\'t also be a {kind} state',
                hint="give each state of an operator its own name",
            )
        entries = self._entries.get(name)
        if entries is None:
            entries = self._entries[name] = Entries(
                self._database.entries,
                encode=encode,
                keys_in=keys_in,
                dump=lambda value: dump_value(value, state=name, key=self._cursor.key),
                load=_loader(name),
                pressure=self._pressure,
            )
        return entries

    def _relieve(self) -> None:
        self._pressure.high = False
        for entries in self._entries.values():
            entries.relieve()

    def _write(self) -> None:
        for entries in self._entries.values():
            entries.write()

    def _stored_entries(self, name: str) -> Iterator[tuple[bytes, bytes, bytes]]:
        """Key, what comes behind it, and stored value of all entries of one state, by key group."""
        self._write()
        state = state_prefix(name)
        for group in self._groups:
            prefix = group_start(group) + state
            for entry, stored in self._database.scan(prefix, _after(prefix)):
                _, _, key_data, rest = split(entry)
                yield key_data, rest, stored

    def _registered(self, name: str) -> dict[Any, int]:
        restored = {}
        load = _loader(name)
        for key_data, rest, stored in self._stored_entries(name):
            key, (time_ms, namespace) = identity_of("timer", stored, key_data, rest)
            restored[Timer(time_ms, key, namespace)] = load(payload_of(stored))
        return restored


class FrozenDatabase:
    """The files of a database as they were at a barrier. Made on the loop's thread, read on another."""

    def __init__(
        self,
        folder: str,
        groups: range,
        kinds: dict[str, str],
        expired_at_ms: Mapping[str, int],
        stored: dict[str, StoredFile],
        written: Callable[[tuple[CheckpointId, dict[str, StoredFile]]], None],
    ) -> None:
        self._folder = folder
        self.groups = groups
        self.kinds = kinds
        self._expired_at_ms = expired_at_ms
        #: Files that are on the storage already, by name.
        self.stored = stored
        self._written = written

    def chunks(self) -> Iterator[tuple[str, int, bytes]]:
        return iter(())

    def tables(self, rows_max: int) -> Iterator[tuple[str, StateKind, pa.RecordBatch]]:
        """(state name, kind, rows), in the form of savepoints."""
        with closing(open_frozen(self._folder)) as entries:
            for rows in rows_of(entries, self.kinds, rows_max, expired_at_ms=self._expired_at_ms):
                yield rows.name, rows.kind, to_batch(rows)
        self.discard()

    @property
    def database(self) -> FrozenDatabase:
        return self

    def files(self) -> dict[str, str]:
        """Name to path of all files that a restore needs."""
        names = [name for name in os.listdir(self._folder) if name.endswith(_SORTED_FILE) or name.startswith(_NEEDED)]
        return {name: os.path.join(self._folder, name) for name in sorted(names)}

    def written(self, checkpoint: CheckpointId, files: Mapping[str, StoredFile]) -> None:
        """They are all on the storage; if the checkpoint completes they stay there."""
        self._written((checkpoint, _unchanging(files)))

    def discard(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)

    def __del__(self) -> None:
        with suppress(Exception):  # given up unread: an aborted checkpoint just drops it
            self.discard()


def _unchanging(files: Mapping[str, StoredFile]) -> dict[str, StoredFile]:
    """Those that a later snapshot may refer to: CURRENT and the manifest have new content under the same name."""
    return {name: file for name, file in files.items() if name.endswith(_SORTED_FILE)}


def _after(prefix: bytes) -> bytes:
    """The lowest key above all that begin with this."""
    stripped = prefix.rstrip(b"\xff")
    return stripped[:-1] + bytes([stripped[-1] + 1])


def _overlap(left: range, right: range) -> int:
    return len(_common(left, right))


def _common(left: range, right: range) -> range:
    return range(max(left.start, right.start), min(left.stop, right.stop))


def _loader(name: str) -> Callable[[bytes], Any]:
    return lambda data: load_value(data, state=name)
