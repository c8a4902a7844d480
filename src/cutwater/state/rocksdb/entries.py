"""How are Python values kept in front of a database of bytes?

A value that was read stays in memory for a while, one that was changed waits there to be written with others. There are
two generations: what was used since the last change of generation, and what was used before that and may be dropped.

Whoever got a value may change it in place until the record is done. So a changeable value counts as changed once it was
handed out, and nothing is written or dropped in the midst of a record: the backend calls `relieve` between two.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rocksdict import Rdict, WriteBatch

from cutwater.state.folds import MISSING
from cutwater.state.rocksdb.encoding import packed, payload_of
from cutwater.state.values import ATOMS, is_immutable

#: Written together. The synchronous part of a snapshot writes what waits, so it must not be many.
CHANGED_ENTRIES_MAX = 4_096
GENERATION_ENTRIES_MAX = 16_384
GENERATION_BYTES_MAX = 16 << 20
_UNKNOWN: Any = object()


class Pressure:
    """Set when some state has more in memory than it should."""

    __slots__ = ("high",)

    def __init__(self) -> None:
        self.high = False


class Entries:
    """The entries of one state. An identity is what `encode` makes the database's key of. By the loop's thread only."""

    def __init__(
        self,
        database: Rdict,
        *,
        encode: Callable[[Any], bytes],
        keys_in: Callable[[Any], tuple[Any, ...]],
        dump: Callable[[Any], bytes],
        load: Callable[[bytes], Any],
        pressure: Pressure,
    ) -> None:
        self._database = database
        self._encode = encode
        self._keys_in = keys_in
        self._dump = dump
        self._load = load
        self._pressure = pressure
        self._young: dict[Any, Any] = {}
        self._old: dict[Any, Any] = {}
        self._changed: dict[Any, None] = {}
        self._generation_bytes = 0

    def get(self, identity: Any) -> Any:
        """The value, or `MISSING`, which is remembered as well as a value."""
        value = self._young.get(identity, _UNKNOWN)
        if value is _UNKNOWN:
            value = self._old.pop(identity, _UNKNOWN)
            if value is _UNKNOWN:
                value = self._read(identity)
            self._young[identity] = value
            if len(self._young) >= GENERATION_ENTRIES_MAX or self._generation_bytes >= GENERATION_BYTES_MAX:
                self._pressure.high = True
        if value is MISSING or type(value) in ATOMS or is_immutable(value):
            return value
        self._change(identity)
        return value

    def put(self, identity: Any, value: Any) -> None:
        self._young[identity] = value
        self._change(identity)

    def remove(self, identity: Any) -> None:
        self.put(identity, MISSING)

    def relieve(self) -> None:
        """Between two records: writes and drops what is too much."""
        if len(self._changed) >= CHANGED_ENTRIES_MAX:
            self.write()
        if len(self._young) >= GENERATION_ENTRIES_MAX or self._generation_bytes >= GENERATION_BYTES_MAX:
            self.write()
            self._old, self._young = self._young, {}
            self._generation_bytes = 0

    def write(self) -> None:
        """Hands everything that changed to the database."""
        if not self._changed:
            return
        batch = WriteBatch(raw_mode=True)
        for identity in self._changed:
            value = self._young[identity]
            if value is MISSING:
                batch.delete(self._encode(identity))
            else:
                stored = packed(self._dump(value), *self._keys_in(identity))
                self._generation_bytes += len(stored)
                batch.put(self._encode(identity), stored)
        self._database.write(batch)
        self._changed.clear()

    def _read(self, identity: Any) -> Any:
        stored = self._database.get(self._encode(identity))
        if stored is None:
            return MISSING
        self._generation_bytes += len(stored)
        return self._load(payload_of(stored))

    def _change(self, identity: Any) -> None:
        self._changed[identity] = None
        if len(self._changed) >= CHANGED_ENTRIES_MAX:
            self._pressure.high = True
