"""Are windows what a slow and obvious model says, whatever comes late, restored and rescaled?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any, NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.operators.windowing import Windows, Written

import cutwater as cw
from cutwater.protocol.key_groups import key_group
from cutwater.protocol.watermarks import MAX_TIMESTAMP_MS

KEYS = "abcdef"
BEFORE_TIME = -(10**9)


class Record(NamedTuple):
    """What is in a batch; its number tells it from its equals."""

    key: str
    number: int
    time_ms: int


Batch = list[Record]
Step = Batch | int
"""A batch of records, or a watermark."""


@st.composite
def scripts(draw: st.DrawFn) -> list[Step]:
    """Records in any order, many at the same time, and a watermark that runs past some of them."""
    times = st.integers(-5, draw(st.sampled_from([5, 40])))
    keys = draw(st.sampled_from(["a", "ab", KEYS]))
    numbered = iter(range(1000))
    steps: list[Step] = []
    reached = BEFORE_TIME
    for _ in range(draw(st.integers(1, 12))):
        if draw(st.booleans()):
            pairs = draw(st.lists(st.tuples(st.sampled_from(keys), times), min_size=1, max_size=8))
            steps.append([Record(key, next(numbered), time) for key, time in pairs])
        elif (watermark := draw(times)) > reached:
            reached = watermark
            steps.append(watermark)
    return [*steps, MAX_TIMESTAMP_MS]


# The models. Each says which firings there are, as (key, start, end, numbers in the window).

Firing = tuple[str, int, int, tuple[int, ...]]


class Outcome(NamedTuple):
    firings: Counter[Any]
    late: set[int]


def arrivals(script: list[Step]) -> Iterator[tuple[Record, int]]:
    """Each record and the watermark that it finds."""
    watermark = BEFORE_TIME
    for step in script:
        if isinstance(step, int):
            watermark = step
        else:
            yield from ((record, watermark) for record in step)


class Aligned(NamedTuple):
    size: int
    every: int
    offset: int
    lateness: int

    def windows_of(self, time_ms: int) -> list[tuple[int, int]]:
        starts = range(time_ms - self.size + 1, time_ms + 1)
        return [(start, start + self.size) for start in starts if (start - self.offset) % self.every == 0]

    def members(self, script: list[Step]) -> tuple[dict[tuple[str, int, int], list[tuple[int, int]]], set[int]]:
        """Number and watermark of the records of each window, and the late ones."""
        found: dict[tuple[str, int, int], list[tuple[int, int]]] = {}
        late = set()
        for record, watermark in arrivals(script):
            windows = self.windows_of(record.time_ms)
            still_there = [(start, end) for start, end in windows if end - 1 + self.lateness > watermark]
            if windows and not still_there:
                late.add(record.number)
            for start, end in still_there:
                found.setdefault((record.key, start, end), []).append((record.number, watermark))
        return found, late


def model_at_the_end(windows: Aligned, script: list[Step]) -> Outcome:
    """Once at the window's end, and for each late record that is allowed."""
    firings: Counter[Any] = Counter()
    members, late = windows.members(script)
    for (key, start, end), found in members.items():
        numbers = [number for number, _ in found]
        in_time = sum(watermark < end - 1 for _, watermark in found)
        if in_time:
            firings[key, start, end, tuple(numbers[:in_time])] += 1
        for count in range(in_time + 1, len(numbers) + 1):
            firings[key, start, end, tuple(numbers[:count])] += 1
    return Outcome(firings, late)


def model_by_count(windows: Aligned, script: list[Step], *, count: int, purging: bool) -> Outcome:
    firings: Counter[Any] = Counter()
    members, late = windows.members(script)
    for (key, start, end), found in members.items():
        numbers = [number for number, _ in found]
        for full in range(count, len(numbers) + 1, count):
            firings[key, start, end, tuple(numbers[full - count if purging else 0 : full])] += 1
    return Outcome(firings, late)


def model_of_sessions(script: list[Step], *, gap: int, lateness: int) -> Outcome:
    """Record by record: a set of sessions for each key, joined wherever they touch."""
    firings: Counter[Any] = Counter()
    late = set()
    sessions: list[tuple[str, int, int, list[int]]] = []
    watermark = BEFORE_TIME
    for step in script:
        if isinstance(step, int):
            for key, start, end, numbers in sessions:
                if watermark < end - 1 <= step:
                    firings[key, start, end, tuple(sorted(numbers))] += 1
            watermark = step
            sessions = [session for session in sessions if session[2] - 1 + lateness > watermark]
            continue
        for record in step:
            start, end, numbers = record.time_ms, record.time_ms + gap, [record.number]
            touched = [one for one in sessions if one[0] == record.key and one[1] <= end and start <= one[2]]
            if not touched and end - 1 + lateness <= watermark:
                late.add(record.number)
                continue
            for session in touched:
                sessions.remove(session)
                start, end = min(start, session[1]), max(end, session[2])
                numbers = numbers + session[3]
            sessions.append((record.key, start, end, numbers))
            if end - 1 <= watermark:
                firings[record.key, start, end, tuple(sorted(numbers))] += 1
    return Outcome(firings, late)


