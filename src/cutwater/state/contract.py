"""What does the runtime ask of a state backend?

A backend belongs to one operator of one task. `freeze` is the short synchronous part of a snapshot: what it returns
never changes, however the state goes on. Turning it into bytes is the asynchronous part, on a background thread.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa

from cutwater.canonical import StateKind, StateRows
from cutwater.errors import ConfigurationError
from cutwater.protocol.ids import CheckpointId
from cutwater.protocol.timers import Timer
from cutwater.state.sharing import UNWATCHED, Sharing

if TYPE_CHECKING:
    # With defaults: a state without a declared type is one of Any.
    from typing_extensions import TypeVar

    V = TypeVar("V", default=Any)
    MapKey = TypeVar("MapKey", default=Any)
else:
    from typing import TypeVar

    V = TypeVar("V")
    MapKey = TypeVar("MapKey")

_NO_KEY: Any = object()

StoredFile = Any
"""What the storage knows a file by. Opaque to a backend, which only tells apart its own files."""


class FrozenFiles(Protocol):
    """A database as it was at a barrier: files that never change, most of them those of the last snapshot."""

    @property
    def groups(self) -> range:
        """The key groups whose state is in them."""
        ...

    @property
    def stored(self) -> Mapping[str, StoredFile]:
        """Files that a completed checkpoint has brought to the storage, by name."""
        ...

    def files(self) -> dict[str, str]:
        """Name to local path of everything that a restore needs. On a background thread."""
        ...

    def written(self, checkpoint: CheckpointId, files: Mapping[str, StoredFile]) -> None:
        """All files are on the storage now."""
        ...

    def discard(self) -> None:
        """The local files are needed no more."""
        ...


class RestoredDatabase(Protocol):
    """A database of a snapshot, and the key groups it holds."""

    @property
    def groups(self) -> range: ...

    @property
    def stored(self) -> Mapping[str, StoredFile]:
        """Its files on the storage that later snapshots of this job may refer to; none if they are someone else's."""
        ...

    def fetch(self, folder: str) -> None:
        """Brings its files here, checked. May block."""
        ...


@dataclass(frozen=True, slots=True)
class RestoredState:
    """The keyed state of one operator in a snapshot, as far as a task needs it; each part may be empty."""

    #: (state name, key group, bytes): of this task's groups only.
    chunks: Iterable[tuple[str, int, bytes]] = ()
    #: With some of this task's groups.
    databases: Sequence[RestoredDatabase] = ()
    #: Rows of a savepoint: of this task's groups only.
    rows: Iterable[StateRows] = ()
    kinds: Mapping[str, str] = field(default_factory=dict)


class LocalFolders(Protocol):
    """Room on the local disk of a slot."""

    def new_folder(self, purpose: str) -> str:
        """An empty folder that nobody else uses."""
        ...


class FrozenKeyedState(Protocol):
    """Keyed state as it was at a barrier: chunks of bytes, or the files of a database."""

    @property
    def database(self) -> FrozenFiles | None: ...

    @property
    def kinds(self) -> Mapping[str, str]:
        """What each state of chunks or database is, by name: whoever restores it needs to know."""
        ...

    def tables(self, rows_max: int) -> Iterator[tuple[str, StateKind, pa.RecordBatch]]:
        """(state name, kind, rows) in the form of savepoints, in place of `chunks`. On a background thread, once."""
        ...

    def chunks(self) -> Iterator[tuple[str, int, bytes]]:
        """(state name, key group, bytes), ordered by name and group. On a background thread, once."""
        ...


class ValueState(Protocol[V]):
    """One value for the current key."""

    def value(self) -> V:
        """That of the key; the default if it has none."""
        ...

    def update(self, value: V) -> None:
        """Replaces it."""
        ...

    def clear(self) -> None:
        """Forgets it: `value` is the default again."""
        ...


class ListState(Protocol[V]):
    """A list for the current key."""

    def get(self) -> list[V]:
        """All items; empty if there is none."""
        ...

    def add(self, value: V) -> None:
        """Appends one."""
        ...

    def update(self, values: Iterable[V]) -> None:
        """Replaces them all."""
        ...

    def clear(self) -> None:
        """Forgets them."""
        ...


class MapState(Protocol[MapKey, V]):
    """A mapping for the current key."""

    def get(self, key: MapKey, default: Any = None) -> Any:
        """The entry's value, or the default."""
        ...

    def put(self, key: MapKey, value: V) -> None:
        """Adds or replaces an entry."""
        ...

    def remove(self, key: MapKey) -> None:
        """An entry that isn't there is no error."""
        ...

    def items(self) -> list[tuple[MapKey, V]]:
        """All entries."""
        ...

    def __contains__(self, key: MapKey) -> bool: ...

    def clear(self) -> None:
        """Forgets all entries."""
        ...


