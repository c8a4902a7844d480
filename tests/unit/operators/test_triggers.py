"""Does a window fire when its trigger says so, and is it empty when it should be?"""

from __future__ import annotations

from typing import Any

import pytest

import cutwater as cw
from cutwater.api.triggers import Trigger, TriggerResult
from cutwater.errors import UserError, UserFunctionError

from .windowing import Windows, spans, times

CONTINUE, FIRE, PURGE = TriggerResult.CONTINUE, TriggerResult.FIRE, TriggerResult.PURGE


def counted(window: Any, trigger: Any, lateness: str = "0s") -> Any:
    def written(keyed: Any) -> Any:
        windows = keyed.window(window).trigger(trigger)
        return (windows if lateness == "0s" else windows.allowed_lateness(lateness)).count()

    return written


def counts(rows: list[Any]) -> list[tuple[Any, int]]:
    return [(row.key, row.count) for row in rows]


def test_a_count_trigger_fires_at_every_so_many_and_keeps_what_the_window_has() -> None:
    windows = Windows(counted(cw.tumbling("10s"), cw.triggers.count(2)))
    windows.at(*((("a", n), n) for n in range(5)), (("b", 0), 0))
    windows.at((("a", 5), 5), (("b", 1), 1), (("b", 2), 10_000))
    assert counts(windows.output) == [("a", 2), ("a", 4), ("a", 6), ("b", 2)]
    assert (windows.end(), windows.backend.size()) == ([], 0)  # what was left is gone with its window


def test_a_purging_trigger_starts_anew() -> None:
    windows = Windows(counted(cw.tumbling("10s"), cw.triggers.purging(cw.triggers.count(2))))
    windows.at(*((("a", n), n) for n in range(5)))
    assert counts(windows.output) == [("a", 2), ("a", 2)]


def test_a_purging_event_time_trigger_gives_late_records_by_themselves() -> None:
    windows = Windows(counted(cw.tumbling("10s"), cw.triggers.purging(cw.triggers.event_time()), "5s"))
    windows.at((("a", 1), 1), (("a", 2), 2))
    assert counts(windows.watermark(9_999)) == [("a", 2)]
    windows.at((("a", 3), 3), (("a", 4), 4))
    assert counts(windows.output) == [("a", 1), ("a", 1)]
    windows.watermark(20_000)
    assert windows.backend.size() == 0


def test_counts_of_sessions_that_become_one_are_added() -> None:
    windows = Windows(counted(cw.session("10s"), cw.triggers.count(3)))
    windows.at((("a", 1), 0), (("a", 2), 15_000))
    assert windows.output == []
    windows.at((("a", 3), 8_000))
    assert spans(windows.output) == [("a", 0, 25_000, 3)]


def test_a_continuous_event_time_trigger_fires_at_every_interval_and_at_the_end() -> None:
    windows = Windows(counted(cw.tumbling("10s"), cw.triggers.continuous_event("4s")))
    windows.at((("a", 1), 1_000))
    assert counts(windows.watermark(4_000)) == [("a", 1)]
    windows.at((("a", 2), 4_500))
    assert windows.watermark(7_999) == []
    assert counts(windows.watermark(8_000)) == [("a", 2)]
    assert counts(windows.watermark(9_999)) == [("a", 2)]
    assert windows.backend.size() == 0


def test_a_continuous_event_time_trigger_follows_its_sessions() -> None:
    windows = Windows(counted(cw.session("10s"), cw.triggers.continuous_event("4s")))
    windows.at((("a", 1), 1_000))
    windows.at((("a", 2), 3_000))
    assert spans(windows.watermark(4_000)) == [("a", 1_000, 13_000, 2)]
    windows.at((("a", 3), 12_000))
    assert spans(windows.watermark(8_000)) == [("a", 1_000, 22_000, 3)]
    windows.end()
    assert windows.backend.size() == 0


