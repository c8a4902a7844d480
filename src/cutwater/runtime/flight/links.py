"""How do two slots ask each other for signs of life?

Beside the calls of its channels, each connection between two slots carries one call for pings, the link. A call of its
own, because a ping in a channel would wait behind a large batch, or behind records that the receiver has no room for.
Pings are answered by the link's threads: a loop in a long call still looks alive.
"""

from __future__ import annotations

import contextlib
import queue
import threading
from collections.abc import Callable
from typing import Any

import pyarrow.flight as flight

from cutwater.protocol.ids import AttemptNumber
from cutwater.runtime.flight import wire
from cutwater.runtime.flight.dialling import Call, dial
from cutwater.runtime.flight.peers import Peer
from cutwater.runtime.flight.probing import interpreter_is_held
from cutwater.runtime.flight.security import end_call

#: An answer usually takes milliseconds.
ANSWER_SECONDS = 2.0


class LinkEnd:
    """One end of a link; a `Connection`."""

    def __init__(self, address: str, connect: Callable[[str], Any]) -> None:
        self._address = address
        self._connect_to = connect
        self._heard = 0
        self._frames: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self.closed = threading.Event()

    # On the loop's thread.

    @property
    def peer(self) -> str:
        return f"the slot at {self._address}"

    def signs_of_life(self) -> int | None:
        return None if self.closed.is_set() else self._heard

    def ping(self) -> None:
        self._frames.put(wire.PING)
        threading.Thread(target=self._probe, args=(self._heard,), name="cutwater-link-probe", daemon=True).start()

    def close(self) -> None:
        self.closed.set()
        self._frames.put(None)

    # On the link's threads.

    def _probe(self, heard_before: int) -> None:
        """A peer whose interpreter is held by a call can't answer, but its process runs: that is a sign of life."""
        self.closed.wait(ANSWER_SECONDS)
        if self._heard != heard_before or self.closed.is_set():
            return
        if interpreter_is_held(self._connect_to(self._address)):
            self._heard += 1

    def accept(self, reader: Any, writer: Any) -> None:
        """In the slot that was called; returns when the call is over."""
        try:
            writer.write_metadata(wire.ACCEPTED)
            self.serve(reader, writer)
        finally:
            self.close()  # also if the caller left before it was answered

    def serve(self, reader: Any, writer: Any) -> None:
        """Counts and answers until the call ends, however it does: the channels themselves say whether they broke."""
        writing = threading.Thread(target=self._write_all, args=(writer,), name="cutwater-link", daemon=True)
        writing.start()
        try:
            while not self.closed.is_set():
                frame = reader.read_chunk().app_metadata
                self._heard += 1
                if frame == wire.PING:
                    self._frames.put(wire.HERE)
        except (StopIteration, flight.FlightError, OSError):
            pass
        finally:
            self.close()
            # The writer must not be used once the call is over.
            writing.join()

    def _write_all(self, writer: Any) -> None:
        with contextlib.suppress(Exception):  # the reading thread sees the same end
            while (frame := self._frames.get()) is not None:
                writer.write_metadata(frame)


class CallingLink(LinkEnd):
    """The end that connects: in the slot that sends."""

    def __init__(
        self,
        peer: Peer,
        options: flight.FlightCallOptions,
        connect: Callable[[str], Any],
        *,
        connect_timeout_seconds: float,
    ) -> None:
        super().__init__(peer.address, connect)
        self._to = peer
        self._options = options
        self._connect_timeout_seconds = connect_timeout_seconds
        self._reader: Any = None
        threading.Thread(target=self._run, name="cutwater-link-out", daemon=True).start()

    def close(self) -> None:
        super().close()
        reader = self._reader
        if reader is not None:
            reader.cancel()

    def _run(self) -> None:
        try:
            call = self._connect()
            if call is not None:
                writer, reader = call
                try:
                    self.serve(reader, writer)
                finally:
                    end_call(writer, reader)
        except flight.FlightError:  # the channels to the same slot fail to connect, too, and say why
            self.close()
        finally:
            self._to.release()

    def _connect(self) -> Call | None:
        timeout_seconds = self._connect_timeout_seconds
        return dial(self._to, self._options, self._began, closed=self.closed, timeout_seconds=timeout_seconds)

    def _began(self, reader: Any) -> None:
        self._reader = reader
        if self.closed.is_set():  # `close` may have looked for the reader too early
            reader.cancel()


def link_text(attempt: AttemptNumber, address: str) -> str:
    """What a link is called: by the attempt, and the slot that makes it."""
    return f"{attempt}.link.{address}"


def caller_of(name: str) -> str | None:
    """The slot that makes the link of this name; None: it is no link's name."""
    _, _, rest = name.partition(".")
    kind, _, address = rest.partition(".")
    return address if kind == "link" and address else None
