"""How does the coordinator hear from its slots, and speak to them?

Each slot makes one DoExchange call and keeps it. Its gRPC thread reads, a thread of the line's own writes, and one
thread watches all lines. A slot is lost when its call ends, or when it is silent for too long.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import pyarrow.flight as flight

from cutwater.config import TlsFiles
from cutwater.protocol.heartbeats import HeartbeatMonitor
from cutwater.protocol.ids import SlotId
from cutwater.runtime.flight.control_frames import HANG_UP, MESSAGE, SIGN_OF_LIFE, LinkTimes
from cutwater.runtime.flight.probing import interpreter_is_held
from cutwater.runtime.flight.security import address_of, connect, require_token, server_arguments
from cutwater.runtime.flight.transport import shut_down
from cutwater.runtime.messages import FromCoordinator, FromSlot, SlotRegistered, decode_from_slot, encode

CLOSE_TIMEOUT_SECONDS = 2.0


class ControlServer:
    """The coordinator's `SlotLines`. `send` and `hang_up` never block and are for any thread.

    `deliver` and `lost` are called on gRPC's threads and must not block: post to the coordinator's loop. For each slot
    the first message is `SlotRegistered`; after `lost(slot, reason)`, once, nothing more comes from it. A slot that
    was hung up on is not reported as lost. `held(slot, seconds)` tells of a slot that is silent because a call holds
    its interpreter; it is lost when that lasts for many timeouts. `host` is where slots reach us; we listen on
    `listen_host` if it differs.
    """

    def __init__(
        self,
        host: str,
        token: str,
        *,
        deliver: Callable[[SlotId, FromSlot], None],
        lost: Callable[[SlotId, str], None],
        held: Callable[[SlotId, float], None] = lambda slot, seconds: None,
        tls: TlsFiles | None = None,
        times: LinkTimes | None = None,
        listen_host: str | None = None,
    ) -> None:
        self._times = times or LinkTimes()
        self._held = held
        self._connect = partial(connect, tls=tls)
        self._lines = _Lines(deliver, lost, self._times.silence_seconds_max)
        self._server = _ControlFlightServer(token, self._lines, **server_arguments(listen_host or host, tls))
        self._closed = threading.Event()
        self.address = address_of(host, self._server.port)
        threading.Thread(target=self._watch, name="cutwater-control-watch", daemon=True).start()

    def send(self, slot: SlotId, message: FromCoordinator) -> None:
        line = self._lines.get(slot)
        if line is not None:
            line.queue.put(MESSAGE + encode(message))

    def hang_up(self, slot: SlotId) -> None:
        line = self._lines.remove(slot)
        if line is not None:
            line.hang_up()

    def connected(self) -> list[SlotId]:
        """The slots that are registered now."""
        return [line.slot for line in self._lines.all()]

    def close(self) -> None:
        """Hangs up on every slot and stops listening. Blocks for a moment at most."""
        self._closed.set()
        lines = self._lines.all()
        for line in lines:
            self.hang_up(line.slot)
        deadline = time.monotonic() + CLOSE_TIMEOUT_SECONDS
        for line in lines:
            line.over.wait(max(0.0, deadline - time.monotonic()))
        shut_down(self._server)

    def _watch(self) -> None:
        while not self._closed.wait(self._times.sign_of_life_seconds):
            for line in self._lines.silent(time.monotonic()):
                threading.Thread(target=self._judge, args=(line,), name="cutwater-judge", daemon=True).start()
            for line in self._lines.all():
                line.queue.put(SIGN_OF_LIFE)

    def _judge(self, line: _Line) -> None:
        """Of a silent slot: is it lost? On a thread of its own, since to ask takes a while."""
        silent_seconds = time.monotonic() - line.heard_at
        is_held = interpreter_is_held(self._connect(line.address))
        if is_held and self._lines.excuse(line):
            self._held(line.slot, silent_seconds)
            return
        reason = f"no sign of life for {silent_seconds:.0f} s"
        if is_held:
            reason += ", though its process runs: a call holds the interpreter (the GIL) all the time"
        if self._lines.report_silent(line, reason):
            line.hang_up()


class _Line:
    """The call of one slot."""

    def __init__(self, slot: SlotId, address: str) -> None:
        self.slot = slot
        self.address = address
        self.heard_at = time.monotonic()
        self.queue: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self.over = threading.Event()

    def hang_up(self) -> None:
        self.queue.put(HANG_UP)
        self.queue.put(None)

    def write_all(self, writer: Any) -> None:
        """On the line's thread, until None is queued or the connection breaks."""
        try:
            while (frame := self.queue.get()) is not None:
                writer.write_metadata(frame)
        except Exception:  # the reading thread sees the same end, and reports it
            return


