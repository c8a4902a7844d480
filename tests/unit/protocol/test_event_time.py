"""How far is a task, when its splits differ?"""

import pytest

from cutwater.protocol.event_time import OUT_OF_WORK_SECONDS, SplitClocks, bounded_watermark, limited_watermark
from cutwater.protocol.watermarks import MAX_TIMESTAMP_MS, MIN_TIMESTAMP_MS


def clocks(idle_after=None, restored=None, **splits):
    made = SplitClocks(idle_after, restored)
    for split in splits:
        made.opened(split)
    for split, watermark in splits.items():
        if watermark is not None:
            made.spoke(split, watermark)
    return made


def fall_silent(made, *splits, start=0.0, end=10.0):
    for split in splits:
        made.silent(split, start)
    for split in splits:
        made.silent(split, end)


def test_time_waits_for_the_slowest_split():
    assert clocks(a=5, b=3).watermark_ms == 3


def test_a_split_that_has_not_spoken_holds_time():
    assert clocks(a=5, b=None).watermark_ms is None


def test_a_clock_does_not_go_back():
    made = clocks(a=5)
    made.spoke("a", 2)
    made.spoke("a", None)
    assert (made.watermark_of("a"), made.watermark_ms) == (5, 5)


def test_a_silent_split_holds_time_back_no_longer():
    made = clocks(10, a=5, b=3)
    fall_silent(made, "b")
    assert (made.watermark_ms, made.all_idle) == (5, False)


def test_a_split_that_nobody_asked_is_not_silent():
    made = clocks(10, a=5, b=3)
    made.silent("a", 0.0)
    made.spoke("a", 8)
    made.silent("a", 1000.0)
    assert (made.watermark_ms, made.all_idle) == (3, False)


def test_without_idle_after_nobody_is_ever_silent():
    made = clocks(None, a=5, b=3)
    fall_silent(made, "a", "b", end=1e9)
    assert (made.watermark_ms, made.all_idle, made.next_look_seconds()) == (3, False, None)


def test_who_speaks_again_counts_again_but_turns_nothing_back():
    made = clocks(10, a=5, b=3)
    fall_silent(made, "b")
    made.spoke("b", 4)
    made.spoke("a", 9)
    assert made.watermark_ms == 5


@pytest.mark.parametrize("order", [("a", "b"), ("b", "a")])
def test_the_order_in_which_splits_fall_silent_does_not_matter(order):
    made = clocks(10, a=5, b=3)
    for split in order:
        fall_silent(made, split)
    assert (made.watermark_ms, made.all_idle) == (5, True)


def test_a_finished_split_holds_nothing_back():
    made = clocks(a=5, b=3)
    made.finished("b")
    assert made.watermark_ms == 5


def test_what_an_ended_split_had_reached_counts_when_only_silence_is_left():
    made = clocks(10, a=5, quiet=None)
    made.finished("a")
    fall_silent(made, "quiet")
    assert (made.watermark_ms, made.all_idle) == (5, True)


def test_the_last_split_leaves_time_where_it_is():
    made = clocks(a=5)
    made.finished("a")
    assert (made.watermark_ms, made.all_idle) == (5, False)


def test_the_next_split_does_not_turn_time_back():
    made = clocks(a=5)
    made.finished("a")
    made.opened("b")
    made.spoke("b", 1)
    assert made.watermark_ms == 5


def test_a_restored_task_starts_where_it_was_and_waits_for_every_split_that_had_begun():
    made = SplitClocks(None, 5)
    made.opened("a", 9)
    made.opened("b", 5)
    made.spoke("a", 20)
    assert made.watermark_ms == 5


def test_a_restored_split_keeps_its_clock_when_it_is_opened():
    made = SplitClocks(None)
    made.opened("a", 9)
    made.opened("a")
    made.merge()
    assert made.watermark_ms == 9


def test_a_snapshot_promises_what_the_task_has_told_for_a_split_behind_it():
    made = clocks(10, a=5, b=3)
    fall_silent(made, "b")
    assert (made.promised_of("a"), made.promised_of("b"), made.watermark_of("b")) == (5, 5, 3)


def test_the_next_look_is_when_the_first_silence_is_too_long():
    made = clocks(10, a=5, b=3)
    assert made.next_look_seconds() is None
    made.silent("b", 2.0)
    made.silent("a", 1.0)
    assert made.next_look_seconds() == 11.0


def test_at_the_moment_of_the_next_look_the_silence_is_long_enough():
    made = clocks(0.1, a=5)
    made.silent("a", 0.7)
    made.silent("a", made.next_look_seconds())
    assert made.all_idle


def test_a_task_that_waits_for_its_next_split_is_idle_only_after_a_while():
    made = SplitClocks(10)
    made.without_splits(0.0, expects_one=True)
    before = (made.all_idle, made.next_look_seconds())
    made.without_splits(10.0, expects_one=True)
    assert (before, made.all_idle, made.next_look_seconds()) == ((False, 10.0), True, None)


def test_a_task_that_no_split_is_meant_for_is_idle_at_once_and_until_one_comes():
    made = SplitClocks(None)
    made.without_splits(0.0, expects_one=False)
    before = made.all_idle
    made.opened("a")
    assert (before, made.all_idle) == (True, False)


def test_who_has_been_out_of_work_for_a_while_holds_no_other_source_back():
    made = SplitClocks(None)
    lags = [made.may_lag]
    for now in (0.0, OUT_OF_WORK_SECONDS):
        made.without_splits(now, expects_one=True)
        lags.append(made.may_lag)
    made.opened("a")
    assert [*lags, made.may_lag] == [True, True, False, True]


@pytest.mark.parametrize(
    ("newest", "bound", "expected"),
    [
        (10, 3, 6),
        (MIN_TIMESTAMP_MS, 3, MIN_TIMESTAMP_MS),
        (MIN_TIMESTAMP_MS + 2, 5, MIN_TIMESTAMP_MS),
        (MAX_TIMESTAMP_MS, 0, MAX_TIMESTAMP_MS - 1),
    ],
)
def test_a_watermark_stays_within_64_bits(newest, bound, expected):
    assert bounded_watermark(newest, bound) == expected


def test_no_watermark_of_a_user_is_the_end_of_time():
    assert limited_watermark(MAX_TIMESTAMP_MS) == MAX_TIMESTAMP_MS - 1
