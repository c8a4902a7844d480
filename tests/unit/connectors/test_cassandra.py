from __future__ import annotations

from typing import Any

import pytest

from cutwater.connectors import sinks
from cutwater.connectors.cassandra.sink import UnderWay
from cutwater.connectors.contract import Delivery
from cutwater.errors import ConfigurationError


def test_the_sink_is_idempotent() -> None:
    sink = sinks.cassandra("localhost", "shop", "orders")
    assert (sink.name, sink.delivery) == ("cassandra(shop.orders)", Delivery.IDEMPOTENT)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: sinks.cassandra([], "k", "t"), "hosts must name"),
        (lambda: sinks.cassandra("h", "", "t"), "keyspace must be"),
        (lambda: sinks.cassandra("h", "k", "t", port=0), "port must be"),
        (lambda: sinks.cassandra("h", "k", "t", concurrency=0), "concurrency must be"),
    ],
)
def test_what_can_not_be_is_refused_on_the_users_line(make: Any, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        make()


def test_what_failed_under_way_is_raised_when_it_is_waited_for() -> None:
    under_way = UnderWay(2)
    under_way.begin()
    under_way.failed(ValueError("refused"))
    with pytest.raises(ValueError, match="refused"):
        under_way.wait()
