"""What did a thing look like when a record happened?

The second stream is broadcast and carries versions of things; every task keeps them all. A record is joined with the
version of its key that was valid at its own time. Versions up to that time may still be on their way, so it waits until
the watermark, which covers both streams, has passed it. By `latest` it doesn't wait, and takes what is there.
"""

from __future__ import annotations

import pickle
from abc import abstractmethod
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np

from cutwater.batches import Batch, take_rows, times_of
from cutwater.errors import UserError
from cutwater.graph.keys import KeySelector
from cutwater.operators.contract import FrozenList, Operator, OperatorContext, OperatorSnapshot
from cutwater.operators.joins.inputs import PAIRS_MAX, give_out_late, timestamps_of
from cutwater.operators.joins.pairing import LEFT, RIGHT, Pairing
from cutwater.operators.joins.versions import Version, Versions
from cutwater.operators.joins.waiting import Waiting, WaitingByKey, WaitingInList
from cutwater.operators.key_time import KeyTime
from cutwater.operators.user_code import keys_of, shown
from cutwater.protocol.group_time import Floor, TaskTime
from cutwater.protocol.ids import CheckpointId
from cutwater.protocol.key_groups import KeyGroups
from cutwater.protocol.watermarks import MAX_TIMESTAMP_MS, MIN_TIMESTAMP_MS
from cutwater.state.copies import copied_values
from cutwater.state.values import dump_pairs

VERSIONS_STATE = "versions"


@dataclass(frozen=True, slots=True)
class LookupInputs:
    """What is looked up, by what, and what becomes of the pairs."""

    #: Of the record: what it asks for.
    key: KeySelector
    #: Of a version: what it is a version of.
    on: KeySelector
    pairing: Pairing
    #: A record without a version leaves all the same.
    keeps_unmatched: bool = False
    #: What the stream is keyed by; None: it isn't.
    stream_key: KeySelector | None = None
    #: The side output of records that come too late; None: they are dropped and counted.
    late_tag: str | None = None


class LookupOperator(Operator):
    """Keeps the versions, and joins with them."""

    def __init__(self, inputs: LookupInputs) -> None:
        self._inputs = inputs

    def open(self, context: OperatorContext) -> None:
        super().open(context)
        copies = [_decode(item) for item in context.restored_lists.get(VERSIONS_STATE, [])]
        told = [copy.time for copy in copies if copy.watermark_ms is not None]
        self._key_time = KeyTime(context, keyed=self._inputs.stream_key is not None, told=told)
        self._versions = Versions(_restored_versions(copies, context))

    def process(self, batch: Batch, port: int) -> None:
        if port == LEFT:
            self._take_records(batch)
        else:
            self._take_versions(batch)

    @abstractmethod
    def _take_records(self, batch: Batch) -> None: ...

    @abstractmethod
    def _take_versions(self, batch: Batch) -> None: ...

    def _add_versions(self, batch: Batch, times: list[int]) -> None:
        rows = self._inputs.pairing.rows_of(batch, RIGHT, operator=self.context.name)
        for key, time, row in zip(self._keys_of(batch, RIGHT, rows), times, rows, strict=True):
            self._versions.add(key, time, row)

    def _join(self, asked: list[tuple[Any, Any]], versions: list[Any], times: list[int] | None) -> None:
        """`asked` are (key, record), each with its version, or None."""
        if self._inputs.pairing.hands_on_rows:  # other records are joined with these versions too
            versions = copied_values(versions)
        rows = [row for _, row in asked]
        if None in versions and not self._inputs.keeps_unmatched:
            found = [index for index, version in enumerate(versions) if version is not None]
            rows, versions = [rows[index] for index in found], [versions[index] for index in found]
            times = None if times is None else [times[index] for index in found]
        for start in range(0, len(rows), PAIRS_MAX):
            part = slice(start, start + PAIRS_MAX)
            self.context.emit(
                self._inputs.pairing.batch_of(
                    rows[part], versions[part], None if times is None else times[part], operator=self.context.name
                )
            )

    def _keys_of(self, batch: Batch, port: int, rows: list[Any]) -> list[Any]:
        selector = self._inputs.key if port == LEFT else self._inputs.on
        keys = keys_of(selector, batch, operator=self.context.name)
        several = len(selector.columns) > 1
        if None in keys or (several and any(None in key for key in keys)):
            index = next(i for i, key in enumerate(keys) if key is None or (several and None in key))
            what = "a record" if port == LEFT else "a version"
            raise UserError(
                f'{what} of operator "{self.context.name}" has no key',
                detail=f"{selector.describe()} is null in {shown(rows[index])}",
                hint="filter such records out before, or give them a key of their own by a function",
            )
        try:
            set(keys)
        except TypeError:
            for key in keys:
                KeyGroups(1).of(key)  # names the one that can't be a key
            raise
        return keys

    def _frozen_versions(self) -> FrozenList:
        data = dump_pairs(self._versions.items(), state=VERSIONS_STATE)
        told = self._key_time.told()
        watermark_ms, floors = (None, ()) if told is None else (told.watermark_ms, told.floors)
        copy = _Copy(self.context.subtask, self.context.parallelism, watermark_ms, data, floors)
        return FrozenList(VERSIONS_STATE, (msgspec.msgpack.encode(copy),), "union")


