"""How do elements get from slot to slot?

One Flight server for each slot; one DoExchange call for each channel, made by the sender. The headers of the call show
that the caller belongs to the job, then name the channel and show the attempt's token; they are checked in this order,
before the call reaches anything else. One more call for each connection, the link, carries pings.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import pyarrow.flight as flight

from cutwater.protocol.ids import AttemptNumber
from cutwater.runtime.flight import wire
from cutwater.runtime.flight.credentials import Credentials
from cutwater.runtime.flight.inbox import Inbox, QueueLimits
from cutwater.runtime.flight.links import CallingLink, LinkEnd, caller_of, link_text
from cutwater.runtime.flight.outbox import ATTEMPT_HEADER, CHANNEL_HEADER, Outbox, channel_text, headers_of
from cutwater.runtime.flight.peers import Peers
from cutwater.runtime.flight.security import (
    address_of,
    call_options,
    connect,
    first_header,
    refusal,
    require_token,
    server_arguments,
)
from cutwater.runtime.seams import ChannelId, Connection

CONNECT_TIMEOUT_SECONDS = 10.0
SHUTDOWN_TIMEOUT_SECONDS = 2.0


class FlightTransport:
    """A `Transport`. All methods are for the loop's thread and never block, `close` apart."""

    def __init__(
        self,
        host: str,
        on_ready: Callable[[], None],
        *,
        token: str,
        tls: Credentials | None = None,
        limits: QueueLimits | None = None,
        connect_timeout_seconds: float = CONNECT_TIMEOUT_SECONDS,
    ) -> None:
        self._on_ready = on_ready
        self._limits = limits or QueueLimits()
        self._connect_timeout_seconds = connect_timeout_seconds
        self._token = token
        self._connect = partial(connect, tls=tls)
        self._gate = _Gate(token, self._connect)
        self._peers = Peers(self._connect)
        self._outboxes: dict[AttemptNumber, list[Outbox]] = {}
        self._links: dict[AttemptNumber, dict[str, CallingLink]] = {}
        self._server = _ChannelServer(self._gate, **server_arguments(host, tls))
        self._address = address_of(host, self._server.port)

    @property
    def address(self) -> str:
        return self._address

    def open_input(self, channel: ChannelId, token: str) -> Inbox:
        inbox = Inbox(channel, self._limits, self._on_ready)
        self._gate.admit(channel, token, inbox)
        return inbox

    def open_output(self, channel: ChannelId, address: str, token: str) -> Outbox:
        outbox = Outbox(
            channel,
            self._peers.hold(channel.attempt, address),
            headers=headers_of(channel_text(channel), token),
            token=self._token,
            limits=self._limits,
            on_ready=self._on_ready,
            connect_timeout_seconds=self._connect_timeout_seconds,
        )
        self._outboxes.setdefault(channel.attempt, []).append(outbox)
        self._link(channel.attempt, address, token)
        return outbox

    def connections(self, attempt: AttemptNumber) -> list[Connection]:
        return [*self._links.get(attempt, {}).values(), *self._gate.links(attempt)]

    def drop(self, attempt: AttemptNumber) -> None:
        self._gate.shut(attempt)
        for link in self._links.pop(attempt, {}).values():
            link.close()
        for outbox in self._outboxes.pop(attempt, []):
            outbox.close()

    def close(self) -> None:
        """Drops every attempt and stops listening; waits a moment for the threads of calls."""
        for attempt in [*self._outboxes, *self._gate.attempts()]:
            self.drop(attempt)
        shut_down(self._server)

    def _link(self, attempt: AttemptNumber, address: str, token: str) -> None:
        links = self._links.setdefault(attempt, {})
        if address not in links:
            links[address] = CallingLink(
                self._peers.hold(attempt, address),
                call_options(self._token, headers_of(link_text(attempt, self._address), token)),
                self._connect,
                connect_timeout_seconds=self._connect_timeout_seconds,
            )


def shut_down(server: Any) -> None:
    """Stops a Flight server, but waits no longer than a moment for calls of peers that hang."""
    thread = threading.Thread(target=server.shutdown, name="cutwater-flight-shutdown", daemon=True)
    thread.start()
    thread.join(SHUTDOWN_TIMEOUT_SECONDS)


