"""Is output committed when its checkpoint completed: not earlier, in order, and never forgotten?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from cutwater.batches import Batch, rows_of, with_times
from cutwater.connectors.contract import Delivery, Sink, SinkWriter, WriterContext
from cutwater.errors import StorageError
from cutwater.operators.sink import WriterOperator, decode_committable
from cutwater.protocol.ids import CheckpointId
from cutwater.protocol.modes import CheckpointMode

ONCE, NONE = CheckpointMode.EXACTLY_ONCE, CheckpointMode.NONE


class Recording(Sink):
    """Writes down every call."""

    def __init__(self, delivery: Delivery = Delivery.TRANSACTIONAL) -> None:
        self.delivery = delivery
        self.calls: list[str] = []
        self.broken = ""

    @property
    def name(self) -> str:
        return "recording"

    def writer(self, context: WriterContext) -> SinkWriter:
        return RecordingWriter(self)

    def commit(self, committables: Sequence[bytes]) -> None:
        self.called("commit " + b",".join(committables).decode())

    def called(self, call: str) -> None:
        if self.broken and call.startswith(self.broken):
            raise OSError("disk full")
        self.calls.append(call)


class RecordingWriter(SinkWriter):
    sink: Recording

    def __init__(self, sink: Recording) -> None:
        super().__init__(sink)
        self._buffer = ""

    def write(self, batch: Batch) -> None:
        self.sink.called("write")
        self._buffer += "".join(rows_of(batch))

    def prepare(self, checkpoint: CheckpointId) -> list[bytes]:
        prepared, self._buffer = self._buffer, ""
        two_phase = self.sink.delivery is Delivery.TRANSACTIONAL
        return [prepared.encode()] if prepared and two_phase else []

    def flush(self) -> None:
        self.sink.called("flush")

    def close(self) -> None:
        self.sink.called("close")


def commits_of(sink: Recording) -> list[str]:
    return [call.removeprefix("commit ") for call in sink.calls if call.startswith("commit")]


def test_nothing_is_committed_before_its_checkpoint_completed(task: Any) -> None:
    sink = Recording()
    chain = task(WriterOperator(sink, ONCE))
    chain.feed("a")
    chain.freeze(1)
    chain.feed("b")
    chain.operator.on_checkpoint_completed(1)
    chain.run_background()
    assert (commits_of(sink), chain.operator.committed_up_to) == (["a"], 1)


def test_a_commit_runs_in_the_background_and_keeps_the_task_busy(task: Any) -> None:
    sink = Recording()
    chain = task(WriterOperator(sink, ONCE))
    chain.feed("a")
    chain.freeze(1)
    busy = [chain.operator.busy()]
    chain.operator.on_checkpoint_completed(1)
    busy.append(chain.operator.busy())
    chain.run_background()
    assert [*busy, chain.operator.busy()] == [False, True, False]


def test_commits_go_one_at_a_time_and_in_order(task: Any) -> None:
    sink = Recording()
    chain = task(WriterOperator(sink, ONCE))
    for checkpoint, letter in enumerate("abc", 1):
        chain.feed(letter)
        chain.freeze(checkpoint)
    chain.operator.on_checkpoint_completed(2)
    chain.operator.on_checkpoint_completed(3)
    seen = []
    while chain.background:
        assert len(chain.background) == 1
        chain.run_background()
        seen.append((commits_of(sink)[-1], chain.operator.committed_up_to))
    assert seen == [("a", 1), ("b", 2), ("c", 3)]


def test_a_checkpoint_without_output_is_committed_at_once_but_not_before_older_ones(task: Any) -> None:
    chain = task(WriterOperator(Recording(), ONCE))
    chain.feed("a")
    chain.freeze(1)
    chain.freeze(2)
    chain.operator.on_checkpoint_completed(1)
    chain.operator.on_checkpoint_completed(2)
    early = chain.operator.committed_up_to
    chain.run_background()
    assert (early, chain.operator.committed_up_to) == (0, 2)


def test_a_snapshot_holds_all_that_is_not_known_to_be_committed(task: Any) -> None:
    chain = task(WriterOperator(Recording(), ONCE))
    chain.feed("a")
    chain.freeze(1)
    chain.operator.on_checkpoint_completed(1)  # its commit is still under way
    chain.feed("b")
    items = chain.freeze(2)["committables"]
    chain.run_background()
    chain.feed("c")
    assert [decode_committable(item) for item in items] == [(1, b"a"), (2, b"b")]
    assert [decode_committable(item) for item in chain.freeze(3)["committables"]] == [(2, b"b"), (3, b"c")]


def test_a_restored_sink_commits_nothing_by_itself(task: Any) -> None:
    sink = Recording()
    chain = task(WriterOperator(sink, ONCE))
    chain.feed("a")
    lists = chain.freeze(1)
    restored = task(WriterOperator(sink, ONCE), lists=lists)
    restored.operator.on_checkpoint_completed(2)
    assert (restored.background, restored.freeze(3)) == ([], {})


def test_a_failed_commit_fails_the_task_and_stays_in_the_snapshot(task: Any) -> None:
    sink = Recording()
    chain = task(WriterOperator(sink, ONCE))
    chain.feed("a")
    chain.freeze(1)
    sink.broken = "commit"
    chain.operator.on_checkpoint_completed(1)
    with pytest.raises(StorageError) as failure:
        chain.run_background()
    assert failure.value.fact.startswith('sink "recording" of operator "parse" can\'t commit checkpoint 1: ')
    assert (chain.operator.committed_up_to, len(chain.freeze(2)["committables"])) == (0, 1)


def test_a_commit_that_fails_after_close_disturbs_no_one(task: Any) -> None:
    sink = Recording()
    chain = task(WriterOperator(sink, ONCE))
    chain.feed("a")
    chain.freeze(1)
    chain.operator.on_checkpoint_completed(1)
    chain.operator.close()
    chain.operator.close()
    sink.broken = "commit"
    chain.run_background()
    assert sink.calls == ["write", "close"]


@pytest.mark.parametrize("delivery", [Delivery.PLAIN, Delivery.IDEMPOTENT, Delivery.FINGERPRINT])
def test_a_sink_without_transactions_is_flushed_at_barriers_pauses_and_the_end(task: Any, delivery: Any) -> None:
    sink = Recording(delivery)
    chain = task(WriterOperator(sink, ONCE))
    for moment in (lambda: chain.freeze(1), chain.operator.on_idle_input, chain.operator.on_end):
        chain.feed("a")
        moment()
    chain.operator.on_idle_input()  # nothing is left to flush
    assert sink.calls == ["write", "flush"] * 3


def test_a_transactional_sink_is_never_flushed(task: Any) -> None:
    sink = Recording()
    chain = task(WriterOperator(sink, ONCE))
    chain.feed("a")
    chain.freeze(1)
    chain.operator.on_idle_input()
    chain.operator.on_end()
    assert sink.calls == ["write"]


def test_without_checkpoints_output_is_committed_every_so_often_and_at_the_end(task: Any) -> None:
    sink = Recording()
    chain = task(WriterOperator(sink, NONE, commit_interval_seconds=1.0))
    seen = []
    for now_seconds, letter in ((0.5, "a"), (1.0, "b"), (1.5, "c")):
        chain.now_seconds = now_seconds
        chain.feed(letter)
        seen.append(list(commits_of(sink)))
    chain.now_seconds = 2.0
    chain.operator.on_idle_input()
    seen.append(list(commits_of(sink)))
    chain.feed("d")
    chain.operator.on_end()
    assert (seen, commits_of(sink)) == ([[], ["ab"], ["ab"], ["ab", "c"]], ["ab", "c", "d"])


def test_without_checkpoints_a_savepoint_commits_first(task: Any) -> None:
    sink = Recording()
    chain = task(WriterOperator(sink, NONE))
    chain.feed("a")
    assert (chain.freeze(1), commits_of(sink)) == ({}, ["a"])


def test_a_failing_write_names_the_sink(task: Any) -> None:
    sink = Recording()
    sink.broken = "write"
    with pytest.raises(StorageError, match='sink "recording" of operator "parse" can\'t write'):
        task(WriterOperator(sink, ONCE)).feed("a")


def test_a_sink_sees_values_instead_of_codes_and_no_time_column(task: Any) -> None:
    written: list[Any] = []

    class Keeping(Sink):
        name = "keeping"

        def writer(self, context: WriterContext) -> SinkWriter:
            class Writer(SinkWriter):
                def write(self, batch: Batch) -> None:
                    written.append(batch.schema)

            return Writer(self)

    chain = task(WriterOperator(Keeping(), CheckpointMode.NONE))
    encoded = pa.RecordBatch.from_arrays([pa.array(["a", "a"]).dictionary_encode()], ["word"])
    chain.operator.process(with_times(encoded, np.array([1, 2], dtype=np.int64)), 0)
    assert written == [pa.schema([("word", pa.string())])]
