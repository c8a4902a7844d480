"""How does a task read its splits, and from where after a failure?

Splits of an eager source are all open and polled in turn; those of a lazy one are read one after the other, and the
task asks for the next. A snapshot holds every split that isn't finished, with its position.

With event time, every split has a clock of its own, and a snapshot knows how far it had come.

At most once: a batch leaves only after the coordinator has confirmed the positions behind it, so that no restart can
read it again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from cutwater.batches import Batch
from cutwater.connectors.contract import Source, SplitReader
from cutwater.operators.contract import FrozenList, OperatorContext, OperatorSnapshot, SourceOperator
from cutwater.operators.event_time import EventTime, TimestampSelector
from cutwater.operators.user_code import raise_connector_error
from cutwater.protocol.event_time import WatermarkStrategy
from cutwater.protocol.ids import CheckpointId
from cutwater.protocol.splits import Split

READERS_STATE = "readers"
OBJECTS_PER_BATCH = 1024
ROWS_PER_BATCH = 65536
UNCONFIRMED_BATCHES_MAX = 4
#: Between two polls of a reader that has nothing and can't say when it will.
ASK_AGAIN_SECONDS = 0.005


class SplitPosition(msgspec.Struct, frozen=True, array_like=True):
    """A split that isn't finished, in a snapshot. `position` None: its beginning."""

    id: str
    payload: bytes
    position: Any = None
    watermark_ms: int | None = None


_encode = msgspec.msgpack.Encoder().encode
decode_position = msgspec.msgpack.Decoder(SplitPosition).decode
#: What `take_progress` returns: the items of READERS_STATE, and the ids of the splits finished since the last one.
decode_progress = msgspec.msgpack.Decoder(tuple[list[bytes], list[str]]).decode


@dataclass(slots=True)
class _OpenSplit:
    split: Split
    reader: SplitReader


@dataclass(frozen=True, slots=True)
class _HeldBatch:
    """A batch that waits for its confirmation, and where its split stood before it."""

    sequence: int
    batch: Batch
    split_id: str
    position_before: bytes


