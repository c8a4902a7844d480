"""How do the dicts of the heap become rows of a savepoint, and rows become dicts again?

kind                                dict of a key group               row: key, namespace, value
value, list, reducing, aggregating  key → value                       key, –, value
map                                 key → {key in the map → value}    key, key in the map, value
pane                                (key, window) → value             key, window, value      (kind: map)
timer                               (time, key, namespace) → number   key, (time, namespace), number
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, cast

from cutwater.canonical import StateKind, StateRows
from cutwater.protocol.timers import Timer
from cutwater.state.values import Pair

#: One dict entry per window of a key; on other backends, and in savepoints, a map per key.
PANE = "pane"
WITH_NAMESPACE = frozenset({"map", "timer"})

Entry = tuple[int, Any, Any, Any]
"""Key group, key, namespace, value."""


def canonical_kind(kind: str) -> StateKind:
    return cast(StateKind, "map" if kind == PANE else kind)


def entries_of(kind: str, pairs: Iterable[Pair]) -> Iterator[tuple[Any, Any, Any]]:
    """(key, namespace, value) of each row that these pairs of a dict stand for."""
    match kind:
        case "map":
            for key, mapping in pairs:
                for inner, value in mapping.items():
                    yield key, inner, value
        case "pane":
            for (key, window), value in pairs:
                yield key, window, value
        case "timer":
            for (time_ms, key, namespace), number in pairs:
                yield key, (time_ms, namespace), number
        case _:
            for key, value in pairs:
                yield key, None, value


def in_rows(name: str, kind: StateKind, entries: Iterable[Entry], rows_max: int) -> Iterator[StateRows]:
    """The entries in portions."""
    rest = iter(entries)
    while portion := list(islice(rest, rows_max)):
        groups, keys, namespaces, values = map(list, zip(*portion, strict=True))
        yield StateRows(name, kind, groups, keys, namespaces if kind in WITH_NAMESPACE else None, values)


def put_row(entries: dict[Any, Any], kind: str, key: Any, namespace: Any, value: Any) -> None:
    """Into the dict of the row's key group."""
    match kind:
        case "map":
            entries.setdefault(key, {})[namespace] = value
        case "pane":
            entries[key, namespace] = value
        case "timer":
            time_ms, inner = namespace
            entries[Timer(time_ms, key, inner)] = value
        case _:
            entries[key] = value