def model_of_sessions_in_time(script: list[Step], *, gap: int) -> Counter[Any]:
    """All records by time, cut where they are further apart than the gap: for when nothing is late."""
    firings: Counter[Any] = Counter()
    for key in KEYS:
        records = sorted((r for r, _ in arrivals(script) if r.key == key), key=lambda record: record.time_ms)
        cuts = [i for i in range(1, len(records)) if records[i].time_ms - records[i - 1].time_ms > gap]
        for first, last in zip([0, *cuts], [*cuts, len(records)], strict=True):
            session = records[first:last]
            if session:
                numbers = tuple(sorted(record.number for record in session))
                firings[key, session[0].time_ms, session[-1].time_ms + gap, numbers] += 1
    return firings


# The operator under test: in one task, in one that is restored on the way, or in two after a rescale.


class Tasks:
    """One task or more with the keys of their groups."""

    def __init__(self, written: Written) -> None:
        self._written = written
        self._tasks = [Windows(written)]
        self._owner: Callable[[str], int] = lambda key: 0
        self.rows: list[Any] = []
        self.late: set[int] = set()

    def run(self, steps: list[Step]) -> None:
        for step in steps:
            for index, task in enumerate(self._tasks):
                if isinstance(step, int):
                    task.operator.on_watermark(step)
                elif records := [record for record in step if self._owner(record.key) == index]:
                    task.feed_at(*((record, record.time_ms) for record in records))
                self.rows += task.output
                self.late |= {record.number for _, batch in task.side for record in batch}
                task.side.clear()

    def restore(self, read_after: list[Step], *, tasks: int) -> None:
        """Freezes, goes on with some steps whose results are lost, and starts anew from what was frozen."""
        snapshots = [task.operator.freeze(1) for task in self._tasks]  # type: ignore[arg-type]
        rows, late = list(self.rows), set(self.late)
        self.run(read_after)
        self.rows, self.late = rows, late
        chunks = [chunk for snapshot in snapshots for chunk in snapshot.keyed.chunks()]  # type: ignore[union-attr]
        lists: dict[str, list[bytes]] = {}
        for snapshot in snapshots:
            for part in snapshot.lists:
                lists.setdefault(part.name, []).extend(part.items)
        self._owner = lambda key: key_group(key, 8) % tasks
        self._tasks = [
            Windows(
                self._written,
                keyed=[chunk for chunk in chunks if chunk[1] % tasks == index],
                lists=lists,
                subtask=index,
                parallelism=tasks,
            )
            for index in range(tasks)
        ]


class Interruption(NamedTuple):
    """After `at` steps, and `lost` steps more that are done again; None: never."""

    at: int
    lost: int
    tasks: int


interruptions = st.none() | st.builds(Interruption, st.integers(0, 12), st.integers(0, 4), st.sampled_from([1, 2]))


def outcome(written: Written, script: list[Step], interruption: Interruption | None) -> Outcome:
    tasks = Tasks(written)
    if interruption is None:
        tasks.run(script)
    else:
        before, after = script[: interruption.at], script[interruption.at :]
        tasks.run(before)
        tasks.restore(after[: interruption.lost], tasks=interruption.tasks)
        tasks.run(after)
    assert all(task.backend.size() == 0 for task in tasks._tasks), "state of windows that have gone"
    return Outcome(Counter(tasks.rows), tasks.late)


def ms(milliseconds: int) -> timedelta:
    return timedelta(milliseconds=milliseconds)


def firing(key: str, records: list[Record], context: Any) -> list[Firing]:
    return [(key, context.window.start_ms, context.window.end_ms, tuple(record.number for record in records))]


def unordered_firing(key: str, records: list[Record], context: Any) -> list[Firing]:
    return [(key, context.window.start_ms, context.window.end_ms, tuple(sorted(record.number for record in records)))]


