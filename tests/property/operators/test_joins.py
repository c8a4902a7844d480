"""Do joins give what nested loops over the complete lists give, whatever the order, the failures and the tasks?

The loops know nothing of time that passes. All that the stream adds is which records count: those whose time was beyond
the watermark when they came.
"""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cutwater.batches import ObjectBatch, rows_of, times_of
from cutwater.graph.keys import KeySelector
from cutwater.operators.contract import Operator, OperatorContext
from cutwater.operators.joins.inputs import JoinInputs, JoinKind
from cutwater.operators.joins.interval import IntervalJoinOperator, OuterIntervalJoinOperator
from cutwater.operators.joins.lookup import EventTimeLookupOperator, LookupInputs
from cutwater.operators.joins.pairing import TuplePairing
from cutwater.operators.joins.windowed import AlignedWindowJoinOperator, SessionWindowJoinOperator
from cutwater.operators.metrics import TaskMetrics
from cutwater.operators.windows.model import AlignedWindows, SessionWindows
from cutwater.protocol.ids import AttemptNumber, CheckpointId
from cutwater.protocol.key_groups import group_range, key_group, subtask_of
from cutwater.protocol.watermarks import MAX_TIMESTAMP_MS
from cutwater.state.contract import KeyedBackendSettings, RestoredState
from cutwater.state.heap import HeapBackend

MAX_PARALLELISM = 8
KEY = KeySelector(lambda record: record.key)
BEFORE_ALL = -1_000_000


class Record(NamedTuple):
    key: int
    time: int
    number: int


# What happens to a running job.


class Arrived(NamedTuple):
    port: int
    record: Record


class TimePassed(NamedTuple):
    watermark_ms: int


class SnapshotTaken(NamedTuple):
    pass


class Crashed(NamedTuple):
    parallelism: int


Event = Arrived | TimePassed | SnapshotTaken | Crashed


class PickledValue:
    """A value state that keeps bytes, as a backend on disk does."""

    def __init__(self, state: Any) -> None:
        self._state = state
        self.clear = state.clear

    def value(self) -> Any:
        data = self._state.value()
        return None if data is None else pickle.loads(data)

    def update(self, value: Any) -> None:
        self._state.update(pickle.dumps(value))


class BytesBackend:
    """Has handles, but no tables of objects to reach into."""

    def __init__(self, backend: HeapBackend) -> None:
        self.set_current_key = backend.set_current_key
        self.value_state = lambda name: PickledValue(backend.value_state(name))
        self.timer_state = backend.timer_state
        self.freeze = backend.freeze
        self.close = backend.close


