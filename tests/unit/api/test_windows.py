"""Are windows that can't work refused where they are written, and the others run as written?"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pyarrow as pa
import pytest

import cutwater as cw
from cutwater.errors import ConfigurationError, GraphError, UserError
from cutwater.operators.windows.aligned import AlignedWindowOperator
from cutwater.operators.windows.model import AlignedWindows
from cutwater.testing.harness import LocalLauncher

from .launchers import FakeLauncher

ORDERS = [("Bern", 1, 1_000), ("Rome", 2, 1_500), ("Bern", 3, 11_000), ("Bern", 4, 2_500), ("Rome", 5, 30_000)]


def timed(launcher: Any = None) -> cw.KeyedStream:
    env = cw.Environment(parallelism=2, launcher=launcher or FakeLauncher())
    stream = env.from_collection(ORDERS).assign_timestamps(lambda order: order[2], cw.watermarks.bounded("5s"))
    return stream.key_by(lambda order: order[0])


@pytest.mark.parametrize(
    "make",
    [
        lambda: cw.tumbling(0),
        lambda: cw.tumbling("0.1ms"),
        lambda: cw.tumbling(-1),
        lambda: cw.tumbling("soon"),
        lambda: cw.tumbling("10s", offset="10s"),
        lambda: cw.tumbling("10s", time="wall"),  # type: ignore[arg-type]
        lambda: cw.sliding("10s", every=0),
        lambda: cw.sliding("10s", every=timedelta(seconds=-1)),
        lambda: cw.sliding(0, every="1s"),
        lambda: cw.sliding("10s", every="5s", offset="5s"),
        lambda: cw.session(0),
        lambda: cw.session(-5),
        lambda: cw.count_window(0),
        lambda: cw.count_window(2.5),  # type: ignore[arg-type]
        lambda: cw.count_window(3, every=0),
        lambda: cw.triggers.count(0),
        lambda: cw.triggers.continuous_event(0),
        lambda: cw.evictors.count(-1),
        lambda: cw.evictors.time(0),
    ],
)
def test_sizes_that_make_no_window_are_refused(make: Callable[[], Any]) -> None:
    with pytest.raises(ConfigurationError):
        make()


def test_durations_and_offsets_become_milliseconds() -> None:
    assert cw.sliding("1h", every=timedelta(minutes=15), offset="2.5s") == AlignedWindows(
        3_600_000, 900_000, 2_500, "event"
    )


@pytest.mark.parametrize("window", [cw.count_window(3), cw.global_window(), cw.tumbling("1s", time="processing")])
def test_lateness_is_refused_where_nothing_can_be_late(window: Any) -> None:
    windows = timed().window(window)
    with pytest.raises(ConfigurationError, match="allowed_lateness means nothing here"):
        windows.allowed_lateness("1min")
    with pytest.raises(ConfigurationError, match="late_output means nothing here"):
        windows.late_output("late")


def test_count_windows_choose_their_own_trigger() -> None:
    with pytest.raises(ConfigurationError, match="which have their own"):
        timed().window(cw.count_window(3)).trigger(cw.triggers.count(1))


def test_a_global_window_needs_a_trigger() -> None:
    with pytest.raises(ConfigurationError, match="never fires by itself"):
        timed().window(cw.global_window()).count()


class Unmergeable:
    def on_element(self, record: Any, timestamp_ms: int | None, window: Any, context: Any) -> Any: ...


@pytest.mark.parametrize("trigger", [Unmergeable(), cw.triggers.purging(Unmergeable())])
def test_a_trigger_that_can_not_merge_is_refused_for_sessions_only(trigger: Any) -> None:
    timed().window(cw.tumbling("1s")).trigger(trigger)
    with pytest.raises(ConfigurationError, match="sessions become one"):
        timed().window(cw.session("1s")).trigger(trigger)


def test_an_aggregate_for_sessions_must_merge() -> None:
    class Last:
        def create_accumulator(self) -> Any: ...
        def add(self, record: Any, accumulator: Any) -> Any: ...
        def get_result(self, accumulator: Any) -> Any: ...

    without_merge: Any = Last()
    timed().window(cw.tumbling("1s")).aggregate(without_merge)
    with pytest.raises(UserError, match="for sessions") as failure:
        timed().window(cw.session("1s")).aggregate(without_merge)
    assert failure.value.detail == "it has no method merge"


@pytest.mark.parametrize(
    "write",
    [
        lambda keyed: keyed.window("10s"),
        lambda keyed: keyed.window(cw.tumbling("1s")).trigger(cw.triggers.Trigger),
        lambda keyed: keyed.window(cw.tumbling("1s")).trigger(7),
        lambda keyed: keyed.window(cw.tumbling("1s")).evictor(7),
        lambda keyed: keyed.window(cw.tumbling("1s")).evictor(cw.evictors.Evictor),
        lambda keyed: keyed.window(cw.tumbling("1s")).late_output(""),
        lambda keyed: keyed.window(cw.tumbling("1s")).reduce(7),
        lambda keyed: keyed.window(cw.tumbling("1s")).process(7),
        lambda keyed: keyed.window(cw.tumbling("1s")).process(Unmergeable),
        lambda keyed: keyed.window(cw.tumbling("1s")).aggregate(),
        lambda keyed: keyed.window(cw.tumbling("1s")).aggregate(cw.agg.count()),
        lambda keyed: keyed.window(cw.tumbling("1s")).aggregate(Unmergeable(), n=cw.agg.count()),
        lambda keyed: keyed.window(cw.tumbling("1s")).aggregate(key=cw.agg.count()),
        lambda keyed: keyed.window(cw.tumbling("1s")).count(colour="red"),
        lambda keyed: keyed.window(cw.tumbling("1s")).aggregate(n=cw.agg.count(), colour="red"),
    ],
)
def test_what_can_not_work_is_refused_where_it_is_written(write: Callable[[cw.KeyedStream], Any]) -> None:
    with pytest.raises(UserError):
        write(timed())


def test_each_step_leaves_the_windows_before_it_as_they_were() -> None:
    windows = timed().window(cw.tumbling("10s"))
    windows.trigger(cw.triggers.count(1)).evictor(cw.evictors.count(1)).allowed_lateness("1s").late_output("late")
    assert (windows._trigger, windows._evictor, windows._lateness_ms, windows._late_tag) == (None, None, 0, None)


def test_event_time_windows_on_a_stream_that_has_none_are_refused() -> None:
    env = cw.Environment(parallelism=2, launcher=FakeLauncher())
    keyed = env.from_collection([("a", 1)]).map(lambda pair: pair).key_by(lambda pair: pair[0])
    with pytest.raises(GraphError, match="nothing before this window assigns any") as failure:
        keyed.window(cw.session("1s")).count()
    assert "assign_timestamps" in failure.value.hint
    keyed.window(cw.session("1s", time="processing")).count()
    keyed.window(cw.count_window(3)).count()


def test_a_typed_stream_without_a_time_column_is_refused() -> None:
    env = cw.Environment(parallelism=2, launcher=FakeLauncher())
    typed = env.from_collection([1]).map_batches(lambda batch: batch, schema=pa.schema([("city", pa.string())]))
    with pytest.raises(GraphError, match="nothing before this window assigns any"):
        typed.key_by("city").window(cw.tumbling("1s")).count()


def test_values_with_times_that_became_typed_rows_have_them_still() -> None:
    env = cw.Environment(parallelism=2, launcher=FakeLauncher())
    values = env.from_collection([("a", 1)]).assign_timestamps(lambda pair: pair[1], cw.watermarks.monotonous())
    typed = values.with_schema(pa.schema([("city", pa.string()), ("at", pa.int64())]))
    windows = typed.key_by("city").window(cw.tumbling("1s"))
    assert windows.count().schema is not None


def test_windows_of_windows_take_the_times_of_the_results() -> None:
    env = cw.Environment(parallelism=2, launcher=FakeLauncher())
    keyed = env.from_collection([("a", 1)]).key_by(lambda pair: pair[0])
    counts = keyed.window(cw.tumbling("1s", time="processing")).count()
    counts.key_by("key").window(cw.tumbling("1min")).count()


def test_settings_and_named_aggregates_are_told_apart() -> None:
    stream = timed().window(cw.tumbling("10s")).aggregate(name=cw.agg.count(), uid="totals", parallelism=1)
    node = stream._dataflow.graph.nodes["totals"]
    assert node.parallelism == 1
    assert isinstance(node.build(), AlignedWindowOperator)


def test_a_windowed_job_runs_and_late_records_leave_at_the_side() -> None:
    keyed = timed(LocalLauncher())
    windows = keyed.window(cw.tumbling("10s"))
    rows = windows.aggregate(orders=cw.agg.count(), total=cw.agg.sum(1)).execute_and_collect()
    assert sorted((row.key, row.window_start.timestamp(), row.orders, row.total) for row in rows) == [
        ("Bern", 0, 2, 5),
        ("Bern", 10, 1, 3),
        ("Rome", 0, 1, 2),
        ("Rome", 30, 1, 5),
    ]


def test_late_records_are_a_stream_of_their_own() -> None:
    env = cw.Environment(parallelism=1, launcher=LocalLauncher())
    records = [("a", n) for n in range(20_000)] + [("late", 1)]  # several batches: time has passed the last one by
    timely = env.from_collection(records).assign_timestamps(lambda pair: pair[1], cw.watermarks.monotonous(every=0))
    counts = timely.key_by(lambda pair: pair[0]).window(cw.tumbling("1s")).late_output("behind").count()
    assert counts.side_output("behind").execute_and_collect() == [("late", 1)]


def test_open_windows_of_processing_time_are_not_lost_at_the_end() -> None:
    rows = timed(LocalLauncher()).window(cw.session("1h", time="processing")).sum(1).execute_and_collect()
    assert sorted((row.key, row.sum) for row in rows) == [("Bern", 8), ("Rome", 7)]
