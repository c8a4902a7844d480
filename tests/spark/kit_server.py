"""Connectors for the server in `number_server.py`, and their subjects."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from cutwater.batches import Batch, ObjectBatch, rows_of
from cutwater.connectors.bases.fetching import Fetched, Fetcher, FetchingReader
from cutwater.connectors.bases.sending import Sender, SendingWriter
from cutwater.connectors.contract import Discovery, ReaderContext, Sink, SinkWriter, Source, SplitReader, WriterContext
from cutwater.connectors.failures import PeerError
from cutwater.protocol.splits import Split
from cutwater.testing.connectors import SinkSubject, SourceSubject

from . import number_server
from .number_server import HOST


class NumberServer:
    """What the kit strikes."""

    def __init__(self, file: Path) -> None:
        self.file = file
        file.touch()
        with socket.socket() as probe:
            probe.bind((HOST, 0))
            self.port = probe.getsockname()[1]
        self._process: subprocess.Popen[bytes] | None = None
        self.restart()

    def restart(self) -> None:
        self._process = subprocess.Popen([sys.executable, number_server.__file__, str(self.file), str(self.port)])
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            try:
                return socket.create_connection((HOST, self.port), timeout=1).close()
            except OSError:
                time.sleep(0.02)
        raise AssertionError("the server did not start")

    def kill(self) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def pause(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)


class Client:
    def __init__(self, port: int) -> None:
        try:
            self._socket = socket.create_connection((HOST, port), timeout=30)
        except OSError as error:
            raise PeerError("the number server can't be reached", detail=str(error)) from error
        self._file = self._socket.makefile("rwb")

    def ask(self, *request: Any) -> Any:
        try:
            self._file.write(json.dumps(request).encode() + b"\n")
            self._file.flush()
            answer = self._file.readline()
        except OSError as error:
            raise PeerError("the number server is gone", detail=str(error)) from error
        if not answer.endswith(b"\n"):
            raise PeerError("the number server is gone")
        return json.loads(answer)

    def close(self) -> None:
        self._socket.close()


class NumberSender(Sender):
    def __init__(self, port: int) -> None:
        self._port = port
        self._client: Client | None = None

    def connect(self) -> None:
        self._client = Client(self._port)

    def send(self, batch: Batch) -> None:
        assert self._client is not None
        self._client.ask("append", [record["n"] for record in rows_of(batch)])

    def close(self) -> None:
        if self._client is not None:
            self._client.close()


class NumberSink(Sink):
    """Plain: at least once."""

    def __init__(self, port: int) -> None:
        self._port = port

    @property
    def name(self) -> str:
        return "numbers"

    def writer(self, context: WriterContext) -> SinkWriter:
        return SendingWriter(self, NumberSender(self._port), context)


class NumberFetcher(Fetcher):
    """Position: how many were read."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._client: Client | None = None

    def connect(self, position: Any) -> None:
        self._position = position or 0
        self._client = Client(self._port)

    def fetch(self, limit: int) -> Fetched | None:
        assert self._client is not None
        numbers = self._client.ask("read", self._position, limit)
        if not numbers:
            time.sleep(0.05)
            return None
        self._position += len(numbers)
        return Fetched(self._position, ObjectBatch(numbers))

    def close(self) -> None:
        if self._client is not None:
            self._client.close()


class NumberSource(Source):
    """Without an end."""

    eager = True

    def __init__(self, port: int) -> None:
        self._port = port

    @property
    def name(self) -> str:
        return "numbers"

    def discover(self, parallelism: int) -> Discovery:
        return Discovery((Split("all", b""),), complete=True)

    def reader(self, split: Split, position: Any, context: ReaderContext) -> SplitReader:
        return FetchingReader(NumberFetcher(self._port), position, context, name="numbers")


class NumbersWritten(SinkSubject):
    def __init__(self, server: NumberServer) -> None:
        self.server: NumberServer = server

    def sink(self) -> Sink:
        return NumberSink(self.server.port)

    def received(self) -> Sequence[int]:
        return [int(line) for line in self.server.file.read_text().splitlines()]

    def clear(self) -> None:
        os.truncate(self.server.file, 0)


class NumbersRead(SourceSubject):
    bounded = False

    def __init__(self, server: NumberServer) -> None:
        self.server: NumberServer = server

    def fill(self, numbers: Iterable[int]) -> None:
        self.server.kill()
        self.server.file.write_text("".join(f"{number}\n" for number in numbers))
        self.server.restart()

    def source(self) -> Source:
        return NumberSource(self.server.port)

    @staticmethod
    def number_of(record: Any) -> int:
        return int(record)