class LatestLookupOperator(LookupOperator):
    """Joins at once, with the newest version that has come. Event time is of use, but not needed."""

    def freeze(self, checkpoint: CheckpointId) -> OperatorSnapshot:
        return OperatorSnapshot(lists=(self._frozen_versions(),))

    def _take_records(self, batch: Batch) -> None:
        rows = self._inputs.pairing.rows_of(batch, LEFT, operator=self.context.name)
        times = times_of(batch)
        asked = list(zip(self._keys_of(batch, LEFT, rows), rows, strict=True))
        versions = [self._versions.valid_at(key, MAX_TIMESTAMP_MS) for key, _ in asked]
        self._join(asked, versions, None if times is None else times.tolist())

    def _take_versions(self, batch: Batch) -> None:
        times = times_of(batch)
        # Without event time all are of one time: the one that came last counts.
        self._add_versions(batch, [MIN_TIMESTAMP_MS] * batch.num_rows if times is None else times.tolist())
        self._versions.forget_before(MAX_TIMESTAMP_MS)


class EventTimeLookupOperator(LookupOperator):
    """Joins when the watermark has passed the record, with the version of the record's time."""

    def __init__(self, inputs: LookupInputs) -> None:
        super().__init__(inputs)
        self._waiting: Waiting | None = None

    def open(self, context: OperatorContext) -> None:
        super().open(context)
        self._waiting = WaitingInList(context) if self._inputs.stream_key is None else WaitingByKey(context)

    def on_watermark(self, timestamp_ms: int) -> None:
        if timestamp_ms <= self._key_time.watermark_ms:
            return
        assert self._waiting is not None, "not open"
        self._key_time.advance(timestamp_ms)
        times, asked = self._waiting.due(timestamp_ms)
        versions = [self._versions.valid_at(key, time) for time, (key, _) in zip(times, asked, strict=True)]
        self._join(asked, versions, times)
        if timestamp_ms != MAX_TIMESTAMP_MS:  # a later run may have more input, and ask for any time since
            self._versions.forget_before(timestamp_ms)

    def freeze(self, checkpoint: CheckpointId) -> OperatorSnapshot:
        assert self._waiting is not None, "not open"
        keyed, lists = self._waiting.freeze()
        return OperatorSnapshot(keyed=keyed, lists=(*lists, self._frozen_versions()))

    def close(self) -> None:
        if self._waiting is not None:
            self._waiting.close()

    def _take_records(self, batch: Batch) -> None:
        key = self._inputs.stream_key
        if key is None or not self._key_time.some_are_ahead:
            self._take_part(batch)
            return
        for part in self._key_time.parts(batch, keys_of(key, batch, operator=self.context.name)):
            self._take_part(part)

    def _take_part(self, batch: Batch) -> None:
        """Records whose keys have come equally far."""
        assert self._waiting is not None, "not open"
        times = timestamps_of(batch, operator=self.context.name)
        late = times <= self._key_time.now_ms
        if late.any():
            give_out_late(batch, np.flatnonzero(late), tag=self._inputs.late_tag, context=self.context)
            batch, times = take_rows(batch, np.flatnonzero(~late)), times[~late]
        if batch.num_rows:
            rows = self._inputs.pairing.rows_of(batch, LEFT, operator=self.context.name)
            asked_for = self._keys_of(batch, LEFT, rows)
            keys = self._keys_of_stream(batch, asked_for)
            self._waiting.add(keys, times.tolist(), zip(asked_for, rows, strict=True))

    def _take_versions(self, batch: Batch) -> None:
        # One that is late counts from now on: what was joined without it has left.
        self._add_versions(batch, timestamps_of(batch, operator=self.context.name).tolist())

    def _keys_of_stream(self, batch: Batch, asked_for: list[Any]) -> list[Any]:
        selector = self._inputs.stream_key
        if selector is None or selector == self._inputs.key:
            return asked_for
        return keys_of(selector, batch, operator=self.context.name)


class _Copy(msgspec.Struct, frozen=True, array_like=True):
    """The versions that one task had, and how far event time was there (None: it had not begun)."""

    subtask: int
    parallelism: int
    watermark_ms: int | None
    data: bytes
    floors: tuple[Floor, ...] = ()

    @property
    def time(self) -> TaskTime:
        return TaskTime(self.subtask, self.parallelism, self.reached_ms, self.floors)

    @property
    def reached_ms(self) -> int:
        return MIN_TIMESTAMP_MS if self.watermark_ms is None else self.watermark_ms


_decode = msgspec.msgpack.Decoder(_Copy).decode


def _restored_versions(copies: list[_Copy], context: OperatorContext) -> list[tuple[Any, list[Version]]]:
    """The versions that the task goes on from: its own; if there were more or fewer tasks, those of the one whose
    watermark was lowest. All have seen the same versions, and that one has forgotten the fewest."""
    own = [copy for copy in copies if (copy.subtask, copy.parallelism) == (context.subtask, context.parallelism)]
    chosen = min(own or copies, key=lambda copy: copy.reached_ms, default=None)
    return [] if chosen is None else pickle.loads(chosen.data)
