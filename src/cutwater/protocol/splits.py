"""Which task reads which part of a source?

Eager: splits are spread over all subtasks as soon as they are discovered (partitions that never end). Lazy: a subtask
gets one when it asks, so that fast ones read more (files). A split is handed out once; only one that was returned is
handed out again. What a source has found is known by its origin: when a file was found and cut into splits once, no
later look cuts it anew, though it may have grown.

Splits may have an order: a split that names others (`after`) is handed out when none of those is waiting or being read
any more. That follows a stream whose partitions are split and merged.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Set
from dataclasses import dataclass, field
from typing import Self, assert_never

from cutwater.protocol.known_origins import KnownOrigins, OriginMemory


@dataclass(frozen=True, slots=True)
class Split:
    """A part of a source, with the position to start from in a form that only the source understands."""

    id: str
    payload: bytes
    #: What it is a part of; all splits of one origin are found by one look. Empty: the split is all of it.
    origin: str = ""
    #: Ids of splits that must have been read to their end before; one that nobody knows is taken to be over.
    after: tuple[str, ...] = ()

    @property
    def known_as(self) -> str:
        return self.origin or self.id


@dataclass(frozen=True, slots=True)
class SplitsDiscovered:
    """The source found these; those of known origins are ignored. `complete`: it will find no more, ever."""

    splits: tuple[Split, ...]
    complete: bool
    #: Digests of known origins that aren't there any more; None: this look can't tell.
    gone: Set[bytes] | None = None
    #: For the next look.
    state: bytes = b""


@dataclass(frozen=True, slots=True)
class SplitsFinished:
    """These were read to their end. Told only of sources whose splits have an order."""

    splits: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SplitRequested:
    """The subtask has nothing left to read."""

    subtask: int


@dataclass(frozen=True, slots=True)
class SplitsReturned:
    """Readers that are gone, or a snapshot, gave these back, with the positions they had reached."""

    splits: tuple[Split, ...]


@dataclass(frozen=True, slots=True)
class AssignSplits:
    """The subtask reads these from now on."""

    subtask: int
    splits: tuple[Split, ...]


@dataclass(frozen=True, slots=True)
class NoMoreSplits:
    """The subtask ends when it has read what it has; told once."""

    subtask: int


@dataclass(frozen=True, slots=True)
class AssignerState:
    """What a snapshot remembers: splits that were handed out are in their readers' snapshots."""

    unassigned: tuple[Split, ...]
    #: Empty when discovery is complete: nobody looks again.
    known: KnownOrigins = field(default_factory=KnownOrigins)
    complete: bool = False
    #: Of the source's own, from its last look.
    look: bytes = b""


Event = SplitsDiscovered | SplitsFinished | SplitRequested | SplitsReturned
Effect = AssignSplits | NoMoreSplits


class SplitAssigner:
    """One per source, at the coordinator; each attempt begins a new one, from a state or empty."""

    def __init__(self, parallelism: int, eager: bool, *, ordered: bool = False) -> None:
        """`ordered`: splits may name others that come before them."""
        assert parallelism >= 1, parallelism
        self._eager = eager
        self._ordered = ordered
        #: Handed out and not finished, if anybody may wait for that.
        self._reading: set[str] = set()
        self._look = b""
        self._unassigned: deque[Split] = deque()
        self._origins = OriginMemory(KnownOrigins())
        self._complete = False
        self._assigned_count = dict.fromkeys(range(parallelism), 0)
        self._requests: deque[int] = deque()
        self._told: set[int] = set()

    @classmethod
    def restored(
        cls,
        state: AssignerState,
        parallelism: int,
        eager: bool,
        *,
        ordered: bool = False,
        reading: Iterable[str] = (),
    ) -> Self:
        """Goes on from a snapshot; hands out at the next event, `SplitsDiscovered((), …)` if there is no other.

        `reading`: the splits that the readers' own snapshots hold. The assigner's state is a little older than those.
        """
        assigner = cls(parallelism, eager, ordered=ordered)
        assigner._reading.update(reading)
        assigner._look = state.look
        assigner._unassigned.extend(state.unassigned)
        assigner._origins = OriginMemory(state.known)
        for split in state.unassigned:
            assigner._origins.add(split.known_as)
        assigner._complete = state.complete
        return assigner

    def snapshot(self) -> AssignerState:
        """The state as of now; the same whatever the parallelism."""
        known = KnownOrigins() if self._complete else self._origins.known
        return AssignerState(tuple(self._unassigned), known, self._complete, self._look)

    @property
    def look(self) -> bytes:
        """What the last look left for the next one."""
        return self._look

    @property
    def known(self) -> KnownOrigins:
        """What the next look need not report."""
        return self._origins.known

    def handle(self, event: Event) -> list[Effect]:
        """What the subtasks must be told, in this order."""
        match event:
            case SplitsDiscovered(splits, complete, gone, look):
                self._add_new(splits)
                self._look = look or self._look
                self._complete = self._complete or complete
                if gone is not None:
                    self._origins.missed(gone, needed=(split.known_as for split in self._unassigned))
            case SplitsFinished(finished):
                self._reading.difference_update(finished)
            case SplitRequested(subtask):
                assert subtask in self._assigned_count, subtask
                self._requests.append(subtask)
            case SplitsReturned(splits):
                self._take_back(splits)
            case _:
                assert_never(event)
        return (self._spread() if self._eager else self._serve()) + self._tell_the_end()

    def _add_new(self, splits: Iterable[Split]) -> None:
        new: set[str] = set()
        for split in {split.id: split for split in splits}.values():
            if split.known_as in new or self._origins.add(split.known_as):
                new.add(split.known_as)
                self._unassigned.append(split)

    def _take_back(self, splits: Iterable[Split]) -> None:
        waiting = {split.id for split in self._unassigned}
        back = [split for split in splits if split.id not in waiting]
        for split in back:
            self._origins.add(split.known_as)
        # First, because they are the oldest: event time waits for them.
        self._unassigned.extendleft(reversed(back))

    def _spread(self) -> list[Effect]:
        given: dict[int, list[Split]] = {}
        while (split := self._take_next()) is not None:
            subtask = min(self._assigned_count, key=lambda candidate: (self._assigned_count[candidate], candidate))
            self._assigned_count[subtask] += 1
            given.setdefault(subtask, []).append(split)
        return [AssignSplits(subtask, tuple(given[subtask])) for subtask in sorted(given)]

    def _serve(self) -> list[Effect]:
        effects: list[Effect] = []
        while self._requests and (split := self._take_next()) is not None:
            subtask = self._requests.popleft()
            self._assigned_count[subtask] += 1
            effects.append(AssignSplits(subtask, (split,)))
        return effects

    def _take_next(self) -> Split | None:
        """The oldest that may be read now."""
        if not self._ordered:
            return self._unassigned.popleft() if self._unassigned else None
        unread = self._reading | {split.id for split in self._unassigned}
        for index, split in enumerate(self._unassigned):
            if unread.isdisjoint(split.after):
                del self._unassigned[index]
                self._reading.add(split.id)
                return split
        return None

    def _tell_the_end(self) -> list[Effect]:
        if not self._complete or self._unassigned:
            return []
        # A lazy subtask hears it as an answer, since it may be asked to read a returned split until then.
        listeners = list(self._assigned_count) if self._eager else list(dict.fromkeys(self._requests))
        self._requests.clear()
        untold = [subtask for subtask in listeners if subtask not in self._told]
        self._told.update(untold)
        return [NoMoreSplits(subtask) for subtask in untold]
