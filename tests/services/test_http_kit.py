"""HTTP streams under real jobs whose slots, driver and server are killed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

import cutwater as cw
from cutwater.connectors.contract import Source
from cutwater.graph.guarantees import Guarantee
from cutwater.testing.connectors import ALL, Fault, SourceSubject, check_source

from .firehose import COUNT
from .test_http import Firehose


class EventsRead(SourceSubject):
    bounded = False

    def __init__(self, server: Firehose) -> None:
        self.server = server

    def fill(self, numbers: Iterable[int]) -> None:
        """It sends as many as it does."""
        assert len(list(numbers)) == COUNT

    def source(self) -> Source:
        return cw.sources.http_stream(f"{self.server.how_to_connect}/events", value="json", replays=True)

    @staticmethod
    def number_of(record: Any) -> int:
        return int(record)


@pytest.mark.parametrize("fault", [fault for fault in ALL if fault is not Fault.POISON])
def test_a_server_that_replays_is_read_exactly_once(spark: Any, fault: Fault) -> None:
    with Firehose() as server:
        report = check_source(EventsRead(server), records=COUNT, faults=[fault], spark=spark)
    print(report)  # noqa: T201 - for people who want to see the table: pytest -s
    assert report.guarantee is Guarantee.EXACTLY_ONCE
