"""When does a task take its snapshot?"""

from cutwater.protocol.aligner import (
    BarrierAligner,
    BarrierArrived,
    BlockChannel,
    ChannelEnded,
    CheckpointCancelled,
    CheckpointTriggered,
    DeclineCheckpoint,
    Effect,
    Event,
    TakeSnapshot,
    UnblockChannels,
)
from cutwater.protocol.modes import CheckpointMode


def counting(*channels: int) -> BarrierAligner:
    return BarrierAligner(channels, CheckpointMode.AT_LEAST_ONCE)


def after(aligner: BarrierAligner, *events: Event) -> BarrierAligner:
    for event in events:
        aligner.handle(event)
    return aligner


def trace(aligner: BarrierAligner, *events: Event) -> list[Effect]:
    return [effect for event in events for effect in aligner.handle(event)]


def test_an_ended_channel_no_longer_holds_back_the_snapshot():
    aligner = BarrierAligner({0, 1})
    aligner.handle(BarrierArrived(channel=0, checkpoint=1))
    assert aligner.handle(ChannelEnded(1)) == [TakeSnapshot(1), UnblockChannels(frozenset({0}))]


def test_the_first_barrier_blocks_its_channel():
    assert BarrierAligner({0, 1}).handle(BarrierArrived(0, 1)) == [BlockChannel(0)]


def test_the_last_barrier_takes_the_snapshot_and_unblocks_the_others():
    aligner = after(BarrierAligner({0, 1, 2}), BarrierArrived(0, 1), BarrierArrived(2, 1))
    assert aligner.handle(BarrierArrived(1, 1)) == [TakeSnapshot(1), UnblockChannels(frozenset({0, 2}))]


def test_a_single_channel_is_never_blocked():
    assert BarrierAligner({0}).handle(BarrierArrived(0, 1)) == [TakeSnapshot(1)]


def test_a_channel_that_ended_before_the_barrier_is_not_waited_for():
    aligner = after(BarrierAligner({0, 1}), ChannelEnded(0))
    assert aligner.handle(BarrierArrived(1, 1)) == [TakeSnapshot(1)]


def test_a_repeated_barrier_changes_nothing():
    aligner = after(BarrierAligner({0, 1}), BarrierArrived(0, 1))
    assert aligner.handle(BarrierArrived(0, 1)) == []


def test_a_newer_barrier_aborts_the_checkpoint_that_aligns():
    aligner = after(BarrierAligner({0, 1, 2}), BarrierArrived(0, 1), BarrierArrived(1, 1))
    assert aligner.handle(BarrierArrived(2, 2)) == [
        DeclineCheckpoint(1, "superseded by checkpoint 2"),
        UnblockChannels(frozenset({0, 1})),
        BlockChannel(2),
    ]


def test_an_older_barrier_does_not_disturb_the_checkpoint_that_aligns():
    aligner = after(BarrierAligner({0, 1, 2}), BarrierArrived(0, 2))
    assert trace(aligner, BarrierArrived(1, 1), BarrierArrived(1, 2), BarrierArrived(2, 2)) == [
        BlockChannel(1),
        TakeSnapshot(2),
        UnblockChannels(frozenset({0, 1})),
    ]


def test_a_late_barrier_of_a_checkpoint_that_was_taken_is_ignored():
    aligner = after(BarrierAligner({0, 1}), BarrierArrived(0, 2), BarrierArrived(1, 2))
    assert aligner.handle(BarrierArrived(0, 1)) == []


def test_a_cancelled_checkpoint_unblocks_and_declines_nothing():
    aligner = after(BarrierAligner({0, 1}), BarrierArrived(0, 1))
    assert aligner.handle(CheckpointCancelled(1)) == [UnblockChannels(frozenset({0}))]


def test_barriers_of_a_cancelled_checkpoint_neither_block_nor_snapshot():
    aligner = after(BarrierAligner({0, 1}), BarrierArrived(0, 1), CheckpointCancelled(1))
    assert trace(aligner, BarrierArrived(1, 1), CheckpointTriggered(1), ChannelEnded(0), ChannelEnded(1)) == []


def test_a_cancellation_ahead_of_all_barriers_is_remembered():
    aligner = after(BarrierAligner({0, 1}), CheckpointCancelled(1))
    assert trace(aligner, BarrierArrived(0, 1), BarrierArrived(1, 1)) == []