class Tasks:
    """The tasks of one operator: records go to their key's, watermarks to all."""

    def __init__(
        self,
        make: Callable[[], Operator],
        parallelism: int,
        *,
        in_bytes: bool,
        by_key: bool = True,
        snapshot: tuple[list[Any], list[list[Any]]] = ([], []),
    ) -> None:
        self.output: list[tuple[Any, int]] = []
        self.late = 0
        self._by_key = by_key
        self._parallelism = parallelism
        self._turn = 0
        chunks, lists = snapshot
        self._metrics = [TaskMetrics(task=str(subtask)) for subtask in range(parallelism)]
        self._operators = [make() for _ in range(parallelism)]
        #: What each task told about event time, or had before it told.
        self._told = [BEFORE_ALL] * parallelism
        for subtask, operator in enumerate(self._operators):
            operator.open(self._context(subtask, chunks, self._restored_lists(lists, subtask), in_bytes=in_bytes))

    def _context(self, subtask: int, chunks: list[Any], lists: dict[str, list[bytes]], *, in_bytes: bool) -> Any:
        groups = group_range(subtask, self._parallelism, MAX_PARALLELISM)
        backend = HeapBackend(KeyedBackendSettings(MAX_PARALLELISM, groups))
        backend.restore(RestoredState([chunk for chunk in chunks if chunk[1] in groups]))
        return OperatorContext(
            job_id="job",
            job_name="job",
            uid="join",
            name="join",
            subtask=subtask,
            parallelism=self._parallelism,
            max_parallelism=MAX_PARALLELISM,
            attempt=AttemptNumber(1),
            groups=groups,
            now_seconds=lambda: 0.0,
            wall_ms=lambda: 0,
            metrics=self._metrics[subtask],
            emit=lambda batch: self._take(batch, subtask),
            emit_side=lambda tag, batch: None,
            emit_watermark=lambda time: self._tell(subtask, time),
            emit_idle=lambda: None,
            keyed_backend=lambda: BytesBackend(backend) if in_bytes else backend,  # type: ignore[arg-type, return-value]
            restored_keyed=lambda: (),
            restored_lists=lists,
        )

    def _restored_lists(self, lists: list[list[Any]], subtask: int) -> dict[str, list[bytes]]:
        """As `snapshots.redistribution` deals them out."""
        found: dict[str, list[bytes]] = {}
        counted: Counter[str] = Counter()
        for former, parts in enumerate(lists):
            for part in parts:
                for item in part.items:
                    stays = len(lists) == self._parallelism
                    target = former if stays else counted[part.name] % self._parallelism
                    counted[part.name] += 1
                    if part.redistribution == "union" or target == subtask:
                        found.setdefault(part.name, []).append(item)
        return found

    def _take(self, batch: Any, subtask: int) -> None:
        times = times_of(batch).tolist()
        assert min(times) > self._told[subtask], "a result that is late for whoever comes next"
        self.output += zip(rows_of(batch), times, strict=True)

    def _tell(self, subtask: int, time: int) -> None:
        assert time >= self._told[subtask]
        self._told[subtask] = time

    def feed(self, port: int, records: Sequence[Record], *, to_all: bool = False) -> None:
        parts: dict[int, list[Record]] = {}
        for record in records:
            if self._by_key:
                target = subtask_of(key_group(record.key, MAX_PARALLELISM), self._parallelism, MAX_PARALLELISM)
            else:
                target = self._turn = (self._turn + 1) % self._parallelism
            for subtask in range(self._parallelism) if to_all else [target]:
                parts.setdefault(subtask, []).append(record)
        for subtask, part in parts.items():
            times = np.array([record.time for record in part], dtype=np.int64)
            self._operators[subtask].process(ObjectBatch(part, times), port)

    def advance(self, watermark_ms: int) -> None:
        for subtask, operator in enumerate(self._operators):
            operator.on_watermark(watermark_ms)
            if operator.forwards_time:
                self._told[subtask] = max(self._told[subtask], watermark_ms)

    def freeze(self) -> list[Any]:
        return [operator.freeze(CheckpointId(1)) for operator in self._operators]

    @property
    def late_records(self) -> int:
        return sum(metrics.late_records for metrics in self._metrics)


def play(
    make: Callable[[], Operator],
    events: Sequence[Event],
    *,
    in_bytes: bool,
    by_key: bool = True,
    broadcast: bool = False,
) -> list[tuple[Any, int]]:
    """Runs the job over all events and to the end of time. A crash undoes what came after the snapshot, and repeats it
    with other tasks; without a snapshot it begins anew."""
    tasks = Tasks(make, 1, in_bytes=in_bytes, by_key=by_key)
    snapshot: list[Any] = []
    kept: list[tuple[Any, int]] = []
    since: list[Event] = []

    def apply(todo: Sequence[Event]) -> None:
        waiting: list[Record] = []
        for index, event in enumerate(todo):
            match event:
                case Arrived(port, record):
                    waiting.append(record)
                    follower = todo[index + 1] if index + 1 < len(todo) else None
                    if not (isinstance(follower, Arrived) and follower.port == port):
                        tasks.feed(port, waiting, to_all=broadcast and port == 1)
                        waiting = []
                case TimePassed(watermark_ms):
                    tasks.advance(watermark_ms)

    for event in events:
        match event:
            case SnapshotTaken():
                apply(since)
                snapshot, kept, since = tasks.freeze(), kept + tasks.output, []
                tasks.output = []
            case Crashed(parallelism):
                apply(since)
                chunks = [chunk for part in snapshot if part.keyed is not None for chunk in part.keyed.chunks()]
                restored = chunks, [list(part.lists) for part in snapshot]
                tasks = Tasks(make, parallelism, in_bytes=in_bytes, by_key=by_key, snapshot=restored)
                apply(since)
                snapshot, kept, since = tasks.freeze(), kept + tasks.output, []
                tasks.output = []
            case _:
                since.append(event)
    apply(since)
    tasks.advance(MAX_TIMESTAMP_MS)
    return kept + tasks.output


