"""Does an evictor decide which records a result is made of?"""

from __future__ import annotations

from typing import Any

import pytest

import cutwater as cw
from cutwater.api.evictors import Evictor, TimedRecord
from cutwater.errors import UserFunctionError

from .windowing import Windows


def listed(evictor: Any, trigger: Any = None, window: Any = None) -> Any:
    def written(keyed: Any) -> Any:
        windows = keyed.window(window or cw.tumbling("10s")).evictor(evictor)
        windows = windows if trigger is None else windows.trigger(trigger)
        return windows.process(lambda key, records, context: [[value for _, value in records]])

    return written


def test_a_count_evictor_leaves_the_last_records() -> None:
    windows = Windows(listed(cw.evictors.count(2)))
    windows.at(*((("a", n), n) for n in range(4)))
    assert windows.end() == [[2, 3]]
    assert windows.backend.size() == 0


def test_what_was_evicted_does_not_come_back() -> None:
    windows = Windows(listed(cw.evictors.count(2), cw.triggers.count(3)))
    windows.at(*((("a", n), n) for n in range(6)))
    assert windows.output == [[1, 2], [4, 5]]


def test_evicting_after_the_result_leaves_the_records_to_the_next_one_only() -> None:
    windows = Windows(listed(cw.evictors.count(1, after=True), cw.triggers.count(3)))
    windows.at(*((("a", n), n) for n in range(6)))
    assert windows.output == [[0, 1, 2], [2, 3, 4, 5]]


def test_a_time_evictor_leaves_what_is_near_the_newest() -> None:
    windows = Windows(listed(cw.evictors.time("2s")))
    windows.at((("a", 1), 5_000), (("a", 2), 7_000), (("a", 3), 5_001), (("a", 4), 3_000))
    assert windows.end() == [[2, 3]]


def test_a_time_evictor_without_times_leaves_all() -> None:
    windows = Windows(listed(cw.evictors.time("2s"), cw.triggers.count(2), cw.global_window()))
    windows.feed(("a", 1), ("a", 2))
    assert windows.output == [[1, 2]]


def test_an_evictor_of_ones_own_sees_times_and_window() -> None:
    class Even:
        def evict_before(self, records: list[TimedRecord], window: Any) -> list[TimedRecord]:
            return [record for record in records if record.timestamp_ms % 2 == 0 and window.start_ms == 0]

    windows = Windows(listed(Even()))
    windows.at((("a", 1), 1), (("a", 2), 2), (("a", 3), 4))
    assert windows.end() == [[2, 3]]


def test_incremental_aggregates_go_over_the_records_that_stay() -> None:
    windows = Windows(
        lambda keyed: (
            keyed.window(cw.tumbling("10s"))
            .evictor(cw.evictors.count(2))
            .aggregate(total=cw.agg.sum(1), n=cw.agg.count())
        )
    )
    windows.at(*((("a", n), n) for n in range(4)))
    (row,) = windows.end()
    assert (row.total, row.n) == (5, 2)


def test_a_window_without_records_left_gives_no_aggregate_and_an_empty_list_to_process() -> None:
    class All(Evictor):
        def evict_before(self, records: list[TimedRecord], window: Any) -> list[TimedRecord]:
            return []

    counted = Windows(lambda keyed: keyed.window(cw.tumbling("10s")).evictor(All()).count())
    assert counted.at((("a", 1), 1)).end() == []
    assert Windows(listed(All())).at((("a", 1), 1)).end() == [[]]


def test_records_and_their_times_survive_a_restore() -> None:
    written = listed(cw.evictors.time("2s"))
    windows = Windows(written)
    windows.at((("a", 1), 1_000), (("a", 2), 4_500))
    restored = windows.restored(written)
    restored.at((("a", 3), 5_000))
    assert restored.end() == [[2, 3]]


def test_sessions_with_an_evictor_keep_the_records_of_both() -> None:
    windows = Windows(listed(cw.evictors.count(9), window=cw.session("2s")))
    windows.at((("a", 1), 0))
    windows.at((("a", 2), 3_000))
    windows.at((("a", 3), 1_500))
    assert [sorted(values) for values in windows.end()] == [[1, 2, 3]]


def test_a_failing_aggregate_behind_an_evictor_names_the_window() -> None:
    windows = Windows(lambda keyed: keyed.window(cw.tumbling("10s")).evictor(cw.evictors.count(2)).sum(1))
    windows.at((("a", 1), 1), (("a", "x"), 2))
    with pytest.raises(UserFunctionError, match="on the window of key 'a'"):
        windows.end()
