"""How is a response read that never ends, without waiting for it?

The standard library reads a response by blocking. A thread does that, and puts what came into a queue; whoever takes
from the queue decides how long to wait. When the response is closed, its socket is shut down, and the thread ends.
"""

from __future__ import annotations

import contextlib
import http.client
import queue
import socket
import ssl
import threading
from collections.abc import Mapping
from typing import TypeAlias
from urllib.parse import urljoin, urlsplit

from cutwater.connectors.failures import PeerError
from cutwater.errors import ConfigurationError, OperationsError

CONNECT_TIMEOUT_SECONDS = 10.0
READ_BYTES_MAX = 256 << 10
#: Pieces that wait.
QUEUED_MAX = 16
REDIRECTIONS_MAX = 5

Piece: TypeAlias = "bytes | Exception | None"
"""What came; what went wrong; None: the response is complete."""


class StreamedResponse:
    """A response to GET. Used by one thread, beside its own."""

    def __init__(
        self,
        url: str,
        headers: Mapping[str, str],
        *,
        context: ssl.SSLContext | None,
        idle_seconds: float | None,
    ) -> None:
        """Raises when there is no good answer. `idle_seconds`: silence for longer means that the server is gone."""
        self._url = url
        self._socket, self._response = _get(url, headers, context)
        #: The server has nothing, and doesn't want to be asked again.
        self.has_ended = self._response.status == http.client.NO_CONTENT
        self._socket.settimeout(idle_seconds)
        self._queue: queue.Queue[Piece] = queue.Queue(QUEUED_MAX)
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._pump, name=f"cutwater-{display_name(url)}", daemon=True)
        self._thread.start()

    def take(self, wait_seconds: float) -> bytes | None:
        """The next bytes; empty: none came in time. None: the response is complete. `PeerError`: it broke off."""
        try:
            piece = self._queue.get(timeout=wait_seconds)
        except queue.Empty:
            return b""
        if isinstance(piece, Exception):
            raise PeerError(f"the response of {display_name(self._url)} broke off", detail=_words(piece)) from piece
        return piece

    def close(self) -> None:
        self._closed.set()
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        with contextlib.suppress(queue.Empty):
            while True:
                self._queue.get_nowait()
        self._thread.join(1.0)
        self._response.close()
        self._socket.close()

    def _pump(self) -> None:
        try:
            while data := self._response.read1(READ_BYTES_MAX):
                self._put(data)
            self._put(None)
        except Exception as error:
            self._put(error)

    def _put(self, piece: Piece) -> None:
        while not self._closed.is_set():
            with contextlib.suppress(queue.Full):
                self._queue.put(piece, timeout=0.1)
                return


def display_name(url: str) -> str:
    """Without user name, password and query, which may hold a token."""
    parts = urlsplit(url)
    port = f":{parts.port}" if parts.port else ""
    return f"{parts.scheme}://{parts.hostname}{port}{parts.path}"


def _get(
    url: str, headers: Mapping[str, str], context: ssl.SSLContext | None
) -> tuple[socket.socket, http.client.HTTPResponse]:
    for _ in range(REDIRECTIONS_MAX):
        connection, response = _answer(url, headers, context)
        if response.status in (200, 204):
            assert connection is not None
            return connection, response
        location = response.getheader("Location")
        retry_after = response.getheader("Retry-After") or ""
        response.close()
        if connection is not None:
            connection.close()
        if response.status not in (301, 302, 303, 307, 308) or location is None:
            raise _refused(url, response.status, response.reason, retry_after)
        target = urljoin(url, location)
        if urlsplit(target)[:2] != urlsplit(url)[:2]:  # credentials are for those to whom they were given
            headers = {
                name: value for name, value in headers.items() if name.lower() not in ("authorization", "cookie")
            }
        url = target
    raise OperationsError(f"{display_name(url)} is redirected again and again")


def _answer(
    url: str, headers: Mapping[str, str], context: ssl.SSLContext | None
) -> tuple[socket.socket | None, http.client.HTTPResponse]:
    parts = urlsplit(url)
    assert parts.hostname is not None
    connection: http.client.HTTPConnection
    if parts.scheme == "https":
        connection = http.client.HTTPSConnection(
            parts.hostname, parts.port, timeout=CONNECT_TIMEOUT_SECONDS, context=context
        )
    else:
        connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=CONNECT_TIMEOUT_SECONDS)
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    try:
        connection.connect()
        # Kept here: the connection lets go of it when the response ends with it.
        its_socket = connection.sock
        its_socket.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        connection.request("GET", target, headers=dict(headers))
        return its_socket, connection.getresponse()
    except (OSError, http.client.HTTPException) as error:
        connection.close()
        raise PeerError(
            f"{display_name(url)} can't be reached", detail=_words(error), hint="is the server up, and the URL right?"
        ) from error


def _refused(url: str, status: int, reason: str, retry_after: str) -> Exception:
    fact = f"{display_name(url)} answered {status} {reason}".rstrip()
    if status in (401, 403):
        return ConfigurationError(fact, hint='give credentials in headers, e.g. {"Authorization": "Bearer …"}')
    if status >= 500 or status in (408, 425, 429):
        error = PeerError(fact, hint="it is asked again")
        error.pause_seconds = float(retry_after) if retry_after.isdigit() else 0.0
        return error
    return OperationsError(fact, hint="is the URL right?")


def _words(error: Exception) -> str:
    return str(error) or type(error).__name__
