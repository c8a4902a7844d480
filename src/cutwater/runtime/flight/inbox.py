"""How does the receiving end of a channel hold elements, and hold back its sender?

A gRPC thread fills it and sleeps while it is full; gRPC's flow control then stops the sender. The loop's thread takes.
Each counter is written by one of the two threads only, so that the way of an element needs no lock.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from cutwater.errors import ChannelBrokenError
from cutwater.protocol.elements import EndOfInput
from cutwater.runtime.flight import wire
from cutwater.runtime.seams import ChannelId, Element

CLOSED_CHECK_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class QueueLimits:
    """A queue at either limit is full; it may overshoot by one element."""

    elements_max: int = 16
    bytes_max: int = 8 * 1024 * 1024


class Inbox:
    """An `InputChannel`."""

    def __init__(self, channel: ChannelId, limits: QueueLimits, on_ready: Callable[[], None]) -> None:
        self._channel = channel
        self._limits = limits
        self._on_ready = on_ready
        self._frames: deque[tuple[pa.RecordBatch | pa.Buffer, int]] = deque()
        self._put_bytes = 0
        self._taken_bytes = 0
        self._room = threading.Event()
        self._filler_waits = False
        self._broken: ChannelBrokenError | None = None
        self._closed = False
        self.connected = False

    # On the loop's thread.

    def poll(self) -> Element | None:
        if self._closed:
            return None
        try:
            frame, size = self._frames.popleft()
        except IndexError:
            if self._broken is not None:
                raise self._broken from None
            return None
        self._taken_bytes += size
        if self._filler_waits:
            self._room.set()
        return frame if isinstance(frame, pa.RecordBatch) else wire.from_metadata(frame)

    def __len__(self) -> int:
        return len(self._frames)

    def close(self) -> None:
        """Wakes the filler, which then leaves; `poll` gives nothing more."""
        self._closed = True
        self._frames.clear()
        self._room.set()

    # On a gRPC thread.

    def fill_from(self, reader: Any) -> bool:
        """Moves elements until the end of input (True), the end of the attempt, or the end of the connection."""
        try:
            while not self._closed:
                chunk = reader.read_chunk()
                if chunk.data is not None:
                    self._put(chunk.data, chunk.data.nbytes + wire.CONTROL_BYTES)
                elif chunk.app_metadata != wire.PING:
                    frame = chunk.app_metadata
                    self._put(frame, max(frame.size, wire.CONTROL_BYTES))
                    if frame.size <= wire.CONTROL_BYTES and _is_end(frame):
                        return True
        except StopIteration:
            self._break("its sender is gone")
        except Exception as error:  # whatever it is, the channel is broken
            self._break(f"{type(error).__name__}: {error}")
        return False

    def _put(self, frame: pa.RecordBatch | pa.Buffer, size: int) -> None:
        while self._is_full() and not self._closed:
            self._filler_waits = True
            self._room.clear()
            if self._is_full() and not self._closed:
                self._room.wait(CLOSED_CHECK_SECONDS)
        self._filler_waits = False
        if self._closed:
            return
        self._frames.append((frame, size))
        self._put_bytes += size
        self._on_ready()

    def _is_full(self) -> bool:
        waiting_bytes = self._put_bytes - self._taken_bytes
        return len(self._frames) >= self._limits.elements_max or waiting_bytes >= self._limits.bytes_max

    def _break(self, reason: str) -> None:
        self._broken = ChannelBrokenError(
            f"the channel of edge {self._channel.edge} from subtask {self._channel.sender} "
            f"to {self._channel.receiver} broke",
            detail=f"attempt {self._channel.attempt}: {reason}",
        )
        self._on_ready()


def _is_end(frame: pa.Buffer) -> bool:
    view = memoryview(frame).cast("B")
    return view[:1] != wire.PICKLE_FIRST_BYTE and isinstance(wire.from_metadata(frame), EndOfInput)
