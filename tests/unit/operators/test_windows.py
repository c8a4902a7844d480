"""Do records come into their windows, and results out of them, when they should?"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import cloudpickle
import pyarrow as pa
import pytest

import cutwater as cw
from cutwater.batches import schema_with_times
from cutwater.errors import BadTimestampError, KeyTypeError, UserError, UserFunctionError

from .windowing import Windows, operator_of, spans, times


def utc(second: float) -> datetime:
    return datetime.fromtimestamp(second, UTC)


class Mean:
    def create_accumulator(self) -> list[int]:
        return [0, 0]

    def add(self, record: Any, accumulator: list[int]) -> list[int]:
        accumulator[0] += record[1]
        accumulator[1] += 1
        return accumulator

    def get_result(self, accumulator: list[int]) -> float:
        return accumulator[0] / accumulator[1]

    def merge(self, one: list[int], other: list[int]) -> list[int]:
        return [one[0] + other[0], one[1] + other[1]]


# Aligned windows.


def test_a_tumbling_window_fires_when_the_watermark_passes_its_last_millisecond() -> None:
    windows = Windows(lambda keyed: keyed.window(cw.tumbling("10s")).count())
    windows.at((("a", 1), 0), (("a", 2), 9_999), (("b", 3), 5_000), (("a", 4), 10_000))
    assert windows.watermark(9_998) == []
    assert spans(windows.watermark(9_999)) == [("a", 0, 10_000, 2), ("b", 0, 10_000, 1)]
    assert spans(windows.watermark(30_000)) == [("a", 10_000, 20_000, 1)]


def test_a_result_is_a_named_row_at_the_last_millisecond_of_its_window() -> None:
    windows = Windows(lambda keyed: keyed.window(cw.tumbling("10s")).sum(1))
    windows.at((("a", 5), 1))
    windows.operator.on_watermark(20_000)
    assert times(windows.batches) == [9_999]
    (row,) = windows.output
    assert (row.key, row.window_start, row.window_end, row.sum) == ("a", utc(0), utc(10), 5)


def test_several_key_columns_are_columns_of_the_result() -> None:
    windows = Windows(lambda keyed: keyed.window(cw.tumbling("10s")).count(), "city", "day")
    windows.at(({"city": "Bern", "day": 3}, 1))
    (row,) = windows.watermark(20_000)
    assert row._fields == ("city", "day", "window_start", "window_end", "count")
    assert (row.city, row.day, row.count) == ("Bern", 3, 1)


def test_offsets_and_times_before_the_epoch_have_their_windows() -> None:
    windows = Windows(lambda keyed: keyed.window(cw.tumbling("10s", offset="3s")).count())
    windows.at((("a", 1), -8_000), (("a", 1), 2_999), (("a", 1), 3_000))
    assert spans(windows.end()) == [("a", -17_000, -7_000, 1), ("a", -7_000, 3_000, 1), ("a", 3_000, 13_000, 1)]


def test_a_record_is_in_every_sliding_window_that_covers_it() -> None:
    windows = Windows(lambda keyed: keyed.window(cw.sliding("10s", every="5s")).sum(1))
    windows.at((("a", 1), 0), (("a", 2), 7_000))
    assert spans(windows.end()) == [("a", -5_000, 5_000, 1), ("a", 0, 10_000, 3), ("a", 5_000, 15_000, 2)]


def test_a_sliding_window_has_its_records_in_the_order_of_their_arrival() -> None:
    windows = Windows(
        lambda keyed: keyed.window(cw.sliding("10s", every="5s")).process(
            lambda key, records, context: [[value for _, value in records]]
        )
    )
    windows.at((("a", 1), 7_000), (("a", 2), 1_000), (("a", 3), 8_000))
    assert windows.end() == [[2], [1, 2, 3], [1, 3]]


def test_a_size_that_is_no_multiple_of_the_slide_is_covered_too() -> None:
    windows = Windows(lambda keyed: keyed.window(cw.sliding("5s", every="3s")).count())
    windows.at((("a", 1), 1_000), (("a", 1), 2_500))
    assert spans(windows.end()) == [("a", -3_000, 2_000, 1), ("a", 0, 5_000, 2)]


def test_windows_with_gaps_between_them_leave_records_out() -> None:
    windows = Windows(lambda keyed: keyed.window(cw.sliding("2s", every="5s")).count())
    windows.at((("a", 1), 1_000), (("a", 1), 3_000), (("a", 1), 5_500))
    assert spans(windows.end()) == [("a", 0, 2_000, 1), ("a", 5_000, 7_000, 1)]


def test_a_typed_batch_comes_in_as_rows() -> None:
    windows = Windows(lambda keyed: keyed.window(cw.tumbling("10s")).sum("price"), "city")
    schema = schema_with_times(pa.schema([("city", pa.string()), ("price", pa.int64())]))
    batch = pa.RecordBatch.from_pydict(
        {"city": ["Bern", "Bern", "Rome"], "price": [1, None, 7], "__time": [0, 1, 2]}, schema=schema
    )
    windows.operator.process(batch, 0)
    assert [(row.city, row.sum) for row in windows.end()] == [("Bern", 1), ("Rome", 7)]


# Lateness.


def test_a_late_record_is_counted_and_changes_nothing() -> None:
    windows = Windows(lambda keyed: keyed.window(cw.tumbling("10s")).count())
    windows.watermark(9_999)
    windows.at((("a", 1), 9_999), (("a", 2), 10_000))
    assert (windows.metrics.late_records, spans(windows.end())) == (1, [("a", 10_000, 20_000, 1)])


def test_late_records_can_go_to_a_side_output_instead() -> None:
    windows = Windows(lambda keyed: keyed.window(cw.tumbling("10s")).late_output("late").count())
    windows.watermark(9_999)
    windows.at((("a", 1), 9_999), (("a", 2), 10_000), (("b", 3), 0))
    assert windows.side == [("late", [("a", 1), ("b", 3)])]
    assert windows.metrics.late_records == 0


def test_a_record_that_is_late_for_some_of_its_windows_still_counts_in_the_others() -> None:
    windows = Windows(lambda keyed: keyed.window(cw.sliding("10s", every="5s")).count())
    windows.watermark(9_999)
    windows.at((("a", 1), 7_000))
    assert (windows.metrics.late_records, spans(windows.end())) == (0, [("a", 5_000, 15_000, 1)])


def test_each_allowed_late_record_fires_its_window_again_until_the_window_is_cleaned_up() -> None:
    windows = Windows(lambda keyed: keyed.window(cw.tumbling("10s")).allowed_lateness("5s").count())
    windows.at((("a", 1), 1))
    assert spans(windows.watermark(9_999)) == [("a", 0, 10_000, 1)]
    windows.at((("a", 2), 2), (("a", 3), 3), (("b", 4), 4))
    assert spans(windows.output) == [("a", 0, 10_000, 2), ("a", 0, 10_000, 3), ("b", 0, 10_000, 1)]
    assert windows.watermark(14_998) == []
    windows.at((("a", 5), 5))
    assert spans(windows.output) == [("a", 0, 10_000, 4)]
    windows.watermark(14_999)
    windows.at((("a", 6), 6))
    assert (windows.output, windows.metrics.late_records, windows.backend.size()) == ([], 1, 0)


def test_lateness_is_judged_by_the_restored_watermark() -> None:
    def counts(keyed: Any) -> Any:
        return keyed.window(cw.tumbling("10s")).count()

    windows = Windows(counts)
    windows.watermark(9_999)
    restored = windows.restored(counts)
    restored.at((("a", 1), 5))
    assert (restored.metrics.late_records, restored.end()) == (1, [])


def test_nothing_is_left_of_a_window_that_has_fired() -> None:
    windows = Windows(lambda keyed: keyed.window(cw.sliding("10s", every="5s")).process(lambda *_: None))
    windows.at((("a", 1), 1), (("b", 1), 7_000))
    windows.end()
    assert windows.backend.size() == 0


# Processing time.


def test_processing_time_windows_go_by_the_wall_clock() -> None:
    windows = Windows(lambda keyed: keyed.window(cw.tumbling("10s", time="processing")).count())
    windows.wall(12_000)
    windows.feed(("a", 1), ("a", 2))
    windows.wall(19_999)
    windows.feed(("a", 3))  # the window's last millisecond is not over while the clock shows it
    assert (windows.output, windows.operator.next_wall_ms()) == ([], 20_000)
    assert spans(windows.wall(20_000)) == [("a", 10_000, 20_000, 3)]
    assert (windows.operator.next_wall_ms(), windows.backend.size()) == (None, 0)


def test_open_processing_time_windows_fire_when_the_input_is_complete() -> None:
    windows = Windows(lambda keyed: keyed.window(cw.sliding("10s", every="5s", time="processing")).count())
    windows.wall(12_000)
    windows.feed(("a", 1))
    windows.operator.on_end()  # stopped: a later run goes on
    assert windows.output == []
    assert spans(windows.end()) == [("a", 5_000, 15_000, 1), ("a", 10_000, 20_000, 1)]


# Count and global windows.


def test_count_windows_fire_when_full_and_start_anew() -> None:
    windows = Windows(lambda keyed: keyed.window(cw.count_window(2)).sum(1))
    windows.feed(("a", 1), ("b", 10), ("a", 2), ("a", 3))
    windows.feed(("a", 4), ("a", 5))
    assert windows.output == [("a", 3), ("a", 7)]
    assert windows.end() == []  # never in part


def test_a_count_window_has_no_times_and_its_result_that_of_its_last_record() -> None:
    windows = Windows(lambda keyed: keyed.window(cw.count_window(2)).count())
    windows.at((("a", 1), 70), (("a", 2), 50))
    assert times(windows.batches) == [50]
    assert windows.output[0]._fields == ("key", "count")


def test_overlapping_count_windows_give_the_last_records() -> None:
    windows = Windows(lambda keyed: keyed.window(cw.count_window(3, every=2)).sum(1))
    windows.feed(*[("a", n) for n in range(1, 8)])
    assert windows.output == [("a", 1 + 2), ("a", 2 + 3 + 4), ("a", 4 + 5 + 6)]


# Aggregations.


def test_several_aggregates_run_in_one_pass() -> None:
    windows = Windows(
        lambda keyed: keyed.window(cw.tumbling("10s")).aggregate(
            n=cw.agg.count(), total=cw.agg.sum(1), low=cw.agg.min(1), high=cw.agg.max(1), middle=cw.agg.mean(1)
        )
    )
    windows.at((("a", 4), 1))
    windows.at((("a", None), 2), (("a", 1), 3))
    (row,) = windows.end()
    assert row._asdict() | {"window_start": 0, "window_end": 0} == {
        "key": "a", "window_start": 0, "window_end": 0, "n": 3, "total": 5, "low": 1, "high": 4, "middle": 2.5,
    }  # fmt: skip


@pytest.mark.parametrize("kind", ["sum", "min", "max", "mean"])
def test_an_aggregate_of_nothing_but_nones_is_none(kind: str) -> None:
    windows = Windows(lambda keyed: getattr(keyed.window(cw.session("10s")), kind)(1))
    windows.at((("a", None), 1), (("a", None), 15_000), (("a", None), 8_000), (("b", None), 1), (("b", 7), 2))
    windows.at((("b", None), 15_000), (("b", 7), 8_000))
    results = [row[-1] for row in windows.end()]
    assert results == [None, 14 if kind == "sum" else 7]


def test_single_aggregates_name_their_field() -> None:
    for kind, expected in {"min": 2, "max": 6, "mean": 4.0}.items():
        windows = Windows(lambda keyed, kind=kind: getattr(keyed.window(cw.tumbling("10s")), kind)(1))
        windows.at((("a", 6), 1), (("a", 2), 2))
        assert getattr(windows.end()[0], kind) == expected


def test_reduce_gives_the_reduced_record_itself() -> None:
    windows = Windows(
        lambda keyed: keyed.window(cw.tumbling("10s")).reduce(lambda one, other: (one[0], one[1] + other[1]))
    )
    windows.at((("a", 1), 1), (("a", 2), 2), (("b", 5), 3))
    assert windows.end() == [("a", 3), ("b", 5)]


def test_an_aggregate_object_gives_a_field_result() -> None:
    windows = Windows(lambda keyed: keyed.window(cw.tumbling("10s")).aggregate(Mean()))
    windows.at((("a", 1), 1), (("a", 4), 2))
    assert windows.end()[0].result == 2.5


def test_an_accumulator_changed_in_place_does_not_change_a_frozen_view() -> None:
    def means(keyed: Any) -> Any:
        return keyed.window(cw.tumbling("10s")).aggregate(Mean())

    windows = Windows(means)
    windows.at((("a", 1), 1))
    snapshot = windows.freeze_keyed()
    windows.at((("a", 99), 2))
    restored = Windows(means, keyed=list(snapshot.chunks()))
    assert restored.end()[0].result == 1.0


def test_process_sees_key_records_window_state_and_side_outputs() -> None:
    class Report:
        def open(self, context: Any) -> None:
            self.windows = context.value_state("windows", 0)

        def process(self, key: Any, records: list[Any], context: Any) -> Any:
            self.windows.update(self.windows.value() + 1)
            context.side_output("seen", (key, context.watermark_ms))
            yield key, [value for _, value in records], context.window.start, context.window.end_ms
            yield self.windows.value()

    windows = Windows(lambda keyed: keyed.window(cw.tumbling("10s")).process(Report()))
    windows.at((("a", 1), 1), (("b", 2), 2), (("a", 3), 0), (("a", 4), 10_000))
    assert windows.watermark(12_000) == [("a", [1, 3], utc(0), 10_000), 1, ("b", [2], utc(0), 10_000), 1]
    assert windows.side == [("seen", [("a", 12_000), ("b", 12_000)])]
    assert windows.watermark(20_000)[1] == 2


def test_incremental_aggregates_hand_their_one_result_to_process() -> None:
    def shown(key: Any, results: list[Any], context: Any) -> list[Any]:
        return [(key, results, context.window.end_ms)]

    reduced = Windows(lambda keyed: keyed.window(cw.tumbling("10s")).reduce(lambda _, other: other, process=shown))
    assert reduced.at((("a", 1), 1), (("a", 2), 2)).end() == [("a", [("a", 2)], 10_000)]
    mean = Windows(lambda keyed: keyed.window(cw.tumbling("10s")).aggregate(Mean(), process=shown))
    assert mean.at((("a", 1), 1), (("a", 2), 2)).end() == [("a", [1.5], 10_000)]
    named = Windows(lambda keyed: keyed.window(cw.tumbling("10s")).aggregate(n=cw.agg.count(), process=shown))
    ((_, (row,), _),) = named.at((("a", 1), 1)).end()
    assert row.n == 1


def test_a_long_window_keeps_its_records_in_order_through_a_restore() -> None:
    def listed(keyed: Any) -> Any:
        return keyed.window(cw.tumbling("10s")).process(lambda key, records, context: [[n for _, n in records]])

    windows = Windows(listed)
    for number in range(50):
        windows.at((("a", number), number))
    restored = windows.restored(listed)
    restored.at(*((("a", number), number) for number in range(50, 80)))
    assert restored.end() == [list(range(80))]


# A backend without dicts.


class WithoutTables:
    """Hides the dicts of a heap backend, as one on disk has none."""

    def __init__(self, backend: Any) -> None:
        self._backend = backend

    def __getattr__(self, name: str) -> Any:
        if name == "table":
            raise AttributeError(name)
        return getattr(self._backend, name)


@pytest.mark.parametrize("window", [cw.tumbling("2s"), cw.session("2s"), cw.count_window(2)])
def test_a_backend_without_dicts_is_seen_through_maps(window: Any) -> None:
    class OnDisk(Windows):
        def _keyed_backend(self) -> Any:
            return WithoutTables(super()._keyed_backend())

    def listed(keyed: Any) -> Any:
        return keyed.window(window).process(lambda key, records, context: [(key, records)])

    found = []
    for kind in (Windows, OnDisk):
        windows = kind(listed)
        windows.at((("a", 1), 1), (("b", 1), 1), (("a", 2), 5_000), (("a", 3), 2_500), (("a", 4), 3_000))
        found.append((windows.output, windows.end(), windows.backend.size()))
    assert found[0] == found[1]


# Bad input.


def test_event_time_windows_without_timestamps_say_what_to_do() -> None:
    windows = Windows(lambda keyed: keyed.window(cw.tumbling("10s")).count())
    with pytest.raises(UserError, match="its records have no timestamps") as failure:
        windows.feed(("a", 1))
    assert "assign_timestamps" in failure.value.hint


def test_a_missing_field_names_the_record() -> None:
    windows = Windows(lambda keyed: keyed.window(cw.tumbling("10s")).sum("price"), "city")
    with pytest.raises(UserFunctionError) as failure:
        windows.at(({"city": "Bern", "price": 1}, 1), ({"city": "Rome"}, 2))
    assert "record: {'city': 'Rome'}" in failure.value.detail


def test_a_value_that_cannot_be_added_names_the_record() -> None:
    windows = Windows(lambda keyed: keyed.window(cw.tumbling("10s")).aggregate(n=cw.agg.count(), s=cw.agg.sum(1)))
    with pytest.raises(UserFunctionError) as failure:
        windows.at((("b", 1), 1), (("a", 1), 1), (("a", "x"), 2), (("a", 3), 2))
    assert "record: ('a', 'x')" in failure.value.detail
    assert 'function "sum"' in failure.value.fact


def test_a_failing_reduce_names_function_and_record() -> None:
    windows = Windows(lambda keyed: keyed.window(cw.tumbling("10s")).reduce(lambda one, other: one[9]))
    with pytest.raises(UserFunctionError) as failure:
        windows.at((("a", 1), 1), (("a", 2), 2), (("a", 3), 3))
    assert "record: ('a', 2)" in failure.value.detail


def test_a_failing_window_function_names_key_and_window() -> None:
    windows = Windows(lambda keyed: keyed.window(cw.tumbling("10s")).process(lambda key, records, context: records[9]))
    windows.at((("a", 1), 1))
    with pytest.raises(UserFunctionError, match="on the window of key 'a' from 0 to 10000 ms"):
        windows.end()


def test_an_unhashable_key_is_named() -> None:
    windows = Windows(lambda keyed: keyed.window(cw.tumbling("10s")).count())
    with pytest.raises(KeyTypeError):
        windows.at((([1], 1), 1))


def test_a_window_beyond_the_calendar_is_refused() -> None:
    windows = Windows(lambda keyed: keyed.window(cw.tumbling("10s")).count())
    windows.at((("a", 1), 10**16))
    with pytest.raises(BadTimestampError, match="can't begin or end at"):
        windows.end()


def test_a_window_function_has_no_timers() -> None:
    windows = Windows(
        lambda keyed: keyed.window(cw.tumbling("10s")).process(lambda k, r, context: context.register_event_timer(1))
    )
    windows.at((("a", 1), 1))
    with pytest.raises(UserError) as failure:
        windows.end()
    assert "trigger" in failure.value.hint


def test_what_is_written_can_be_sent_to_the_slots() -> None:
    operator = operator_of(lambda keyed: keyed.window(cw.tumbling("10s")).count())
    spec = cloudpickle.loads(cloudpickle.dumps(operator._spec))
    assert spec.results.names == ("key", "window_start", "window_end", "count")
