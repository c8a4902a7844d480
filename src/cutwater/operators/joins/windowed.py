"""Which records of two streams are in the same window?

All pairs of a key's window leave when the watermark has passed its end, at its last moment. The records of aligned
windows wait by slice: all times of a slice are in the same windows, so a record is kept once, however many of them it
is in. Sessions are made of the records of both sides.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from cutwater.batches import Batch, Times, rows_of
from cutwater.durations import parse_duration
from cutwater.errors import ConfigurationError, UserError
from cutwater.operators.joins.inputs import PAIRS_MAX, JoinInputs, JoinOperator
from cutwater.operators.joins.pairing import LEFT, RIGHT
from cutwater.operators.user_code import map_rows, shown
from cutwater.operators.windows.model import AlignedWindows, SessionWindows

Sides = tuple[list[Any], list[Any]]
"""The records of the left and of the right, in the order in which they came."""


class WindowJoinOperator(JoinOperator):
    """What joins of all kinds of windows have in common."""

    def _join(self, lefts: list[Any], rights: list[Any], time_ms: int) -> None:
        """All pairs of one window."""
        pairs = self._pairs
        if lefts and rights:
            count = len(rights)
            for left in lefts:
                pairs.lefts += [left] * count
                pairs.rights += rights
                pairs.times += [time_ms] * count
                if len(pairs.times) >= PAIRS_MAX:
                    pairs.flush()
            return
        for port, rows in ((LEFT, lefts), (RIGHT, rights)):
            if rows and self._inputs.preserved[port]:
                for row in rows:
                    pairs.add_alone(port, row, time_ms)
        if len(pairs.times) >= PAIRS_MAX:
            pairs.flush()

    def _wake(self, key: Any, time_ms: int, namespace: Any = None) -> None:
        self._set_current_key(key)
        self._timers.register(time_ms, namespace)


class AlignedWindowJoinOperator(WindowJoinOperator):
    """Tumbling and sliding windows. A key's buffer: start of a slice to its records."""

    def __init__(self, inputs: JoinInputs, windows: AlignedWindows) -> None:
        super().__init__(inputs)
        self._windows = windows

    def _is_late(self, times: Times) -> npt.NDArray[np.bool_] | None:
        windows = self._windows
        last_windows = times - (times - windows.offset_ms) % windows.every_ms
        late = last_windows <= self._key_time.now_ms - windows.size_ms + 1
        return late if late.any() else None

    def _take(self, port: int, *, keys: list[Any], times: list[int], rows: list[Any]) -> list[int]:
        slice_ms, offset_ms = self._windows.slice_ms, self._windows.offset_ms
        get = self._buffers.get
        for key, time, row in zip(keys, times, rows, strict=True):
            slice_start = time - (time - offset_ms) % slice_ms
            slices: dict[int, Sides] | None = get(key)
            sides = None if slices is None else slices.get(slice_start)
            if sides is None:
                sides = self._new_slice(key, slices, slice_start)
            sides[port].append(row)
        return []

    def _new_slice(self, key: Any, slices: dict[int, Sides] | None, slice_start: int) -> Sides:
        sides: Sides = ([], [])
        open_until = [
            (start, last_ms)
            for start in self._windows.starts_of(slice_start)
            if (last_ms := start + self._windows.size_ms - 1) > self._key_time.now_ms
        ]
        if not open_until:
            return sides  # between two windows, and in none
        if slices is None:
            slices = {}
            self._buffers.put(key, slices)
        slices[slice_start] = sides
        for start, last_ms in open_until:
            self._wake(key, last_ms, start)
        return sides

    def _on_timer(self, key: Any, namespace: Any) -> None:
        windows, start = self._windows, namespace
        slices: dict[int, Sides] | None = self._buffers.get(key)
        if slices is None:
            return
        end = start + windows.size_ms
        inside = sorted(slice_start for slice_start in slices if start <= slice_start < end)
        lefts = [row for slice_start in inside for row in slices[slice_start][LEFT]]
        rights = [row for slice_start in inside for row in slices[slice_start][RIGHT]]
        self._join(lefts, rights, end - 1)
        for slice_start in inside:
            if slice_start - (slice_start - windows.offset_ms) % windows.every_ms == start:  # its last window
                del slices[slice_start]
        if not slices:
            self._buffers.remove(key)

    @staticmethod
    def _copy_of(buffer: Any) -> Any:
        return {slice_start: (lefts[:], rights[:]) for slice_start, (lefts, rights) in buffer.items()}


