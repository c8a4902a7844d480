"""Who reads which split, as the coordinator sees it?

One `SourceCoordination` per source operator: it looks for splits in the background, hands them out through the pure
`SplitAssigner`, and gives its state to every checkpoint.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import assert_never

import msgspec

from cutwater.connectors.contract import Discovery, Source
from cutwater.protocol.ids import AttemptNumber
from cutwater.protocol.known_origins import KnownOrigins
from cutwater.protocol.splits import (
    AssignerState,
    AssignSplits,
    Effect,
    NoMoreSplits,
    Split,
    SplitAssigner,
    SplitRequested,
    SplitsDiscovered,
    SplitsFinished,
)
from cutwater.runtime.messages import SplitsAssigned
from cutwater.runtime.seams import Background, Clock

Send = Callable[[int, SplitsAssigned], None]


class SourceCoordination:
    """The splits of one source in one attempt."""

    def __init__(
        self,
        operator: str,
        source: Source,
        *,
        parallelism: int,
        attempt: AttemptNumber,
        state: bytes | None,
        send: Send,
        background: Background,
        clock: Clock,
        failed: Callable[[BaseException], None],
        keeps_assigned: bool = False,
        reading: Iterable[str] = (),
    ) -> None:
        """`reading`: the splits in the readers' snapshots, if the source's splits have an order."""
        self.operator = operator
        self.source = source
        self._parallelism = parallelism
        self._attempt = attempt
        self._send = send
        self._background = background
        self._clock = clock
        self._failed = failed
        self._assigner = (
            SplitAssigner(parallelism, source.eager, ordered=source.has_successors)
            if state is None
            else SplitAssigner.restored(
                decode_assigner(state), parallelism, source.eager, ordered=source.has_successors, reading=reading
            )
        )
        self._complete = state is not None and decode_assigner(state).complete
        #: Every split handed out in this attempt, in order, if somebody needs that: there may be millions.
        self.assigned: list[Split] = []
        self._keeps_assigned = keeps_assigned
        #: Tasks that were told nothing yet in this attempt.
        self._unheard = set(range(parallelism))
        self._stopped = False
        self._look_at_seconds: float | None = None

    def start(self) -> None:
        """Hands out what a snapshot left, then looks for more."""
        self._execute(self._assigner.handle(SplitsDiscovered((), complete=False)))
        if not self._complete:
            self._look()

    def stop(self) -> None:
        self._stopped = True
        self._look_at_seconds = None

    def requested(self, subtask: int) -> None:
        self._execute(self._assigner.handle(SplitRequested(subtask)))

    def finished(self, splits: tuple[str, ...]) -> None:
        self._execute(self._assigner.handle(SplitsFinished(splits)))

    def assigner_state(self) -> AssignerState:
        return self._assigner.snapshot()

    def snapshot(self) -> bytes:
        return encode_assigner(self.assigner_state())

    def wake_at(self) -> float | None:
        return self._look_at_seconds

    def tick(self, now_seconds: float) -> None:
        if self._look_at_seconds is not None and now_seconds >= self._look_at_seconds:
            self._look()

    def _look(self) -> None:
        self._look_at_seconds = None
        known, state = self._assigner.known, self._assigner.look
        self._background.submit(lambda: self.source.discover_new(self._parallelism, known, state), self._found)

    def _found(self, discovery: Discovery | None, error: BaseException | None) -> None:
        if self._stopped:
            return
        if error is not None or discovery is None:
            self._failed(error or AssertionError("discovery returned nothing"))
            return
        self._complete = discovery.complete
        found = SplitsDiscovered(discovery.splits, discovery.complete, discovery.gone, discovery.state)
        self._execute(self._assigner.handle(found))
        self._tell_the_rest()
        if not discovery.complete:
            self._look_at_seconds = self._clock.now_seconds() + self.source.discovery_interval_seconds

    def _tell_the_rest(self) -> None:
        """Who got nothing hears that, once: event time need not wait for it."""
        for subtask in sorted(self._unheard):
            self._send(subtask, SplitsAssigned(self._attempt, self.operator, subtask, ()))
        self._unheard.clear()

    def _execute(self, effects: list[Effect]) -> None:
        for effect in effects:
            self._unheard.discard(effect.subtask)
            match effect:
                case AssignSplits(subtask, splits):
                    if self._keeps_assigned:
                        self.assigned.extend(splits)
                    pairs = tuple((split.id, split.payload) for split in splits)
                    self._send(subtask, SplitsAssigned(self._attempt, self.operator, subtask, pairs))
                case NoMoreSplits(subtask):
                    self._send(subtask, SplitsAssigned(self._attempt, self.operator, subtask, (), no_more=True))
                case _:
                    assert_never(effect)


class _Unassigned(msgspec.Struct, frozen=True, array_like=True):
    id: str
    payload: bytes
    origin: str = ""
    after: tuple[str, ...] = ()


class _Assigner(msgspec.Struct, frozen=True, array_like=True):
    unassigned: tuple[_Unassigned, ...]
    known: bytes | tuple[str, ...]
    """Digests of origins; in snapshots of earlier versions the ids of splits."""
    complete: bool
    look: bytes = b""


def encode_assigner(state: AssignerState) -> bytes:
    unassigned = tuple(_Unassigned(split.id, split.payload, split.origin, split.after) for split in state.unassigned)
    return msgspec.msgpack.encode(_Assigner(unassigned, state.known.packed(), state.complete, state.look))


def decode_assigner(data: bytes) -> AssignerState:
    state = msgspec.msgpack.decode(data, type=_Assigner)
    unassigned = tuple(Split(split.id, split.payload, split.origin, split.after) for split in state.unassigned)
    if isinstance(state.known, bytes):
        return AssignerState(unassigned, KnownOrigins.unpacked(state.known), state.complete, state.look)
    # A split of a file was called path#start, and its origin is the path.
    origins = {origin for split in state.known for origin in (split, split.rpartition("#")[0] or split)}
    return AssignerState(unassigned, KnownOrigins.of(sorted(origins)), state.complete)
