"""When does a sink's output become visible?

With checkpoints: what was written before a barrier is prepared at the barrier, remembered by the snapshot, and
committed in the background after the checkpoint completed, one commit at a time and in order. A commit that fails
fails the task; recovery commits again. Without checkpoints: prepared and committed every so often.

Nothing here waits on the outside. The writer is opened off the loop's thread, and what comes earlier is kept for it;
what it prepares may be known only later, and the snapshot waits for it while the stream goes on.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from typing import Any, NoReturn

import msgspec
import pyarrow as pa

from cutwater.batches import Batch, ObjectBatch, decoded, without_time_column
from cutwater.connectors.contract import Delivery, Prepared, Sink, SinkWriter, WriterContext
from cutwater.operators.contract import FrozenList, LatePart, Operator, OperatorContext, OperatorSnapshot
from cutwater.operators.user_code import raise_connector_error
from cutwater.protocol.commits import Commit, CommitLedger
from cutwater.protocol.ids import CheckpointId
from cutwater.protocol.modes import CheckpointMode

COMMITTABLES_STATE = "committables"
_TWO_PHASE = frozenset({Delivery.TRANSACTIONAL, Delivery.WRITE_AHEAD})
_encode = msgspec.msgpack.Encoder().encode


@dataclass(frozen=True, slots=True)
class _Barrier:
    """A barrier that came before the writer was open."""

    checkpoint: CheckpointId
    part: LatePart


#: (checkpoint, committable) of an item of COMMITTABLES_STATE; for the coordinator's recovery.
decode_committable = msgspec.msgpack.Decoder(tuple[int, bytes]).decode


class WriterOperator(Operator):
    """Writes what comes in, and commits it when it may."""

    def __init__(self, sink: Sink, mode: CheckpointMode, commit_interval_seconds: float = 1.0) -> None:
        self._sink = sink
        self._has_checkpoints = mode is not CheckpointMode.NONE
        self._commit_interval_seconds = commit_interval_seconds
        self._flushes = sink.delivery not in _TWO_PHASE
        self._writer: SinkWriter | None = None
        self._closed = False
        self._ended = False
        #: What came before the writer was open.
        self._early: list[Batch | _Barrier] = []
        #: Prepared later than their barrier, and not yet.
        self._promised = 0
        self._ledger: CommitLedger[bytes] = CommitLedger()
        self._to_commit: deque[Commit[bytes]] = deque()
        self._committing = False
        self._completed_up_to = CheckpointId(0)
        self._committed_up_to = CheckpointId(0)
        self._has_unflushed = False
        # Without checkpoints only: numbers for what is prepared, whether anything is to be, and savepoints that wait
        # until it is visible.
        self._round = CheckpointId(0)
        self._has_uncommitted = False
        self._committed_at_seconds = 0.0
        self._savepoints: list[LatePart] = []

    def open(self, context: OperatorContext) -> None:
        """What the restored snapshot had prepared is not our business: the coordinator committed it before."""
        super().open(context)
        self._committed_at_seconds = context.now_seconds()
        who = WriterContext(
            job_id=context.job_id,
            uid=context.uid,
            subtask=context.subtask,
            parallelism=context.parallelism,
            attempt=context.attempt,
            run=context.run,
            report=context.report,
            wake=context.wake,
            own_thread=context.own_thread,
            now_seconds=context.now_seconds,
            wall_ms=context.wall_ms,
        )
        context.open_elsewhere(partial(self._sink.writer, who), self._on_opened)

    def has_room(self) -> bool:
        if self._writer is None:
            return False
        try:
            return self._writer.has_room()
        except Exception as error:
            self._fail(error, "write")

    def process(self, batch: Batch, port: int) -> None:
        plain = batch if isinstance(batch, ObjectBatch) else self._plain(batch)
        if self._writer is None:  # e.g. from a timer that was due when the job was restored
            self._early.append(plain)
            return
        try:
            self._writer.write(plain)
        except Exception as error:
            self._fail(error, "write")
        self._has_unflushed = self._flushes
        if not self._has_checkpoints:
            self._has_uncommitted = True
            self._commit_if_due()

    def on_idle_input(self) -> None:
        if self._writer is None:
            return
        self._flush()
        if not self._has_checkpoints:
            self._commit_if_due()

    def on_end(self) -> None:
        self._ended = True
        if self._writer is not None:
            self._writer.release()
        if not self._has_checkpoints:
            self._commit_round()
        else:
            self._flush()

    def freeze(self, checkpoint: CheckpointId) -> OperatorSnapshot:
        if self._writer is None:
            barrier = _Barrier(checkpoint, LatePart())
            self._early.append(barrier)
            return OperatorSnapshot(late=barrier.part)
        return self._frozen(checkpoint) if self._has_checkpoints else self._frozen_when_committed()

    def on_checkpoint_completed(self, checkpoint: CheckpointId) -> None:
        self._completed_up_to = max(self._completed_up_to, checkpoint)
        self._to_commit.extend(self._ledger.completed(checkpoint))
        self._commit_next()

    @property
    def committed_up_to(self) -> CheckpointId:
        """Everything that belongs to this checkpoint or an earlier one is visible; 0: none completed yet."""
        return self._committed_up_to

    def busy(self) -> bool:
        return bool(self._committing or self._to_commit or self._promised)

    def close(self) -> None:
        self._closed = True
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.close()

    def _on_opened(self, writer: SinkWriter | None, error: BaseException | None) -> None:
        if self._closed:
            if writer is not None:
                writer.close()
            return
        if writer is None:
            if isinstance(error, Exception):
                self._fail(error, "open its writer")
            raise error or AssertionError("a sink opened no writer")
        self._writer = writer
        if self._ended:
            writer.release()
        early, self._early = self._early, []
        for item in early:
            if isinstance(item, _Barrier):
                known = item.part.known
                snapshot = self.freeze(item.checkpoint)
                known(snapshot) if snapshot.late is None else snapshot.late.then(known)
            else:
                self.process(item, 0)

    def _frozen(self, checkpoint: CheckpointId) -> OperatorSnapshot:
        prepared = self._prepare(checkpoint)
        if not isinstance(prepared, Future):
            return self._noted(checkpoint, prepared)
        late = LatePart()
        self._when_prepared(prepared, checkpoint, lambda known: late.known(self._noted(checkpoint, known)))
        return OperatorSnapshot(late=late)

    def _noted(self, checkpoint: CheckpointId, prepared: Sequence[bytes]) -> OperatorSnapshot:
        """The snapshot's part, now that this is known to be prepared."""
        self._ledger.prepared(checkpoint, prepared)
        pending = [commit for commit in self._ledger.pending() if commit.checkpoint <= checkpoint]
        committables = [committable for commit in pending for committable in commit.committables]
        if not committables:
            return OperatorSnapshot()
        items = tuple(
            _encode((commit.checkpoint, committable)) for commit in pending for committable in commit.committables
        )
        return OperatorSnapshot(
            lists=(FrozenList(COMMITTABLES_STATE, items),), attachments=partial(self._sink.attachments, committables)
        )

    def _frozen_when_committed(self) -> OperatorSnapshot:
        """Without checkpoints a savepoint holds nothing of a sink: all is visible first."""
        self._open_writer.release()
        self._commit_round()
        if not self.busy():
            return OperatorSnapshot()
        late = LatePart()
        self._savepoints.append(late)
        return OperatorSnapshot(late=late)

    def _plain(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """As the user knows it: without what only the stream needs."""
        if not self._sink.takes_times:
            batch = without_time_column(batch)
        if self._sink.takes_encoded or not any(pa.types.is_dictionary(kind) for kind in batch.schema.types):
            return batch
        plain = pa.RecordBatch.from_arrays([decoded(column) for column in batch.columns], batch.schema.names)
        return plain.replace_schema_metadata(batch.schema.metadata) if self._sink.takes_times else plain

    @property
    def _open_writer(self) -> SinkWriter:
        assert self._writer is not None, "the sink is not open"
        return self._writer

    def _commit_next(self) -> None:
        if self._committing:
            return
        if not self._to_commit:
            self._committed_up_to = self._completed_up_to
            self._tell_savepoints()
            return
        commit = self._to_commit.popleft()
        self._committing = True
        self.context.run_in_background(
            partial(self._open_writer.commit, commit.committables), partial(self._on_committed, commit.checkpoint)
        )

    def _tell_savepoints(self) -> None:
        if not self._promised:
            savepoints, self._savepoints = self._savepoints, []
            for late in savepoints:
                late.known(OperatorSnapshot())

    def _on_committed(self, checkpoint: CheckpointId, result: Any, error: BaseException | None) -> None:
        self._committing = False
        if self._writer is None:
            return  # closed meanwhile; recovery commits it again
        if error is not None:
            self._ledger.failed(checkpoint)
            if isinstance(error, Exception):
                self._fail(error, f"commit checkpoint {checkpoint}")
            raise error
        self._ledger.committed(checkpoint)
        self._committed_up_to = checkpoint
        self._commit_next()

    def _commit_if_due(self) -> None:
        waited_seconds = self.context.now_seconds() - self._committed_at_seconds
        if self._has_uncommitted and waited_seconds >= self._commit_interval_seconds:
            self._commit_round()

    def _commit_round(self) -> None:
        self._round = CheckpointId(self._round + 1)
        self._has_uncommitted = False
        self._committed_at_seconds = self.context.now_seconds()
        prepared = self._prepare(self._round)
        if isinstance(prepared, Future):
            self._when_prepared(prepared, self._round, partial(self._commit_prepared, self._round))
        else:
            self._commit_prepared(self._round, prepared)

    def _commit_prepared(self, number: CheckpointId, prepared: Sequence[bytes]) -> None:
        self._ledger.prepared(number, prepared)
        self.on_checkpoint_completed(number)

    def _prepare(self, checkpoint: CheckpointId) -> Prepared:
        self._flush()
        try:
            return self._open_writer.prepare(checkpoint)
        except Exception as error:
            self._fail(error, f"prepare checkpoint {checkpoint}")

    def _when_prepared(
        self, promise: Future[Sequence[bytes]], checkpoint: CheckpointId, then: Callable[[Sequence[bytes]], None]
    ) -> None:
        self._promised += 1

        def done(prepared: Sequence[bytes], error: BaseException | None) -> None:
            self._promised -= 1
            if self._closed:
                return  # the next attempt writes it again
            if isinstance(error, Exception):
                self._fail(error, f"prepare checkpoint {checkpoint}")
            if error is not None:
                raise error
            then(prepared)

        self.context.when_done(promise, done)

    def _flush(self) -> None:
        if not self._has_unflushed:
            return
        try:
            self._open_writer.flush()
        except Exception as error:
            self._fail(error, "flush")
        self._has_unflushed = False

    def _fail(self, error: Exception, what: str) -> NoReturn:
        raise_connector_error(error, f'sink "{self._sink.name}" of operator "{self.context.name}" can\'t {what}')
