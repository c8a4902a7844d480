"""Do keys of tasks that had not come equally far keep their time, when the tasks become more or fewer?

Of two tasks the first owns the keys a, c and e, the second d, f and h.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pytest
from tests.unit.operators.several_tasks import SeveralTasks, Timed
from tests.unit.operators.windowing import operator_of, spans

import cutwater as cw
from cutwater.batches import Batch, with_times
from cutwater.graph.keys import KeySelector
from cutwater.operators.aggregations import Aggregation
from cutwater.operators.columnar.plan import plan_aggregates
from cutwater.operators.columnar.slices import Slices
from cutwater.operators.columnar.window import WindowColumnsOperator
from cutwater.operators.connect import BroadcastConnectOperator, ConnectOperator
from cutwater.operators.contract import Operator
from cutwater.operators.joins.inputs import JoinInputs
from cutwater.operators.joins.interval import IntervalJoinOperator, OuterIntervalJoinOperator
from cutwater.operators.joins.lookup import EventTimeLookupOperator, LookupInputs
from cutwater.operators.joins.pairing import TuplePairing
from cutwater.operators.joins.windowed import AlignedWindowJoinOperator, SessionWindowJoinOperator
from cutwater.operators.process import KeyedProcessOperator
from cutwater.operators.windows.model import AlignedWindows, SessionWindows
from cutwater.protocol.watermarks import MAX_TIMESTAMP_MS

FIRST = KeySelector(lambda record: record[0])
SCHEMA = pa.schema([("key", pa.string()), ("value", pa.int64())])
PLAN = plan_aggregates(SCHEMA, ["key"], {"n": Aggregation("count")}, count_rows=True)


def columns(timed: Iterable[Timed]) -> Batch:
    timed = list(timed)
    arrays = [pa.array([record[0] for record, _ in timed]), pa.array([record[1] for record, _ in timed], pa.int64())]
    return with_times(
        pa.RecordBatch.from_arrays(arrays, schema=SCHEMA), np.array([time for _, time in timed], np.int64)
    )


def on_columns(slices: Slices) -> SeveralTasks:
    assert PLAN is not None
    return SeveralTasks(lambda: WindowColumnsOperator(PLAN, slices, late_tag="late"), 2, batch_of=columns)


def on_objects(window: Any, **settings: Any) -> SeveralTasks:
    def written(keyed: Any) -> Any:
        windows = keyed.window(window).late_output("late")
        if "lateness" in settings:
            windows = windows.allowed_lateness(settings["lateness"])
        if "trigger" in settings:
            windows = windows.trigger(settings["trigger"])
        return windows.count()

    return SeveralTasks(lambda: operator_of(written), 2)


TUMBLING = {"columns": lambda: on_columns(Slices(100, 100)), "objects": lambda: on_objects(cw.tumbling("100ms"))}
SLIDING = {
    "columns": lambda: on_columns(Slices(100, 50)),
    "objects": lambda: on_objects(cw.sliding("100ms", every="50ms")),
}


@pytest.fixture(params=["columns", "objects"])
def kind(request: pytest.FixtureRequest) -> str:
    return request.param


# Windows.


def test_a_window_that_has_fired_does_not_fire_again_in_a_slower_task(kind: str) -> None:
    tasks = SLIDING[kind]()
    tasks.at((("a", 1), 10), (("a", 2), 60), (("d", 3), 20)).watermarks(120, 40)
    assert spans(tasks.output) == [("a", -50, 50, 1), ("a", 0, 100, 2)]
    merged = tasks.rescaled(1).watermarks(120)
    assert spans(merged.output) == [("d", -50, 50, 1), ("d", 0, 100, 1)]
    merged.watermarks(200)
    assert spans(merged.output) == [("a", 50, 150, 1)]


def test_what_was_late_stays_late_and_what_was_in_time_stays_in_time(kind: str) -> None:
    merged = TUMBLING[kind]().watermarks(120, 40).rescaled(1)
    merged.at((("a", 1), 60), (("d", 2), 60), (("c", 3), 99), (("a", 4), 100))
    assert sorted(tuple(row) for row in merged.side) == [("a", 1), ("c", 3)]
    assert spans(merged.watermarks(MAX_TIMESTAMP_MS).output) == [("d", 0, 100, 1), ("a", 100, 200, 1)]


def test_more_tasks_keep_the_time_of_their_keys_too(kind: str) -> None:
    more = TUMBLING[kind]().watermarks(120, 40).rescaled(3)
    more.at((("a", 1), 60), (("c", 2), 60), (("d", 3), 60), (("h", 4), 60), (("f", 5), 60))
    assert sorted(row[0] for row in more.side) == ["a", "c"]


def test_the_time_of_keys_survives_several_changes_of_parallelism(kind: str) -> None:
    again = TUMBLING[kind]().watermarks(120, 40).rescaled(1).watermarks(70).rescaled(2).rescaled(3).rescaled(1)
    again.at((("a", 1), 60), (("d", 2), 60))
    assert [row[0] for row in again.side] == ["a"]


def test_the_time_of_keys_survives_a_failure_after_the_change(kind: str) -> None:
    again = TUMBLING[kind]().watermarks(120, 40).rescaled(1).rescaled(1)
    again.at((("a", 1), 60), (("d", 2), 60))
    assert [row[0] for row in again.side] == ["a"]


def test_the_time_of_keys_survives_the_end_of_the_input(kind: str) -> None:
    again = TUMBLING[kind]().watermarks(120, 40).rescaled(1).watermarks(MAX_TIMESTAMP_MS).rescaled(2)
    again.at((("a", 1), 60), (("d", 2), 60))
    assert [row[0] for row in again.side] == ["a"]


def test_a_task_whose_time_had_not_begun_makes_nothing_of_the_others_open_again(kind: str) -> None:
    merged = TUMBLING[kind]().watermarks(120, None).rescaled(1)
    merged.at((("a", 1), 60), (("d", 2), 60))
    assert [row[0] for row in merged.side] == ["a"]
    assert spans(merged.watermarks(99).output) == [("d", 0, 100, 1)]


def test_late_records_are_counted_as_before() -> None:
    tasks = SeveralTasks(lambda: operator_of(lambda keyed: keyed.window(cw.tumbling("100ms")).count()), 2)
    merged = tasks.watermarks(120, 40).rescaled(1)
    merged.at((("a", 1), 60), (("d", 2), 60), (("c", 3), 70))
    assert merged.late_records == 2


def test_within_the_allowed_lateness_a_window_that_was_over_gives_its_result_again_at_once_and_only_then() -> None:
    tasks = on_objects(cw.tumbling("100ms"), lateness="50ms").at((("a", 1), 10)).watermarks(120, 40)
    assert spans(tasks.output) == [("a", 0, 100, 1)]
    merged = tasks.rescaled(1)
    assert spans(merged.at((("a", 2), 20)).output) == [("a", 0, 100, 2)]
    assert merged.watermarks(148).output == []
    merged.watermarks(149).at((("a", 3), 30))
    assert (merged.output, merged.side, merged.tasks[0].backend.size()) == ([], [("a", 3)], 0)


def test_a_session_grows_across_the_time_that_its_key_had_reached() -> None:
    tasks = on_objects(cw.session("50ms")).at((("a", 1), 80), (("d", 2), 80)).watermarks(120, 40)
    merged = tasks.rescaled(1)
    merged.at((("a", 3), 60), (("a", 4), 5), (("d", 5), 45))
    assert merged.side == [("a", 4)]
    assert spans(merged.watermarks(MAX_TIMESTAMP_MS).output) == [("d", 45, 130, 2), ("a", 60, 130, 2)]


def test_a_trigger_is_called_at_once_for_a_timer_that_its_key_has_passed() -> None:
    tasks = on_objects(cw.tumbling("200ms"), trigger=cw.triggers.continuous_event("50ms"))
    merged = tasks.watermarks(120, 40).rescaled(1)
    merged.at((("a", 1), 10), (("d", 2), 10))
    assert spans(merged.output) == [("a", 0, 200, 1), ("a", 0, 200, 1)]
    assert spans(merged.watermarks(60).output) == [("d", 0, 200, 1)]


# Functions.


class Watch:
    """A record (key, time) sets a timer; both say how far event time is."""

    kind = "event"

    def process(self, record: Any, context: Any) -> Iterator[Any]:
        getattr(context, f"register_{self.kind}_timer")(record[1])
        yield record[0], context.watermark_ms

    def on_timer(self, time_ms: int, context: Any) -> Iterator[Any]:
        yield context.current_key, time_ms, context.watermark_ms


class WatchWallClock(Watch):
    kind = "processing"

    def on_timer(self, time_ms: int, context: Any) -> Iterator[Any]:
        if context.timer_kind == "processing":
            context.register_event_timer(100)
        yield from super().on_timer(time_ms, context)


def functions(function: Any) -> SeveralTasks:
    return SeveralTasks(lambda: KeyedProcessOperator(FIRST, function), 2)


def test_a_function_sees_how_far_the_time_of_its_key_is() -> None:
    merged = functions(Watch()).watermarks(120, 40).rescaled(1)
    merged.at((("a", 900), 60), (("d", 900), 60))
    assert sorted(merged.output) == [("a", 120), ("d", 40)]
    merged.watermarks(100).at((("a", 900), 60), (("d", 900), 60))
    assert sorted(merged.output) == [("a", 120), ("d", 100)]
    merged.watermarks(130).at((("a", 900), 60))
    assert merged.output == [("a", 130)]


def test_a_timer_for_a_time_that_its_key_has_passed_is_called_once_behind_the_batch() -> None:
    merged = functions(Watch()).watermarks(120, 40).rescaled(1)
    merged.at((("a", 100), 60), (("a", 70), 60), (("d", 100), 60))
    assert sorted(merged.output, key=len) == [("d", 40), ("a", 120), ("a", 120), ("a", 70, 120), ("a", 100, 120)]
    assert merged.watermarks(110).output == [("d", 100, 110)]
    assert merged.watermarks(130).output == []


def test_timers_that_are_left_are_called_at_their_time() -> None:
    tasks = functions(Watch()).watermarks(120, 40).at((("a", 130), 60), (("d", 50), 60))
    merged = tasks.rescaled(1)
    assert merged.watermarks(129).output == [("d", 50, 129)]
    assert merged.watermarks(131).output == [("a", 130, 131)]


def test_a_timer_that_was_deleted_is_not_called_though_its_key_has_passed_it() -> None:
    class Undecided(Watch):
        def process(self, record: Any, context: Any) -> Iterator[Any]:
            context.register_event_timer(record[1])
            context.delete_event_timer(record[1])
            yield from ()

    merged = functions(Undecided()).watermarks(120, 40).rescaled(1)
    merged.at((("a", 100), 60)).watermarks(MAX_TIMESTAMP_MS)
    assert merged.output == []


def test_a_timer_of_the_wall_clock_sees_the_time_of_its_key() -> None:
    tasks = functions(WatchWallClock()).at((("a", 5), 60), (("d", 5), 60)).watermarks(120, 40)
    tasks.output  # noqa: B018 — looked at
    merged = tasks.rescaled(1)
    merged.tasks[0].operator.on_wall_time(5)
    assert sorted(merged.output) == [("a", 5, 120), ("d", 5, 40)]


def test_a_passed_timer_that_waits_for_its_call_in_the_snapshot_is_called_first_thing() -> None:
    merged = functions(WatchWallClock()).at((("a", 5), 60)).watermarks(120, 40).rescaled(1)
    merged.tasks[0].operator.on_wall_time(5)
    again = merged.rescaled(1).watermarks(41)
    assert again.output == [("a", 100, 120)]


def test_both_streams_of_a_connected_function_see_the_time_of_the_key() -> None:
    class Both:
        def process1(self, record: Any, context: Any) -> Iterator[Any]:
            yield record[0], context.watermark_ms

        process2 = process1

    tasks = SeveralTasks(lambda: ConnectOperator(Both(), (FIRST, FIRST)), 2)
    merged = tasks.watermarks(120, 40).rescaled(1)
    merged.at((("a", 1), 60), (("d", 1), 60)).at((("a", 1), 60), port=1)
    assert sorted(merged.output) == [("a", 120), ("a", 120), ("d", 40)]


def test_a_broadcast_record_belongs_to_no_key_and_sees_the_time_of_the_task() -> None:
    class Listens:
        def process(self, record: Any, context: Any) -> Iterator[Any]:
            yield record[0], context.watermark_ms

        process_broadcast = process

    tasks = SeveralTasks(lambda: BroadcastConnectOperator(Listens(), FIRST), 2)
    merged = tasks.watermarks(120, 40).rescaled(1)
    merged.at((("a", 1), 60)).at((("a", 1), 60), port=1)
    assert merged.output == [("a", 120), ("a", 40)]


# Joins.


def joins(build: Any, how: Any = "inner") -> SeveralTasks:
    return SeveralTasks(lambda: build(JoinInputs((FIRST, FIRST), TuplePairing(), how, ("late", "late"))), 2)


def inner(inputs: JoinInputs) -> Operator:
    return IntervalJoinOperator(inputs, -50, 50)


def outer(inputs: JoinInputs) -> Operator:
    return OuterIntervalJoinOperator(inputs, -50, 50)


def windowed(inputs: JoinInputs) -> Operator:
    return AlignedWindowJoinOperator(inputs, AlignedWindows(size_ms=100, every_ms=50, offset_ms=0, time="event"))


def sessions(inputs: JoinInputs) -> Operator:
    return SessionWindowJoinOperator(inputs, SessionWindows(gap_ms=50, gap_function=None, time="event"))


@pytest.mark.parametrize("build", [inner, outer, windowed, sessions])
def test_a_join_refuses_what_was_late_and_takes_what_was_in_time(build: Any) -> None:
    merged = joins(build).watermarks(220, 40).rescaled(1)
    merged.at((("a", 1), 60), (("d", 2), 60)).at((("a", 3), 70), (("d", 4), 70), port=1)
    assert merged.side == [("a", 1), ("a", 3)]
    assert set(merged.watermarks(MAX_TIMESTAMP_MS).output) == {(("d", 2), ("d", 4))}


def test_the_pairs_of_a_window_leave_once() -> None:
    tasks = joins(windowed).at((("a", 1), 60), (("d", 2), 60)).at((("a", 3), 70), (("d", 4), 70), port=1)
    assert tasks.watermarks(120, 40).output == [(("a", 1), ("a", 3))]
    merged = tasks.rescaled(1)
    assert merged.watermarks(120).output == [(("d", 2), ("d", 4))]
    assert sorted(merged.watermarks(MAX_TIMESTAMP_MS).output) == [(("a", 1), ("a", 3)), (("d", 2), ("d", 4))]


def test_a_record_that_can_have_no_partner_any_more_leaves_alone_as_before() -> None:
    tasks = joins(outer, "left").at((("a", 1), 60), (("d", 2), 60)).watermarks(115, 40)
    assert tasks.output == [(("a", 1), None)]
    merged = tasks.rescaled(1)
    assert merged.watermarks(120).output == [(("d", 2), None)]


def test_an_outer_join_holds_back_the_watermark_of_its_task() -> None:
    merged = joins(outer, "left").watermarks(120, 40).rescaled(1).watermarks(60)
    assert merged.tasks[0].watermarks == [10]


def test_a_lookup_refuses_what_was_late_and_takes_what_was_in_time() -> None:
    inputs = LookupInputs(FIRST, FIRST, TuplePairing(), stream_key=FIRST, late_tag="late")
    tasks = SeveralTasks(lambda: EventTimeLookupOperator(inputs), 2)
    for task in tasks.tasks:
        task.feed_at((("a", "old"), 0), (("a", "new"), 130), (("d", "old"), 0), (("d", "new"), 70), port=1)
    again = tasks.watermarks(120, 40).rescaled(1).rescaled(2).rescaled(1)
    again.at((("a", 1), 60), (("d", 2), 60), (("a", 3), 140))
    assert again.side == [("a", 1)]
    again.watermarks(MAX_TIMESTAMP_MS)
    assert again.output == [(("d", 2), ("d", "old")), (("a", 3), ("a", "new"))]


def test_a_lookup_that_goes_on_behind_the_end_of_its_input_still_has_the_versions_of_the_time_since() -> None:
    inputs = LookupInputs(FIRST, FIRST, TuplePairing(), stream_key=FIRST)
    tasks = SeveralTasks(lambda: EventTimeLookupOperator(inputs), 1)
    tasks.at((("a", "old"), 0), (("a", "new"), 90), port=1).watermarks(40).watermarks(MAX_TIMESTAMP_MS)
    later = tasks.rescaled(1).at((("a", 1), 60)).watermarks(MAX_TIMESTAMP_MS)
    assert later.output == [(("a", 1), ("a", "old"))]


# Snapshots.


def test_what_a_snapshot_tells_is_as_it_always_was_once_the_floors_are_passed() -> None:
    merged = functions(Watch()).watermarks(120, 40).rescaled(1)
    told = [msgspec.msgpack.decode(item) for item in merged.tasks[0].freeze()["watermark"]]
    assert told == [[0, 1, 40, [[0, 3, 120]]]]
    told = [msgspec.msgpack.decode(item) for item in merged.watermarks(120).tasks[0].freeze()["watermark"]]
    assert told == [[0, 1, 120]]
