"""Which of a slot's connections hang?

The shell around `ConnectionLiveness`. It looks a few times a second, on the loop's thread; between two looks nothing is
done for a batch, and while records flow no ping is sent.
"""

from __future__ import annotations

from typing import assert_never

from cutwater.errors import ChannelBrokenError
from cutwater.protocol.connection_liveness import ConnectionLiveness, Looked, SendPing, SuspectConnection
from cutwater.protocol.ids import AttemptNumber
from cutwater.runtime.seams import Connection, Transport


class ConnectionWatch:
    """The connections of one attempt."""

    def __init__(self, transport: Transport, attempt: AttemptNumber, timeout_seconds: float) -> None:
        self._transport = transport
        self._attempt = attempt
        self._timeout_seconds = timeout_seconds
        self._watched: dict[Connection, ConnectionLiveness] = {}

    def look(self, now_seconds: float) -> None:
        """Raises `ChannelBrokenError` when a connection hangs."""
        for connection in self._transport.connections(self._attempt):
            liveness = self._watched.get(connection)
            if liveness is None:
                liveness = self._watched[connection] = ConnectionLiveness(self._timeout_seconds)
            for effect in liveness.handle(Looked(now_seconds, connection.signs_of_life())):
                match effect:
                    case SendPing():
                        connection.ping()
                    case SuspectConnection(silent_seconds):
                        raise _hangs(connection, self._attempt, silent_seconds)
                    case _:
                        assert_never(effect)


def _hangs(connection: Connection, attempt: AttemptNumber, silent_seconds: float) -> ChannelBrokenError:
    return ChannelBrokenError(
        f"the connection with {connection.peer} hangs",
        detail=f"attempt {attempt}: nothing was heard for {silent_seconds:.1f} s, not even the answer to a ping",
        hint="look for a firewall or a network that drops packets between the two hosts; "
        "heartbeat_timeout says how long a silence may be",
    )
