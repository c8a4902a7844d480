"""How do the socket connectors reach their peer?"""

from __future__ import annotations

import socket

from cutwater.connectors.failures import PeerError

_CONNECT_TIMEOUT_SECONDS = 5.0


def connect(host: str, port: int) -> socket.socket:
    """A connected TCP socket; waits a few seconds at the most."""
    try:
        connection = socket.create_connection((host, port), timeout=_CONNECT_TIMEOUT_SECONDS)
    except OSError as error:
        raise PeerError(
            f"can't connect to {host}:{port}",
            detail=str(error),
            hint="start the server first, and name it as the slots see it ('localhost' is the slot's own machine)",
        ) from error
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def connection_broke(host: str, port: int, error: OSError) -> PeerError:
    return PeerError(
        f"the connection to {host}:{port} broke",
        detail=str(error),
        hint="the job connects again when it restarts, if its restart strategy allows",
    )