class ReaderOperator(SourceOperator):
    """Reads the splits that the coordinator assigns to this task."""

    def __init__(
        self,
        source: Source,
        at_most_once: bool = False,
        timestamps: tuple[TimestampSelector, WatermarkStrategy] | None = None,
        limit: int | None = None,
    ) -> None:
        self._source = source
        self._timestamps = timestamps
        self._event_time: EventTime | None = None
        self._limit_ms: int | None = None
        self._at_most_once = at_most_once
        self._limit = limit or (OBJECTS_PER_BATCH if source.schema is None else ROWS_PER_BATCH)
        self._waiting: deque[SplitPosition] = deque()
        self._open: deque[_OpenSplit] = deque()
        self._asked = False
        self._no_more = False
        self._stopped = False
        self._held: deque[_HeldBatch] = deque()
        self._sequence = 0
        self._confirmed = 0
        self._finished: list[str] = []
        self._progress: deque[tuple[int, bytes]] = deque()

    def open(self, context: OperatorContext) -> None:
        super().open(context)
        if self._timestamps is not None:
            self._event_time = EventTime(*self._timestamps, context)
        self._waiting.extend(map(decode_position, context.restored_lists.get(READERS_STATE, [])))

    def poll(self) -> bool:
        """Also at most once: True when a batch was read or emitted; a confirmation makes the next call worthwhile."""
        if self._at_most_once:
            return self._poll_held()
        found = self._read()
        if found is not None:
            self.context.emit(found[0])
        if self._event_time is not None:
            self._event_time.tell(now=found is None)
        return found is not None

    @property
    def finished(self) -> bool:
        if self._held:
            return False
        return self._stopped or (self._no_more and not self._waiting and not self._open)

    @property
    def stopped(self) -> bool:
        return self._stopped

    def limit_time(self, timestamp_ms: int | None) -> None:
        self._limit_ms = timestamp_ms

    def stop(self) -> None:
        self._stopped = True

    def wants_split(self) -> bool:
        # Eager sources don't ask: what there is comes unasked.
        has_enough = self._waiting or self._open or self._no_more or self._stopped
        wanted = not (self._source.eager or self._asked or has_enough)
        self._asked = self._asked or wanted
        return wanted

    def add_splits(self, splits: Sequence[Split]) -> None:
        self._waiting.extend(SplitPosition(split.id, split.payload) for split in splits)
        self._asked = False

    def no_more_splits(self) -> None:
        self._no_more = True

    def wake_at(self) -> float | None:
        """When `poll` may find something; None: not before a split or a confirmation comes."""
        now_seconds = self.context.now_seconds()
        if self._held and self._held[0].sequence <= self._confirmed:
            return now_seconds
        if self._stopped or len(self._held) == UNCONFIRMED_BATCHES_MAX:
            return None
        if self._waiting and (self._source.eager or not self._open):
            return now_seconds
        times = (opened.reader.wake_at() for opened in self._open)
        # A reader without a time doesn't know; it is asked again soon.
        polled = min((now_seconds + ASK_AGAIN_SECONDS if time is None else time for time in times), default=None)
        silent = None if self._event_time is None else self._event_time.clocks.next_look_seconds()
        return polled if silent is None else silent if polled is None else min(polled, silent)

    def take_progress(self) -> tuple[int, bytes] | None:
        """At most once: positions that the coordinator must confirm, oldest first, each returned once."""
        return self._progress.popleft() if self._progress else None

    def confirm(self, sequence: int) -> None:
        """At most once: everything up to this sequence may leave. `poll` emits it, since it respects backpressure."""
        self._confirmed = max(self._confirmed, sequence)

    def freeze(self, checkpoint: CheckpointId) -> OperatorSnapshot:
        positions = self._positions()
        # A held batch has not left: as far as the snapshot knows it was never read. Oldest last, so that it wins.
        for held in reversed(self._held):
            positions[held.split_id] = held.position_before
        return OperatorSnapshot(lists=(FrozenList(READERS_STATE, tuple(positions.values())),))

    def close(self) -> None:
        while self._open:
            self._open.popleft().reader.close()

    def _poll_held(self) -> bool:
        emitted = bool(self._held) and self._held[0].sequence <= self._confirmed
        if emitted:
            self.context.emit(self._held.popleft().batch)
            if self._event_time is not None:
                self._event_time.tell(now=not self._held)
        return self._hold_next() or emitted

    def _hold_next(self) -> bool:
        if len(self._held) == UNCONFIRMED_BATCHES_MAX:
            return False
        found = self._read()
        if found is None:
            return False
        batch, split_id, position_before = found
        self._sequence += 1
        self._held.append(_HeldBatch(self._sequence, batch, split_id, position_before))
        self._progress.append((self._sequence, _encode((list(self._positions().values()), self._finished))))
        self._finished.clear()
        return True

    def _read(self) -> tuple[Batch, str, bytes] | None:
        """The next batch, its split, and (at most once) where the split stood before. Asks each reader once."""
        if self._stopped:
            return None
        now_seconds = self.context.now_seconds()
        self._open_waiting()
        unasked = len(self._open)
        while unasked:
            unasked -= 1
            current = self._open[0]
            if self._event_time is not None and not self._event_time.may_read(current.split.id, self._limit_ms):
                self._open.rotate(-1)
                continue
            before = self._position_of(current) if self._at_most_once else b""
            batch = self._read_from(current, now_seconds)
            if current.reader.finished:
                self._open.popleft()
                current.reader.close()
                self._note_finished(current.split.id)
                if self._event_time is not None:
                    self._event_time.finished(current.split.id)
                unasked += self._open_waiting()
            else:
                self._open.rotate(-1)
            if batch is not None and batch.num_rows:
                return batch, current.split.id, before
        return None

    def _read_from(self, opened: _OpenSplit, now_seconds: float) -> Batch | None:
        try:
            batch = opened.reader.read(self._limit, now_seconds)
        except Exception as error:
            raise_connector_error(error, f'source "{self._source.name}" can\'t read split "{opened.split.id}"')
        if batch is None or not batch.num_rows or self._event_time is None:
            return batch
        return self._event_time.take(opened.split.id, batch, opened.reader.watermark_ms)

    def _open_waiting(self) -> int:
        """Opens what may be open: all of an eager source, one split of a lazy one. Returns how many it opened."""
        count = 0
        while self._waiting and (self._source.eager or not self._open):
            waiting = self._waiting[0]
            split = Split(waiting.id, waiting.payload)
            try:
                reader = self._source.reader(split, waiting.position)
            except Exception as error:
                raise_connector_error(error, f'source "{self._source.name}" can\'t open split "{split.id}"')
            self._open.append(_OpenSplit(split, reader))
            if self._event_time is not None:
                self._event_time.opened(split.id, waiting.watermark_ms)
            self._waiting.popleft()
            count += 1
        return count

    def _note_finished(self, split_id: str) -> None:
        if self._at_most_once:
            self._finished.append(split_id)

    def _positions(self) -> dict[str, bytes]:
        """By split, everything that isn't finished: the open ones first."""
        positions = {opened.split.id: self._position_of(opened) for opened in self._open}
        positions.update((waiting.id, _encode(waiting)) for waiting in self._waiting)
        return positions

    def _position_of(self, opened: _OpenSplit) -> bytes:
        split = opened.split
        watermark_ms = None if self._event_time is None else self._event_time.clocks.watermark_of(split.id)
        return _encode(SplitPosition(split.id, split.payload, opened.reader.position, watermark_ms))
