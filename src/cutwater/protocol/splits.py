"""Which task reads which part of a source?

Eager: splits are spread over all subtasks as soon as they are discovered (partitions that never end). Lazy: a subtask
gets one when it asks, so that fast ones read more (files). A split is handed out once; only one that was returned is
handed out again. What a source has found is known by its origin: when a file was found and cut into splits once, no
later look cuts it anew, though it may have grown.
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


Event = SplitsDiscovered | SplitRequested | SplitsReturned
Effect = AssignSplits | NoMoreSplits


class SplitAssigner:
    """One per source, at the coordinator; each attempt begins a new one, from a state or empty."""

    def __init__(self, parallelism: int, eager: bool) -> None:
        assert parallelism >= 1, parallelism
        self._eager = eager
        self._unassigned: deque[Split] = deque()
        self._origins = OriginMemory(KnownOrigins())
        self._complete = False
        self._assigned_count = dict.fromkeys(range(parallelism), 0)
        self._requests: deque[int] = deque()
        self._told: set[int] = set()

    @classmethod
    def restored(cls, state: AssignerState, parallelism: int, eager: bool) -> Self:
        """Goes on from a snapshot; hands out at the next event, `SplitsDiscovered((), …)` if there is no other."""
        assigner = cls(parallelism, eager)
        assigner._unassigned.extend(state.unassigned)
        assigner._origins = OriginMemory(state.known)
        for split in state.unassigned:
            assigner._origins.add(split.known_as)
        assigner._complete = state.complete
        return assigner

    def snapshot(self) -> AssignerState:
        """The state as of now; the same whatever the parallelism."""
        known = KnownOrigins() if self._complete else self._origins.known
        return AssignerState(tuple(self._unassigned), known, self._complete)

    @property
    def known(self) -> KnownOrigins:
        """What the next look need not report."""
        return self._origins.known

    def handle(self, event: Event) -> list[Effect]:
        """What the subtasks must be told, in this order."""
        match event:
            case SplitsDiscovered(splits, complete, gone):
                self._add_new(splits)
                self._complete = self._complete or complete
                if gone is not None:
                    self._origins.missed(gone, needed=(split.known_as for split in self._unassigned))
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
        while self._unassigned:
            subtask = min(self._assigned_count, key=lambda candidate: (self._assigned_count[candidate], candidate))
            self._assigned_count[subtask] += 1
            given.setdefault(subtask, []).append(self._unassigned.popleft())
        return [AssignSplits(subtask, tuple(given[subtask])) for subtask in sorted(given)]

    def _serve(self) -> list[Effect]:
        effects: list[Effect] = []
        while self._unassigned and self._requests:
            subtask = self._requests.popleft()
            self._assigned_count[subtask] += 1
            effects.append(AssignSplits(subtask, (self._unassigned.popleft(),)))
        return effects

    def _tell_the_end(self) -> list[Effect]:
        if not self._complete or self._unassigned:
            return []
        # A lazy subtask hears it as an answer, since it may be asked to read a returned split until then.
        listeners = list(self._assigned_count) if self._eager else list(dict.fromkeys(self._requests))
        self._requests.clear()
        untold = [subtask for subtask in listeners if subtask not in self._told]
        self._told.update(untold)
        return [NoMoreSplits(subtask) for subtask in untold]