def test_cancelling_a_newer_checkpoint_leaves_the_older_one_alive():
    aligner = after(BarrierAligner({0, 1}), BarrierArrived(0, 1), CheckpointCancelled(2))
    assert aligner.handle(BarrierArrived(1, 1)) == [TakeSnapshot(1), UnblockChannels(frozenset({0}))]


def test_the_checkpoint_after_a_cancelled_one_is_taken():
    aligner = after(BarrierAligner({0, 1}), BarrierArrived(0, 1), CheckpointCancelled(1), BarrierArrived(0, 2))
    assert aligner.handle(BarrierArrived(1, 2)) == [TakeSnapshot(2), UnblockChannels(frozenset({0}))]


def test_a_source_takes_its_snapshot_when_the_coordinator_triggers_it():
    assert BarrierAligner(()).handle(CheckpointTriggered(1)) == [TakeSnapshot(1)]


def test_a_trigger_that_comes_twice_takes_one_snapshot():
    assert trace(BarrierAligner(()), CheckpointTriggered(1), CheckpointTriggered(1)) == [TakeSnapshot(1)]


def test_a_task_with_live_channels_waits_for_barriers_after_a_trigger():
    assert BarrierAligner({0}).handle(CheckpointTriggered(1)) == []


def test_a_task_whose_channels_all_ended_takes_its_snapshot_when_triggered():
    aligner = after(BarrierAligner({0, 1}), ChannelEnded(0), ChannelEnded(1))
    assert aligner.handle(CheckpointTriggered(3)) == [TakeSnapshot(3)]


def test_the_last_channel_that_ends_releases_the_triggered_checkpoints_in_order():
    aligner = after(BarrierAligner({0, 1}), CheckpointTriggered(2), CheckpointTriggered(1), ChannelEnded(1))
    assert aligner.handle(ChannelEnded(0)) == [TakeSnapshot(1), TakeSnapshot(2)]


def test_a_trigger_that_comes_after_the_barriers_takes_no_second_snapshot():
    aligner = after(BarrierAligner({0}), BarrierArrived(0, 1), ChannelEnded(0))
    assert aligner.handle(CheckpointTriggered(1)) == []


def test_the_aligning_checkpoint_is_visible_until_it_is_taken():
    aligner = after(BarrierAligner({0, 1}), BarrierArrived(0, 7))
    seen = [aligner.aligning]
    aligner.handle(BarrierArrived(1, 7))
    assert [*seen, aligner.aligning] == [7, None]


def test_at_least_once_counts_barriers_and_blocks_nothing():
    assert trace(counting(0, 1), BarrierArrived(0, 1), BarrierArrived(1, 1)) == [TakeSnapshot(1)]


def test_at_least_once_keeps_several_checkpoints_pending():
    aligner = after(counting(0, 1), BarrierArrived(0, 1), BarrierArrived(0, 2))
    assert trace(aligner, BarrierArrived(1, 1), BarrierArrived(1, 2)) == [TakeSnapshot(1), TakeSnapshot(2)]


def test_at_least_once_an_ending_channel_completes_all_that_waited_for_it():
    aligner = after(counting(0, 1), BarrierArrived(0, 1), BarrierArrived(0, 2))
    assert aligner.handle(ChannelEnded(1)) == [TakeSnapshot(1), TakeSnapshot(2)]


def test_at_least_once_declines_a_checkpoint_that_a_newer_one_overtook():
    aligner = after(counting(0, 1), BarrierArrived(0, 1), BarrierArrived(0, 2))
    assert aligner.handle(BarrierArrived(1, 2)) == [
        DeclineCheckpoint(1, "superseded by checkpoint 2"),
        TakeSnapshot(2),
    ]


def test_at_least_once_a_cancelled_checkpoint_is_forgotten():
    aligner = after(counting(0, 1), BarrierArrived(0, 1), CheckpointCancelled(1))
    assert aligner.handle(BarrierArrived(1, 1)) == []


def test_a_job_without_periodic_checkpoints_still_aligns_savepoints():
    aligner = BarrierAligner({0, 1}, CheckpointMode.NONE)
    assert aligner.handle(BarrierArrived(0, 1)) == [BlockChannel(0)]
