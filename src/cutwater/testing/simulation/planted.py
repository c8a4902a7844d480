"""Would the simulator notice?

Each bug here breaks production code in one place, as a tired engineer might. A simulator that doesn't find it within a
few seeds is not looking. `BUGS` says of each what is broken, which job shows it, and how many seeds may pass before it
does; mostly a tenth of them is enough.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any
from unittest.mock import patch

import pyarrow as pa

from cutwater.batches import concatenate
from cutwater.connectors.file_publishing import Publisher
from cutwater.connectors.file_sink import FileSink
from cutwater.connectors.prepared_files import Owner, PreparedFile
from cutwater.operators import event_time, failing, keyed, keyed_folds, process
from cutwater.operators.async_map import AsyncMapOperator
from cutwater.operators.contract import OperatorSnapshot
from cutwater.operators.event_time import EventTime
from cutwater.operators.holding import HoldingOperator
from cutwater.operators.joins import inputs, lookup, waiting
from cutwater.operators.sink import WriterOperator
from cutwater.operators.source import ReaderOperator
from cutwater.operators.windows import operator as windows
from cutwater.protocol.aligner import BarrierAligner, ChannelEnded
from cutwater.protocol.checkpoint_events import CheckpointKind
from cutwater.protocol.commits import CommitLedger
from cutwater.protocol.connection_liveness import ConnectionLiveness
from cutwater.protocol.elements import Barrier, Watermark
from cutwater.protocol.event_time import SplitClocks
from cutwater.protocol.group_time import GroupTime
from cutwater.runtime import chain, deployment, fitting, messages, recovering, routing
from cutwater.runtime.chain import Chain
from cutwater.runtime.channels import InputGate
from cutwater.runtime.checkpointing import Checkpointing
from cutwater.runtime.restoring import OperatorRestore
from cutwater.runtime.routing import BufferedChannel
from cutwater.snapshots import journal
from cutwater.snapshots.documents import seal
from cutwater.snapshots.journal import Journal
from cutwater.snapshots.store import SnapshotStore
from cutwater.snapshots.writer import Destination, write_task_snapshot
from cutwater.state.columnar.layout import TableLayout
from cutwater.state.tables import KeyGroupTable
from cutwater.testing.simulation import event_time as simulated_event_time
from cutwater.testing.simulation import registry
from cutwater.testing.simulation.connectors import SimulatedSink


@dataclass(frozen=True, slots=True)
class PlantedBug:
    """Use as `with bug.planted(): run_seed(…)`."""

    name: str
    #: None: any job that a seed draws.
    job: str | None
    seeds_max: int
    _patch: Callable[[], Any]
    #: Where it was found last: tried first, since some are rare.
    likely_seed: int = 0

    @property
    def seeds(self) -> tuple[int, ...]:
        """Those of the campaign that must find it."""
        return (self.likely_seed, *range(self.seeds_max))

    @contextmanager
    def planted(self) -> Iterator[None]:
        with self._patch():
            yield


def _no_blocking() -> Any:
    return patch.object(InputGate, "block", lambda self, channel: None)


def _acknowledge_before_durable() -> Any:
    original = write_task_snapshot

    class _Later:
        def __init__(self, storage: Any) -> None:
            self._storage = storage

        def write(self, path: str, data: bytes) -> None:
            world = registry.current().world
            process = world.current

            def write() -> None:
                if process is not None and process.alive:
                    registry.current().storage.files.write(path, data)
                    registry.current().storage.ever_whole.add(path)

            world.after(world.delay(0.005), write)

    def write(to: Destination, *rest: Any) -> Any:
        return original(replace(to, storage=_Later(to.storage)), *rest)  # type: ignore[arg-type]

    return patch.object(deployment, "write_task_snapshot", write)


def _commit_before_completion() -> Any:
    original = WriterOperator.freeze

    def freeze(self: WriterOperator, checkpoint: Any) -> Any:
        frozen = original(self, checkpoint)
        self.on_checkpoint_completed(checkpoint)
        return frozen

    return patch.object(WriterOperator, "freeze", freeze)


def _no_commit_on_recovery() -> Any:
    return patch.object(recovering, "committables_of", lambda *_: [])


def _positions_not_restored() -> Any:
    original = ReaderOperator.open

    def open_(self: ReaderOperator, context: Any) -> None:
        original(self, replace(context, restored_lists={}))
        self.context = context

    return patch.object(ReaderOperator, "open", open_)


def _ended_channel_counts_no_more() -> Any:
    original = BarrierAligner.handle

    def handle(self: BarrierAligner, event: Any) -> Any:
        return [] if isinstance(event, ChannelEnded) else original(self, event)

    return patch.object(BarrierAligner, "handle", handle)


def _wrong_key_groups() -> Any:
    original = OperatorRestore.keyed_chunks

    def keyed_chunks(self: OperatorRestore, groups: range) -> Any:
        return original(self, groups[:-1])

    return patch.object(OperatorRestore, "keyed_chunks", keyed_chunks)


def _no_fencing() -> Any:
    return patch.object(SnapshotStore, "_refuse_fenced", lambda self, manifest: None)


def _barrier_overtakes_records() -> Any:
    original = BufferedChannel.send_control

    def send_control(self: BufferedChannel, element: Any) -> None:
        if isinstance(element, Barrier):
            self._channel.send(element)
        else:
            original(self, element)

    return patch.object(BufferedChannel, "send_control", send_control)


def _assigner_late() -> Any:
    original = Checkpointing._publish

    def publish(self: Checkpointing, effect: Any) -> None:
        self._pending[effect.checkpoint].sources = self._job.source_states()
        original(self, effect)

    return patch.object(Checkpointing, "_publish", publish)


def _aborted_output_forgotten() -> Any:
    original = CommitLedger.pending

    def pending(self: Any) -> Any:
        return original(self)[-1:]

    return patch.object(CommitLedger, "pending", pending)


def _frozen_state_changes() -> Any:
    def freeze(self: KeyGroupTable) -> Any:
        return self.name, self._groups.start, self.dicts[:]

    return patch.object(KeyGroupTable, "freeze", freeze)


def _newest_snapshot_deleted() -> Any:
    def discard(self: SnapshotStore, checkpoint: int) -> None:
        self.storage.delete_folder(self.folder(checkpoint))

    return patch.object(SnapshotStore, "discard", discard)


def _late_rollback() -> Any:
    original = SimulatedSink.recover

    def recover(self: SimulatedSink, *, attempt: Any = None, **rest: Any) -> None:
        original(self, **rest)

    return patch.object(SimulatedSink, "recover", recover)


def _watermark_overtakes_records() -> Any:
    original = BufferedChannel.send_control

    def send_control(self: BufferedChannel, element: Any) -> None:
        if isinstance(element, Watermark):
            self._channel.send(element)
        else:
            original(self, element)

    return patch.object(BufferedChannel, "send_control", send_control)


def _clocks_not_restored() -> Any:
    original = SplitClocks.opened

    def opened(self: SplitClocks, split: str, watermark_ms: int | None = None) -> None:
        self._reached_ms = None if not self._splits else self._reached_ms
        original(self, split)

    return patch.object(SplitClocks, "opened", opened)


def _input_time_not_restored() -> Any:
    return patch.object(Chain, "restored_ms", None)


def _slowest_of_those_that_have_begun() -> Any:
    def restored_watermark(context: Any, name: str = event_time.WATERMARK_STATE) -> int | None:
        told = [event_time._decode(item) for item in context.restored_lists.get(name, [])]
        own = [time for task, tasks, time in told if (task, tasks) == (context.subtask, context.parallelism)]
        return min(own or [time for _, _, time in told], default=None)

    return patch.object(simulated_event_time, "restored_watermark", restored_watermark)


def _believes_in_the_hole() -> Any:
    def append(self: Journal, document: Any) -> bool:
        index = self._next
        created = self._storage.create_if_absent(self._path(index), seal(document))
        if created and not isinstance(document, journal._Summary):
            self.entries.append(journal._entry(document))
            self._next += 1
            return True
        self.catch_up()
        return created

    return patch.object(Journal, "_append", append)


def _savepoint_commits() -> Any:
    original = Checkpointing._completed

    def completed(self: Checkpointing, effect: Any) -> None:
        original(self, effect)
        if effect.kind is CheckpointKind.SAVEPOINT:
            self._job.tell_all(messages.CheckpointCompleted(effect.attempt, effect.checkpoint))

    return patch.object(Checkpointing, "_completed", completed)


def _fastest_split_decides() -> Any:
    def merge(self: SplitClocks) -> None:
        for split in self._splits.values():
            if split.watermark_ms is not None:
                self._advance(split.watermark_ms)

    return patch.object(SplitClocks, "merge", merge)


def _idle_split_holds_time_back() -> Any:
    return patch.object(SplitClocks, "silent", lambda self, split, now_seconds: None)


def _clock_moves_when_read() -> Any:
    original = EventTime.take

    def take(self: EventTime, split: str, *rest: Any) -> Any:
        timed = original(self, split, *rest)
        if timed is not None:
            self.clocks.spoke(split, timed.watermark_ms)
        return timed

    return patch.object(EventTime, "take", take)


def _limits_never_lifted() -> Any:
    def limit_time(self: ReaderOperator, timestamp_ms: int | None) -> None:
        self._limit_ms = timestamp_ms if self._limit_ms is None else self._limit_ms

    return patch.object(ReaderOperator, "limit_time", limit_time)


def _folder_of_prepared_files_forgotten() -> Any:
    original = Publisher.publish_all

    def publish_all(self: Publisher, prepared: Any, attached: Any, **rest: Any) -> None:
        forgotten = [PreparedFile(file.pending, file.final, file.size_bytes) for file in prepared]
        original(self, forgotten, {}, **rest)

    return patch.object(Publisher, "publish_all", publish_all)


def _savepoints_hold_names_only() -> Any:
    return patch.object(FileSink, "attachments", lambda self, committables: [])


def _names_repeat_in_every_run() -> Any:
    return patch.object(FileSink, "owner", lambda self, job_id, uid, run: Owner(job_id, uid, "life1"))


def _one_time_for_all_keys() -> Any:
    original = GroupTime.restored

    def restored(told: Any, **more: Any) -> GroupTime:
        made = original(told, **more)
        made.floors.clear()
        return made

    return patch.object(GroupTime, "restored", restored)


@contextmanager
def _objects_have_two_owners() -> Iterator[None]:
    with ExitStack() as stack:
        for module in (routing, chain, process, failing, keyed_folds, keyed, windows, lookup, inputs, waiting):
            for name in ("copied", "copied_values", "copied_batch"):
                if hasattr(module, name):
                    stack.enter_context(patch.object(module, name, lambda shared: shared))
        yield


def _failed_calls_put_out() -> Any:
    return patch.object(process.FunctionContext, "_take_back", lambda self, since: None)


def _schemas_are_not_compared() -> Any:
    return patch.object(routing, "joined", lambda parts: [concatenate(parts)])


@contextmanager
def _columns_by_position() -> Iterator[None]:
    def matched(self: TableLayout, batch: pa.RecordBatch, *, operator: str) -> pa.RecordBatch:
        first = batch.num_columns - len(self.schema)
        return pa.RecordBatch.from_arrays(batch.columns[first:], schema=self.schema)

    with (
        patch.object(TableLayout, "matched", matched),
        patch.object(fitting, "_check_layouts", lambda graph, manifest, *, drop_unknown: None),
    ):
        yield


def _silence_is_trusted() -> Any:
    return patch.object(ConnectionLiveness, "handle", lambda self, event: [])


def _calls_are_not_in_the_snapshot() -> Any:
    return patch.object(AsyncMapOperator, "freeze", lambda self, checkpoint: OperatorSnapshot())


def _watermark_overtakes_calls() -> Any:
    return patch.object(AsyncMapOperator, "in_turn", lambda self, leave: leave())


def _end_overtakes_calls() -> Any:
    return patch.object(AsyncMapOperator, "drained", lambda self: True)


def _held_results_miss_the_barrier() -> Any:
    return patch.object(HoldingOperator, "before_freeze", lambda self, checkpoint: None)


def _held_results_miss_the_end() -> Any:
    return patch.object(HoldingOperator, "on_end", lambda self: None)


BUGS: tuple[PlantedBug, ...] = (
    PlantedBug("channels are not blocked while barriers align", "deep", 100, _no_blocking),
    PlantedBug("a snapshot is acknowledged before it is durable", "word_count", 100, _acknowledge_before_durable),
    PlantedBug("output is committed before its checkpoint completed", "word_count", 100, _commit_before_completion),
    PlantedBug("recovery does not commit what the snapshot holds", "word_count", 100, _no_commit_on_recovery),
    PlantedBug("state is restored, but not the source's position", "rebalance", 100, _positions_not_restored),
    PlantedBug("an ended channel no longer counts as arrived", "union", 100, _ended_channel_counts_no_more),
    PlantedBug("a task restores too few key groups", "rebalance", 100, _wrong_key_groups),
    PlantedBug("a newer claim does not fence", "deep", 100, _no_fencing),
    PlantedBug("a barrier overtakes buffered records", "rebalance", 100, _barrier_overtakes_records),
    PlantedBug("the split assigner is snapshotted late", "word_count", 100, _assigner_late),
    PlantedBug("output of an aborted checkpoint is forgotten", "word_count", 400, _aborted_output_forgotten),
    PlantedBug("frozen state goes on changing", "rebalance", 100, _frozen_state_changes),
    PlantedBug("the newest completed snapshot is deleted", "deep", 400, _newest_snapshot_deleted),
    PlantedBug("a late recovery rolls back a newer attempt", "few_splits", 400, _late_rollback, likely_seed=245),
    PlantedBug("a watermark overtakes buffered records", "event_time", 100, _watermark_overtakes_records),
    PlantedBug("a split's clock is not restored", "event_time", 100, _clocks_not_restored),
    PlantedBug("a task's event time is not restored", "event_time", 100, _input_time_not_restored),
    PlantedBug(
        "only tasks that have begun are asked for the time", "event_time", 400, _slowest_of_those_that_have_begun
    ),
    PlantedBug(
        "a driver believes in what it wrote below a summary", "word_count", 400, _believes_in_the_hole, likely_seed=346
    ),
    PlantedBug("a savepoint commits", "word_count", 400, _savepoint_commits),
    PlantedBug("prepared files are sought in the new folder", None, 300, _folder_of_prepared_files_forgotten),
    PlantedBug(
        "a savepoint holds only the names of prepared files", None, 300, _savepoints_hold_names_only, likely_seed=197
    ),
    PlantedBug("names of files repeat in every run", None, 300, _names_repeat_in_every_run, likely_seed=30),
    PlantedBug("the fastest split decides about time", "event_time", 100, _fastest_split_decides),
    PlantedBug("an idle split holds time back", "idle", 20, _idle_split_holds_time_back),
    PlantedBug(
        "at most once: a watermark overtakes a held batch", "event_time_at_most_once", 100, _clock_moves_when_read
    ),
    PlantedBug("a paused source hears of no new limit", "aligned", 20, _limits_never_lifted),
    PlantedBug(
        "keys that were ahead go back to the slowest task's time", None, 300, _one_time_for_all_keys, likely_seed=132
    ),
    PlantedBug("a function and the state own one object", None, 300, _objects_have_two_owners),
    PlantedBug("what a failed call has put out leaves", None, 300, _failed_calls_put_out, likely_seed=251),
    PlantedBug("columns of a restored table are taken by position", None, 300, _columns_by_position, likely_seed=26),
    PlantedBug("a channel that hangs is waited for", None, 300, _silence_is_trusted, likely_seed=46),
    PlantedBug("calls under way are not in the snapshot", None, 300, _calls_are_not_in_the_snapshot, likely_seed=156),
    PlantedBug("a watermark overtakes calls under way", None, 300, _watermark_overtakes_calls),
    PlantedBug("the end of input overtakes calls under way", None, 300, _end_overtakes_calls),
    PlantedBug("results that are held miss the barrier", None, 300, _held_results_miss_the_barrier, likely_seed=26),
    PlantedBug("results that are held miss the end of input", None, 300, _held_results_miss_the_end, likely_seed=9),
    PlantedBug(
        "united batches are joined whatever they are", "restless", 300, _schemas_are_not_compared, likely_seed=65
    ),
)
