"""Where does the state of one window of one key lie?

Under the pair of them, in the group of the key. A backend without dicts is seen through a map per key.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from cutwater.operators.contract import OperatorContext
from cutwater.protocol.key_groups import KeyGroups
from cutwater.state.contract import KeyedBackend
from cutwater.state.heap_rows import PANE

Pane = tuple[Any, Any]
"""Key, and what tells apart the windows of the key."""


class PaneValues(Protocol):
    """The values of one key group by pane: a dict, or what looks like one. Values are replaced, never changed."""

    def get(self, pane: Pane, default: Any, /) -> Any: ...
    def __setitem__(self, pane: Pane, value: Any, /) -> None: ...
    def pop(self, pane: Pane, default: Any, /) -> Any: ...


class Panes:
    """One named value per pane. Used by the loop's thread only; never blocks."""

    def __init__(self, backend: KeyedBackend, name: str, context: OperatorContext) -> None:
        self._group_of = KeyGroups(context.max_parallelism).of
        self._first = context.groups.start
        open_table = getattr(backend, "table", None)
        self._values_of: Callable[[int], PaneValues]
        self._own: Callable[[int, Pane, Any], Any] | None = None
        if open_table is not None:
            table = open_table(name, PANE)
            self._values_of, self._own = table.group_dict_for_write, table.own
        else:
            through_map = _ThroughMap(backend, name)
            self._values_of = lambda group: through_map
        self._groups: dict[int, PaneValues] = {}

    def begin(self) -> None:
        """Before each use by the operator: what was handed out before a freeze is stale."""
        self._groups.clear()

    def of(self, key: Any) -> PaneValues:
        """Where the panes of this key are, until the next freeze; raises `KeyTypeError` if it can't be a key."""
        group = self._group_of(key)
        values = self._groups.get(group)
        if values is None:
            values = self._groups[group] = self._values_of(group)
        return values

    def own(self, pane: Pane, value: Any) -> Any:
        """This value of this pane in a form that may be changed in place."""
        return value if self._own is None else self._own(self._group_of(pane[0]) - self._first, pane, value)


class _ThroughMap:
    """A backend without dicts, as if it had one."""

    def __init__(self, backend: KeyedBackend, name: str) -> None:
        self._set_current_key = backend.set_current_key
        self._map = backend.map_state(name)

    def get(self, pane: Pane, default: Any, /) -> Any:
        self._set_current_key(pane[0])
        return self._map.get(pane[1], default)

    def __setitem__(self, pane: Pane, value: Any, /) -> None:
        self._set_current_key(pane[0])
        self._map.put(pane[1], value)

    def pop(self, pane: Pane, default: Any, /) -> Any:
        value = self.get(pane, default)
        self._map.remove(pane[1])
        return value
