"""How does a call to another slot begin, when that slot may not be ready yet?"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any, TypeAlias

import pyarrow.flight as flight

from cutwater.runtime.flight.peers import Peer
from cutwater.runtime.flight.security import end_call

RETRY_SECONDS = 0.02
RETRY_SECONDS_MAX = 0.5

Call: TypeAlias = tuple[Any, Any]
"""Its writer and its reader."""


def dial(
    peer: Peer,
    options: flight.FlightCallOptions,
    began: Callable[[Any], None],
    *,
    closed: threading.Event,
    timeout_seconds: float,
) -> Call | None:
    """A call that the other slot accepted; None: closed meanwhile. Blocks; a refusal is final and raised.

    `began` is called with the reader of each try, so that another thread can cancel it.
    """
    deadline = time.monotonic() + timeout_seconds
    pause_seconds = RETRY_SECONDS
    while not closed.is_set():
        try:
            return _call_once(peer, options, began)
        except flight.FlightUnavailableError:
            if time.monotonic() >= deadline:
                raise
        time.sleep(pause_seconds)
        pause_seconds = min(pause_seconds * 2, RETRY_SECONDS_MAX)
    return None


def _call_once(peer: Peer, options: flight.FlightCallOptions, began: Callable[[Any], None]) -> Call:
    descriptor = flight.FlightDescriptor.for_command(b"channel")
    writer, reader = peer.client().do_exchange(descriptor, options=options)
    try:
        began(reader)
        reader.read_chunk()
    except BaseException:
        end_call(writer, reader)
        raise
    return writer, reader