def test_a_continuous_trigger_on_a_window_without_end_ends_with_the_input() -> None:
    windows = Windows(
        lambda keyed: (
            keyed.window(cw.global_window()).trigger(cw.triggers.purging(cw.triggers.continuous_event("4s"))).count()
        )
    )
    windows.at((("a", 1), 1_000))
    assert counts(windows.watermark(4_000)) == [("a", 1)]
    windows.at((("a", 1), 5_000), (("a", 1), 6_000))
    windows.operator.on_watermark(2**63 - 1)
    assert times(windows.batches) == [8_000]
    assert counts(windows.output) == [("a", 2)]


def test_an_event_time_trigger_gives_a_window_without_end_at_the_end_of_the_input() -> None:
    windows = Windows(lambda keyed: keyed.window(cw.global_window()).trigger(cw.triggers.event_time()).count())
    windows.at((("a", 1), 1_000), (("a", 1), 2_000))
    assert windows.watermark(50_000) == []
    windows.operator.on_watermark(2**63 - 1)
    assert (times(windows.batches), counts(windows.output)) == ([50_000], [("a", 2)])


def test_a_processing_time_trigger_goes_by_the_wall_clock_in_event_time_windows_too() -> None:
    windows = Windows(counted(cw.tumbling("10s"), cw.triggers.processing_time()))
    windows.wall(3_000)
    windows.at((("a", 1), 1_000))
    assert windows.wall(9_999) == []
    assert counts(windows.wall(10_000)) == [("a", 1)]


def test_a_continuous_processing_time_trigger_fires_by_the_wall_clock() -> None:
    windows = Windows(counted(cw.tumbling("10s", time="processing"), cw.triggers.continuous_processing("4s")))
    windows.wall(1_000)
    windows.feed(("a", 1))
    assert counts(windows.wall(4_001)) == [("a", 1)]
    windows.feed(("a", 2))
    assert counts(windows.wall(8_001)) == [("a", 2)]
    assert counts(windows.wall(10_000)) == [("a", 2)]
    assert windows.backend.size() == 0


def test_at_the_end_each_window_of_processing_time_fires_once() -> None:
    windows = Windows(counted(cw.tumbling("10s", time="processing"), cw.triggers.continuous_processing("4s")))
    windows.wall(1_000)
    windows.feed(("a", 1))
    assert counts(windows.end()) == [("a", 1)]
    assert (windows.operator.next_wall_ms(), windows.backend.size()) == (None, 0)


def test_a_trigger_of_processing_time_fires_event_time_windows_before_they_go_at_the_end() -> None:
    windows = Windows(counted(cw.tumbling("10s"), cw.triggers.continuous_processing("4s")))
    windows.wall(1_000)
    windows.at((("a", 1), 5))
    assert counts(windows.end()) == [("a", 1)]
    assert windows.backend.size() == 0


def test_never_is_never() -> None:
    windows = Windows(counted(cw.tumbling("10s"), cw.triggers.never()))
    windows.at((("a", 1), 1))
    assert (windows.end(), windows.backend.size()) == ([], 0)


class Threshold(Trigger):
    """Fires at a large value, and two seconds of event time after it once more."""

    def on_element(self, record: Any, timestamp_ms: int | None, window: Any, context: Any) -> TriggerResult:
        if record[1] < 100:
            return CONTINUE
        assert timestamp_ms is not None
        context.value_state("at").update(timestamp_ms)
        context.register_event_timer(timestamp_ms + 2_000)
        return FIRE

    def on_event_time(self, time_ms: int, window: Any, context: Any) -> TriggerResult:
        at = context.value_state("at").value()
        return TriggerResult.FIRE_AND_PURGE if at is not None and time_ms == at + 2_000 else CONTINUE

    def on_merge(self, window: Any, context: Any) -> None:
        at = context.merge_state("at", max)
        if at is not None:
            context.register_event_timer(at + 2_000)

    def clear(self, window: Any, context: Any) -> None:
        at = context.value_state("at").value()
        if at is not None:
            context.delete_event_timer(at + 2_000)


