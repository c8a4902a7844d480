"""How do the sessions of a key grow and become one?

A record opens a session of its own, from its time to the gap behind it; sessions that touch become one. The contents of
the first of them stay where they are and take in the others'; timers and trigger state are those of the new one.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import repeat
from typing import Any, NamedTuple

import numpy as np

from cutwater.batches import Batch, rows_of
from cutwater.durations import parse_duration
from cutwater.errors import CutwaterError, UserError
from cutwater.operators.contract import OperatorContext
from cutwater.operators.keyed_values import MISSING
from cutwater.operators.user_code import map_rows, raise_user_error, shown
from cutwater.operators.windows.model import SessionWindows, TimeWindow, Window
from cutwater.operators.windows.operator import WindowOperator, WindowSpec, grouped
from cutwater.operators.windows.panes import Pane, Panes

SESSIONS_STATE = "__sessions"

Span = tuple[int, int]
"""Start and end of a session: what its timers and its trigger state are known by."""


class Session(NamedTuple):
    """An open session of a key. Sessions of a key never touch, so `contents`, a time inside, is its alone."""

    start_ms: int
    end_ms: int
    #: The start that it had at first: where its contents are.
    contents: int

    @property
    def span(self) -> Span:
        return self.start_ms, self.end_ms


class SessionWindowOperator(WindowOperator):
    """Windows that merge."""

    def __init__(self, spec: WindowSpec) -> None:
        super().__init__(spec)
        assert isinstance(spec.assigner, SessionWindows)
        self._assigner = spec.assigner
        self._time = spec.assigner.time

    def open(self, context: OperatorContext) -> None:
        super().open(context)
        self._sessions = Panes(self._keyed_backend, SESSIONS_STATE, context)

    def _begin(self) -> None:
        super()._begin()
        self._sessions.begin()

    def _take(self, batch: Batch) -> None:
        if self._time == "event":
            times = self._event_times_of(batch)
        else:
            times = np.full(batch.num_rows, self.context.wall_ms(), np.int64)
        arrival = self._arrived(batch, times)
        starts = times.tolist()
        ends = self._ends_of(batch, starts)
        late: list[int] = []
        # Records of a batch that are sessions together already touch the state once. Only where it makes no difference:
        # the trigger isn't asked for every record, and none of them is late or makes a session that is over fire again.
        together = self._runs is not None and self._runs.asked_once and not self._is_over(min(ends) - 1)
        for (key, _), indices in grouped(zip(arrival.keys, repeat(0), strict=False), arrival.keys).items():
            if together and len(indices) > 1:
                spans = _joined(indices, starts, ends)
            else:
                spans = [(starts[index], ends[index], [index]) for index in indices]
            for start_ms, end_ms, run in spans:
                session = self._session_with(key, start_ms, end_ms)
                if session is None:
                    late += run
                else:
                    window = TimeWindow(session.start_ms, session.end_ms)
                    self._add(arrival, run, (key, session.span), window, (key, session.contents))
        if late:
            self._refuse_late(batch, sorted(late))

    def _ends_of(self, batch: Batch, starts: list[int]) -> list[int]:
        gap_ms, function = self._assigner.gap_ms, self._assigner.gap_function
        if gap_ms is not None:
            return [start_ms + gap_ms for start_ms in starts]
        assert function is not None
        rows = rows_of(batch)
        gaps = map_rows(function, rows, operator=self.context.name)
        return [start + self._gap_ms_of(gap, row) for start, gap, row in zip(starts, gaps, rows, strict=True)]

    def _gap_ms_of(self, gap: Any, record: Any) -> int:
        try:
            gap_ms = round(parse_duration(gap, option="the gap of a session") * 1000)
        except CutwaterError as error:
            raise UserError(error.fact, detail=f"for the record {shown(record)}", hint=error.hint) from error
        if gap_ms <= 0:
            raise UserError(f"the gap of a session can't be {gap!r}", detail=f"for the record {shown(record)}")
        return gap_ms

    def _session_with(self, key: Any, start_ms: int, end_ms: int) -> Session | None:
        """The session that holds this span, made or grown if need be; None: the span by itself is late."""
        sessions = self._sessions.of(key)
        place: Pane = (key, None)
        open_sessions: tuple[Session, ...] = sessions.get(place, ())
        touched = [one for one in open_sessions if one.start_ms <= end_ms and start_ms <= one.end_ms]
        if not touched:
            if self._is_late(end_ms - 1):
                return None
            session = Session(start_ms, end_ms, start_ms)
            sessions[place] = (*open_sessions, session)
            return session
        first = touched[0]
        if len(touched) == 1 and first.start_ms <= start_ms and end_ms <= first.end_ms:
            return first
        session = Session(
            min(start_ms, *(one.start_ms for one in touched)),
            max(end_ms, *(one.end_ms for one in touched)),
            first.contents,
        )
        self._merge(key, touched, session)
        sessions[place] = (*(one for one in open_sessions if one not in touched), session)
        return session

    def _merge(self, key: Any, touched: Sequence[Session], session: Session) -> None:
        self._merge_contents(key, touched)
        self._keyed_backend.set_current_key(key)
        window = TimeWindow(session.start_ms, session.end_ms)
        old_panes: list[Pane] = [(key, one.span) for one in touched]
        self._pane_context.point_at((key, session.span), old_panes)
        try:
            self._trigger.on_merge(window, self._pane_context)
        except Exception as error:
            self._blame_trigger(error, None)
        for pane in old_panes:
            old = TimeWindow(*pane[1])
            self._clear_trigger(pane, old)
            timers = self._event if self._time == "event" else self._processing
            timers.delete(self._clean_up_ms(old), pane[1])
        self._set_clean_up(window, session.span)

    def _merge_contents(self, key: Any, touched: Sequence[Session]) -> None:
        contents, fold = self._contents.of(key), self._fold
        first: Pane = (key, touched[0].contents)
        merged = contents.get(first, MISSING)
        for other in touched[1:]:
            added = contents.get((key, other.contents), MISSING)
            if added is MISSING:
                continue
            try:
                if merged is MISSING:
                    merged = added
                else:  # owned while both are still there: to own a value is to put it in its place
                    merged = fold.merge(self._owned(first, merged), self._owned((key, other.contents), added))
            except Exception as error:
                moment = f"on two sessions of key {shown(key)} that became one"
                raise_user_error(error, function=fold.function, operator=self.context.name, moment=moment)
            contents.pop((key, other.contents), None)
            contents[first] = merged

    def _owned(self, pane: Pane, value: Any) -> Any:
        return self._contents.own(pane, value) if self._fold.mutable else value

    def _window_of(self, pane: Pane) -> Window | None:
        return None if self._known(pane) is None else TimeWindow(*pane[1])

    def _contents_of(self, pane: Pane) -> Pane:
        session = self._known(pane)
        assert session is not None, "asked for the contents of a session that has gone"
        return pane[0], session.contents

    def _forget(self, pane: Pane) -> None:
        sessions = self._sessions.of(pane[0])
        place: Pane = (pane[0], None)
        left = tuple(one for one in sessions.get(place, ()) if one.span != pane[1])
        if left:
            sessions[place] = left
        else:
            sessions.pop(place, None)

    def _known(self, pane: Pane) -> Session | None:
        sessions: tuple[Session, ...] = self._sessions.of(pane[0]).get((pane[0], None), ())
        return next((one for one in sessions if one.span == pane[1]), None)


def _joined(indices: list[int], starts: list[int], ends: list[int]) -> list[tuple[int, int, list[int]]]:
    """The sessions of these records alone: start, end, and which are in it, in their order."""
    by_time = sorted(indices, key=starts.__getitem__)
    joined: list[tuple[int, int, list[int]]] = []
    start_ms, end_ms, run = starts[by_time[0]], ends[by_time[0]], [by_time[0]]
    for index in by_time[1:]:
        if starts[index] <= end_ms:
            run.append(index)
            end_ms = max(end_ms, ends[index])
        else:
            joined.append((start_ms, end_ms, sorted(run)))
            start_ms, end_ms, run = starts[index], ends[index], [index]
    joined.append((start_ms, end_ms, sorted(run)))
    return joined