class _Lines:
    """The living lines by slot; used by every thread."""

    def __init__(
        self,
        deliver: Callable[[SlotId, FromSlot], None],
        lost: Callable[[SlotId, str], None],
        silence_seconds_max: float,
    ) -> None:
        self._lock = threading.Lock()
        self._lines: dict[SlotId, _Line] = {}
        self._heartbeats: HeartbeatMonitor[SlotId] = HeartbeatMonitor(silence_seconds_max)
        self._deliver = deliver
        self._lost = lost

    def add(self, line: _Line, registered: SlotRegistered) -> None:
        with self._lock:
            if line.slot in self._lines:
                raise flight.FlightUnauthenticatedError(f"slot {line.slot} is registered already")
            self._lines[line.slot] = line
            self._heartbeats.seen(line.slot, time.monotonic())
            self._deliver(line.slot, registered)

    def get(self, slot: SlotId) -> _Line | None:
        return self._lines.get(slot)

    def all(self) -> list[_Line]:
        with self._lock:
            return list(self._lines.values())

    def heard(self, line: _Line) -> None:
        with self._lock:
            if self._lines.get(line.slot) is line:
                line.heard_at = time.monotonic()
                self._heartbeats.seen(line.slot, line.heard_at)

    def excuse(self, line: _Line) -> bool:
        """True: it has more time. Also when it has spoken meanwhile, or is gone."""
        with self._lock:
            if self._lines.get(line.slot) is not line or self._heartbeats.watches(line.slot):
                return True
            return self._heartbeats.excuse(line.slot, time.monotonic())

    def silent(self, now_seconds: float) -> list[_Line]:
        """Lines that nothing came from for too long; each is returned once."""
        with self._lock:
            return [self._lines[slot] for slot in self._heartbeats.expired(now_seconds)]

    def remove(self, slot: SlotId) -> _Line | None:
        with self._lock:
            self._heartbeats.forget(slot)
            return self._lines.pop(slot, None)

    def deliver(self, line: _Line, message: FromSlot) -> None:
        # Under the lock, so that nothing is delivered after the loss was reported.
        with self._lock:
            if self._lines.get(line.slot) is line:
                self._deliver(line.slot, message)

    def report_silent(self, line: _Line, reason: str) -> bool:
        """Reports it as lost, unless it has spoken meanwhile."""
        with self._lock:
            silent = self._lines.get(line.slot) is line and not self._heartbeats.watches(line.slot)
        if silent:
            self.report_lost(line, reason)
        return silent

    def report_lost(self, line: _Line, reason: str) -> None:
        with self._lock:
            if self._lines.get(line.slot) is line:
                del self._lines[line.slot]
                self._heartbeats.forget(line.slot)
                self._lost(line.slot, reason)


class _TokenCheck(flight.ServerMiddlewareFactory):  # type: ignore[misc]
    def __init__(self, token: str) -> None:
        self._token = token

    def start_call(self, info: Any, headers: Mapping[str, Sequence[str | bytes]]) -> None:
        require_token(headers, self._token)


class _ControlFlightServer(flight.FlightServerBase):  # type: ignore[misc]
    def __init__(self, token: str, lines: _Lines, **arguments: Any) -> None:
        super().__init__(middleware={"token": _TokenCheck(token)}, **arguments)
        self._lines = lines

    def do_exchange(self, context: Any, descriptor: Any, reader: Any, writer: Any) -> None:
        """On a gRPC thread for as long as the slot lives."""
        registered = _message(reader.read_chunk().app_metadata)
        if not isinstance(registered, SlotRegistered):
            raise flight.FlightUnauthenticatedError("the first message must register the slot")
        line = _Line(registered.slot, registered.address)
        self._lines.add(line, registered)
        thread = threading.Thread(target=line.write_all, args=(writer,), name=f"cutwater-line-{line.slot}", daemon=True)
        thread.start()
        reason = "its process is gone"
        try:
            while True:
                frame = reader.read_chunk().app_metadata
                self._lines.heard(line)
                message = _message(frame)
                if message is not None:
                    self._lines.deliver(line, message)
        except StopIteration:
            pass
        except Exception as error:  # whatever it is, the line is broken
            reason = f"its connection broke ({type(error).__name__}: {error})"
        finally:
            self._lines.report_lost(line, reason)
            # The writer must not be used once this call has returned.
            line.queue.put(None)
            thread.join()
            line.over.set()


def _message(frame: Any) -> FromSlot | None:
    view = memoryview(frame).cast("B")
    return decode_from_slot(view[1:]) if view[:1] == MESSAGE else None
