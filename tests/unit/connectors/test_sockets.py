from __future__ import annotations

import select
import socket

import pytest

from cutwater.batches import ObjectBatch
from cutwater.connectors import sinks, sources
from cutwater.connectors.contract import Replay, WriterContext
from cutwater.connectors.failures import PeerError
from cutwater.errors import ConfigurationError
from cutwater.protocol.ids import AttemptNumber

pytestmark = pytest.mark.threads


@pytest.fixture
def server():
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(10)
        yield listening


def port_of(server):
    return server.getsockname()[1]


def connected(server):
    source = sources.socket("127.0.0.1", port_of(server))
    reader = source.reader(source.discover(4).splits[0], None)
    peer, _ = server.accept()
    return reader, peer


def read_when_ready(reader, limit=10):
    select.select([reader._connection], [], [], 10)
    return reader.read(limit, 0.0)


def test_lines_are_read_as_they_come(server):
    reader, peer = connected(server)
    assert reader.read(10, 0.0) is None
    peer.sendall(b"one\r\ntwo\nthr")
    assert read_when_ready(reader).values == ["one", "two"]
    peer.sendall(b"ee\n")
    assert read_when_ready(reader).values == ["three"]
    assert not reader.finished


def test_no_more_than_the_limit_is_given(server):
    reader, peer = connected(server)
    peer.sendall(b"1\n2\n3\n")
    assert [read_when_ready(reader, 2).values, reader.read(2, 0.0).values] == [["1", "2"], ["3"]]


def test_the_stream_ends_when_the_server_closes(server):
    reader, peer = connected(server)
    peer.sendall(b"last")
    peer.close()
    assert read_when_ready(reader) is None
    assert read_when_ready(reader).values == ["last"]
    assert reader.finished


def test_a_refused_connection_is_a_clear_and_retryable_error(server):
    port = port_of(server)
    server.close()
    source = sources.socket("127.0.0.1", port)
    with pytest.raises(PeerError, match=str(port)) as caught:
        source.reader(source.discover(1).splits[0], None)
    assert caught.value.retryable


def test_a_socket_cannot_be_replayed():
    assert sources.socket("localhost", 1).replay is Replay.NOT_REPLAYABLE


def test_the_sink_sends_a_line_per_record(server):
    sink = sinks.socket("127.0.0.1", port_of(server))
    writer = sink.writer(WriterContext("job", "out", 0, 1, AttemptNumber(0)))
    peer, _ = server.accept()
    writer.write(ObjectBatch(["one", 2]))
    writer.close()
    assert peer.makefile("rb").read() == b"one\n2\n"


@pytest.mark.parametrize(("host", "port"), [("", 1), ("localhost", 0), ("localhost", 70000), ("localhost", "80")])
@pytest.mark.parametrize("factory", [sources.socket, sinks.socket])
def test_impossible_addresses_are_refused(factory, host, port):
    with pytest.raises(ConfigurationError):
        factory(host, port)
