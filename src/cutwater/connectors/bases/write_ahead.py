"""How does a server that knows transactions, but can't prepare them, get every record exactly once?

The records of an epoch (what a task wrote between two barriers) are part of the snapshot. When the checkpoint is
complete, they go out in one transaction together with the epoch's number. The number tells a successor what is done,
so that an epoch is applied once, however often it is committed. While a checkpoint runs, no transaction is open: none
can time out, and a job that is down for a week loses nothing.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from functools import partial
from typing import Any

import msgspec

from cutwater.batches import Batch
from cutwater.connectors.bases.patience import keep_trying
from cutwater.connectors.contract import Delivery, Sink, SinkWriter, WriterContext
from cutwater.protocol.ids import CheckpointId


class Epoch(msgspec.Struct, frozen=True, array_like=True):
    """What one task wrote between two barriers. Numbers of a writer grow, also from attempt to attempt."""

    #: A name that no other writer has: of the job, the sink, the run and the task.
    writer: str
    number: int


class _Committable(msgspec.Struct, frozen=True, array_like=True):
    epoch: Epoch
    records: Sequence[Any]


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_Committable).decode


class WriteAheadSink(Sink):
    """Subclasses say what a record looks like in the snapshot, and apply an epoch."""

    delivery = Delivery.WRITE_AHEAD

    @abstractmethod
    def encode(self, batch: Batch) -> Sequence[Any]:
        """The records as they are held until the barrier. On the loop's thread: quick, and wrong records show here."""

    def pack(self, records: list[Any]) -> Sequence[Any]:
        """All that an epoch holds as builtins that msgpack knows; `apply` gets them. On the loop's thread."""
        return records

    @abstractmethod
    def apply(self, epoch: Epoch, records: Sequence[Any]) -> None:
        """Writes the records and the epoch's number in one transaction, unless the writer's number is as high already.

        On a background thread of a slot, or in the driver: may block. An older driver that hung may call it at the same
        time: the server decides. After a `PeerError` it is called again.
        """

    def writer(self, context: WriterContext) -> SinkWriter:
        return WriteAheadWriter(self, context)

    def commit(self, committables: Sequence[bytes]) -> None:
        for committable in map(_decode, committables):
            keep_trying(partial(self.apply, committable.epoch, committable.records), who=f'sink "{self.name}"')


class WriteAheadWriter(SinkWriter):
    """Holds the records of the epoch."""

    def __init__(self, sink: WriteAheadSink, context: WriterContext) -> None:
        super().__init__(sink)
        self._encode_batch = sink.encode
        self._pack = sink.pack
        self._name = f"{context.job_id}/{context.uid}/{context.run}/{context.subtask}"
        self._attempt = context.attempt
        self._records: list[Any] = []

    def write(self, batch: Batch) -> None:
        self._records.extend(self._encode_batch(batch))

    def prepare(self, checkpoint: CheckpointId) -> list[bytes]:
        return self.prepare_epoch(checkpoint)

    def epoch(self, checkpoint: CheckpointId) -> Epoch:
        """That ends with this checkpoint; 0: before the first."""
        return Epoch(self._name, self._attempt << 32 | checkpoint)

    def prepare_epoch(self, checkpoint: CheckpointId, *, also_empty: bool = False) -> list[bytes]:
        """`also_empty`: an epoch without records is applied, too, for its number."""
        if not self._records and not also_empty:
            return []
        records, self._records = self._records, []
        return [_encode(_Committable(self.epoch(checkpoint), self._pack(records)))]
