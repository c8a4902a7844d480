"""How does an operator update keyed state over a whole batch?

Handles move a cursor for every record. A loop over a batch needs less: the key's group, and the group's dict. A backend
without dicts (state on disk) is seen through the same two lookups.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Protocol

from cutwater.protocol.key_groups import KeyGroups, key_group
from cutwater.state.contract import KeyedBackend
from cutwater.state.values import is_immutable

MISSING: Final[Any] = object()
_MEMO_ENTRIES_MAX = 1 << 18


class GroupValues(Protocol):
    """The values of one key group, by key: a dict, or what looks like one. Values are replaced, never changed."""

    def get(self, key: Any, default: Any, /) -> Any: ...
    def __setitem__(self, key: Any, value: Any, /) -> None: ...


class KeyedValues:
    """One named value per key. Used by the loop's thread only."""

    def __init__(self, backend: KeyedBackend, name: str, *, max_parallelism: int) -> None:
        self._backend = backend
        self._handle = backend.value_state(name)
        table = getattr(backend, "table", None)
        self._is_in_dicts = table is not None
        values_of: Callable[[int], GroupValues]
        if table is not None:
            values_of = table(name).group_dict_for_write
        else:
            through_handle = _ThroughHandle(backend, name)
            values_of = lambda group: through_handle  # noqa: E731
        self._groups = _Groups(values_of)
        #: Key to key group: subscript it.
        self.group_of: dict[Any, int] = _GroupMemo(max_parallelism)

    def groups(self) -> dict[int, GroupValues]:
        """Key group to its values: subscript it. For one batch: a freeze makes it stale."""
        self._groups.clear()
        return self._groups

    def own(self, key: Any, value: Any) -> Any:
        """The key's current value, which was found to be this one, in a form that may be changed in place."""
        if not self._is_in_dicts or is_immutable(value):
            return value
        self._backend.set_current_key(key)
        return self._handle.value()

    def check(self, key: Any) -> None:
        """Raises `KeyTypeError` if this can't be a key."""
        KeyGroups(1).of(key)


class _GroupMemo(dict[Any, int]):
    """A dict, because a subscript is four times as fast as a call."""

    def __init__(self, max_parallelism: int) -> None:
        self._max_parallelism = max_parallelism

    def __missing__(self, key: Any) -> int:
        if len(self) >= _MEMO_ENTRIES_MAX:
            self.clear()
        group = self[key] = key_group(key, self._max_parallelism)
        return group


class _Groups(dict[int, GroupValues]):
    def __init__(self, values_of: Callable[[int], GroupValues]) -> None:
        self._values_of = values_of

    def __missing__(self, group: int) -> GroupValues:
        values = self[group] = self._values_of(group)
        return values


class _ThroughHandle:
    """A backend without dicts, as if it had one."""

    def __init__(self, backend: KeyedBackend, name: str) -> None:
        self._set_current_key = backend.set_current_key
        self._state = backend.value_state(name, MISSING)

    def get(self, key: Any, default: Any, /) -> Any:
        self._set_current_key(key)
        value = self._state.value()
        return default if value is MISSING else value

    def __setitem__(self, key: Any, value: Any, /) -> None:
        self._set_current_key(key)
        self._state.update(value)
