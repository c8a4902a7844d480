"""What does one task do with the elements that reach it?

A task reads its channels, runs its chain, aligns barriers and takes snapshots. It never waits: `step` does one piece
of work or says that there is none. Everything that decides about barriers is in `BarrierAligner`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import assert_never

import msgspec

from cutwater.operators.contract import OperatorSnapshot, SourceOperator
from cutwater.operators.metrics import TaskMetrics
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
from cutwater.protocol.elements import Barrier, EndOfInput, Idle, Watermark
from cutwater.protocol.ids import AttemptNumber, CheckpointId, TaskId
from cutwater.protocol.lifecycle import TaskLifecycle, TaskState
from cutwater.protocol.splits import Split
from cutwater.protocol.watermarks import (
    MAX_TIMESTAMP_MS,
    AdvanceWatermark,
    BecomeActive,
    BecomeIdle,
    ChannelFinished,
    ChannelIdled,
    ChannelResumed,
    WatermarkArrived,
    WatermarkMerger,
)
from cutwater.protocol.watermarks import Event as WatermarkEvent
from cutwater.runtime.chain import Chain
from cutwater.runtime.channels import InputGate
from cutwater.runtime.late_parts import discard, when_whole
from cutwater.runtime.messages import (
    FromSlot,
    SnapshotRefused,
    SnapshotWritten,
    SplitProgressed,
    SplitRequested,
    SplitsFinished,
    TaskCommitted,
    TaskFinished,
)
from cutwater.runtime.routing import OutputGate
from cutwater.runtime.seams import Background, Clock, Element
from cutwater.snapshots.format import TaskSnapshot

SnapshotWriter = Callable[[CheckpointId, TaskId, Sequence[tuple[str, OperatorSnapshot]], str], TaskSnapshot]
"""The last argument is where a savepoint goes; empty for a checkpoint."""


@dataclass(frozen=True, slots=True)
class TaskServices:
    """What a task uses of its slot."""

    attempt: AttemptNumber
    clock: Clock
    send: Callable[[FromSlot], None]
    background: Background
    write_snapshot: SnapshotWriter
    #: Tells the coordinator now what all tasks counted.
    report_metrics: Callable[[], None]
    #: Rows that wait for company leave after this long, even when the task is never idle.
    buffer_seconds_max: float


#: Between two looks of a task that has work and no room for what comes of it.
WITHOUT_ROOM_SECONDS = 0.005


class Task:
    """One task of one attempt, driven by the slot's loop."""

    def __init__(
        self,
        task_id: TaskId,
        *,
        chain: Chain,
        inputs: InputGate,
        outputs: OutputGate,
        aligner: BarrierAligner,
        channels: Iterable[int],
        services: TaskServices,
        metrics: TaskMetrics,
    ) -> None:
        self.id = task_id
        self.chain = chain
        self.inputs = inputs
        self.outputs = outputs
        self.lifecycle = TaskLifecycle()
        #: The last step found no room below.
        self.backpressured = False
        self.metrics = metrics
        self._aligner = aligner
        self._watermarks = WatermarkMerger(channels, chain.restored_ms)
        self._services = services
        self._source = chain.source
        self._was_paused = False
        self._drains = False
        self._triggered_ms: dict[CheckpointId, int] = {}
        self._savepoints: dict[CheckpointId, str] = {}
        #: All inputs have ended, and this is said below once the chain is drained: whether they were complete.
        self._ending: bool | None = None
        self._ended = False
        self._all_complete = True
        self._flushed_at_seconds = 0.0
        self._aligning_since_seconds: float | None = None
        self._to_commit: CheckpointId | None = None
        self._snapshots_under_way = 0
        #: Frozen, with parts that aren't known yet.
        self._unwritten: dict[CheckpointId, Sequence[tuple[str, OperatorSnapshot]]] = {}
        self._turn_began_seconds = self._turn_ended_seconds = services.clock.now_seconds()
        self._pause_seconds = 0.0

    def turn_begins(self, now_seconds: float) -> None:
        """Before `step`: what a source feels of a checkpoint is the time it has to wait for its turn."""
        waited = now_seconds - self._turn_ended_seconds
        if self._snapshots_under_way and self._source is not None:
            self._pause_seconds = max(self._pause_seconds, waited)
        self._count_rest(waited)
        self._turn_began_seconds = now_seconds

    def turn_ends(self, now_seconds: float, *, progressed: bool) -> None:
        """After `step`, with what it returned."""
        self._turn_ended_seconds = now_seconds
        if progressed:
            self.metrics.busy_seconds += now_seconds - self._turn_began_seconds
        else:
            self._count_rest(now_seconds - self._turn_began_seconds)

    def _count_rest(self, seconds: float) -> None:
        if self.backpressured:
            self.metrics.backpressured_seconds += seconds
        else:
            self.metrics.idle_seconds += seconds

    @property
    def has_processed(self) -> bool:
        """A record went through it: from another task or, where there is none, from its own source."""
        return self.metrics.records_in > 0 or (self.chain.is_whole_job and self.metrics.operators[-1].records_in > 0)

    def step(self) -> bool:
        """One piece of work; False: nothing to do right now."""
        if self._to_commit is not None or (self._ended and self.lifecycle.state is TaskState.RUNNING):
            self._report_progress_of_commits()
        if self._ended or self._ending is not None:
            self.backpressured = False
            return not self._ended and self._end_if_drained()
        self.backpressured = not self._has_room()
        if self.backpressured:
            return False
        fired = self._fire_timers()
        return (self._step_source() if self._source is not None else self._step_inputs()) or fired

    def _has_room(self) -> bool:
        if not self.outputs.has_room():
            return False
        if self.chain.has_room(barrier_expected=bool(self._triggered_ms)):
            return True
        self.outputs.flush()  # what the chain emits by itself meanwhile gets no company from new input
        return False

    def wake_at(self) -> float | None:
        """When `step` may have something to do that no element announces."""
        if self._ended or self._ending is not None:
            return None
        clock = self._services.clock
        wall_ms = self.chain.next_wall_ms()
        due = None if wall_ms is None else clock.now_seconds() + (wall_ms - clock.wall_ms()) / 1000
        polled = None if self._source is None else self._source.wake_at()
        times = [time for time in (due, polled) if time is not None]
        if not times:
            return None
        # Who has no room is woken when there is some; to ask all the time would only heat the processor.
        return max(min(times), clock.now_seconds() + WITHOUT_ROOM_SECONDS) if self.backpressured else min(times)

    def limit_time(self, timestamp_ms: int | None) -> None:
        assert self._source is not None
        self._source.limit_time(timestamp_ms)

    def trigger(self, checkpoint: CheckpointId, triggered_ms: int, savepoint: str) -> None:
        self._triggered_ms[checkpoint] = triggered_ms
        if savepoint:
            self._savepoints[checkpoint] = savepoint
        self._execute(self._aligner.handle(CheckpointTriggered(checkpoint)))

    def cancel(self, checkpoint: CheckpointId) -> None:
        self._forget(checkpoint)  # and none but this: an older one may still be on its way
        self._execute(self._aligner.handle(CheckpointCancelled(checkpoint)))

    def completed(self, checkpoint: CheckpointId) -> None:
        self.chain.on_checkpoint_completed(checkpoint)
        if self.chain.sinks:
            self._to_commit = checkpoint
            self._report_progress_of_commits()

    def assign(self, splits: Sequence[Split], *, no_more: bool) -> None:
        assert self._source is not None
        if no_more:
            self._source.no_more_splits()
        else:
            self._source.add_splits(splits)

    def stop_reading(self, *, drain: bool) -> None:
        self._drains = drain
        if self._source is not None:
            self._source.stop()

    def confirm_progress(self, sequence: int) -> None:
        assert self._source is not None
        self._source.confirm(sequence)

    def start(self) -> None:
        """The outputs are connected: from now on `step` may be called."""
        self.outputs.connected()
        self.lifecycle.move(TaskState.RUNNING)
        self.chain.on_start()
        if self._watermarks.watermark_ms is not None:  # restored: what came too late before still does
            self.chain.on_watermark(self._watermarks.watermark_ms)

    def close(self) -> None:
        if not self.lifecycle.terminal:
            self.lifecycle.move(TaskState.DROPPED)
        for states in self._unwritten.values():
            discard(states)
        self.chain.close()

    def _step_source(self) -> bool:
        source = self._source
        assert source is not None
        read = self.chain.poll()
        if source.wants_split():
            self._services.send(SplitRequested(self._services.attempt, self.chain.vertex.uid, self.id.subtask))
        finished = source.take_finished()
        if finished:
            self._services.send(
                SplitsFinished(self._services.attempt, self.chain.vertex.uid, self.id.subtask, tuple(finished))
            )
        while (progress := source.take_progress()) is not None:
            sequence, readers = progress
            self._services.send(
                SplitProgressed(self._services.attempt, self.chain.vertex.uid, self.id.subtask, sequence, readers)
            )
        if read:
            self._flush_if_old()
        else:
            self._rest()
        self._tell_pause(source)
        if source.finished:
            complete = self._drains or not source.stopped
            if complete:
                self.chain.on_watermark(MAX_TIMESTAMP_MS)
            self._end(complete=complete)
            return True
        return read

    def _tell_pause(self, source: SourceOperator) -> None:
        """Whoever waits for slower sources says at once how far it is: they may be waiting for it next."""
        paused = source.paused
        if paused and not self._was_paused:
            self._services.report_metrics()
        self._was_paused = paused

    def _step_inputs(self) -> bool:
        item = self.inputs.poll()
        if item is None:
            self._rest()
            return False
        channel, element = item
        self._take(channel, element)
        self._flush_if_old()
        return True

    def _take(self, channel: int, element: Element) -> None:
        match element:
            case Barrier(checkpoint, savepoint):
                if savepoint:
                    self._savepoints[checkpoint] = savepoint
                self._execute(self._aligner.handle(BarrierArrived(channel, checkpoint)))
            case Watermark(timestamp_ms):
                self._advance(WatermarkArrived(channel, timestamp_ms))
            case Idle():
                self._advance(ChannelIdled(channel))
            case EndOfInput(complete):
                self._end_channel(channel, complete=complete)
            case _:
                if self._watermarks.any_idle:
                    self._advance(ChannelResumed(channel))
                self.metrics.batches_in += 1
                self.metrics.records_in += element.num_rows
                self.chain.process(element, self.inputs.ports[channel])

    def _end_channel(self, channel: int, *, complete: bool) -> None:
        self.inputs.end(channel)
        self._all_complete = self._all_complete and complete
        if complete:  # else its last watermark stays: a later run goes on from there
            self._advance(ChannelFinished(channel))
        if self.inputs.all_ended:
            # The chain emits what is left before a snapshot that the end releases: the cut lies behind the end. What
            # an operator will only emit later is in its snapshot, and those below it haven't heard of the end.
            self._end(complete=self._all_complete)
        self._execute(self._aligner.handle(ChannelEnded(channel)))

    def _end(self, *, complete: bool) -> None:
        self._ending = complete
        self._end_if_drained()

    def _end_if_drained(self) -> bool:
        """Ends the task, unless the chain still has something to emit; then it is asked again in the next turns."""
        assert self._ending is not None
        if not self.chain.on_end():
            self._rest()
            return False
        self.outputs.flush()
        self.outputs.broadcast(EndOfInput(self._ending))
        self._ended = True
        self._report_progress_of_commits()
        return True

    def _advance(self, event: WatermarkEvent) -> None:
        for effect in self._watermarks.handle(event):
            match effect:
                case AdvanceWatermark(timestamp_ms):
                    self.chain.on_watermark(timestamp_ms)
                case BecomeIdle():
                    self.chain.on_idle_time()
                case BecomeActive():
                    self.chain.on_active_time()
                case _:
                    assert_never(effect)

    def _execute(self, effects: list[Effect]) -> None:
        for effect in effects:
            match effect:
                case BlockChannel(channel):
                    self.inputs.block(channel)
                    if self._aligning_since_seconds is None:
                        self._aligning_since_seconds = self._services.clock.now_seconds()
                case UnblockChannels(channels):
                    self.inputs.unblock(channels)
                    self._aligning_since_seconds = None
                case TakeSnapshot(checkpoint):
                    self._take_snapshot(checkpoint)
                case DeclineCheckpoint(checkpoint, reason):
                    self._refuse(checkpoint, reason)
                case _:
                    assert_never(effect)

    def _take_snapshot(self, checkpoint: CheckpointId) -> None:
        clock = self._services.clock
        started = clock.now_seconds()
        aligned = started - self._aligning_since_seconds if self._aligning_since_seconds is not None else 0.0
        self.metrics.alignment_seconds += aligned
        for older in [other for other in (*self._triggered_ms, *self._savepoints) if other < checkpoint]:
            self._forget(older)
        triggered_ms, savepoint = self._forget(checkpoint)
        delayed = max(0.0, (clock.wall_ms() - triggered_ms) / 1_000 - aligned) if triggered_ms is not None else 0.0
        frozen = self.chain.freeze(checkpoint)
        if not self._ended:
            self.outputs.broadcast(Barrier(checkpoint, savepoint))
        frozen_at = clock.now_seconds()
        self._snapshots_under_way += 1

        def done(snapshot: TaskSnapshot | None, error: BaseException | None) -> None:
            pause_seconds = self._end_of_snapshot()
            if error is not None or snapshot is None:
                self._refuse(checkpoint, f"writing the snapshot failed: {error}")
                return
            timed = msgspec.structs.replace(
                snapshot,
                sync_seconds=frozen_at - started,
                async_seconds=clock.now_seconds() - frozen_at,
                alignment_seconds=aligned,
                start_delay_seconds=delayed,
                source_pause_seconds=pause_seconds,
            )
            self._services.send(SnapshotWritten(self._services.attempt, checkpoint, self.id, timed))

        def write(states: Sequence[tuple[str, OperatorSnapshot]]) -> None:
            self._unwritten.pop(checkpoint, None)
            write_snapshot = self._services.write_snapshot
            self._services.background.submit(lambda: write_snapshot(checkpoint, self.id, states, savepoint), done)

        self._unwritten[checkpoint] = frozen
        when_whole(frozen, write)

    def _forget(self, checkpoint: CheckpointId) -> tuple[int | None, str]:
        """When the checkpoint was triggered, if that is known, and where it goes if it is a savepoint."""
        return self._triggered_ms.pop(checkpoint, None), self._savepoints.pop(checkpoint, "")

    def _end_of_snapshot(self) -> float:
        self._snapshots_under_way -= 1
        pause_seconds, self._pause_seconds = self._pause_seconds, 0.0
        return pause_seconds

    def _refuse(self, checkpoint: CheckpointId, reason: str) -> None:
        self._services.send(SnapshotRefused(self._services.attempt, checkpoint, self.id, reason))

    def _fire_timers(self) -> bool:
        due_ms = self.chain.next_wall_ms()
        if due_ms is None or due_ms > (now_ms := self._services.clock.wall_ms()):
            return False
        self.chain.on_wall_time(now_ms)
        return True

    def _rest(self) -> None:
        self.chain.on_idle_input()
        self.outputs.flush()

    def _flush_if_old(self) -> None:
        now = self._services.clock.now_seconds()
        if now - self._flushed_at_seconds > self._services.buffer_seconds_max:
            self.outputs.flush()
            self._flushed_at_seconds = now

    def _report_progress_of_commits(self) -> None:
        if self.chain.busy():
            return
        if self._ended and self.lifecycle.state is TaskState.RUNNING:
            self.lifecycle.move(TaskState.FINISHED)
            self._services.report_metrics()
            self._services.send(TaskFinished(self._services.attempt, self.id))
        if self._to_commit is not None:
            self._services.send(TaskCommitted(self._services.attempt, self.id, self._to_commit))
            self._to_commit = None