class _Gate(flight.ServerMiddlewareFactory):  # type: ignore[misc]
    """Who may connect to which channel. Used by the loop's thread and by gRPC's."""

    def __init__(self, token: str, connect: Callable[[str], Any]) -> None:
        self._connect = connect
        self._lock = threading.Lock()
        self._token = token
        self._tokens: dict[AttemptNumber, str] = {}
        self._inboxes: dict[AttemptNumber, dict[str, Inbox]] = {}
        self._links: dict[AttemptNumber, dict[str, LinkEnd]] = {}
        self._newest_shut = -1

    def admit(self, channel: ChannelId, token: str, inbox: Inbox) -> None:
        with self._lock:
            known = self._tokens.setdefault(channel.attempt, token)
            assert known == token, "an attempt has one token"
            self._inboxes.setdefault(channel.attempt, {})[channel_text(channel)] = inbox

    def shut(self, attempt: AttemptNumber) -> None:
        with self._lock:
            self._tokens.pop(attempt, None)
            inboxes = self._inboxes.pop(attempt, {})
            links = self._links.pop(attempt, {})
            self._newest_shut = max(self._newest_shut, attempt)
        for inbox in inboxes.values():
            inbox.close()
        for link in links.values():
            link.close()

    def links(self, attempt: AttemptNumber) -> list[LinkEnd]:
        with self._lock:
            return list(self._links.get(attempt, {}).values())

    def attempts(self) -> list[AttemptNumber]:
        with self._lock:
            return list(self._inboxes)

    def start_call(self, info: Any, headers: Mapping[str, Sequence[str | bytes]]) -> _Admission:
        """On a gRPC thread, before the call: finds the channel or refuses. Unavailable: try again later."""
        require_token(headers, self._token)
        name = first_header(headers, CHANNEL_HEADER)
        attempt_text = name.partition(".")[0]
        if not attempt_text.isascii() or not attempt_text.isdigit():
            raise refusal()
        attempt = AttemptNumber(int(attempt_text))
        with self._lock:
            token = self._tokens.get(attempt)
            if token is None:
                if attempt <= self._newest_shut:
                    raise flight.FlightUnauthenticatedError(f"attempt {attempt} is over here")
                raise flight.FlightUnavailableError(f"attempt {attempt} is not deployed here yet")
            require_token(headers, token, ATTEMPT_HEADER)
            if (caller := caller_of(name)) is not None:
                return _Admission(self._new_link(attempt, caller))
            inbox = self._inboxes[attempt].get(name)
            if inbox is None:
                raise flight.FlightUnavailableError(f"channel {name} is not open here yet")
            if inbox.connected:
                raise flight.FlightUnauthenticatedError(f"channel {name} is connected already")
            inbox.connected = True
            return _Admission(inbox)

    def _new_link(self, attempt: AttemptNumber, caller: str) -> LinkEnd:
        links = self._links.setdefault(attempt, {})
        if caller in links and links[caller].signs_of_life() is not None:
            raise flight.FlightUnauthenticatedError(f"the slot at {caller} is linked already")
        link = links[caller] = LinkEnd(caller, self._connect)
        return link


class _Admission(flight.ServerMiddleware):  # type: ignore[misc]
    """The channel, or the link, that the call was let in for."""

    def __init__(self, end: Inbox | LinkEnd) -> None:
        self.end = end

    def call_completed(self, exception: Any) -> None:
        """Also of a call that ended before `do_exchange`, because its caller left or was lost so early."""
        if isinstance(self.end, LinkEnd):
            self.end.close()


class _ChannelServer(flight.FlightServerBase):  # type: ignore[misc]
    def __init__(self, gate: _Gate, **arguments: Any) -> None:
        super().__init__(middleware={"gate": gate}, **arguments)

    def do_exchange(self, context: Any, descriptor: Any, reader: Any, writer: Any) -> None:
        end: Inbox | LinkEnd = context.get_middleware("gate").end
        if isinstance(end, LinkEnd):
            end.accept(reader, writer)
            return
        writer.write_metadata(wire.ACCEPTED)
        if not end.fill_from(reader):
            # A call that ends well looks to its sender as if all had been taken.
            raise flight.FlightCancelledError("the receiver dropped the attempt")
