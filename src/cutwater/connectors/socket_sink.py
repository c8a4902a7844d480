"""How are records sent to a TCP server?"""

from __future__ import annotations

import socket as sockets

from cutwater.batches import Batch, rows_of
from cutwater.connectors.bases.sending import Sender, SendingWriter
from cutwater.connectors.contract import Sink, SinkWriter, WriterContext
from cutwater.connectors.settings import check_address
from cutwater.connectors.tcp import connect, connection_broke


def socket(host: str, port: int) -> SocketSink:
    """Sends str(value) and \\n for each record; every task has its own connection. For examples and tests.

    Plain: records are sent as they come and sent again after a failure. That the server has read what was sent isn't
    known: what is in buffers when the connection breaks may be lost, or sent again. A slow server slows the job down.
    """
    check_address(host, port)
    return SocketSink(host, port)


class SocketSink(Sink):
    def __init__(self, host: str, port: int) -> None:
        self.host = host
        self.port = port

    @property
    def name(self) -> str:
        return f"socket({self.host}:{self.port})"

    def writer(self, context: WriterContext) -> SinkWriter:
        return SendingWriter(self, SocketSender(self.host, self.port), context)


class SocketSender(Sender):
    def __init__(self, host: str, port: int) -> None:
        self._host = host
        self._port = port
        self._connection: sockets.socket | None = None

    def connect(self) -> None:
        self._connection = connect(self._host, self._port)
        self._connection.settimeout(None)  # waiting is backpressure

    def send(self, batch: Batch) -> None:
        assert self._connection is not None, "connect() comes first"
        lines = "".join(f"{value}\n" for value in rows_of(batch))
        try:
            self._connection.sendall(lines.encode(errors="backslashreplace"))
        except OSError as error:
            raise connection_broke(self._host, self._port, error) from error

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()