def in_time(events: Sequence[Event]) -> tuple[list[Record], list[Record]]:
    """The records that count, left and right, in the order in which they came."""
    sides: tuple[list[Record], list[Record]] = ([], [])
    reached = BEFORE_ALL
    for event in events:
        match event:
            case TimePassed(watermark_ms):
                reached = max(reached, watermark_ms)
            case Arrived(port, record) if record.time > reached:
                sides[port].append(record)
    return sides


times = st.integers(0, 30)
records = st.builds(Record, st.integers(0, 2), times, st.integers(0, 3))
arrivals = st.builds(Arrived, st.integers(0, 1), records)
events = st.lists(
    st.one_of(
        arrivals,
        arrivals,
        arrivals,
        st.builds(TimePassed, times),
        st.builds(SnapshotTaken),
        st.builds(Crashed, st.integers(1, 3)),
    ),
    max_size=40,
)
bounds = st.tuples(st.integers(-8, 8), st.integers(-8, 8)).map(lambda pair: (min(pair), max(pair)))
kinds: st.SearchStrategy[JoinKind] = st.sampled_from(["inner", "left", "right", "full"])


def interval_pairs(
    left: list[Record], right: list[Record], kind: JoinKind, low: int, high: int
) -> Counter[tuple[Any, int]]:
    """Slow and obvious."""
    pairs: list[tuple[Any, int]] = []
    for one in left:
        partners = [other for other in right if other.key == one.key and low <= other.time - one.time <= high]
        pairs += [((one, other), max(one.time, other.time)) for other in partners]
        if not partners and kind in ("left", "full"):
            pairs.append(((one, None), one.time))
    for other in right:
        partners = [one for one in left if other.key == one.key and low <= other.time - one.time <= high]
        if not partners and kind in ("right", "full"):
            pairs.append(((None, other), other.time))
    return Counter(pairs)


@pytest.mark.parametrize("in_bytes", [False, True])
@given(events=events, between=bounds, kind=kinds)
def test_an_interval_join_gives_what_nested_loops_give(
    in_bytes: bool, events: list[Event], between: tuple[int, int], kind: JoinKind
) -> None:
    operator = IntervalJoinOperator if kind == "inner" else OuterIntervalJoinOperator
    found = play(lambda: operator(JoinInputs((KEY, KEY), TuplePairing(), kind), *between), events, in_bytes=in_bytes)
    assert Counter(found) == interval_pairs(*in_time(events), kind, *between)


def aligned_windows(time: int, windows: AlignedWindows) -> list[int]:
    """Starts; by trying them all."""
    candidates = range(-100, 200)
    return [
        start
        for start in candidates
        if (start - windows.offset_ms) % windows.every_ms == 0 and start <= time < start + windows.size_ms
    ]


def aligned_pairs(events: Sequence[Event], kind: JoinKind, windows: AlignedWindows) -> Counter[tuple[Any, int]]:
    """Slow and obvious: all windows, each with what came before it was over."""
    contents: dict[tuple[int, int], tuple[list[Record], list[Record]]] = {}
    reached = BEFORE_ALL
    for event in events:
        match event:
            case TimePassed(watermark_ms):
                reached = max(reached, watermark_ms)
            case Arrived(port, record):
                for start in aligned_windows(record.time, windows):
                    if start + windows.size_ms - 1 > reached:
                        contents.setdefault((record.key, start), ([], []))[port].append(record)
    pairs: Counter[tuple[Any, int]] = Counter()
    for (_, start), sides in contents.items():
        pairs += window_pairs(*sides, kind, start + windows.size_ms - 1)
    return pairs


def session_pairs(left: list[Record], right: list[Record], kind: JoinKind, gap_ms: int) -> Counter[tuple[Any, int]]:
    """Slow and obvious: the records of a key in order, cut where the gap is too wide."""
    pairs: Counter[tuple[Any, int]] = Counter()
    for key in {record.key for record in left + right}:
        in_order = sorted({record.time for record in left + right if record.key == key})
        sessions: list[list[int]] = []
        for time in in_order:
            if sessions and time - sessions[-1][-1] <= gap_ms:
                sessions[-1].append(time)
            else:
                sessions.append([time])
        for session in sessions:
            inside = [
                [record for record in side if record.key == key and session[0] <= record.time <= session[-1]]
                for side in (left, right)
            ]
            pairs += window_pairs(inside[0], inside[1], kind, session[-1] + gap_ms - 1)
    return pairs


