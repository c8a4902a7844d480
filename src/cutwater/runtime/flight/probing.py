"""Is a slot that says nothing dead, or is it a call that holds its interpreter?

A function in C that keeps Python's global lock (a regular expression without end, a library that never lets go)
silences every Python thread of its process, those that give signs of life too. gRPC's own threads don't need the lock:
they take a connection and its first call, which then waits for Python. So a call without an answer, on a new connection
that could be made, means a process that runs and an interpreter that is held.
"""

from __future__ import annotations

from contextlib import closing
from typing import Any

import pyarrow.flight as flight

from cutwater.runtime.flight.security import CONNECT_TIMEOUT_MS

#: Much longer than it takes to find out that no connection can be made.
PROBE_SECONDS = 2 * CONNECT_TIMEOUT_MS / 1000


def interpreter_is_held(client: Any) -> bool:
    """Asks a slot's server something that it would refuse at once. Blocks for some seconds; closes the client."""
    with closing(client):
        try:
            list(client.do_action("", options=flight.FlightCallOptions(timeout=PROBE_SECONDS)))
        except flight.FlightTimedOutError:
            return True
        except Exception:  # refused: Python runs there, so its silence has another reason; or not reached at all
            return False
    return False
