"""Is output committed when its checkpoint completed: not earlier, in order, and never forgotten?"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from cutwater.batches import Batch, rows_of, with_times
from cutwater.connectors.contract import Delivery, Sink, SinkWriter, WriterContext
from cutwater.errors import StorageError
from cutwater.operators.contract import OperatorSnapshot
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

    def committed() -> list[str]:
        while chain.background:
            chain.run_background()
        return commits_of(sink)

    for now_seconds, letter in ((0.5, "a"), (1.0, "b"), (1.5, "c")):
        chain.now_seconds = now_seconds
        chain.feed(letter)
        seen.append(committed())
    chain.now_seconds = 2.0
    chain.operator.on_idle_input()
    seen.append(committed())
    chain.feed("d")
    chain.operator.on_end()
    assert (seen, committed()) == ([[], ["ab"], ["ab"], ["ab", "c"]], ["ab", "c", "d"])


def test_without_checkpoints_a_savepoint_waits_until_all_is_committed(task: Any) -> None:
    sink = Recording()
    chain = task(WriterOperator(sink, NONE))
    chain.feed("a")
    parts: list[Any] = []
    chain.operator.freeze(1).late.then(parts.append)
    early = list(parts)
    chain.run_background()
    assert (early, [part.lists for part in parts], commits_of(sink)) == ([], [()], ["a"])


class Promising(Recording):
    """Prepares when the test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.promises: list[Future[Any]] = []
        self.room = True

    def writer(self, context: WriterContext) -> SinkWriter:
        return PromisingWriter(self)


class PromisingWriter(RecordingWriter):
    sink: Promising

    def has_room(self) -> bool:
        self.sink.called("has_room")
        return self.sink.room

    def prepare(self, checkpoint: CheckpointId) -> Any:
        self.sink.promises.append(Future())
        return self.sink.promises[-1]


def parts_of(chain: Any, *checkpoints: int) -> list[list[tuple[int, bytes]]]:
    """What the late parts of these snapshots hold, as they become known."""
    known: list[list[tuple[int, bytes]]] = []

    def note(part: OperatorSnapshot) -> None:
        known.append([decode_committable(item) for items in part.lists for item in items.items])

    for checkpoint in checkpoints:
        chain.operator.freeze(CheckpointId(checkpoint)).late.then(note)
    return known


def test_a_snapshot_waits_for_what_is_prepared_late(task: Any) -> None:
    sink = Promising()
    chain = task(WriterOperator(sink, ONCE))
    known = parts_of(chain, 1)
    chain.feed("b")  # the stream goes on
    early = list(known)
    sink.promises[0].set_result([b"a"])
    assert (early, known) == ([], [[(1, b"a")]])


def test_what_two_checkpoints_promised_is_told_apart(task: Any) -> None:
    sink = Promising()
    chain = task(WriterOperator(sink, ONCE))
    known = parts_of(chain, 1, 2)
    sink.promises[0].set_result([b"a"])
    sink.promises[1].set_result([b"b"])
    chain.operator.on_checkpoint_completed(2)
    while chain.background:
        chain.run_background()
    assert (known, commits_of(sink)) == ([[(1, b"a")], [(1, b"a"), (2, b"b")]], ["a", "b"])


def test_a_promise_keeps_the_task_busy(task: Any) -> None:
    sink = Promising()
    chain = task(WriterOperator(sink, ONCE))
    parts_of(chain, 1)
    before = chain.operator.busy()
    sink.promises[0].set_result([])
    assert (before, chain.operator.busy()) == (True, False)


def test_a_broken_promise_fails_the_task(task: Any) -> None:
    sink = Promising()
    chain = task(WriterOperator(sink, ONCE))
    callbacks: list[Any] = []
    chain.operator.context.when_done = lambda promise, done: callbacks.append(done)
    parts_of(chain, 1)
    with pytest.raises(StorageError, match="can't prepare checkpoint 1: OSError: connection reset"):
        callbacks[0](None, OSError("connection reset"))


def test_a_promise_that_is_kept_after_close_disturbs_no_one(task: Any) -> None:
    sink = Promising()
    chain = task(WriterOperator(sink, ONCE))
    known = parts_of(chain, 1)
    chain.operator.close()
    sink.promises[0].set_exception(OSError("gone"))
    assert known == []


def test_a_sink_has_room_when_its_writer_is_open_and_has(task: Any) -> None:
    sink = Promising()
    chain = task(WriterOperator(sink, ONCE), opens_later=True)
    seen = [chain.operator.has_room()]
    chain.open_one()
    seen.append(chain.operator.has_room())
    sink.room = False
    assert [*seen, chain.operator.has_room()] == [False, True, False]


def test_a_writer_that_failed_on_its_own_thread_fails_the_task_when_it_is_asked_for_room(task: Any) -> None:
    sink = Promising()
    chain = task(WriterOperator(sink, ONCE))
    sink.broken = "has_room"
    with pytest.raises(StorageError, match="can't write: OSError: disk full"):
        chain.operator.has_room()


def test_what_comes_before_the_writer_is_open_is_written_in_order_and_cut_where_the_barrier_was(task: Any) -> None:
    chain = task(WriterOperator(Recording(), ONCE), opens_later=True)
    chain.feed("a")
    known = parts_of(chain, 1)
    chain.feed("b")
    chain.operator.on_idle_input()
    chain.open_one()
    assert (known, [decode_committable(item) for item in chain.freeze(2)["committables"]]) == (
        [[(1, b"a")]],
        [(1, b"a"), (2, b"b")],
    )


def test_a_writer_that_opens_after_close_is_closed(task: Any) -> None:
    sink = Recording()
    chain = task(WriterOperator(sink, ONCE), opens_later=True)
    chain.operator.close()
    chain.open_one()
    assert sink.calls == ["close"]


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
