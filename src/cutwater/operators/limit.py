"""How does a stream end after its first records?"""

from __future__ import annotations

import msgspec
import pyarrow as pa

from cutwater.batches import Batch, ObjectBatch
from cutwater.operators.contract import FrozenList, Operator, OperatorContext, OperatorSnapshot
from cutwater.protocol.ids import CheckpointId

TAKEN_STATE = "taken"


class LimitOperator(Operator):
    """The first records that come, and no others. One task only: it counts them all."""

    def __init__(self, limit: int) -> None:
        self._limit = limit

    def open(self, context: OperatorContext) -> None:
        super().open(context)
        self._taken = sum(map(msgspec.msgpack.decode, context.restored_lists.get(TAKEN_STATE, ())))

    def process(self, batch: Batch, port: int) -> None:
        room = self._limit - self._taken
        if room <= 0:
            return
        taken = first_rows(batch, room)
        self._taken += taken.num_rows
        self.context.emit(taken)

    def freeze(self, checkpoint: CheckpointId) -> OperatorSnapshot:
        return OperatorSnapshot(lists=(FrozenList(TAKEN_STATE, (msgspec.msgpack.encode(self._taken),)),))


def first_rows(batch: Batch, count: int) -> Batch:
    """So many of them, or all if there are fewer."""
    if batch.num_rows <= count:
        return batch
    if isinstance(batch, ObjectBatch):
        return ObjectBatch(batch.values[:count], None if batch.times is None else batch.times[:count])
    first: pa.RecordBatch = batch.slice(0, count)
    return first