def window_pairs(left: list[Record], right: list[Record], kind: JoinKind, time: int) -> Counter[tuple[Any, int]]:
    if left and right:
        return Counter(((one, other), time) for one in left for other in right)
    alone = [((one, None), time) for one in left if kind in ("left", "full")]
    return Counter(alone + [((None, other), time) for other in right if kind in ("right", "full")])


aligned = st.builds(AlignedWindows, st.integers(1, 12), st.integers(1, 12), st.integers(0, 5), st.just("event"))


@pytest.mark.parametrize("in_bytes", [False, True])
@given(events=events, windows=aligned, kind=kinds)
def test_a_window_join_gives_what_nested_loops_give(
    in_bytes: bool, events: list[Event], windows: AlignedWindows, kind: JoinKind
) -> None:
    inputs = JoinInputs((KEY, KEY), TuplePairing(), kind)
    found = play(lambda: AlignedWindowJoinOperator(inputs, windows), events, in_bytes=in_bytes)
    assert Counter(found) == aligned_pairs(events, kind, windows)


def never_late(events: Sequence[Event]) -> list[Event]:
    """Whether a session takes in what is late depends on what is open, so the model without time leaves it out.

    So does whether one that ends at the very time of the next record is over by then: time stays two behind.
    """
    first_after = [MAX_TIMESTAMP_MS] * (len(events) + 1)
    for index in range(len(events) - 1, -1, -1):
        event = events[index]
        own = event.record.time if isinstance(event, Arrived) else MAX_TIMESTAMP_MS
        first_after[index] = min(own, first_after[index + 1])
    return [
        TimePassed(min(event.watermark_ms, first_after[index] - 2)) if isinstance(event, TimePassed) else event
        for index, event in enumerate(events)
    ]


@pytest.mark.parametrize("in_bytes", [False, True])
@given(events=events.map(never_late), gap_ms=st.integers(1, 8), kind=kinds)
def test_a_session_join_gives_what_nested_loops_give(
    in_bytes: bool, events: list[Event], gap_ms: int, kind: JoinKind
) -> None:
    inputs, windows = JoinInputs((KEY, KEY), TuplePairing(), kind), SessionWindows(gap_ms, None, "event")
    found = play(lambda: SessionWindowJoinOperator(inputs, windows), events, in_bytes=in_bytes)
    assert Counter(found) == session_pairs(*in_time(events), kind, gap_ms)


def valid_versions(asking: list[Record], versions: list[Record], *, keeps_unmatched: bool) -> Counter[tuple[Any, int]]:
    """Slow and obvious. Of versions of one time the last to come counts."""
    pairs: list[tuple[Any, int]] = []
    for record in asking:
        valid = None
        for version in versions:
            at_or_before = version.key == record.key and version.time <= record.time
            if at_or_before and (valid is None or version.time >= valid.time):
                valid = version
        if valid is not None or keeps_unmatched:
            pairs.append(((record, valid), record.time))
    return Counter(pairs)


def without_late_versions(events: Sequence[Event]) -> list[Event]:
    """A version that is late changes what comes later only, so it has no place in a model without time."""
    kept: list[Event] = []
    reached = BEFORE_ALL
    for event in events:
        if isinstance(event, TimePassed):
            reached = max(reached, event.watermark_ms)
        if not (isinstance(event, Arrived) and event.port == 1 and event.record.time <= reached):
            kept.append(event)
    return kept


@pytest.mark.parametrize("by_key", [False, True])
@given(events=events.map(without_late_versions), keeps_unmatched=st.booleans())
def test_a_lookup_finds_what_was_valid(by_key: bool, events: list[Event], keeps_unmatched: bool) -> None:
    inputs = LookupInputs(KEY, KEY, TuplePairing(), keeps_unmatched=keeps_unmatched, stream_key=KEY if by_key else None)
    found = play(lambda: EventTimeLookupOperator(inputs), events, in_bytes=False, by_key=by_key, broadcast=True)
    assert Counter(found) == valid_versions(*in_time(events), keeps_unmatched=keeps_unmatched)
