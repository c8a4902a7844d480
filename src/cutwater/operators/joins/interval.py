"""Which records of two streams happened close to each other?

Those of one key whose times differ by no more than the bounds: lower <= right - left <= upper. A record waits until
the watermark says that no partner can come any more; then it goes, alone if it never had a partner and the join is an
outer one. Seen from either side the rule is the same: the partners of a record at `time` lie in `time + low` to
`time + high`, and the record is of no use once the watermark has reached `time + high`.

    side    low       high
    left    lower     upper
    right   -upper    -lower
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from cutwater.batches import Times
from cutwater.operators.joins.inputs import PAIRS_MAX, JoinInputs, JoinOperator
from cutwater.operators.joins.pairing import LEFT, RIGHT
from cutwater.protocol.watermarks import MAX_TIMESTAMP_MS

Side = tuple[list[int], list[Any], bytearray | None]
"""Times in order, the records at these times, and which of them had a partner (None: nobody will ask)."""


class IntervalJoinOperator(JoinOperator):
    """Pairs leave when their second record comes, at the later time of the two."""

    def __init__(self, inputs: JoinInputs, lower_ms: int, upper_ms: int) -> None:
        super().__init__(inputs)
        assert lower_ms <= upper_ms, (lower_ms, upper_ms)
        self._low = lower_ms, -upper_ms
        self._high = upper_ms, -lower_ms
        self._preserved = inputs.preserved
        self._is_outer = any(inputs.preserved)
        #: By key: no timer of it is needed before this. Only saves work, so it is no state.
        self._due_ms: dict[Any, int] = {}

    def _is_late(self, times: Times) -> npt.NDArray[np.bool_] | None:
        # A partner at `time + low` is dropped when the watermark reaches `time`: up to then all are still there.
        late = times <= self._key_time.now_ms
        return late if late.any() else None

    def _take(self, port: int, *, keys: list[Any], times: list[int], rows: list[Any]) -> list[int]:
        low, high, preserved = self._low[port], self._high[port], self._preserved[port]
        kept_after_ms = self._key_time.now_ms - high
        get, pairs = self._buffers.get, self._pairs
        for key, time, row in zip(keys, times, rows, strict=True):
            buffer = get(key)
            found = 0
            if buffer is not None:
                partner_times, partner_rows, partner_had_one = buffer[1 - port]
                if partner_times:
                    first = bisect_left(partner_times, time + low)
                    last = bisect_right(partner_times, time + high, first)
                    found = last - first
                if found:
                    self._add_pairs(port, row, time, partner_rows[first:last], partner_times[first:last])
                    if partner_had_one is not None:
                        partner_had_one[first:last] = b"\x01" * found
                    if len(pairs.times) >= PAIRS_MAX:
                        pairs.flush()
            if time <= kept_after_ms:
                if preserved and not found:
                    pairs.add_alone(port, row, time)
                continue
            if buffer is None:
                buffer = self._new_buffer(key, time + high)
            elif preserved and not found and time + high < self._due_ms.get(key, MAX_TIMESTAMP_MS):
                self._wake(key, time + high)
            own_times, own_rows, had_one = buffer[port]
            if not own_times or time >= own_times[-1]:
                own_times.append(time)
                own_rows.append(row)
                if had_one is not None:
                    had_one.append(found > 0)
            else:
                _insert(buffer[port], time, row, had_partner=found > 0)
        return []

    def _add_pairs(self, port: int, row: Any, time: int, partners: list[Any], partner_times: list[int]) -> None:
        pairs = self._pairs
        mine, theirs = (pairs.lefts, pairs.rights) if port == LEFT else (pairs.rights, pairs.lefts)
        count = len(partners)
        mine += [row] * count
        theirs += partners
        if partner_times[-1] <= time:
            pairs.times += [time] * count
        else:
            pairs.times += [max(other, time) for other in partner_times]

    def _new_buffer(self, key: Any, due_ms: int) -> tuple[Side, Side]:
        buffer = _new_side(self._preserved[LEFT]), _new_side(self._preserved[RIGHT])
        self._buffers.put(key, buffer)
        self._wake(key, due_ms)
        return buffer

    def _on_timer(self, key: Any, namespace: Any) -> None:
        buffer = self._buffers.get(key)
        if buffer is None:
            return
        self._drop_useless(LEFT, buffer[LEFT])
        self._drop_useless(RIGHT, buffer[RIGHT])
        if len(self._pairs.times) >= PAIRS_MAX:
            self._pairs.flush()
        due_ms = self._next_due_ms(buffer)
        if due_ms is None:
            self._buffers.remove(key)
            self._due_ms.pop(key, None)
        else:
            self._wake(key, due_ms)

    def _drop_useless(self, port: int, side: Side) -> None:
        times, rows, had_ones = side
        count = bisect_right(times, self._key_time.now_ms - self._high[port])
        if not count:
            return
        if had_ones is not None:
            index = had_ones.find(0, 0, count)
            while index >= 0:
                self._pairs.add_alone(port, rows[index], times[index])
                index = had_ones.find(0, index + 1, count)
            del had_ones[:count]
        del times[:count], rows[:count]

    def _next_due_ms(self, buffer: tuple[Side, Side]) -> int | None:
        """When the next record must leave alone; if none must, when the last of those here is of no use."""
        due_ms: int | None = None
        for high, (times, _, had_ones) in zip(self._high, buffer, strict=True):
            index = -1 if had_ones is None else had_ones.find(0)
            if index >= 0 and (due_ms is None or times[index] + high < due_ms):
                due_ms = times[index] + high
        if due_ms is not None:
            return due_ms
        # The last, not the first: a key is then looked at once per interval, not once per record.
        for high, (times, _, _) in zip(self._high, buffer, strict=True):
            if times and (due_ms is None or times[-1] + high > due_ms):
                due_ms = times[-1] + high
        return due_ms

    def _wake(self, key: Any, time_ms: int) -> None:
        self._set_current_key(key)
        self._timers.register(time_ms)
        if self._is_outer:
            self._due_ms[key] = time_ms

    @staticmethod
    def _copy_of(buffer: Any) -> Any:
        return tuple((times[:], rows[:], None if had_ones is None else had_ones[:]) for times, rows, had_ones in buffer)


def _new_side(preserved: bool) -> Side:
    return [], [], bytearray() if preserved else None


def _insert(side: Side, time: int, row: Any, *, had_partner: bool) -> None:
    """Out of order: behind those of the same time."""
    times, rows, had_ones = side
    index = bisect_right(times, time)
    times.insert(index, time)
    rows.insert(index, row)
    if had_ones is not None:
        had_ones.insert(index, had_partner)


class OuterIntervalJoinOperator(IntervalJoinOperator):
    """Also holds event time back: a record that had no partner leaves at its own time, long after the fact."""

    forwards_time: ClassVar[bool] = False

    def on_watermark(self, timestamp_ms: int) -> None:
        super().on_watermark(timestamp_ms)
        waits_ms = max([0, *(high for high, preserved in zip(self._high, self._preserved, strict=True) if preserved)])
        reached_ms = self._key_time.watermark_ms
        # At the end of time nothing waits any more.
        self.context.emit_watermark(reached_ms if reached_ms == MAX_TIMESTAMP_MS else reached_ms - waits_ms)
