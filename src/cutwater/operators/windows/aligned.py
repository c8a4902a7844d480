"""How do records find windows that begin at the same times for all keys?

A slice is a stretch of time whose records are in the same windows. A batch is grouped by key and slice, so that state
is looked up once per group and window, not once per record.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from itertools import chain, repeat
from typing import Any

import numpy as np

from cutwater.batches import Batch, Times, take_rows, times_of
from cutwater.operators.windows.model import GLOBAL_WINDOW, AlignedWindows, TimeWindow, Window
from cutwater.operators.windows.operator import WindowOperator, WindowSpec, grouped
from cutwater.operators.windows.panes import Pane

_GLOBAL = 0


class AlignedWindowOperator(WindowOperator):
    """Tumbling and sliding windows; a window is known by its start."""

    def __init__(self, spec: WindowSpec) -> None:
        super().__init__(spec)
        assert isinstance(spec.assigner, AlignedWindows)
        self._assigner = spec.assigner
        self._time = spec.assigner.time
        self._overlaps = spec.assigner.every_ms < spec.assigner.size_ms

    def _take(self, batch: Batch) -> None:
        if self._time == "event":
            timely, times = self._without_late(batch, self._event_times_of(batch))
            if timely is None:
                return
            batch = timely
        else:
            times = np.full(batch.num_rows, self.context.wall_ms(), np.int64)
        assigner = self._assigner
        arrival = self._arrived(batch, times)
        slices = times - (times - assigner.offset_ms) % assigner.slice_ms
        by_slice = grouped(zip(arrival.keys, slices.tolist(), strict=True), arrival.keys)
        windows = {slice_ms: list(self._open_windows(slice_ms)) for slice_ms in {pair[1] for pair in by_slice}}
        if assigner.slice_ms == assigner.size_ms:
            for (key, slice_ms), indices in by_slice.items():
                for window in windows[slice_ms]:
                    pane = (key, window.start_ms)
                    self._add(arrival, indices, pane, window, pane)
            return
        by_start = {window.start_ms: window for found in windows.values() for window in found}
        for pane, indices in _by_window(by_slice, {at: [w.start_ms for w in found] for at, found in windows.items()}):
            self._add(arrival, indices, pane, by_start[pane[1]], pane)

    def _without_late(self, batch: Batch, times: Times) -> tuple[Batch | None, Times]:
        """What has a window that isn't cleaned up yet; None: nothing."""
        watermark_ms = self._pane_context.watermark_ms
        if watermark_ms is None:
            return batch, times
        assigner = self._assigner
        last_starts = times - (times - assigner.offset_ms) % assigner.every_ms
        late = last_starts <= watermark_ms - (assigner.size_ms - 1 + self._spec.lateness_ms)
        if assigner.every_ms > assigner.size_ms:  # between two windows: in none, so late for none
            late &= times - last_starts < assigner.size_ms
        if not late.any():
            return batch, times
        self._refuse_late(batch, np.flatnonzero(late).tolist())
        timely = np.flatnonzero(~late)
        return (take_rows(batch, timely), times[timely]) if len(timely) else (None, times)

    def _open_windows(self, slice_ms: int) -> Iterator[TimeWindow]:
        size_ms = self._assigner.size_ms
        for start_ms in self._assigner.starts_of(slice_ms):
            if not self._is_late(start_ms + size_ms - 1):
                yield TimeWindow(start_ms, start_ms + size_ms)

    def _window_of(self, pane: Pane) -> Window:
        start_ms: int = pane[1]
        return TimeWindow(start_ms, start_ms + self._assigner.size_ms)

    def _contents_of(self, pane: Pane) -> Pane:
        return pane


class GlobalWindowOperator(WindowOperator):
    """One window per key; count windows are this with a trigger, and an evictor if they overlap."""

    def _take(self, batch: Batch) -> None:
        arrival = self._arrived(batch, times_of(batch))
        groups: dict[Any, list[int]] = grouped(zip(arrival.keys, repeat(_GLOBAL), strict=False), arrival.keys)
        for pane, indices in groups.items():
            self._add(arrival, indices, pane, GLOBAL_WINDOW, pane)

    def _window_of(self, pane: Pane) -> Window:
        return GLOBAL_WINDOW

    def _contents_of(self, pane: Pane) -> Pane:
        return pane


def _by_window(by_slice: dict[Pane, list[int]], starts: dict[int, list[int]]) -> Iterator[tuple[Pane, list[int]]]:
    """A window of several slices gets its records in the order of their arrival, not slice by slice."""
    runs: defaultdict[Pane, list[list[int]]] = defaultdict(list)
    for (key, slice_ms), indices in by_slice.items():
        for start_ms in starts[slice_ms]:
            runs[key, start_ms].append(indices)
    for pane, found in runs.items():
        yield pane, found[0] if len(found) == 1 else sorted(chain.from_iterable(found))
