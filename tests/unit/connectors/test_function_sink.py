"""A user's function is called off the loop, in order, and a barrier waits for it."""

from __future__ import annotations

import pytest

import cutwater as cw
from cutwater.batches import ObjectBatch
from cutwater.connectors import function, sinks
from cutwater.connectors.contract import WriterContext
from cutwater.errors import UserFunctionError
from cutwater.protocol.ids import AttemptNumber, CheckpointId
from cutwater.testing.harness import LocalLauncher


class HandThread:
    """Works when it is told to."""

    def __init__(self):
        self.submitted = []
        self.closed = False

    def submit(self, work, done):
        self.submitted.append((work, done))

    def work(self):
        (work, done), self.submitted = self.submitted[0], self.submitted[1:]
        try:
            result = work()
        except Exception as error:
            done(None, error)
        else:
            done(result, None)

    def close(self):
        self.closed = True


@pytest.fixture
def thread():
    return HandThread()


@pytest.fixture
def woken():
    return []


@pytest.fixture
def open_writer(thread, woken):
    def opened(consume):
        context = WriterContext(
            "job", "out", 0, 1, AttemptNumber(0), wake=lambda: woken.append(True), own_thread=lambda: thread
        )
        return sinks.function(consume).writer(context)

    return opened


def test_batches_are_given_one_after_the_other(open_writer, thread):
    seen = []
    writer = open_writer(seen.append)
    for number in range(3):
        writer.write(ObjectBatch([number]))
    assert (seen, len(thread.submitted)) == ([], 1)
    thread.work()
    thread.work()
    assert (seen, thread.submitted) == ([[0], [1], [2]], [])


def test_a_barrier_waits_for_what_was_written_before_it_and_for_nothing_else(open_writer, thread):
    writer = open_writer(len)
    writer.write(ObjectBatch([1]))
    first = writer.prepare(CheckpointId(1))
    writer.write(ObjectBatch([2]))
    second = writer.prepare(CheckpointId(2))
    states = [(first.done(), second.done())]
    for _ in range(2):
        thread.work()
        states.append((first.done(), second.done()))
    assert states == [(False, False), (True, False), (True, True)]
    assert writer.prepare(CheckpointId(3)).result(0) == ()


def test_there_is_room_until_too_much_waits(open_writer, thread, woken):
    writer = open_writer(len)
    writer.write(ObjectBatch(list(range(function.WAITING_ROWS_MAX))))
    assert (writer.has_room(), woken) == (False, [])
    thread.work()
    assert (writer.has_room(), woken) == (True, [True])


def test_a_function_that_fails_is_not_called_again_and_breaks_all_promises(open_writer, thread, woken):
    seen = []

    def consume(values):
        seen.append(values)
        raise ValueError("no")

    writer = open_writer(consume)
    writer.write(ObjectBatch([1]))
    promise = writer.prepare(CheckpointId(1))
    writer.write(ObjectBatch([2]))
    thread.work()
    assert (seen, thread.submitted, woken) == ([[1]], [], [True])
    for ask in (writer.has_room, lambda: promise.result(0), lambda: writer.prepare(CheckpointId(2))):
        with pytest.raises(UserFunctionError, match="ValueError: no"):
            ask()


def test_a_closed_writer_closes_its_thread(open_writer, thread):
    open_writer(len).close()
    assert thread.closed


@pytest.mark.parametrize("mode", ["exactly_once", "none"])
def test_a_job_in_memory_calls_the_function_with_everything_in_order(mode):
    seen = []
    env = cw.Environment(launcher=LocalLauncher(), checkpoints=cw.Checkpoints(mode=mode))
    # A copy of the function runs in the slot; what it appends to is this list all the same.
    sink = sinks.function(Appending(), idempotent=True)
    env.from_collection(range(5000)).sink_to(sink)
    Appending.seen = seen
    env.execute()
    assert [value for values in seen for value in values] == list(range(5000))


class Appending:
    seen: list[list[int]]

    def __call__(self, values):
        type(self).seen.append(values)
