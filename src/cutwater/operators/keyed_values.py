"""How does an operator update keyed state over a whole batch?

Handles move a cursor for every record. A loop over a batch needs less: the key's group, and the group's dict. A backend
without dicts (state on disk) is seen through the same two lookups.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from functools import partial
from typing import Any, Final, Protocol

from cutwater.operators.contract import OperatorContext
from cutwater.protocol.key_groups import KeyGroups, group_range, key_group
from cutwater.state.contract import KeyedBackend

_MEMO_ENTRIES_MAX = 1 << 20


class _Missing(Enum):
    """A member, because a backend may copy a default: a copied member is still the same one."""

    MISSING = 0


MISSING: Final[Any] = _Missing.MISSING


class GroupValues(Protocol):
    """The values of one key group, by key: a dict, or what looks like one. Values are replaced, never changed."""

    def get(self, key: Any, default: Any, /) -> Any: ...
    def __setitem__(self, key: Any, value: Any, /) -> None: ...


class KeyedValues:
    """One named value per key. Used by the loop's thread only."""

    def __init__(self, backend: KeyedBackend, name: str, context: OperatorContext) -> None:
        open_table = getattr(backend, "table", None)
        values_of: Callable[[int], GroupValues]
        #: Of (key group - first group, key, value found): the value in a form that may be changed in place.
        self.own: Callable[[int, Any, Any], Any]
        if open_table is not None:
            table = open_table(name)
            values_of, self.own = table.group_dict_for_write, table.own
        else:
            through_handle = _ThroughHandle(backend, name)
            values_of, self.own = (lambda group: through_handle), _is_our_own
        self._groups = _Groups(values_of)
        self._keys = partial(backend.keys, name)
        #: The first key group of this task.
        self.first_group = group_range(context.subtask, context.parallelism, context.max_parallelism).start
        #: Key to key group: subscript it.
        self.group_of: dict[Any, int] = _GroupMemo(context.max_parallelism)

    def groups(self) -> dict[int, GroupValues]:
        """Key group to its values: subscript it. For one batch: a freeze makes it stale."""
        self._groups.clear()
        return self._groups

    def is_empty(self) -> bool:
        return next(self._keys(), MISSING) is MISSING

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


def _is_our_own(index: int, key: Any, value: Any) -> Any:
    return value


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
