"""How does a slot speak to its coordinator, and notice that it lost it?"""

from __future__ import annotations

import os
import queue
import threading
import time
from collections.abc import Callable
from typing import Any

import pyarrow.flight as flight

from cutwater.config import TlsFiles
from cutwater.protocol.connection_liveness import ConnectionLiveness, Looked, SuspectConnection
from cutwater.runtime.flight.control_frames import HANG_UP, MESSAGE, SIGN_OF_LIFE, LinkTimes
from cutwater.runtime.flight.security import call_options, connect, end_call
from cutwater.runtime.messages import FromCoordinator, FromSlot, SlotRegistered, decode_from_coordinator, encode


class ControlLink:
    """A `SlotLink`. Its own threads write, read and give signs of life, so that a long user call looks alive.

    `deliver` is called on the reading thread and must not block. `broken(reason)` is called once, on one of the link's
    threads: when the coordinator hung up or is gone, when it is silent for too long, or when this process lost its
    parent. After `close` it is not called.
    """

    def __init__(
        self,
        address: str,
        token: str,
        *,
        deliver: Callable[[FromCoordinator], None],
        broken: Callable[[str], None],
        tls: TlsFiles | None = None,
        times: LinkTimes | None = None,
    ) -> None:
        self._address = address
        self._token = token
        self._deliver = deliver
        self._broken = broken
        self._tls = tls
        self._times = times or LinkTimes()
        self._queue: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._heard = 0
        self._heard_at = time.monotonic()
        self._liveness = ConnectionLiveness(self._times.silence_seconds_max)
        self._parent = os.getppid()
        self._over = threading.Event()
        self._read_over = threading.Event()
        self._over_lock = threading.Lock()
        self._client: Any = None
        self._writer: Any = None
        self._reader: Any = None

    def register(self, registered: SlotRegistered) -> None:
        """Connects and sends the first message; blocks until connected. Raises what Flight raises when it can't."""
        self._client = connect(self._address, self._tls)
        self._writer, self._reader = self._client.do_exchange(
            flight.FlightDescriptor.for_command(b"control"), options=call_options(self._token)
        )
        self._writer.write_metadata(MESSAGE + encode(registered))
        for name, target in (("write", self._write), ("read", self._read), ("watch", self._watch)):
            threading.Thread(target=target, name=f"cutwater-link-{name}", daemon=True).start()

    def send(self, message: FromSlot) -> None:
        self._queue.put(MESSAGE + encode(message))

    def wait_if_out_of_touch(self) -> None:
        """Blocks a loop that has slept through the timeout until it is known that its slot still counts.

        The process may have been stopped, and replaced since then: its next batch would be a zombie's. What was said
        to it meanwhile proves nothing, so it waits for a new sign of life; if it was given up, the link breaks first.
        """
        resumed_at = time.monotonic()
        if resumed_at - self._heard_at <= self._times.silence_seconds_max:
            return
        pause_seconds = self._times.sign_of_life_seconds / 2
        while self._heard_at < resumed_at + pause_seconds and not self._over.is_set():
            time.sleep(pause_seconds)

    def close(self, *, flush_seconds: float = 1.0) -> None:
        """Ends the call after what was sent before, and the threads. Blocks for `flush_seconds` at most."""
        self._end(None)
        self._queue.put(None)
        # The coordinator ends its side of the call when it has read everything; a call cancelled before would lose
        # the last messages.
        if self._reader is not None and not self._read_over.wait(flush_seconds):
            self._reader.cancel()

    def _write(self) -> None:
        try:
            while (frame := self._queue.get()) is not None:
                self._writer.write_metadata(frame)
            self._writer.done_writing()
        except Exception as error:  # whatever it is, the line is broken
            self._end(f"the connection to the coordinator broke ({type(error).__name__})")
        finally:
            self._read_over.wait()
            end_call(self._writer, self._reader)
            self._client.close()

    def _read(self) -> None:
        reason = "the coordinator is gone"
        try:
            while True:
                view = memoryview(self._reader.read_chunk().app_metadata).cast("B")
                self._heard_at = time.monotonic()
                self._heard += 1
                if view[:1] == MESSAGE:
                    self._deliver(decode_from_coordinator(view[1:]))
                elif view[:1] == HANG_UP:
                    reason = "the coordinator hung up"
                    break
        except StopIteration:
            pass
        except flight.FlightUnauthenticatedError as error:
            reason = f"the coordinator refused this slot ({str(error).partition(chr(10))[0]})"
        except Exception as error:  # whatever it is, the line is broken
            reason = f"the connection to the coordinator broke ({type(error).__name__})"
        finally:
            self._read_over.set()
        self._end(reason)
        # The coordinator's thread for this call ends with the call, not with the process.
        self._reader.cancel()
        self._queue.put(None)

    def _watch(self) -> None:
        while not self._over.wait(self._times.sign_of_life_seconds):
            self._queue.put(SIGN_OF_LIFE)
            if os.getppid() != self._parent:
                self._end("the process that started this slot is gone")
            # The coordinator gives signs of life by itself, so pings are not needed.
            for effect in self._liveness.handle(Looked(time.monotonic(), self._heard)):
                if isinstance(effect, SuspectConnection):
                    self._end(f"no sign of life from the coordinator for {effect.silent_seconds:.1f} s")

    def _end(self, reason: str | None) -> None:
        with self._over_lock:
            if self._over.is_set():
                return
            self._over.set()
        if reason is not None:
            self._broken(reason)
