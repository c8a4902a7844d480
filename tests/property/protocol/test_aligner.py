"""Is every snapshot exactly the cut that the barriers draw, in whatever order the channels are read?"""

from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from cutwater.protocol.aligner import (
    BarrierAligner,
    BarrierArrived,
    BlockChannel,
    ChannelEnded,
    CheckpointCancelled,
    CheckpointTriggered,
    DeclineCheckpoint,
    Effect,
    TakeSnapshot,
    UnblockChannels,
)
from cutwater.protocol.modes import CheckpointMode

RECORD, END = "record", "end"
Stream = list[str | int]
"""Records, checkpoint ids where a barrier is, and the end."""


@dataclass
class Shell:
    """Reads channels in a drawn order, obeys the aligner, and writes down what each snapshot had consumed."""

    streams: list[Stream]
    mode: CheckpointMode = CheckpointMode.EXACTLY_ONCE
    blocked: set[int] = field(default_factory=set)
    snapshots: dict[int, list[int]] = field(default_factory=dict)
    declined: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.aligner = BarrierAligner(range(len(self.streams)), self.mode)
        self.position = [0] * len(self.streams)
        self.consumed = [0] * len(self.streams)

    def readable(self) -> list[int]:
        return [
            channel
            for channel, stream in enumerate(self.streams)
            if channel not in self.blocked and self.position[channel] < len(stream)
        ]

    def read(self, channel: int) -> None:
        element = self.streams[channel][self.position[channel]]
        self.position[channel] += 1
        if element == RECORD:
            self.consumed[channel] += 1
        elif element == END:
            self.obey(self.aligner.handle(ChannelEnded(channel)))
        else:
            self.obey(self.aligner.handle(BarrierArrived(channel, element)))

    def obey(self, effects: list[Effect]) -> None:
        for effect in effects:
            match effect:
                case BlockChannel(channel):
                    assert self.mode is CheckpointMode.EXACTLY_ONCE
                    assert channel not in self.blocked
                    self.blocked.add(channel)
                case UnblockChannels(channels):
                    assert channels == self.blocked
                    self.blocked.clear()
                case TakeSnapshot(checkpoint):
                    assert checkpoint > max(self.snapshots, default=0), "not in increasing order, or twice"
                    assert checkpoint not in self.declined
                    self.snapshots[checkpoint] = list(self.consumed)
                case DeclineCheckpoint(checkpoint, _):
                    assert checkpoint not in self.snapshots
                    self.declined.append(checkpoint)

    def cut(self, checkpoint: int) -> list[int]:
        """How many records lie before the checkpoint's barrier: all, in a channel that ended without it."""
        return [
            sum(element == RECORD for element in stream[: stream.index(checkpoint) if checkpoint in stream else None])
            for stream in self.streams
        ]


@st.composite
def complete_stream(draw: st.DrawFn, checkpoints: int) -> Stream:
    """Every barrier up to some last one, records between them, and an end."""
    stream: Stream = []
    for checkpoint in range(1, draw(st.integers(0, checkpoints)) + 1):
        stream += [RECORD] * draw(st.integers(0, 3)) + [checkpoint]
    return stream + [RECORD] * draw(st.integers(0, 3)) + [END]


def run(shell: Shell, data: st.DataObject, control: list[CheckpointTriggered | CheckpointCancelled]) -> None:
    """Reads everything, with the coordinator's words somewhere in between."""
    waiting = list(control)
    while (readable := shell.readable()) or waiting:
        choice = data.draw(st.sampled_from([*readable, *([-1] if waiting else [])]))
        if choice == -1:
            shell.obey(shell.aligner.handle(waiting.pop(0)))
        else:
            shell.read(choice)


@given(st.data(), st.integers(0, 4), st.integers(0, 4))
def test_every_checkpoint_is_taken_in_order_and_its_snapshot_is_the_cut(
    data: st.DataObject, channels: int, checkpoints: int
):
    shell = Shell([data.draw(complete_stream(checkpoints)) for _ in range(channels)])
    run(shell, data, [CheckpointTriggered(n) for n in range(1, checkpoints + 1)])
    assert shell.snapshots == {n: shell.cut(n) for n in range(1, checkpoints + 1)}
    assert (shell.blocked, shell.aligner.aligning, shell.declined) == (set(), None, [])


@given(st.data(), st.integers(1, 4), st.integers(1, 4))
def test_cancellations_at_any_moment_leave_no_channel_blocked_and_no_snapshot_wrong(
    data: st.DataObject, channels: int, checkpoints: int
):
    shell = Shell([data.draw(complete_stream(checkpoints)) for _ in range(channels)])
    cancelled = data.draw(st.sets(st.integers(1, checkpoints)))
    triggers = [CheckpointTriggered(n) for n in range(1, checkpoints + 1)]
    control = data.draw(st.permutations([*triggers, *map(CheckpointCancelled, cancelled)]))
    run(shell, data, control)
    assert all(consumed == shell.cut(n) for n, consumed in shell.snapshots.items())
    # A cancellation that comes late finds the snapshot taken, so cancelled ids may be among them or not. The others
    # are all there, unless their trigger came after that of a newer one to a task that had no channel left.
    assert (shell.blocked, shell.aligner.aligning) == (set(), None)


@given(st.data(), st.integers(1, 4), st.integers(1, 4))
def test_barriers_that_were_skipped_further_up_decline_their_checkpoint_and_block_nobody_for_ever(
    data: st.DataObject, channels: int, checkpoints: int
):
    complete = [data.draw(complete_stream(checkpoints)) for _ in range(channels)]
    skipped = st.sets(st.integers(1, checkpoints))
    shell = Shell([[e for e in stream if e not in without] for stream in complete for without in [data.draw(skipped)]])
    run(shell, data, [])
    assert all(consumed == shell.cut(n) for n, consumed in shell.snapshots.items())
    assert (shell.blocked, shell.aligner.aligning) == (set(), None)


@given(st.data(), st.integers(1, 4), st.integers(0, 4))
def test_counting_blocks_nothing_and_loses_nothing_that_lies_before_the_barriers(
    data: st.DataObject, channels: int, checkpoints: int
):
    streams = [data.draw(complete_stream(checkpoints)) for _ in range(channels)]
    shell = Shell(streams, CheckpointMode.AT_LEAST_ONCE)
    run(shell, data, [CheckpointTriggered(n) for n in range(1, checkpoints + 1)])
    assert list(shell.snapshots) == list(range(1, checkpoints + 1))
    assert all(
        consumed >= before
        for n in shell.snapshots
        for consumed, before in zip(shell.snapshots[n], shell.cut(n), strict=True)
    )