@st.composite
def aligned_windows(draw: st.DrawFn, lateness: bool = True) -> Aligned:
    size, every = draw(st.integers(1, 15)), draw(st.integers(1, 15))
    every = draw(st.sampled_from([size, every]))
    return Aligned(size, every, draw(st.integers(0, every - 1)), draw(st.integers(0, 10)) if lateness else 0)


def sliding(windows: Aligned) -> Any:
    return cw.sliding(ms(windows.size), ms(windows.every), offset=ms(windows.offset))


def key_of(record: Record) -> str:
    return record.key


EXAMPLES = settings(max_examples=150)


@EXAMPLES
@given(aligned_windows(), scripts(), interruptions)
def test_aligned_windows_hold_and_fire_what_the_model_says(
    windows: Aligned, script: list[Step], interruption: Interruption | None
) -> None:
    def written(keyed: cw.KeyedStream) -> cw.DataStream:
        steps = keyed.window(sliding(windows)).allowed_lateness(ms(windows.lateness)).late_output("late")
        return steps.process(firing)

    assert outcome(written, script, interruption) == model_at_the_end(windows, script)


@EXAMPLES
@given(aligned_windows(), scripts(), interruptions)
def test_aggregates_are_those_of_the_records_that_the_model_puts_into_the_window(
    windows: Aligned, script: list[Step], interruption: Interruption | None
) -> None:
    def written(keyed: cw.KeyedStream) -> cw.DataStream:
        return (
            keyed.window(sliding(windows))
            .allowed_lateness(ms(windows.lateness))
            .late_output("late")
            .aggregate(
                n=cw.agg.count(),
                total=cw.agg.sum("number"),
                low=cw.agg.min("number"),
                high=cw.agg.max("number"),
                middle=cw.agg.mean("number"),
            )
        )

    expected: Counter[Any] = Counter()
    for (key, start, end, numbers), times in model_at_the_end(windows, script).firings.items():
        total = sum(numbers)
        row = (key, start, end, len(numbers), total, min(numbers), max(numbers), total / len(numbers))
        expected[row] += times
    rows = outcome(written, script, interruption).firings
    found: Counter[Any] = Counter()
    for row, times in rows.items():
        start, end = (round(time.timestamp() * 1000) for time in row[1:3])
        found[(row[0], start, end, *row[3:])] += times
    assert found == expected


@EXAMPLES
@given(aligned_windows(lateness=False), scripts(), interruptions, st.integers(1, 4), st.booleans())
def test_count_triggers_fire_at_the_models_counts(
    windows: Aligned, script: list[Step], interruption: Interruption | None, count: int, purging: bool
) -> None:
    trigger = cw.triggers.purging(cw.triggers.count(count)) if purging else cw.triggers.count(count)

    def written(keyed: cw.KeyedStream) -> cw.DataStream:
        return keyed.window(sliding(windows)).trigger(trigger).late_output("late").process(firing)

    assert outcome(written, script, interruption) == model_by_count(windows, script, count=count, purging=purging)


@EXAMPLES
@given(scripts(), interruptions, st.integers(1, 12), st.integers(0, 10))
def test_sessions_are_joined_and_fired_as_the_model_says(
    script: list[Step], interruption: Interruption | None, gap: int, lateness: int
) -> None:
    def written(keyed: cw.KeyedStream) -> cw.DataStream:
        return (
            keyed.window(cw.session(ms(gap)))
            .allowed_lateness(ms(lateness))
            .late_output("late")
            .process(unordered_firing)
        )

    assert outcome(written, script, interruption) == model_of_sessions(script, gap=gap, lateness=lateness)


@EXAMPLES
@given(scripts(), interruptions, st.integers(1, 12))
def test_sessions_of_records_in_time_are_cut_at_the_gaps(
    script: list[Step], interruption: Interruption | None, gap: int
) -> None:
    in_time = [step for step in script if not isinstance(step, int)]

    def written(keyed: cw.KeyedStream) -> cw.DataStream:
        return keyed.window(cw.session(ms(gap))).process(unordered_firing)

    expected = Outcome(model_of_sessions_in_time(script, gap=gap), set())
    assert outcome(written, [*in_time, MAX_TIMESTAMP_MS], interruption) == expected


class Gathered:
    """An aggregate that changes its accumulator in place, as users' aggregates do."""

    def create_accumulator(self) -> list[int]:
        return []

    def add(self, record: Record, accumulator: list[int]) -> list[int]:
        accumulator.append(record.number)
        return accumulator

    def get_result(self, accumulator: list[int]) -> list[int]:
        return accumulator

    def merge(self, one: list[int], other: list[int]) -> list[int]:
        one.extend(other)
        return one