def test_a_trigger_of_ones_own_has_timers_and_state_of_its_window() -> None:
    windows = Windows(counted(cw.tumbling("10s"), Threshold()))
    windows.at((("a", 1), 1), (("a", 100), 2), (("a", 2), 3), (("b", 1), 4))
    assert counts(windows.output) == [("a", 2)]
    assert counts(windows.watermark(2_002)) == [("a", 3)]
    windows.at((("a", 3), 5))
    assert (windows.end(), windows.backend.size()) == ([], 0)


def test_a_trigger_of_ones_own_survives_a_restore() -> None:
    written = counted(cw.tumbling("10s"), Threshold())
    windows = Windows(written)
    windows.at((("a", 100), 2))
    assert counts(windows.restored(written).watermark(2_002)) == [("a", 1)]


def test_timers_and_state_of_a_trigger_move_with_its_sessions() -> None:
    windows = Windows(counted(cw.session("10s"), Threshold()))
    windows.at((("a", 100), 0), (("a", 1), 15_000))
    windows.at((("a", 2), 8_000))
    windows.output.clear()
    assert spans(windows.watermark(2_000)) == [("a", 0, 25_000, 3)]
    windows.end()
    assert windows.backend.size() == 0


def test_a_trigger_needs_no_base_class() -> None:
    class Always:
        def on_element(self, record: Any, timestamp_ms: int | None, window: Any, context: Any) -> TriggerResult:
            return FIRE

    windows = Windows(counted(cw.tumbling("10s"), cw.triggers.purging(Always())))
    windows.at((("a", 1), 1), (("a", 2), 2))
    assert counts(windows.output) == [("a", 1), ("a", 1)]


def test_a_trigger_may_look_at_the_clock_and_the_key() -> None:
    seen: list[Any] = []

    class Curious(Trigger):
        def on_element(self, record: Any, timestamp_ms: int | None, window: Any, context: Any) -> TriggerResult:
            seen.append((context.current_key, context.watermark_ms, context.processing_time_ms, window.end_ms))
            return PURGE

    windows = Windows(counted(cw.tumbling("10s"), Curious()))
    windows.wall_ms = 77
    windows.watermark(5)
    windows.at((("a", 1), 9))
    assert seen == [("a", 5, 77, 10_000)]
    assert windows.end() == []


def test_what_was_emitted_does_not_change_with_later_records() -> None:
    def grown(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
        one["n"] += other["n"]
        return one

    windows = Windows(lambda keyed: keyed.window(cw.tumbling("10s")).trigger(cw.triggers.count(1)).reduce(grown), "key")
    windows.at(({"key": "a", "n": 1}, 1), ({"key": "a", "n": 2}, 2))
    assert [row["n"] for row in windows.output] == [1, 3]


def test_an_answer_that_is_none_is_refused() -> None:
    class Silent:
        def on_element(self, record: Any, timestamp_ms: int | None, window: Any, context: Any) -> None: ...

    windows = Windows(counted(cw.tumbling("10s"), Silent()))
    with pytest.raises(UserError, match=r"Silent.on_element returned None"):
        windows.at((("a", 1), 1))


def test_a_failing_trigger_names_itself_and_the_record() -> None:
    class Broken(Trigger):
        def on_element(self, record: Any, timestamp_ms: int | None, window: Any, context: Any) -> TriggerResult:
            raise ValueError("no")

    windows = Windows(counted(cw.tumbling("10s"), cw.triggers.purging(Broken())))
    with pytest.raises(UserFunctionError) as failure:
        windows.at((("a", 1), 1))
    assert 'function "Broken"' in failure.value.fact
    assert "record: ('a', 1)" in failure.value.detail


def test_a_trigger_of_event_time_needs_timestamps() -> None:
    windows = Windows(
        lambda keyed: keyed.window(cw.global_window()).trigger(cw.triggers.continuous_event("1s")).count()
    )
    with pytest.raises(UserError, match="without a timestamp"):
        windows.feed(("a", 1))
