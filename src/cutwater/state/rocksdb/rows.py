"""How do entries of RocksDB become rows of a savepoint, and rows become entries again?"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby, repeat
from typing import Any, cast

from rocksdict import Rdict

from cutwater.canonical import StateRows
from cutwater.pickles import Loads
from cutwater.protocol.key_groups import canonical_bytes
from cutwater.state.heap_rows import Entry, canonical_kind, in_rows
from cutwater.state.rocksdb.encoding import key_prefix, keys_of, packed, payload_of, split, state_prefix
from cutwater.state.ttl import living
from cutwater.state.values import dump_value, load_value

_TIME_BYTES = 8
_TIME_OFFSET = 1 << 63


def rows_of(
    entries: Rdict,
    kinds: Mapping[str, str],
    rows_max: int,
    *,
    only: str | None = None,
    expired_at_ms: Mapping[str, int] | None = None,
    loads: Loads = pickle.loads,
) -> Iterator[StateRows]:
    """All entries, in the order of their key groups. A state comes again with every group.

    `only`: of this state. `expired_at_ms`: by name of a state with a time to live, what was stamped then is left out.
    `loads` reads keys and values.
    """
    parts = ((*split(cast(bytes, entry)), stored) for entry, stored in entries.items())
    for name, found in groupby(parts, key=lambda part: part[1]):
        if only not in (None, name):
            continue
        kind = kinds.get(name, "value")
        every = _entries(name, kind, found, loads)
        deadline_ms = (expired_at_ms or {}).get(name)
        if deadline_ms is not None:
            every = _without_expired(kind, every, deadline_ms)
        yield from in_rows(name, canonical_kind(kind), every, rows_max)


def _entries(
    name: str, kind: str, parts: Iterable[tuple[int, str, bytes, bytes, bytes]], loads: Loads
) -> Iterator[Entry]:
    for group, _, key_data, rest, stored in parts:
        key, namespace = identity_of(kind, stored, key_data, rest, loads)
        yield group, key, namespace, load_value(payload_of(stored), state=name, loads=loads)


def _without_expired(kind: str, entries: Iterable[Entry], expired_at_ms: int) -> Iterator[Entry]:
    for group, key, namespace, stored in entries:
        kept = living(kind, stored, expired_at_ms)
        if kept is not None:
            yield group, key, namespace, kept


def identity_of(kind: str, stored: bytes, key_data: bytes, rest: bytes, loads: Loads = pickle.loads) -> tuple[Any, Any]:
    """Key and namespace of an entry."""
    match kind:
        case "map":
            key, inner = keys_of(stored, key_data, rest, loads=loads)
            return key, inner
        case "timer":
            key, namespace = keys_of(stored, key_data, rest[_TIME_BYTES:], loads=loads)
            return key, (int.from_bytes(rest[:_TIME_BYTES], "big") - _TIME_OFFSET, namespace)
        case _:
            return keys_of(stored, key_data, loads=loads)[0], None


def stored_rows(rows: StateRows) -> Iterator[tuple[bytes, bytes]]:
    """The database's key and value of each row."""
    state = state_prefix(rows.name)
    for group, key, namespace, value in zip(
        rows.groups, rows.keys, rows.namespaces or repeat(None), rows.values, strict=False
    ):
        payload = dump_value(value, state=rows.name, key=key)
        prefix = key_prefix(group, state, key)
        match rows.kind:
            case "map":
                yield prefix + canonical_bytes(namespace), packed(payload, key, namespace)
            case "timer":
                time_ms, inner = namespace
                yield prefix + time_bytes(time_ms) + canonical_bytes(inner), packed(payload, key, inner)
            case _:
                yield prefix, packed(payload, key)


def time_bytes(time_ms: int) -> bytes:
    """In the order of time, also before 1970."""
    return (time_ms + _TIME_OFFSET).to_bytes(_TIME_BYTES, "big")
