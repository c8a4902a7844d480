"""Where do the records of a key wait for their partners?

In one changeable buffer per key, which is keyed state: it is frozen, restored and moved with its key group. A buffer
may hold thousands of records, so a snapshot must not make the stream copy them one by one. The records themselves never
change; a buffer is a few lists, and copying these when the key is first touched behind a barrier is enough.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from cutwater.protocol.key_groups import KeyGroups
from cutwater.state.contract import KeyedBackend
from cutwater.state.tables import KeyGroupTable


class KeyedBuffers(Protocol):
    """One buffer per key. Used by the loop's thread only; never blocks for long."""

    def get(self, key: Any) -> Any:
        """The key's buffer, to be changed in place until the next `flush`; None: it has none."""
        ...

    def put(self, key: Any, buffer: Any) -> None: ...

    def remove(self, key: Any) -> None: ...

    def flush(self) -> None:
        """After every batch and watermark: what was changed in place is to last."""
        ...

    def frozen(self) -> None:
        """The backend was frozen: the buffers as they are now belong to the snapshot."""
        ...


def open_buffers(backend: KeyedBackend, name: str, *, max_parallelism: int, copy: Callable[[Any], Any]) -> KeyedBuffers:
    """The buffers of this name; `copy` makes a buffer that can be changed without changing the one it was made of."""
    open_table = getattr(backend, "table", None)
    if open_table is None:
        return _BehindHandle(backend, name)
    backend.value_state(name)  # so that nobody else takes the name for another kind of state
    return _InTable(open_table(name), max_parallelism, copy)


class _GroupDicts(dict[int, dict[Any, Any]]):
    """Key group to its dict: a subscript is faster than a call."""

    def __init__(self, table: KeyGroupTable) -> None:
        self._table = table

    def __missing__(self, group: int) -> dict[Any, Any]:
        found = self[group] = self._table.group_dict_for_write(group)
        return found


class _InTable:
    """Buffers that are objects of this process."""

    def __init__(self, table: KeyGroupTable, max_parallelism: int, copy: Callable[[Any], Any]) -> None:
        self._group_of = KeyGroups(max_parallelism).of
        self._dicts = _GroupDicts(table)
        self._copy = copy
        self._was_frozen = False
        #: Buffers of the table that no snapshot shares; one that isn't here was not touched since the last one.
        self._ours: dict[Any, Any] = {}

    def get(self, key: Any) -> Any:
        try:
            buffer = self._ours.get(key)
        except TypeError:  # it can't be hashed; what can be a key is for key groups to say
            buffer = None
        return self._taken_over(key) if buffer is None else buffer

    def put(self, key: Any, buffer: Any) -> None:
        self._dicts[self._group_of(key)][key] = buffer
        self._ours[key] = buffer

    def remove(self, key: Any) -> None:
        self._dicts[self._group_of(key)].pop(key, None)
        self._ours.pop(key, None)

    def flush(self) -> None:
        """They lie in the table already."""

    def frozen(self) -> None:
        self._dicts.clear()
        self._ours.clear()
        self._was_frozen = True

    def _taken_over(self, key: Any) -> Any:
        buffers = self._dicts[self._group_of(key)]
        buffer = buffers.get(key)
        if buffer is None:
            return None
        if self._was_frozen:
            buffer = buffers[key] = self._copy(buffer)
        self._ours[key] = buffer
        return buffer


class _BehindHandle:
    """Buffers that a backend keeps as bytes: each is read and written once per batch."""

    def __init__(self, backend: KeyedBackend, name: str) -> None:
        self._set_current_key = backend.set_current_key
        self._state = backend.value_state(name)
        self._read: dict[Any, Any] = {}

    def get(self, key: Any) -> Any:
        if key not in self._read:
            self._set_current_key(key)
            self._read[key] = self._state.value()
        return self._read[key]

    def put(self, key: Any, buffer: Any) -> None:
        self._read[key] = buffer

    def remove(self, key: Any) -> None:
        self._read[key] = None

    def flush(self) -> None:
        for key, buffer in self._read.items():
            self._set_current_key(key)
            if buffer is None:
                self._state.clear()
            else:
                self._state.update(buffer)
        self._read.clear()

    def frozen(self) -> None:
        """A backend of bytes shares nothing."""
