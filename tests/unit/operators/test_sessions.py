"""Do sessions grow, become one, and take along what they have?"""

from __future__ import annotations

from typing import Any

import pytest

import cutwater as cw
from cutwater.errors import UserError, UserFunctionError

from .windowing import Windows, spans


def listed(keyed: Any) -> Any:
    return keyed.window(cw.session("10s")).process(
        lambda key, records, context: [
            (key, context.window.start_ms, context.window.end_ms, sorted(value for _, value in records))
        ]
    )


def counted(keyed: Any) -> Any:
    return keyed.window(cw.session("10s")).count()


def test_a_session_lasts_until_the_gap_after_its_last_record() -> None:
    windows = Windows(counted)
    windows.at((("a", 1), 0), (("a", 2), 9_000), (("b", 3), 5_000))
    windows.at((("a", 4), 18_000), (("a", 5), 40_000))
    assert windows.watermark(14_998) == []
    assert spans(windows.watermark(14_999)) == [("b", 5_000, 15_000, 1)]
    assert windows.watermark(27_998) == []
    assert spans(windows.watermark(27_999)) == [("a", 0, 28_000, 3)]
    assert spans(windows.end()) == [("a", 40_000, 50_000, 1)]
    assert windows.backend.size() == 0


def test_sessions_that_touch_are_one_and_those_a_millisecond_further_apart_are_two() -> None:
    windows = Windows(counted)
    windows.at((("a", 1), 0), (("a", 2), 10_000), (("b", 1), 0), (("b", 2), 10_001))
    assert spans(windows.end()) == [("b", 0, 10_000, 1), ("a", 0, 20_000, 2), ("b", 10_001, 20_001, 1)]


def test_one_record_can_join_any_number_of_sessions_with_all_they_hold() -> None:
    windows = Windows(lambda keyed: keyed.window(cw.session(lambda record: record[1])).process(
        lambda key, records, context: [(context.window.start_ms, context.window.end_ms, len(records))]
    ))  # fmt: skip
    for start in (0, 5_000, 10_000, 15_000, 40_000):
        windows.at((("a", "1s"), start))
    windows.at((("a", "20s"), 2_000))
    assert windows.end() == [(0, 1_000, 1), (2_000, 22_000, 4), (40_000, 41_000, 1)]


def test_records_that_come_in_any_order_and_any_batches_make_the_same_sessions() -> None:
    records = [(("a", number), time) for number, time in enumerate([50_000, 0, 20_000, 10_000, 41_000, 29_000])]
    together, one_by_one = Windows(listed).at(*records), Windows(listed)
    for record in records:
        one_by_one.at(record)
    # 29 s + 10 s < 41 s: two sessions.
    expected = [("a", 0, 39_000, [1, 2, 3, 5]), ("a", 41_000, 60_000, [0, 4])]
    assert (together.end(), one_by_one.end()) == (expected, expected)


def test_a_late_record_opens_no_session_but_may_join_one_that_is_open() -> None:
    windows = Windows(counted)
    windows.at((("a", 1), 20_000))
    windows.watermark(15_000)
    windows.at((("a", 2), 5_000), (("a", 3), 12_000), (("b", 4), 5_000))
    # 5 s ends at 15 s and is late; 12 s reaches up to 22 s.
    assert (windows.metrics.late_records, spans(windows.end())) == (2, [("a", 12_000, 30_000, 2)])


def test_a_late_record_goes_to_the_side_output_in_its_order() -> None:
    windows = Windows(lambda keyed: keyed.window(cw.session("10s")).late_output("late").count())
    windows.watermark(50_000)
    windows.at((("b", 1), 1), (("a", 2), 2), (("b", 3), 3))
    assert windows.side == [("late", [("b", 1), ("a", 2), ("b", 3)])]


def test_an_allowed_late_record_fires_the_session_again_or_prolongs_it() -> None:
    windows = Windows(lambda keyed: keyed.window(cw.session("10s")).allowed_lateness("20s").count())
    windows.at((("a", 1), 0), (("a", 2), 5_000))
    assert spans(windows.watermark(14_999)) == [("a", 0, 15_000, 2)]
    windows.at((("a", 3), 3_000))
    assert spans(windows.output) == [("a", 0, 15_000, 3)]
    windows.at((("a", 4), 14_000))  # up to 24 s: not over yet
    assert windows.output == []
    assert spans(windows.watermark(23_999)) == [("a", 0, 24_000, 4)]
    assert windows.watermark(43_998) == []
    assert windows.backend.size() > 0
    windows.watermark(43_999)
    assert windows.backend.size() == 0


def test_a_session_grows_across_a_restore() -> None:
    windows = Windows(listed)
    windows.at((("a", 1), 0), (("a", 2), 15_000))
    restored = windows.restored(listed)
    restored.at((("a", 3), 8_000))
    assert restored.end() == [("a", 0, 25_000, [1, 2, 3])]


def test_merging_behind_a_barrier_leaves_the_frozen_view_alone() -> None:
    class Gathered:
        def create_accumulator(self) -> list[int]:
            return []

        def add(self, record: Any, accumulator: list[int]) -> list[int]:
            accumulator.append(record[1])
            return accumulator

        def get_result(self, accumulator: list[int]) -> list[int]:
            return accumulator

        def merge(self, one: list[int], other: list[int]) -> list[int]:
            one.extend(other)
            return one

    def gathered(keyed: Any) -> Any:
        return keyed.window(cw.session("10s")).aggregate(Gathered())

    windows = Windows(gathered)
    windows.at((("a", 1), 0), (("a", 2), 15_000))
    view = windows.freeze_keyed()
    windows.at((("a", 3), 8_000))
    assert windows.end()[0].result == [1, 2, 3]
    assert windows.backend.size() == 0
    assert [row.result for row in Windows(gathered, keyed=list(view.chunks())).end()] == [[1], [2]]


def test_processing_time_sessions_close_by_the_wall_clock() -> None:
    windows = Windows(lambda keyed: keyed.window(cw.session("10s", time="processing")).count())
    windows.wall(1_000)
    windows.feed(("a", 1))
    windows.wall(8_000)
    windows.feed(("a", 2))
    assert windows.wall(17_999) == []
    assert spans(windows.wall(18_000)) == [("a", 1_000, 18_000, 2)]


def test_open_processing_time_sessions_fire_at_the_end() -> None:
    windows = Windows(lambda keyed: keyed.window(cw.session("10s", time="processing")).count())
    windows.wall(1_000)
    windows.feed(("a", 1))
    windows.wall(8_000)
    windows.feed(("a", 2))
    assert spans(windows.end()) == [("a", 1_000, 18_000, 2)]


@pytest.mark.parametrize("gap", [0, -1, "soon", None])
def test_a_gap_that_is_none_names_the_record(gap: Any) -> None:
    windows = Windows(lambda keyed: keyed.window(cw.session(lambda record: gap)).count())
    with pytest.raises(UserError) as failure:
        windows.at((("a", 7), 0))
    assert "('a', 7)" in failure.value.detail


def test_a_failing_merge_is_the_aggregates() -> None:
    def broken(one: Any, other: Any) -> Any:
        raise ValueError("no")

    windows = Windows(lambda keyed: keyed.window(cw.session("1s")).reduce(broken))
    windows.at((("a", 1), 0))
    windows.at((("a", 2), 1_500))
    with pytest.raises(UserFunctionError, match=r'function "broken".*that became one'):
        windows.at((("a", 3), 800))