def gathered_firing(key: str, results: list[list[int]], context: Any) -> list[Firing]:
    return [(key, context.window.start_ms, context.window.end_ms, tuple(sorted(results[0])))]


@EXAMPLES
@given(scripts(), interruptions, st.integers(1, 12), st.integers(0, 10))
def test_accumulators_changed_in_place_are_not_changed_in_frozen_views(
    script: list[Step], interruption: Interruption | None, gap: int, lateness: int
) -> None:
    def written(keyed: cw.KeyedStream) -> cw.DataStream:
        windows = keyed.window(cw.session(ms(gap))).allowed_lateness(ms(lateness)).late_output("late")
        return windows.aggregate(Gathered(), process=gathered_firing)

    assert outcome(written, script, interruption) == model_of_sessions(script, gap=gap, lateness=lateness)


class PerRecord(cw.triggers.Trigger):
    """The event-time trigger as a user would write it: asked for every record, with timers of its own."""

    def on_element(self, record: Any, timestamp_ms: int | None, window: Any, context: Any) -> Any:
        if context.watermark_ms is not None and window.max_timestamp_ms <= context.watermark_ms:
            return cw.triggers.TriggerResult.FIRE
        context.register_event_timer(window.max_timestamp_ms)
        return cw.triggers.TriggerResult.CONTINUE

    def on_event_time(self, time_ms: int, window: Any, context: Any) -> Any:
        ends = time_ms == window.max_timestamp_ms
        return cw.triggers.TriggerResult.FIRE if ends else cw.triggers.TriggerResult.CONTINUE

    def on_merge(self, window: Any, context: Any) -> None:
        if context.watermark_ms is None or window.max_timestamp_ms > context.watermark_ms:
            context.register_event_timer(window.max_timestamp_ms)

    def clear(self, window: Any, context: Any) -> None:
        context.delete_event_timer(window.max_timestamp_ms)


@EXAMPLES
@given(scripts(), interruptions, st.integers(1, 12), st.integers(0, 10))
def test_sessions_fire_the_same_when_their_trigger_is_asked_for_every_record(
    script: list[Step], interruption: Interruption | None, gap: int, lateness: int
) -> None:
    def written(keyed: cw.KeyedStream) -> cw.DataStream:
        return (
            keyed.window(cw.session(ms(gap)))
            .trigger(PerRecord())
            .allowed_lateness(ms(lateness))
            .late_output("late")
            .process(unordered_firing)
        )

    assert outcome(written, script, interruption) == model_of_sessions(script, gap=gap, lateness=lateness)


@EXAMPLES
@given(scripts(), interruptions, st.integers(1, 4))
def test_count_windows_are_so_many_records_of_a_key(
    script: list[Step], interruption: Interruption | None, count: int
) -> None:
    expected: Counter[Any] = Counter()
    for key in KEYS:
        numbers = [record.number for record, _ in arrivals(script) if record.key == key]
        for full in range(count, len(numbers) + 1, count):
            expected[key, tuple(numbers[full - count : full])] += 1

    def written(keyed: cw.KeyedStream) -> cw.DataStream:
        return keyed.window(cw.count_window(count)).process(
            lambda key, records, context: [(key, tuple(record.number for record in records))]
        )

    tasks = Tasks(written)
    before, after = (script, []) if interruption is None else (script[: interruption.at], script[interruption.at :])
    tasks.run(before)
    if interruption is not None:
        tasks.restore(after[: interruption.lost], tasks=interruption.tasks)
        tasks.run(after)
    assert Counter(tasks.rows) == expected


@EXAMPLES
@given(scripts(), interruptions, st.integers(1, 4), st.integers(1, 4))
def test_overlapping_count_windows_are_the_last_records_of_a_key(
    script: list[Step], interruption: Interruption | None, count: int, every: int
) -> None:
    expected: Counter[Any] = Counter()
    for key in KEYS:
        numbers = [record.number for record, _ in arrivals(script) if record.key == key]
        for seen in range(every, len(numbers) + 1, every):
            expected[key, tuple(numbers[max(0, seen - count) : seen])] += 1

    def written(keyed: cw.KeyedStream) -> cw.DataStream:
        return keyed.window(cw.count_window(count, every=every)).process(
            lambda key, records, context: [(key, tuple(record.number for record in records))]
        )

    tasks = Tasks(written)
    before, after = (script, []) if interruption is None else (script[: interruption.at], script[interruption.at :])
    tasks.run(before)
    if interruption is not None:
        tasks.restore(after[: interruption.lost], tasks=interruption.tasks)
        tasks.run(after)
    assert Counter(tasks.rows) == expected