class SessionWindowJoinOperator(WindowJoinOperator):
    """A key's buffer: [start, end, left records, right records] of every open session, in order.

    A session has a timer at its end, or earlier: one that has grown meanwhile is put off when the timer fires.
    """

    def __init__(self, inputs: JoinInputs, windows: SessionWindows) -> None:
        super().__init__(inputs)
        self._windows = windows
        self._gaps_ms: list[int] = []

    def _process_part(self, batch: Batch, port: int) -> None:
        function = self._windows.gap_function
        if function is None:
            assert self._windows.gap_ms is not None
            self._gaps_ms = [self._windows.gap_ms] * batch.num_rows
        else:
            self._gaps_ms = gaps_of(function, rows_of(batch), operator=self.context.name)
        super()._process_part(batch, port)

    def _is_late(self, times: Times) -> npt.NDArray[np.bool_] | None:
        return None  # what an open session takes in is not late, so `_take` decides

    def _take(self, port: int, *, keys: list[Any], times: list[int], rows: list[Any]) -> list[int]:
        late: list[int] = []
        for index, (key, time, gap_ms, row) in enumerate(zip(keys, times, self._gaps_ms, rows, strict=True)):
            sessions: list[Any] | None = self._buffers.get(key)
            merged = [session for session in sessions or () if session[0] <= time + gap_ms and time <= session[1]]
            if not merged:
                if time + gap_ms - 1 <= self._key_time.now_ms:
                    late.append(index)
                    continue
                session: list[Any] = [time, time + gap_ms, [], []]
                session[2 + port].append(row)
                self._buffers.put(key, sorted([*(sessions or ()), session], key=lambda each: each[0]))
                self._wake(key, time + gap_ms - 1)
                continue
            assert sessions is not None
            first = merged[0]
            for other in merged[1:]:
                first[2] += other[2]
                first[3] += other[3]
                sessions.remove(other)
            first[0] = min(first[0], time)
            first[1] = max(time + gap_ms, *(session[1] for session in merged))
            first[2 + port].append(row)
        return late

    def _on_timer(self, key: Any, namespace: Any) -> None:
        sessions: list[Any] | None = self._buffers.get(key)
        if sessions is None:
            return
        for session in list(sessions):
            _, end, lefts, rights = session
            if end - 1 <= self._key_time.now_ms:
                self._join(lefts, rights, end - 1)
                sessions.remove(session)
            else:
                self._wake(key, end - 1)
        if not sessions:
            self._buffers.remove(key)

    @staticmethod
    def _copy_of(buffer: Any) -> Any:
        return [[start, end, lefts[:], rights[:]] for start, end, lefts, rights in buffer]


def gaps_of(function: Callable[[Any], Any], records: list[Any], *, operator: str) -> list[int]:
    """In milliseconds, one for each record."""
    gaps_ms = []
    for record, gap in zip(records, map_rows(function, records, operator=operator), strict=True):
        try:
            gap_ms = round(parse_duration(gap, option="the gap of a session") * 1000)
        except ConfigurationError as error:
            raise UserError(error.fact, detail=f"for the record {shown(record)}", hint=error.hint) from error
        if gap_ms <= 0:
            raise UserError(f"the gap of a session can't be {gap!r}", detail=f"for the record {shown(record)}")
        gaps_ms.append(gap_ms)
    return gaps_ms