class ReducingState(Protocol[V]):
    """One value for the current key, folded from all added ones."""

    def get(self) -> V | None:
        """None: nothing was added yet."""
        ...

    def add(self, value: V) -> None: ...
    def clear(self) -> None: ...


class AggregatingState(Protocol):
    """An accumulator for the current key; `get` returns its result."""

    def get(self) -> Any:
        """None: nothing was added yet."""
        ...

    def add(self, value: Any) -> None: ...
    def clear(self) -> None: ...


class TimerState(Protocol):
    """Wake-up calls of one notion of time. A timer is its time, key and namespace: registered twice, it fires once.

    Keyed state: what is registered is in the snapshots, and moves with its key group. To fire timers in order while
    they may register others, take them time by time: `due(next_time())` until `next_time()` is beyond the clock.
    """

    def register(self, time_ms: int, namespace: Any = None) -> bool:
        """For the current key; True if the timer is new. The namespace must be hashable, and be kept unchanged."""
        ...

    def delete(self, time_ms: int, namespace: Any = None) -> bool:
        """Of the current key; True if the timer was there."""
        ...

    def due(self, upto_ms: int) -> list[Timer]:
        """Takes out the timers of all keys at or before this time: by time, then in the order of registration."""
        ...

    def next_time(self) -> int | None:
        """The time of the earliest timer of all keys. Quick."""
        ...


class Aggregate(Protocol):
    """How an aggregate grows: PyFlink's AggregateFunction."""

    def create_accumulator(self) -> Any: ...
    def add(self, value: Any, accumulator: Any) -> Any: ...
    def get_result(self, accumulator: Any) -> Any: ...
    def merge(self, accumulator: Any, other: Any) -> Any: ...


@dataclass(frozen=True, slots=True)
class KeyedBackendSettings:
    """Which part of the key space this task owns, and what it may use."""

    max_parallelism: int
    groups: range
    #: For backends that keep state on disk.
    local: LocalFolders | None = None
    #: For all backends of the slot together that keep state on disk.
    memory_bytes: int = 0


class KeyedBackend(ABC):
    """The keyed state of one operator of one task. Used by the loop's thread only."""

    #: By name of a state with a time to live: what was stamped at that time, or before, need not be in a snapshot.
    expired_at_ms: Callable[[], Mapping[str, int]] = dict

    @abstractmethod
    def set_current_key(self, key: Any) -> None:
        """All handles now speak of this key."""

    @property
    @abstractmethod
    def current_key(self) -> Any: ...

    @abstractmethod
    def value_state(self, name: str, default: Any = None, *, sharing: Sharing = UNWATCHED) -> ValueState:
        """`sharing`, here and below, is told of every value that comes in."""

    @abstractmethod
    def list_state(self, name: str, *, sharing: Sharing = UNWATCHED) -> ListState: ...

    @abstractmethod
    def map_state(self, name: str, *, sharing: Sharing = UNWATCHED) -> MapState: ...

    @abstractmethod
    def reducing_state(
        self, name: str, reduce: Callable[[Any, Any], Any], *, sharing: Sharing = UNWATCHED
    ) -> ReducingState: ...

    @abstractmethod
    def aggregating_state(
        self, name: str, aggregate: Aggregate, *, sharing: Sharing = UNWATCHED
    ) -> AggregatingState: ...

    @abstractmethod
    def timer_state(self, name: str) -> TimerState:
        """The timers of this name: the same object at every call, restored ones are in it."""

    @abstractmethod
    def keys(self, name: str) -> Iterator[Any]:
        """Every key that has state of this name here."""

    def is_plain(self, name: str) -> bool:
        """Nothing that can be changed in place is among the values of this name, as far as can be told quickly."""
        return next(self.keys(name), _NO_KEY) is _NO_KEY

    @abstractmethod
    def freeze(self) -> FrozenKeyedState:
        """The state as it is now. Must be quick: the stream waits for it."""

    @abstractmethod
    def restore(self, restored: RestoredState) -> None:
        """Loads the state of an earlier snapshot. Before any use; may block.

        Raises `ConfigurationError` for what another backend has written, unless it is in the form of savepoints.
        """

    def checkpoint_completed(self, checkpoint: CheckpointId) -> None:
        """What was frozen for this checkpoint is durable and stays so until a later one completes."""

    @abstractmethod
    def size(self) -> int:
        """How many (key, name) entries there are."""

    def close(self) -> None:
        """Releases what the backend holds."""


def written_by_another_backend(wrote: str, reads: Sequence[str]) -> ConfigurationError:
    """Their snapshots are not alike; savepoints are."""
    return ConfigurationError(
        f'the snapshot was written by the state backend "{wrote}"',
        detail=f"the job has {' or '.join(reads)}, which can't read it",
        hint="restore from a savepoint to change the backend: its form is the same for all",
    )
