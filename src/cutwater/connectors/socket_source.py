"""How do lines from a TCP server become a stream?"""

from __future__ import annotations

import socket as sockets
from collections import deque
from typing import Any

from cutwater.batches import ObjectBatch
from cutwater.connectors.bases.fetching import FETCH_WAIT_SECONDS, Fetched, Fetcher, FetchingReader
from cutwater.connectors.contract import Discovery, ReaderContext, Replay, Source, SplitReader
from cutwater.connectors.settings import check_address
from cutwater.connectors.tcp import connect, connection_broke
from cutwater.errors import OperationsError
from cutwater.protocol.splits import Split

_RECEIVE_BYTES = 256 << 10
#: What a sender that never ends its line may make us hold.
_BUFFER_BYTES_MAX = 64 << 20


def socket(host: str, port: int) -> SocketSource:
    """A source of text lines from a TCP server (try `nc -lk 9999`), for examples and tests.

    Not replayable: lines that were received but not yet processed when the job fails are lost, so no job with this
    source is exactly once. One task reads. The stream ends when the server closes the connection. When it is refused or
    breaks, the source tries again for a while; then the attempt fails with a clear error. Bytes that aren't UTF-8
    become U+FFFD.
    """
    check_address(host, port)
    return SocketSource(host, port)


class SocketSource(Source):
    """One split: the connection."""

    replay = Replay.NOT_REPLAYABLE
    eager = True

    def __init__(self, host: str, port: int) -> None:
        self._host = host
        self._port = port

    @property
    def name(self) -> str:
        return f"socket({self._host}:{self._port})"

    def discover(self, parallelism: int) -> Discovery:
        return Discovery((Split(f"{self._host}:{self._port}", b""),), complete=True)

    def reader(self, split: Split, position: Any, context: ReaderContext) -> SplitReader:
        return FetchingReader(SocketFetcher(self._host, self._port), None, context, name=f'source "{self.name}"')


class SocketFetcher(Fetcher):
    """Has no position: what was received can't be asked for again."""

    def __init__(self, host: str, port: int) -> None:
        self._host = host
        self._port = port
        self._lines: deque[str] = deque()
        self._unended = bytearray()
        self._closed_by_peer = False
        self._connection: sockets.socket | None = None

    def connect(self, position: Any) -> None:
        self._unended.clear()
        self._connection = connect(self._host, self._port)
        self._connection.settimeout(FETCH_WAIT_SECONDS)

    def fetch(self, limit: int) -> Fetched | None:
        if not self._lines and not self._closed_by_peer:
            self._receive()
        values = [self._lines.popleft() for _ in range(min(limit, len(self._lines)))]
        ended = self._closed_by_peer and not self._lines
        return Fetched(None, ObjectBatch(values) if values else None, ends_split=ended) if values or ended else None

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _receive(self) -> None:
        assert self._connection is not None, "connect() comes first"
        try:
            data = self._connection.recv(_RECEIVE_BYTES)
        except TimeoutError:
            return
        except OSError as error:
            raise connection_broke(self._host, self._port, error) from error
        if data:
            self._take(data)
        else:
            self._closed_by_peer = True
            if self._unended:
                self._lines.append(_text(self._unended))

    def _take(self, data: bytes) -> None:
        self._unended += data
        *ended, rest = self._unended.split(b"\n")
        self._unended = rest
        self._lines.extend(_text(line) for line in ended)
        if len(self._unended) > _BUFFER_BYTES_MAX:
            raise OperationsError(
                f"{self._host}:{self._port} sent a line that is too long",
                detail=f"no end after {_BUFFER_BYTES_MAX} bytes",
                hint="is it a server of text lines?",
            )


def _text(line: bytearray) -> str:
    return line.removesuffix(b"\r").decode(errors="replace")
