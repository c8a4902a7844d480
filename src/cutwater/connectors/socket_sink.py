"""How are records sent to a TCP server?"""

from __future__ import annotations

from cutwater.batches import Batch, rows_of
from cutwater.connectors.contract import Sink, SinkWriter, WriterContext
from cutwater.connectors.settings import check_address
from cutwater.connectors.tcp import connect, connection_broke


def socket(host: str, port: int) -> SocketSink:
    """Sends str(value) and \\n for each record; every task has its own connection. For examples and tests.

    Plain: records are sent as they come and sent again after a failure. That the server has read what was sent isn't
    known: what is in buffers when the connection breaks may be lost. A slow server slows the job down.
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
        return SocketWriter(self)


class SocketWriter(SinkWriter):
    def __init__(self, sink: SocketSink) -> None:
        super().__init__(sink)
        self._host = sink.host
        self._port = sink.port
        self._connection = connect(sink.host, sink.port)
        self._connection.settimeout(None)  # waiting is backpressure

    def write(self, batch: Batch) -> None:
        lines = "".join(f"{value}\n" for value in rows_of(batch))
        try:
            self._connection.sendall(lines.encode(errors="backslashreplace"))
        except OSError as error:
            raise connection_broke(self._host, self._port, error) from error

    def close(self) -> None:
        self._connection.close()
