"""How does a task read its splits, and from where after a failure?

Splits of an eager source are all open and polled in turn; those of a lazy one are read one after the other, and the
task asks for the next. A snapshot holds every split that isn't finished, with its position. Readers are opened off the
loop's thread: to connect to a server takes time.

With event time, every split has a clock of its own, and a snapshot knows how far it had come. A clock moves on when
the batch has left, not when it was read: a watermark never overtakes a record.

What can't be decoded is skipped, or leaves as dead letters with the batch among which it was read, if the job says so:
the position is behind it, so that it leaves once.

At most once: a batch leaves only after the coordinator has confirmed the positions behind it, so that no restart can
read it again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import msgspec

from cutwater.batches import Batch, ObjectBatch
from cutwater.connectors.contract import ReaderContext, Source, SplitReader
from cutwater.dead_letters import ERRORS, DeadLetter, OnError
from cutwater.operators.contract import FrozenList, OperatorContext, OperatorSnapshot, SourceOperator
from cutwater.operators.event_time import EventTime, TimedBatch, TimestampSelector, frozen_watermark
from cutwater.operators.failing import FailedRecords
from cutwater.operators.user_code import raise_connector_error
from cutwater.protocol.event_time import WatermarkStrategy
from cutwater.protocol.ids import CheckpointId
from cutwater.protocol.splits import Split
from cutwater.protocol.watermarks import MIN_TIMESTAMP_MS

READERS_STATE = "readers"
OBJECTS_PER_BATCH = 1024
ROWS_PER_BATCH = 16_384
#: Where nothing behind the source turns rows into Python objects.
COLUMNAR_ROWS_PER_BATCH = 131_072
UNCONFIRMED_BATCHES_MAX = 4
#: Between two polls of a reader that has nothing, can't say when it will, and doesn't wake the loop.
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
    #: It wants to hear of completed checkpoints.
    acknowledges: bool


@dataclass(slots=True)
class _ReadBatch:
    """A batch that has not left yet. None: all of it was dead letters."""

    batch: Batch | None
    split_id: str
    #: At most once: where its split stood before it.
    position_before: bytes
    #: What its split promises behind it.
    watermark_ms: int | None = None
    #: Nothing of its split follows.
    ends_split: bool = False
    letters: Sequence[DeadLetter] = ()
    #: At most once: it waits until this is confirmed.
    sequence: int = 0


class ReaderOperator(SourceOperator):
    """Reads the splits that the coordinator assigns to this task."""

    def __init__(
        self,
        source: Source,
        at_most_once: bool = False,
        timestamps: tuple[TimestampSelector, WatermarkStrategy] | None = None,
        limit: int | None = None,
        on_error: OnError = "fail",
    ) -> None:
        self._source = source
        self._failed = None if on_error == "fail" else FailedRecords(on_error)
        self._timestamps = timestamps
        self._event_time: EventTime | None = None
        #: An aligned source finds out where it is, and waits for the coordinator's first word.
        self._limit_ms: int | None = None if self.alignment is None else MIN_TIMESTAMP_MS
        self._at_most_once = at_most_once
        self._limit = limit or (OBJECTS_PER_BATCH if source.schema is None else ROWS_PER_BATCH)
        self._waiting: deque[SplitPosition] = deque()
        #: By split, those whose reader is being opened.
        self._opening: dict[str, SplitPosition] = {}
        self._open: deque[_OpenSplit] = deque()
        #: By checkpoint that isn't complete yet: where the readers were that want to hear of it, by split.
        self._cuts: dict[CheckpointId, dict[str, Any]] = {}
        self._closed = False
        self._asked = False
        self._heard = False
        self._had_split = False
        self._no_more = False
        self._stopped = False
        self._held: deque[_ReadBatch] = deque()
        self._sequence = 0
        self._confirmed = 0
        self._finished: list[str] = []
        #: Finished since the coordinator was told, if it wants to know.
        self._ended_splits: list[str] = []
        self._progress: deque[tuple[int, bytes]] = deque()

    def open(self, context: OperatorContext) -> None:
        super().open(context)
        self._reader_context = ReaderContext(
            context.job_id,
            context.uid,
            context.subtask,
            context.attempt,
            wake=context.wake,
            tolerant=self._failed is not None,
        )
        if self._failed is not None:
            self._failed.open(context)
        if self._timestamps is not None:
            self._event_time = EventTime(*self._timestamps, context)
        for restored in map(decode_position, context.restored_lists.get(READERS_STATE, [])):
            self._waiting.append(restored)
            # It counts before its turn comes, begun or not: time must not pass what is left of it. With fewer tasks
            # than before it may lie behind a split that is later in time.
            if self._event_time is not None:
                self._event_time.opened(restored.id, restored.watermark_ms)

    @property
    def side_tags(self) -> frozenset[str]:
        return frozenset() if self._failed is None else self._failed.side_tags

    def poll(self) -> bool:
        """Also at most once: True when a batch was read or emitted; a confirmation makes the next call worthwhile."""
        if self._at_most_once:
            worked = self._poll_held()
        else:
            found, worked = self._read()
            if found is not None:
                self._leave(found)
        if self._event_time is not None and not self._awaits_word:
            self._event_time.tell(now=not worked or self.finished)
            self._count_time(self._event_time)
        return worked

    @property
    def finished(self) -> bool:
        if self._held:
            return False
        return self._stopped or (self._no_more and not self._has_splits)

    @property
    def stopped(self) -> bool:
        return self._stopped

    @property
    def alignment(self) -> tuple[str, int] | None:
        strategy = None if self._timestamps is None else self._timestamps[1]
        return None if strategy is None or strategy.max_drift_ms is None else (strategy.group, strategy.max_drift_ms)

    @property
    def paused(self) -> bool:
        return bool(self._open) and not any(map(self._may_read, self._open))

    @property
    def _awaits_word(self) -> bool:
        """Splits that an earlier attempt left unread may follow the restored ones: time must not pass them unheard."""
        return self._event_time is not None and self._source.eager and not self._heard

    def limit_time(self, timestamp_ms: int | None) -> None:
        self._limit_ms = timestamp_ms

    def stop(self) -> None:
        self._stopped = True

    def wants_split(self) -> bool:
        # Eager sources don't ask: what there is comes unasked.
        has_enough = self._has_splits or self._no_more or self._stopped
        wanted = not (self._source.eager or self._asked or has_enough)
        self._asked = self._asked or wanted
        return wanted

    def add_splits(self, splits: Sequence[Split]) -> None:
        """Also with none: then there is none for this task just now."""
        self._waiting.extend(SplitPosition(split.id, split.payload) for split in splits)
        if self._event_time is not None and self._source.eager:
            for split in splits:  # it counts before it is opened: a batch that is held may leave first
                self._event_time.opened(split.id)
        self._asked = self._asked and not splits
        self._heard = True

    def no_more_splits(self) -> None:
        self._no_more = self._heard = True

    def wake_at(self) -> float | None:
        """When `poll` may find something; None: not before a split or a confirmation comes."""
        now_seconds = self.context.now_seconds()
        if self._held and self._held[0].sequence <= self._confirmed:
            return now_seconds
        if self._stopped or self._awaits_word or len(self._held) == UNCONFIRMED_BATCHES_MAX:
            return None
        if self._waiting and self._may_open():
            return now_seconds
        # A split that waits for slower sources isn't asked, so nothing that it has wakes the task: a new limit does.
        readable = [opened for opened in self._open if self._may_read(opened)]
        wakes = [opened.reader.wake_at() for opened in readable]
        # A reader without a time that doesn't wake the loop either is asked again soon.
        times = [
            now_seconds + ASK_AGAIN_SECONDS if time is None else time
            for opened, time in zip(readable, wakes, strict=True)
            if time is not None or not opened.reader.wakes_loop
        ]
        if self._event_time is not None and (readable or not self._open):
            look = self._event_time.next_look_seconds()
            times += [] if look is None else [max(look, now_seconds)]
        return min(times, default=None)

    def take_progress(self) -> tuple[int, bytes] | None:
        """At most once: positions that the coordinator must confirm, oldest first, each returned once."""
        return self._progress.popleft() if self._progress else None

    def confirm(self, sequence: int) -> None:
        """At most once: everything up to this sequence may leave. `poll` emits it, since it respects backpressure."""
        self._confirmed = max(self._confirmed, sequence)

    def take_finished(self) -> list[str]:
        """Splits that were read to their end since the last call, if others may wait for that."""
        finished, self._ended_splits = self._ended_splits, []
        return finished

    def freeze(self, checkpoint: CheckpointId) -> OperatorSnapshot:
        cut = {opened.split.id: opened.reader.position for opened in self._open if opened.acknowledges}
        if cut:
            self._cuts[checkpoint] = cut
        positions = self._positions()
        # A held batch has not left: as far as the snapshot knows it was never read. Oldest last, so that it wins.
        for held in reversed(self._held):
            positions[held.split_id] = held.position_before
        readers = FrozenList(READERS_STATE, tuple(positions.values()))
        told_ms = None if self._event_time is None else self._event_time.clocks.watermark_ms
        return OperatorSnapshot(lists=(readers, *frozen_watermark(self.context, told_ms)))

    def on_checkpoint_completed(self, checkpoint: CheckpointId) -> None:
        cut = self._cuts.get(checkpoint, {})
        self._cuts = {later: positions for later, positions in self._cuts.items() if later > checkpoint}
        for opened in self._open:
            if opened.split.id in cut:
                opened.reader.checkpoint_completed(cut[opened.split.id])

    def close(self) -> None:
        self._closed = True
        while self._open:
            self._open.popleft().reader.close()

    def _poll_held(self) -> bool:
        emitted = bool(self._held) and self._held[0].sequence <= self._confirmed
        if emitted:
            self._leave(self._held.popleft())
        return self._hold_next() or emitted

    def _hold_next(self) -> bool:
        if len(self._held) == UNCONFIRMED_BATCHES_MAX:
            return False
        found, worked = self._read()
        if found is not None:
            self._sequence += 1
            found.sequence = self._sequence
            self._held.append(found)
            self._progress.append((self._sequence, _encode((list(self._positions().values()), self._finished))))
            self._finished.clear()
        return worked

    def _leave(self, read: _ReadBatch) -> None:
        if read.letters:
            self.context.emit_side(ERRORS, ObjectBatch(list(read.letters)))
        if read.batch is not None:
            self.context.emit(read.batch)
        if self._event_time is not None:
            if read.batch is not None:
                self._event_time.passed(read.split_id, read.watermark_ms)
            if read.ends_split:
                self._event_time.finished(read.split_id)

    def _read(self) -> tuple[_ReadBatch | None, bool]:
        """The next batch, and whether anything was read at all: it may have been dropped. Asks each reader once."""
        worked = False
        if self._stopped or self._awaits_word:
            return None, False
        now_seconds = self.context.now_seconds()
        self._open_waiting()
        unasked = len(self._open)
        has_none = not unasked and not self._opening
        # Before the coordinator has said anything, no split yet doesn't mean that there is none. And who has read
        # everything ends: to fall idle before would let time pass those who wait for that end.
        if has_none and self._event_time is not None and not self._held and self._heard and not self._no_more:
            expects_one = self._had_split or not self._source.eager
            self._event_time.clocks.without_splits(now_seconds, expects_one=expects_one)
        while unasked:
            unasked -= 1
            current = self._open[0]
            if not self._may_read(current):
                self._open.rotate(-1)
                continue
            before = self._position_of(current) if self._at_most_once else b""
            batch = self._read_from(current, now_seconds)
            letters, passed_over = self._unread_of(current)
            worked = worked or batch is not None or passed_over
            timed = None if batch is None else self._timed(current, batch)
            ended = current.reader.finished
            if ended:
                self._open.popleft()
                current.reader.close()
                self._note_finished(current.split.id)
                before_opening = len(self._open)
                self._open_waiting()
                unasked += len(self._open) - before_opening
            else:
                self._open.rotate(-1)
            if timed is not None:
                return _ReadBatch(timed.batch, current.split.id, before, timed.watermark_ms, ended, letters), True
            if self._event_time is not None:
                self._had_nothing(self._event_time, current, ended=ended)
            if letters:
                return _ReadBatch(None, current.split.id, before, letters=letters), True
        return None, worked

    def _may_read(self, opened: _OpenSplit) -> bool:
        return self._event_time is None or self._event_time.may_read(opened.split.id, self._limit_ms)

    def _read_from(self, opened: _OpenSplit, now_seconds: float) -> Batch | None:
        """What the reader has now; None: nothing."""
        try:
            batch = opened.reader.read(self._limit, now_seconds)
        except Exception as error:
            raise_connector_error(error, f'source "{self._source.name}" can\'t read split "{opened.split.id}"')
        self._note_lag(opened.split.id, opened.reader.lag)
        return batch if batch is not None and batch.num_rows else None

    def _unread_of(self, opened: _OpenSplit) -> tuple[Sequence[DeadLetter], bool]:
        """Dead letters of what the reader could not decode, and whether there was any: it may just be counted."""
        if self._failed is None:
            return (), False
        unreadable = opened.reader.take_unreadable()
        return self._failed.unread(opened.split.id, unreadable), bool(unreadable)

    def _note_lag(self, split: str, lag: int | None) -> None:
        metrics = self.context.metrics
        if lag is not None and metrics.lag.get(split) != lag:
            metrics.lag = metrics.lag | {split: lag}

    def _timed(self, opened: _OpenSplit, batch: Batch) -> TimedBatch | None:
        if self._event_time is None:
            return TimedBatch(batch, None)
        return self._event_time.take(opened.split.id, batch, opened.reader.watermark_ms)

    def _had_nothing(self, event_time: EventTime, asked: _OpenSplit, *, ended: bool) -> None:
        split = asked.split.id
        held = [read for read in self._held if read.split_id == split]
        if not ended:
            # What is held has been read, but not told: with it the split has something to say.
            if not held:
                event_time.silent(split, asked.reader.watermark_ms)
        elif held:
            held[-1].ends_split = True
        else:
            event_time.finished(split)

    def _count_time(self, event_time: EventTime) -> None:
        metrics = self.context.metrics
        metrics.source_watermark_ms = event_time.clocks.watermark_ms
        metrics.source_may_lag = event_time.clocks.may_lag and not self.finished

    @property
    def _has_splits(self) -> bool:
        return bool(self._waiting or self._opening or self._open)

    def _open_waiting(self) -> None:
        """Has opened what may be open: all of an eager source, one split of a lazy one."""
        while self._waiting and self._may_open():
            waiting = self._waiting.popleft()
            self._opening[waiting.id] = waiting
            if self._event_time is not None:  # from now on time waits for it; a restored one may be known there already
                self._event_time.opened(waiting.id, waiting.watermark_ms)
            split = Split(waiting.id, waiting.payload)
            self.context.open_elsewhere(
                partial(self._source.reader, split, waiting.position, self._reader_context),
                partial(self._on_opened, split),
            )

    def _on_opened(self, split: Split, reader: SplitReader | None, error: BaseException | None) -> None:
        if self._closed:
            if reader is not None:
                reader.close()
            return
        if reader is None:
            if isinstance(error, Exception):
                raise_connector_error(error, f'source "{self._source.name}" can\'t open split "{split.id}"')
            raise error or AssertionError("a source opened nothing")
        del self._opening[split.id]
        acknowledges = type(reader).checkpoint_completed is not SplitReader.checkpoint_completed
        self._open.append(_OpenSplit(split, reader, acknowledges))
        self._had_split = True

    def _may_open(self) -> bool:
        if self._source.eager:
            return True
        # A split that is too far ahead may wait for another restored one, which has to be read then.
        return not self._opening and not any(map(self._may_read, self._open))

    def _note_finished(self, split_id: str) -> None:
        if self._at_most_once:
            self._finished.append(split_id)
        if self._source.has_successors:
            self._ended_splits.append(split_id)
        if split_id in self.context.metrics.lag:
            self.context.metrics.lag = {
                split: lag for split, lag in self.context.metrics.lag.items() if split != split_id
            }

    def _positions(self) -> dict[str, bytes]:
        """By split, everything that isn't finished: the open ones first."""
        positions = {opened.split.id: self._position_of(opened) for opened in self._open}
        unopened = (*self._opening.values(), *self._waiting)
        positions.update((waiting.id, _encode(self._with_time(waiting))) for waiting in unopened)
        return positions

    def _position_of(self, opened: _OpenSplit) -> bytes:
        split = opened.split
        return _encode(self._with_time(SplitPosition(split.id, split.payload, opened.reader.position)))

    def _with_time(self, position: SplitPosition) -> SplitPosition:
        if self._event_time is None or position.position is None:
            return position
        return msgspec.structs.replace(position, watermark_ms=self._event_time.clocks.promised_of(position.id))
