from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from cutwater.runtime.flight.transport import FlightTransport

#: What all slots of a job know.
JOB_TOKEN = "job's secret"

MakeTransport = Callable[..., FlightTransport]


@pytest.fixture
def make_transport() -> Iterator[MakeTransport]:
    """Transports on the loopback interface, closed at the end."""
    transports: list[FlightTransport] = []

    def make(**options: Any) -> FlightTransport:
        options = {"on_ready": lambda: None, "token": JOB_TOKEN, **options}
        transports.append(FlightTransport("127.0.0.1", **options))
        return transports[-1]

    yield make
    for transport in transports:
        transport.close()
