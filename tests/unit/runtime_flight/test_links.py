"""Is a connection that hangs found, and a slot that is merely busy or full left in peace?"""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest

from cutwater.batches import ObjectBatch
from cutwater.errors import ChannelBrokenError
from cutwater.protocol.ids import AttemptNumber
from cutwater.runtime.flight.inbox import QueueLimits
from cutwater.runtime.flight.links import link_text
from cutwater.runtime.flight.outbox import headers_of
from cutwater.runtime.flight.security import AUTHORIZATION, bearer
from cutwater.runtime.flight.transport import FlightTransport
from cutwater.runtime.seams import ChannelId
from cutwater.runtime.watching import ConnectionWatch

from .conftest import JOB_TOKEN, MakeTransport
from .waiting import take, wait_until

ATTEMPT = AttemptNumber(1)
CHANNEL = ChannelId(ATTEMPT, 0, 0, 1)
TIMEOUT_SECONDS = 30.0


class HangingNetwork:
    """Passes bytes on between a client and a server, until it hangs: then they vanish, and connections stay open."""

    def __init__(self, target: str) -> None:
        host, _, port = target.rpartition(":")
        self._target = host, int(port)
        self._hangs = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self._sockets = [self._listener]
        threading.Thread(target=self._accept, daemon=True).start()

    def hang(self) -> None:
        self._hangs.set()

    def close(self) -> None:
        for one in self._sockets:
            one.close()

    def _accept(self) -> None:
        try:
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(self._target)
                self._sockets += [client, server]
                threading.Thread(target=self._pump, args=(client, server), daemon=True).start()
                threading.Thread(target=self._pump, args=(server, client), daemon=True).start()
        except OSError:
            pass

    def _pump(self, source: socket.socket, target: socket.socket) -> None:
        try:
            while data := source.recv(65536):
                if not self._hangs.is_set():
                    target.sendall(data)
            if not self._hangs.is_set():
                target.shutdown(socket.SHUT_WR)
        except OSError:
            pass


class Ends:
    """Two slots with one channel, and a network in between."""

    def __init__(self, sending: FlightTransport, receiving: FlightTransport) -> None:
        self.inbox = receiving.open_input(CHANNEL, "secret")
        self.network = HangingNetwork(receiving.address)
        self.outbox = sending.open_output(CHANNEL, self.network.address, "secret")
        self.sender = ConnectionWatch(sending, ATTEMPT, TIMEOUT_SECONDS)
        self.receiver = ConnectionWatch(receiving, ATTEMPT, TIMEOUT_SECONDS)
        self._receiving = receiving
        assert wait_until(lambda: len(receiving.connections(ATTEMPT)) == 1)

    def heard(self) -> list[int | None]:
        return [connection.signs_of_life() for connection in self._receiving.connections(ATTEMPT)]


@pytest.fixture
def ends(make_transport: MakeTransport) -> Iterator[Ends]:
    limits = QueueLimits(elements_max=2, bytes_max=1 << 20)
    made = Ends(make_transport(limits=limits), make_transport(limits=limits))
    yield made
    made.network.close()


def look_for(watch: ConnectionWatch, seconds: int, start: int = 0) -> None:
    """As a slot's loop would in so many seconds, but at once: nothing that comes late can help."""
    for now in range(start, start + seconds):
        watch.look(float(now))


def test_the_sender_notices_a_connection_that_hangs(ends: Ends) -> None:
    ends.outbox.send(ObjectBatch([1]))
    take(ends.inbox, 1)
    ends.network.hang()
    ends.outbox.send(ObjectBatch([2]))
    assert wait_until(ends.outbox.has_room)  # the channel itself sees nothing
    with pytest.raises(ChannelBrokenError, match=r"the connection with the slot at .* hangs"):
        look_for(ends.sender, 40)


def test_the_receiver_notices_a_connection_that_hangs(ends: Ends) -> None:
    ends.network.hang()
    assert ends.inbox.poll() is None
    with pytest.raises(ChannelBrokenError, match="hangs"):
        look_for(ends.receiver, 40)


def test_an_idle_connection_answers_both_ends(ends: Ends) -> None:
    look_for(ends.sender, 12)
    look_for(ends.receiver, 12)
    # The receiver has heard the sender's ping and the answer to its own; the sender likewise.
    assert wait_until(lambda: ends.heard() == [2])
    look_for(ends.sender, 25, start=12)
    look_for(ends.receiver, 25, start=12)


def test_a_receiver_without_room_whose_loop_is_busy_is_not_suspected(ends: Ends) -> None:
    batch = ObjectBatch([b"x" * 600_000])
    while wait_until(ends.outbox.has_room, seconds=0.3):
        ends.outbox.send(batch)
    assert len(ends.inbox) == 2  # full, and nothing polls it
    look_for(ends.sender, 12)
    assert wait_until(lambda: ends.heard() == [1])
    look_for(ends.receiver, 12)  # its own ping reaches the sender, and the answer comes back past all that waits
    assert wait_until(lambda: ends.heard() == [2])
    look_for(ends.sender, 25, start=12)


def test_a_link_whose_call_ends_before_it_is_served_has_ended(make_transport: MakeTransport) -> None:
    receiving = make_transport()
    receiving.open_input(CHANNEL, "secret")
    headers = [(AUTHORIZATION, bearer(JOB_TOKEN)), *headers_of(link_text(ATTEMPT, "127.0.0.1:1"), "secret")]
    admission = receiving._gate.start_call(None, {name: [value] for name, value in headers})
    admission.call_completed(None)
    assert [link.signs_of_life() for link in receiving.connections(ATTEMPT)] == [None]


def test_a_link_ends_with_the_attempt(make_transport: MakeTransport) -> None:
    sending, receiving = make_transport(), make_transport()
    ends = Ends(sending, receiving)
    sending.drop(ATTEMPT)
    assert sending.connections(ATTEMPT) == []
    assert wait_until(lambda: ends.heard() == [None])
    receiving.drop(ATTEMPT)
    assert receiving.connections(ATTEMPT) == []
    assert wait_until(lambda: not any(thread.name.startswith("cutwater-link") for thread in threading.enumerate()))
    ends.network.close()
