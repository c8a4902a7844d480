"""How many connections go to another slot? One for each attempt, shared by its channels, closed by the last."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from cutwater.protocol.ids import AttemptNumber


class Peer:
    """A shared connection. `hold` before use, `release` after; from any thread."""

    def __init__(self, address: str, open_client: Callable[[str], Any], forget: Callable[[Peer], None]) -> None:
        self.address = address
        self._open_client = open_client
        self._forget = forget
        self._client: Any = None
        self._holders = 0
        self._lock = threading.Lock()

    def hold(self) -> Peer:
        with self._lock:
            self._holders += 1
        return self

    def client(self) -> Any:
        with self._lock:
            if self._client is None:
                self._client = self._open_client(self.address)
            return self._client

    def release(self) -> None:
        with self._lock:
            self._holders -= 1
            if self._holders > 0:
                return
            client, self._client = self._client, None
        self._forget(self)
        if client is not None:
            client.close()


class Peers:
    """The connections of one slot to others."""

    def __init__(self, open_client: Callable[[str], Any]) -> None:
        self._open_client = open_client
        self._peers: dict[tuple[AttemptNumber, str], Peer] = {}
        self._lock = threading.Lock()

    def hold(self, attempt: AttemptNumber, address: str) -> Peer:
        """The connection of this attempt to this address, held once more."""
        with self._lock:
            peer = self._peers.get((attempt, address))
            if peer is None:
                peer = Peer(address, self._open_client, lambda gone: self._forget(attempt, gone))
                self._peers[attempt, address] = peer
            return peer.hold()

    def _forget(self, attempt: AttemptNumber, peer: Peer) -> None:
        with self._lock:
            if self._peers.get((attempt, peer.address)) is peer:
                del self._peers[attempt, peer.address]
