"""When does a sink's output become visible?

With checkpoints: what was written before a barrier is prepared at the barrier, remembered by the snapshot, and
committed in the background after the checkpoint completed, one commit at a time and in order. A commit that fails
fails the task; recovery commits again. Without checkpoints: prepared and committed on the spot, every so often.
"""

from __future__ import annotations

from collections import deque
from functools import partial
from typing import Any, NoReturn

import msgspec
import pyarrow as pa

from cutwater.batches import Batch, ObjectBatch, decoded, without_time_column
from cutwater.connectors.contract import Delivery, Sink, SinkWriter, WriterContext
from cutwater.operators.contract import FrozenList, Operator, OperatorContext, OperatorSnapshot
from cutwater.operators.user_code import raise_connector_error
from cutwater.protocol.commits import Commit, CommitLedger
from cutwater.protocol.ids import CheckpointId
from cutwater.protocol.modes import CheckpointMode

COMMITTABLES_STATE = "committables"
_TWO_PHASE = frozenset({Delivery.TRANSACTIONAL, Delivery.WRITE_AHEAD})
_encode = msgspec.msgpack.Encoder().encode
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
        self._ledger: CommitLedger[bytes] = CommitLedger()
        self._to_commit: deque[Commit[bytes]] = deque()
        self._committing = False
        self._completed_up_to = CheckpointId(0)
        self._committed_up_to = CheckpointId(0)
        self._has_unflushed = False
        # Without checkpoints only: numbers for what is prepared, and whether anything is to be.
        self._round = CheckpointId(0)
        self._has_uncommitted = False
        self._committed_at_seconds = 0.0

    def open(self, context: OperatorContext) -> None:
        """What the restored snapshot had prepared is not our business: the coordinator committed it before."""
        super().open(context)
        self._committed_at_seconds = context.now_seconds()
        try:
            self._writer = self._sink.writer(
                WriterContext(
                    job_id=context.job_id,
                    uid=context.uid,
                    subtask=context.subtask,
                    parallelism=context.parallelism,
                    attempt=context.attempt,
                    run=context.run,
                    report=context.report,
                )
            )
        except Exception as error:
            self._fail(error, "open its writer")

    def process(self, batch: Batch, port: int) -> None:
        try:
            self._open_writer.write(batch if isinstance(batch, ObjectBatch) else self._plain(batch))
        except Exception as error:
            self._fail(error, "write")
        self._has_unflushed = self._flushes
        if not self._has_checkpoints:
            self._has_uncommitted = True
            self._commit_if_due()

    def on_idle_input(self) -> None:
        self._flush()
        if not self._has_checkpoints:
            self._commit_if_due()

    def on_end(self) -> None:
        if not self._has_checkpoints:
            self._commit_now()
        else:
            self._flush()

    def freeze(self, checkpoint: CheckpointId) -> OperatorSnapshot:
        if not self._has_checkpoints:  # a savepoint
            self._commit_now()
            return OperatorSnapshot()
        self._ledger.prepared(checkpoint, self._prepare(checkpoint))
        pending = self._ledger.pending()
        committables = [committable for commit in pending for committable in commit.committables]
        if not committables:
            return OperatorSnapshot()
        items = tuple(
            _encode((commit.checkpoint, committable)) for commit in pending for committable in commit.committables
        )
        return OperatorSnapshot(
            lists=(FrozenList(COMMITTABLES_STATE, items),), attachments=partial(self._sink.attachments, committables)
        )

    def on_checkpoint_completed(self, checkpoint: CheckpointId) -> None:
        self._completed_up_to = max(self._completed_up_to, checkpoint)
        self._to_commit.extend(self._ledger.completed(checkpoint))
        self._commit_next()

    @property
    def committed_up_to(self) -> CheckpointId:
        """Everything that belongs to this checkpoint or an earlier one is visible; 0: none completed yet."""
        return self._committed_up_to

    def busy(self) -> bool:
        return self._committing or bool(self._to_commit)

    def close(self) -> None:
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.close()

    def _plain(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """As the user knows it: without what only the stream needs."""
        batch = without_time_column(batch)
        if self._sink.takes_encoded or not any(pa.types.is_dictionary(kind) for kind in batch.schema.types):
            return batch
        return pa.RecordBatch.from_arrays([decoded(column) for column in batch.columns], batch.schema.names)

    @property
    def _open_writer(self) -> SinkWriter:
        assert self._writer is not None, "the sink is not open"
        return self._writer

    def _commit_next(self) -> None:
        if self._committing:
            return
        if not self._to_commit:
            self._committed_up_to = self._completed_up_to
            return
        commit = self._to_commit.popleft()
        self._committing = True
        self.context.run_in_background(
            partial(self._open_writer.commit, commit.committables), partial(self._on_committed, commit.checkpoint)
        )

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
            self._commit_now()

    def _commit_now(self) -> None:
        self._round = CheckpointId(self._round + 1)
        committables = self._prepare(self._round)
        if committables:
            try:
                self._open_writer.commit(committables)
            except Exception as error:
                self._fail(error, "commit")
        self._has_uncommitted = False
        self._committed_at_seconds = self.context.now_seconds()

    def _prepare(self, checkpoint: CheckpointId) -> list[bytes]:
        self._flush()
        try:
            return self._open_writer.prepare(checkpoint)
        except Exception as error:
            self._fail(error, f"prepare checkpoint {checkpoint}")

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
