"""How does the sending end of a channel pass elements on without ever holding up the loop?

The loop's thread queues; a thread of the channel's own connects, writes, and sleeps when the receiver is behind.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from cutwater.errors import ChannelBrokenError, SerializationError
from cutwater.protocol.elements import EndOfInput
from cutwater.runtime.flight import wire
from cutwater.runtime.flight.dialling import Call, dial
from cutwater.runtime.flight.inbox import QueueLimits
from cutwater.runtime.flight.peers import Peer
from cutwater.runtime.flight.security import call_options, end_call
from cutwater.runtime.seams import ChannelId, Element

CHANNEL_HEADER = "cutwater-channel"
PING_SECONDS = 1.0
"""An idle sender writes this often, so that a receiver that closed gets its thread back, and a dead one is noticed."""


class Outbox:
    """An `OutputChannel`."""

    def __init__(
        self,
        channel: ChannelId,
        peer: Peer,
        *,
        token: str,
        limits: QueueLimits,
        on_ready: Callable[[], None],
        connect_timeout_seconds: float,
    ) -> None:
        self._channel = channel
        self._peer = peer
        self._options = call_options(token, [(CHANNEL_HEADER, channel_text(channel))])
        self._limits = limits
        self._on_ready = on_ready
        self._connect_timeout_seconds = connect_timeout_seconds
        self._queue: queue.SimpleQueue[tuple[wire.Frame, int, bool] | None] = queue.SimpleQueue()
        self._schema: pa.Schema | None = None
        self._queued_elements = 0
        self._queued_bytes = 0
        self._written_elements = 0
        self._written_bytes = 0
        self._loop_waits = False
        self._broken: ChannelBrokenError | None = None
        self._closed = threading.Event()
        self._reader: Any = None
        name = f"cutwater-out-{channel_text(channel)}"
        threading.Thread(target=self._run, name=name, daemon=True).start()

    # On the loop's thread.

    def send(self, element: Element) -> None:
        if self._closed.is_set():
            return
        if isinstance(element, pa.RecordBatch):
            self._check_schema(element.schema)
        frame, size = wire.to_frame(element)
        self._queued_elements += 1
        self._queued_bytes += size
        self._queue.put((frame, size, isinstance(element, EndOfInput)))

    def has_room(self) -> bool:
        if self._broken is not None and not self._closed.is_set():
            raise self._broken
        if self._has_room(1):
            return True
        # Say that we wait, then look again: the writer may have written everything in between.
        self._loop_waits = True
        return self._has_room(1)

    def close(self) -> None:
        """Ends the thread, whatever it is doing; queued elements are lost."""
        self._closed.set()
        self._queue.put(None)
        reader = self._reader
        if reader is not None:
            reader.cancel()

    def _check_schema(self, schema: pa.Schema) -> None:
        if self._schema is None:
            self._schema = schema
        elif schema is not self._schema and not schema.equals(self._schema):
            raise SerializationError(
                f"the schema of edge {self._channel.edge} changed while the job runs",
                detail=f"first: {_one_line(self._schema)}; now: {_one_line(schema)}",
                hint="let the operator before it emit batches of one schema, for instance with batch.cast(schema)",
            )

    def _has_room(self, divisor: int) -> bool:
        return (
            self._queued_elements - self._written_elements < self._limits.elements_max // divisor
            and self._queued_bytes - self._written_bytes < self._limits.bytes_max // divisor
        )

    # On the channel's thread.

    def _run(self) -> None:
        try:
            call = self._connect()
            if call is not None:
                try:
                    self._write_all(*call)
                finally:
                    end_call(*call)
        except Exception as error:  # whatever it is, the channel is broken
            self._break(f"{type(error).__name__}: {_first_line(error)}")
        finally:
            self._peer.release()

    def _connect(self) -> Call | None:
        timeout_seconds = self._connect_timeout_seconds
        return dial(self._peer, self._options, self._began, closed=self._closed, timeout_seconds=timeout_seconds)

    def _began(self, reader: Any) -> None:
        self._reader = reader
        if self._closed.is_set():  # `close` may have looked for the reader too early
            reader.cancel()

    def _write_all(self, writer: Any, reader: Any) -> None:
        began = False
        while not self._closed.is_set():
            try:
                item = self._queue.get(timeout=PING_SECONDS)
            except queue.Empty:
                writer.write_metadata(wire.PING)
                continue
            if item is None:
                return
            frame, size, is_last = item
            if isinstance(frame, bytes):
                writer.write_metadata(frame)
            else:
                if not began:
                    writer.begin(frame.schema)
                    began = True
                writer.write_batch(frame)
            self._written_elements += 1
            self._written_bytes += size
            if self._loop_waits and self._has_room(2):
                self._loop_waits = False
                self._on_ready()
            if is_last:
                self._finish(writer, reader)
                return

    def _finish(self, writer: Any, reader: Any) -> None:
        writer.done_writing()
        try:
            reader.read_chunk()
        except StopIteration:
            return

    def _break(self, reason: str) -> None:
        if self._closed.is_set():
            return
        self._broken = ChannelBrokenError(
            f"the channel of edge {self._channel.edge} from subtask {self._channel.sender} "
            f"to {self._channel.receiver} broke",
            detail=f"attempt {self._channel.attempt}, slot at {self._peer.address}: {reason}",
        )
        self._on_ready()


def channel_text(channel: ChannelId) -> str:
    return f"{channel.attempt}.{channel.edge}.{channel.sender}.{channel.receiver}"


def _one_line(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name}: {field.type}" for field in schema)


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]
