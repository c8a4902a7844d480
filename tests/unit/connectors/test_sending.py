"""Does a writer with a thread of its own lose nothing, wait for nothing, and say what failed?"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import pytest

from cutwater.batches import Batch, ObjectBatch, rows_of
from cutwater.connectors.bases import sending
from cutwater.connectors.bases.sending import Sender, SendingWriter
from cutwater.connectors.contract import Sink, SinkWriter, WriterContext
from cutwater.connectors.failures import PeerError
from cutwater.protocol.ids import AttemptNumber, CheckpointId

pytestmark = pytest.mark.threads

WAIT_SECONDS = 10.0


class Server:
    """What was received, and what goes wrong next."""

    def __init__(self) -> None:
        self.received: list[Any] = []
        self.unacknowledged: list[Any] = []
        self.connections = 0
        self.open = threading.Event()
        self.open.set()
        self.failures: list[Exception] = []
        self.settle_failures: list[Exception] = []
        self.sign_of_life = threading.Event()


class ServerSender(Sender):
    def __init__(self, server: Server, *, resends: bool = True) -> None:
        self._server = server
        self.resends = resends

    def connect(self) -> None:
        self._server.connections += 1
        self._server.unacknowledged = []

    def send(self, batch: Batch) -> None:
        assert self._server.open.wait(WAIT_SECONDS)
        if self._server.failures:
            raise self._server.failures.pop(0)
        self._server.unacknowledged += rows_of(batch)

    def settle(self) -> None:
        if self._server.settle_failures:
            raise self._server.settle_failures.pop(0)
        self._server.received += self._server.unacknowledged
        self._server.unacknowledged = []

    def keep_alive(self) -> None:
        self._server.sign_of_life.set()

    def prepare(self, checkpoint: CheckpointId) -> Sequence[bytes]:
        return [b"%d" % checkpoint]


class ServerSink(Sink):
    name = "server"

    def writer(self, context: WriterContext) -> SinkWriter:
        raise NotImplementedError


class Writing:
    def __init__(self, server: Server, **options: Any) -> None:
        self.woken = threading.Event()
        context = WriterContext("job", "out", 0, 1, AttemptNumber(1), wake=self.woken.set)
        self.writer = SendingWriter(ServerSink(), ServerSender(server, **options), context)

    def write(self, *values: Any) -> None:
        self.writer.write(ObjectBatch(list(values)))

    def prepare(self, checkpoint: int) -> Any:
        return self.writer.prepare(CheckpointId(checkpoint)).result(WAIT_SECONDS)


@pytest.fixture(autouse=True)
def _no_long_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cutwater.connectors.bases.patience.FIRST_PAUSE_SECONDS", 0.001)


def test_a_barrier_promises_what_was_settled_before_it() -> None:
    server = Server()
    writing = Writing(server)
    writing.write(1, 2)
    assert (writing.prepare(7), server.received) == ([b"7"], [1, 2])


def test_a_server_that_stalls_holds_up_neither_writes_nor_the_barrier() -> None:
    server = Server()
    server.open.clear()
    writing = Writing(server)
    writing.write(1)
    promise = writing.writer.prepare(CheckpointId(1))
    writing.write(2)
    early = promise.done()
    server.open.set()
    assert (early, promise.result(WAIT_SECONDS), server.received) == (False, [b"1"], [1])


def test_a_full_writer_has_no_room_until_the_server_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sending, "QUEUED_ROWS_MAX", 2)
    server = Server()
    server.open.clear()
    writing = Writing(server)
    for number in range(4):
        writing.write(number)
    full = writing.writer.has_room()
    server.open.set()
    assert (full, writing.woken.wait(WAIT_SECONDS)) == (False, True)
    writing.prepare(1)
    assert writing.writer.has_room()


def test_what_was_not_settled_is_sent_again_to_a_server_that_came_back() -> None:
    server = Server()
    writing = Writing(server)
    writing.write(1)
    writing.prepare(1)
    writing.write(2)
    server.failures.append(PeerError("connection reset"))
    writing.write(3)
    writing.prepare(2)
    assert (server.received, server.connections) == ([1, 2, 3], 2)


def test_a_transaction_that_was_lost_with_its_connection_fails_the_writer() -> None:
    server = Server()
    writing = Writing(server, resends=False)
    writing.write(1)
    writing.prepare(1)
    server.settle_failures.append(PeerError("server closed the connection"))
    writing.write(2)
    with pytest.raises(PeerError):
        writing.prepare(2)


def test_a_failure_is_raised_when_the_loop_asks_for_room_and_breaks_all_promises() -> None:
    server = Server()
    server.open.clear()
    server.failures.append(ValueError("bad record"))
    writing = Writing(server)
    writing.write(1)
    promises = [writing.writer.prepare(CheckpointId(number)) for number in (1, 2)]
    server.open.set()
    assert [str(promise.exception(WAIT_SECONDS)) for promise in promises] == ["bad record"] * 2
    assert writing.woken.wait(WAIT_SECONDS)
    with pytest.raises(ValueError, match="bad record"):
        writing.writer.has_room()


def test_a_closed_writer_tries_no_longer() -> None:
    server = Server()
    server.failures = [PeerError("gone")] * 1_000_000
    writing = Writing(server)
    writing.write(1)
    writing.writer.close()
    assert not writing.writer._thread.is_alive()


def test_a_writer_without_work_gives_signs_of_life(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sending, "KEEP_ALIVE_SECONDS", 0.001)
    server = Server()
    writing = Writing(server)
    heard = server.sign_of_life.wait(WAIT_SECONDS)
    writing.writer.close()
    assert heard
