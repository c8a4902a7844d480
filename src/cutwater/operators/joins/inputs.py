"""What do all joins of two keyed streams have in common?

Port 0 is the left side, port 1 the right. Each record has an event time; one that is older than the watermark comes
too late, since its partners may be gone: it is counted, or handed out. The watermark that decides about it is part of
the snapshots, so that a restored task makes the same decisions.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from cutwater.batches import Batch, Times, take_rows, times_of
from cutwater.errors import BadTimestampError
from cutwater.graph.keys import KeySelector
from cutwater.operators.contract import Operator, OperatorContext, OperatorSnapshot
from cutwater.operators.joins.buffers import KeyedBuffers, open_buffers
from cutwater.operators.joins.pairing import LEFT, Pairing
from cutwater.operators.key_time import KeyTime
from cutwater.operators.user_code import keys_of
from cutwater.protocol.ids import CheckpointId
from cutwater.state.contract import KeyedBackend, TimerState
from cutwater.state.copies import copied_values

JoinKind = Literal["inner", "left", "right", "full"]
JOIN_KINDS: tuple[JoinKind, ...] = get_args(JoinKind)

BUFFERS_STATE = "join"
TIMERS_STATE = "join-timers"
#: Pairs leave in batches of about this size, however many a record or a window has.
PAIRS_MAX = 4096


@dataclass(frozen=True, slots=True)
class JoinInputs:
    """What the two sides are, and what becomes of their pairs. Everything by port: left, right."""

    keys: tuple[KeySelector, KeySelector]
    pairing: Pairing
    kind: JoinKind = "inner"
    #: The side outputs of records that come too late; None: they are dropped and counted.
    late_tags: tuple[str | None, str | None] = (None, None)

    @property
    def preserved(self) -> tuple[bool, bool]:
        """The sides whose records leave also without a partner."""
        return self.kind in ("left", "full"), self.kind in ("right", "full")


class JoinOperator(Operator):
    """Keeps the records of both sides by key, and the watermark."""

    def __init__(self, inputs: JoinInputs) -> None:
        self._inputs = inputs
        self._backend: KeyedBackend | None = None

    def open(self, context: OperatorContext) -> None:
        super().open(context)
        self._key_time = KeyTime(context)
        self._backend = context.keyed_backend()
        self._set_current_key = self._backend.set_current_key
        self._timers: TimerState = self._backend.timer_state(TIMERS_STATE)
        self._buffers: KeyedBuffers = open_buffers(
            self._backend, BUFFERS_STATE, max_parallelism=context.max_parallelism, copy=self._copy_of
        )
        self._pairs = PairOutput(self._inputs.pairing, context)

    def process(self, batch: Batch, port: int) -> None:
        if self._key_time.some_are_ahead:
            keys = keys_of(self._inputs.keys[port], batch, operator=self.context.name)
            for part in self._key_time.parts(batch, keys):
                self._process_part(part, port)
        else:
            self._process_part(batch, port)
        self._pairs.flush()

    def _process_part(self, batch: Batch, port: int) -> None:
        """Records whose keys have come equally far."""
        times = timestamps_of(batch, operator=self.context.name)
        late = self._is_late(times)
        if late is not None:
            self._refuse_late(port, batch, np.flatnonzero(late))
            batch, times = take_rows(batch, np.flatnonzero(~late)), times[~late]
        if batch.num_rows:
            rows = self._inputs.pairing.rows_of(batch, port, operator=self.context.name)
            keys = keys_of(self._inputs.keys[port], batch, operator=self.context.name)
            refused = self._take(port, keys=keys, times=times.tolist(), rows=rows)
            self._buffers.flush()
            if refused:
                self._refuse_late(port, batch, refused)

    def on_watermark(self, timestamp_ms: int) -> None:
        if timestamp_ms <= self._key_time.watermark_ms:
            return
        self._key_time.advance(timestamp_ms)
        for timer in self._timers.due(timestamp_ms):
            self._on_timer(timer.key, timer.namespace)
        self._buffers.flush()
        self._pairs.flush()

    def freeze(self, checkpoint: CheckpointId) -> OperatorSnapshot:
        assert self._backend is not None, "not open"
        keyed = self._backend.freeze()
        self._buffers.frozen()
        return OperatorSnapshot(keyed=keyed, lists=self._key_time.freeze())

    def close(self) -> None:
        if self._backend is not None:
            self._backend.close()

    def _refuse_late(self, port: int, batch: Batch, indices: Sequence[int] | npt.NDArray[np.intp]) -> None:
        give_out_late(batch, indices, tag=self._inputs.late_tags[port], context=self.context)

    @abstractmethod
    def _is_late(self, times: Times) -> npt.NDArray[np.bool_] | None:
        """Which records come too late, as far as their times alone tell; None: none of them."""

    @abstractmethod
    def _take(self, port: int, *, keys: list[Any], times: list[int], rows: list[Any]) -> list[int]:
        """Joins and keeps records; the positions of those that come too late after all. The hot loop."""

    @abstractmethod
    def _on_timer(self, key: Any, namespace: Any) -> None:
        """The watermark has reached a time that `_take` asked for."""

    @staticmethod
    @abstractmethod
    def _copy_of(buffer: Any) -> Any:
        """A key's buffer that shares no list with this one."""


class PairOutput:
    """Collects pairs and sends them as batches."""

    __slots__ = ("_context", "_pairing", "lefts", "rights", "times")

    def __init__(self, pairing: Pairing, context: OperatorContext) -> None:
        self._pairing = pairing
        self._context = context
        #: To be filled in step, None for a missing side. Ask for them anew after `flush`.
        self.lefts: list[Any] = []
        self.rights: list[Any] = []
        self.times: list[int] = []

    def add_alone(self, port: int, row: Any, time_ms: int) -> None:
        """A record without a partner."""
        self.lefts.append(row if port == LEFT else None)
        self.rights.append(None if port == LEFT else row)
        self.times.append(time_ms)

    def flush(self) -> None:
        if not self.times:
            return
        lefts, rights, times = self.lefts, self.rights, self.times
        self.lefts, self.rights, self.times = [], [], []
        if self._pairing.hands_on_rows:  # which wait for other partners too
            lefts, rights = copied_values(lefts), copied_values(rights)
        self._context.emit(self._pairing.batch_of(lefts, rights, times, operator=self._context.name))


def timestamps_of(batch: Batch, *, operator: str) -> Times:
    """When each record happened; raises for a stream that has no event time."""
    times = times_of(batch)
    if times is None:
        raise BadTimestampError(
            f'operator "{operator}" joins by event time, but its records have no timestamps',
            hint='assign_timestamps("time", cw.watermarks.bounded("5s")) on both streams, before key_by',
        )
    return times


def give_out_late(
    batch: Batch, indices: Sequence[int] | npt.NDArray[np.intp], *, tag: str | None, context: OperatorContext
) -> None:
    """Sends the late records to their side output; without one they are dropped and counted."""
    if tag is None:
        context.metrics.late_records += len(indices)
    else:
        context.emit_side(tag, take_rows(batch, indices))
