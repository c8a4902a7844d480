"""Into which slice of event time does a record fall, and which windows does a slice belong to?

Tumbling and sliding windows are made of slices that don't overlap: a record is added to one slice only, and a window's
result is merged from its slices when it fires.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from cutwater.batches import Times, times_of
from cutwater.errors import UserError
from cutwater.state.columnar.buffers import Integers
from cutwater.state.columnar.compiling import kernel

SLICE_COLUMN = "__slice"


@dataclass(frozen=True, slots=True)
class Slices:
    """Windows of `size_ms` that begin every `every_ms`, at `offset_ms` and its multiples."""

    size_ms: int
    every_ms: int
    offset_ms: int = 0

    @property
    def step_ms(self) -> int:
        """How long a slice is."""
        return math.gcd(self.size_ms, self.every_ms)

    def numbers_of(self, times: Times) -> Integers:
        """Each record's slice as a number: neighbouring slices have neighbouring numbers."""
        numbers: Integers = np.empty(len(times), dtype=np.int64)
        _number_slices(times, self.offset_ms, self.step_ms, numbers)
        return numbers

    def starts_of(self, numbers: Integers) -> Integers:
        """The beginning of each numbered slice."""
        return numbers * self.step_ms + self.offset_ms

    def last_window_of(self, slice_ms: int) -> int:
        """The beginning of the last window with this slice: when it is over, nobody needs the slice."""
        return slice_ms - (slice_ms - self.offset_ms) % self.every_ms

    def windows_of(self, slice_ms: int) -> range:
        """The beginnings of all windows with this slice, earliest first."""
        last = self.last_window_of(slice_ms)
        first = last - (self.size_ms - self.step_ms - (slice_ms - last)) // self.every_ms * self.every_ms
        return range(first, last + 1, self.every_ms)

    def slices_of(self, window_ms: int) -> range:
        return range(window_ms, window_ms + self.size_ms, self.step_ms)


@kernel
def _number_slices(times: Times, offset_ms: int, step_ms: int, numbers: Integers) -> None:
    """Dividing is slow, and a record mostly falls into the slice of the one before it."""
    begin, end, number = np.int64(0), np.int64(0), np.int64(0)
    for row in range(len(times)):
        time = times[row]
        if not begin <= time < end:
            number = (time - offset_ms) // step_ms
            begin = number * step_ms + offset_ms
            end = begin + step_ms
        numbers[row] = number


def slice_times_of(batch: pa.RecordBatch, operator: str) -> Times:
    """The event times of a batch for a window; raises when nobody has assigned any."""
    times = times_of(batch)
    if times is None:
        raise UserError(
            f'operator "{operator}" has windows of event time, but its records have no timestamps',
            hint='assign them first: stream.assign_timestamps("time", cw.watermarks.bounded("5s"))',
        )
    return times
