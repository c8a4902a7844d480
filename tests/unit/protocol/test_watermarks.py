"""How far has event time come?"""

import pytest

from cutwater.protocol.watermarks import (
    MAX_TIMESTAMP_MS,
    MIN_TIMESTAMP_MS,
    AdvanceWatermark,
    BecomeActive,
    BecomeIdle,
    ChannelFinished,
    ChannelIdled,
    ChannelResumed,
    Event,
    WatermarkArrived,
    WatermarkMerger,
)


def after(*events: Event, channels: tuple[int, ...] = (0, 1)) -> WatermarkMerger:
    merger = WatermarkMerger(channels)
    for event in events:
        merger.handle(event)
    return merger


def test_nothing_advances_before_every_channel_has_a_watermark():
    assert after().handle(WatermarkArrived(0, 5)) == []


def test_the_slowest_channel_decides():
    assert after(WatermarkArrived(0, 5)).handle(WatermarkArrived(1, 3)) == [AdvanceWatermark(3)]


def test_a_watermark_that_changes_nothing_is_not_repeated():
    assert after(WatermarkArrived(0, 5), WatermarkArrived(1, 3)).handle(WatermarkArrived(0, 9)) == []


def test_a_channel_can_not_go_back():
    merger = after(WatermarkArrived(0, 5), WatermarkArrived(1, 3), WatermarkArrived(1, 1))
    assert merger.handle(WatermarkArrived(1, 4)) == [AdvanceWatermark(4)]


def test_an_idle_channel_holds_nothing_back():
    assert after(WatermarkArrived(0, 5)).handle(ChannelIdled(1)) == [AdvanceWatermark(5)]


def test_when_all_channels_are_idle_the_task_is_too():
    assert after(ChannelIdled(0)).handle(ChannelIdled(1)) == [BecomeIdle()]


def test_idleness_is_told_once():
    assert after(ChannelIdled(0), ChannelIdled(1)).handle(ChannelIdled(0)) == []


def test_the_order_in_which_channels_fall_idle_does_not_matter():
    merger = after(WatermarkArrived(0, 5), WatermarkArrived(1, 9), ChannelIdled(1))
    assert merger.handle(ChannelIdled(0)) == [AdvanceWatermark(9), BecomeIdle()]


def test_a_watermark_wakes_an_idle_channel():
    merger = after(WatermarkArrived(0, 5), ChannelIdled(1), WatermarkArrived(1, 6))
    assert merger.handle(WatermarkArrived(0, 9)) == [AdvanceWatermark(6)]


def test_a_record_wakes_an_idle_channel():
    merger = after(WatermarkArrived(0, 5), ChannelIdled(1), ChannelResumed(1))
    assert merger.handle(WatermarkArrived(0, 9)) == []


def test_a_channel_that_wakes_up_behind_does_not_turn_time_back():
    assert after(WatermarkArrived(0, 5), ChannelIdled(1)).handle(WatermarkArrived(1, 2)) == []


def test_idleness_is_told_again_after_waking_up():
    merger = after(ChannelIdled(0), ChannelIdled(1), WatermarkArrived(0, 7))
    assert merger.handle(ChannelIdled(0)) == [BecomeIdle()]


def test_an_ended_channel_holds_nothing_back():
    assert after(WatermarkArrived(0, 5)).handle(ChannelFinished(1)) == [AdvanceWatermark(5)]


def test_time_ends_when_every_channel_ended():
    assert after(ChannelFinished(0)).handle(ChannelFinished(1)) == [AdvanceWatermark(MAX_TIMESTAMP_MS)]


def test_time_does_not_end_while_an_idle_channel_may_come_back():
    assert after(ChannelIdled(0)).handle(ChannelFinished(1)) == [BecomeIdle()]


def test_an_ended_channel_is_not_heard_any_more():
    merger = after(WatermarkArrived(0, 5), ChannelFinished(1))
    assert (merger.handle(WatermarkArrived(1, 6)), merger.handle(ChannelIdled(1)), merger.watermark_ms) == ([], [], 5)


def test_the_last_timestamp_ends_a_channel_but_not_time_while_an_idle_one_may_come_back():
    merger = after(WatermarkArrived(0, 5), ChannelIdled(1))
    assert (merger.handle(WatermarkArrived(0, MAX_TIMESTAMP_MS)), merger.watermark_ms) == ([BecomeIdle()], 5)


def test_what_an_ended_channel_had_told_counts_when_only_idle_ones_are_left():
    merger = after(WatermarkArrived(0, 5), ChannelFinished(0))
    assert merger.handle(ChannelIdled(1)) == [AdvanceWatermark(5), BecomeIdle()]


@pytest.mark.parametrize("stirs", [ChannelResumed(0), WatermarkArrived(0, 3), WatermarkArrived(0, MIN_TIMESTAMP_MS)])
def test_a_task_that_counts_again_says_so_where_it_is(stirs):
    merger = after(WatermarkArrived(0, 5), ChannelIdled(0), ChannelIdled(1))
    assert merger.handle(stirs) == [BecomeActive()]


def test_a_watermark_that_promises_nothing_is_not_a_watermark_yet():
    merger = after(WatermarkArrived(0, 5))
    assert (merger.handle(WatermarkArrived(1, MIN_TIMESTAMP_MS)), merger.watermark_ms) == ([], None)


def test_a_restored_merger_does_not_go_back():
    merger = WatermarkMerger(range(1), restored_ms=7)
    assert (merger.handle(WatermarkArrived(0, 6)), merger.watermark_ms) == ([], 7)
    assert merger.handle(WatermarkArrived(0, 8)) == [AdvanceWatermark(8)]
