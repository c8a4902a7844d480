"""Is an epoch applied once, however often it is committed?"""

from collections.abc import Sequence
from typing import Any

from cutwater.batches import Batch, ObjectBatch, rows_of
from cutwater.connectors.bases.write_ahead import Epoch, WriteAheadSink
from cutwater.connectors.contract import WriterContext
from cutwater.protocol.ids import AttemptNumber, CheckpointId


class Table(WriteAheadSink):
    """A server with transactions."""

    name = "table"

    def __init__(self) -> None:
        self.rows: list[Any] = []
        self.done: dict[str, int] = {}

    def encode(self, batch: Batch) -> Sequence[Any]:
        return [str(value) for value in rows_of(batch)]

    def apply(self, epoch: Epoch, records: Sequence[Any]) -> None:
        if self.done.get(epoch.writer, -1) < epoch.number:
            self.rows += records
            self.done[epoch.writer] = epoch.number


def prepared(sink: Table, *values: Any, checkpoint: int = 1, attempt: int = 1, subtask: int = 0) -> Sequence[bytes]:
    writer = sink.writer(WriterContext("job", "out", subtask, 2, AttemptNumber(attempt), run="r"))
    writer.write(ObjectBatch(list(values)))
    committables = writer.prepare(CheckpointId(checkpoint))
    assert isinstance(committables, list)
    return committables


def test_an_epoch_is_visible_when_it_is_committed_and_once():
    sink = Table()
    committables = prepared(sink, 1, 2)
    before = list(sink.rows)
    sink.commit(committables)
    sink.commit(committables)
    assert (before, sink.rows) == ([], ["1", "2"])


def test_tasks_have_numbers_of_their_own():
    sink = Table()
    sink.commit(prepared(sink, 1, checkpoint=5, subtask=0))
    sink.commit(prepared(sink, 2, checkpoint=4, subtask=1))
    assert sink.rows == ["1", "2"]


def test_a_later_attempt_has_higher_numbers_also_where_its_checkpoints_are_lower():
    sink = Table()
    sink.commit(prepared(sink, 1, checkpoint=9, attempt=1))
    sink.commit(prepared(sink, 2, checkpoint=8, attempt=2))
    assert sink.rows == ["1", "2"]


def test_nothing_written_means_nothing_to_commit():
    sink = Table()
    writer = sink.writer(WriterContext("job", "out", 0, 1, AttemptNumber(1)))
    assert writer.prepare(CheckpointId(1)) == []
