from __future__ import annotations

import socket
import threading

import pytest

from cutwater.batches import ObjectBatch
from cutwater.connectors import sinks, sources
from cutwater.connectors.contract import ReaderContext, Replay, WriterContext
from cutwater.connectors.failures import PeerError
from cutwater.errors import ConfigurationError
from cutwater.protocol.ids import AttemptNumber, CheckpointId

pytestmark = pytest.mark.threads


@pytest.fixture
def server():
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(10)
        yield listening


def port_of(server):
    return server.getsockname()[1]


class Connected:
    """A reader, and the server's end of its connection."""

    def __init__(self, server):
        self.woken = threading.Event()
        source = sources.socket("127.0.0.1", port_of(server))
        self.reader = source.reader(source.discover(4).splits[0], None, ReaderContext(wake=self.woken.set))
        self.peer, _ = server.accept()

    def read(self, limit=10):
        """The next batch; None: the end."""
        while not self.reader.finished:
            self.woken.clear()
            if (batch := self.reader.read(limit, 0.0)) is not None:
                return batch.values
            assert self.woken.wait(10)
        return None


@pytest.fixture
def connected(server):
    made = Connected(server)
    yield made
    made.reader.close()
    made.peer.close()


def test_lines_are_read_as_they_come(connected):
    connected.peer.sendall(b"one\r\ntwo\nthr")
    first = connected.read()
    connected.peer.sendall(b"ee\n")
    assert (first, connected.read(), connected.reader.finished) == (["one", "two"], ["three"], False)


def test_the_stream_ends_when_the_server_closes(connected):
    connected.peer.sendall(b"last")
    connected.peer.close()
    assert [connected.read(), connected.read()] == [["last"], None]


def test_a_connection_that_is_refused_for_too_long_is_a_clear_and_retryable_error(server, monkeypatch):
    monkeypatch.setattr("cutwater.connectors.bases.fetching.PATIENCE_SECONDS", 0.0)
    port = port_of(server)
    server.close()
    woken = threading.Event()
    source = sources.socket("127.0.0.1", port)
    reader = source.reader(source.discover(1).splits[0], None, ReaderContext(wake=woken.set))
    assert woken.wait(10)
    with pytest.raises(PeerError, match=str(port)) as caught:
        reader.read(1, 0.0)
    assert caught.value.retryable


def test_a_socket_cannot_be_replayed():
    assert sources.socket("localhost", 1).replay is Replay.NOT_REPLAYABLE


def test_the_sink_sends_a_line_per_record(server):
    sink = sinks.socket("127.0.0.1", port_of(server))
    writer = sink.writer(WriterContext("job", "out", 0, 1, AttemptNumber(0)))
    peer, _ = server.accept()
    writer.write(ObjectBatch(["one", 2]))
    writer.prepare(CheckpointId(1)).result(10)
    writer.close()
    assert peer.makefile("rb").read() == b"one\n2\n"


@pytest.mark.parametrize(("host", "port"), [("", 1), ("localhost", 0), ("localhost", 70000), ("localhost", "80")])
@pytest.mark.parametrize("factory", [sources.socket, sinks.socket])
def test_impossible_addresses_are_refused(factory, host, port):
    with pytest.raises(ConfigurationError):
        factory(host, port)
