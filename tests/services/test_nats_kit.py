"""NATS JetStream under real jobs whose slots, driver and server are killed."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

import pytest
from servers.nats import Nats

import cutwater as cw
from cutwater.connectors.contract import Sink, Source
from cutwater.graph.guarantees import Guarantee
from cutwater.testing.connectors import ALL, Fault, SinkSubject, SourceSubject, check_sink, check_source

from .amounts import RECORDS
from .endpoints import read
from .test_nats import Administrator

SINK_FAULTS = [fault for fault in ALL if fault is not Fault.POISON]


class StreamRead(SourceSubject):
    bounded = False

    def __init__(self, server: Nats) -> None:
        self.server = server
        self.stream = "nothing yet"

    def fill(self, numbers: Iterable[int]) -> None:
        self.stream = f"in{uuid.uuid4().hex}"
        administrator = Administrator(self.server)
        administrator.makes(self.stream)
        administrator.publishes(f"{self.stream}.a", range(len(list(numbers))))

    def source(self) -> Source:
        return cw.sources.nats(self.server.url, self.stream, value="json")

    @staticmethod
    def number_of(record: Any) -> int:
        return int(record)

    def poison(self) -> None:
        Administrator(self.server).does(lambda js: js.publish(f"{self.stream}.a", b"{"))


class StreamWritten(SinkSubject):
    options: ClassVar[dict[str, Any]] = {}

    def __init__(self, server: Nats) -> None:
        self.server = server
        self.clear()

    def clear(self) -> None:
        self.stream = f"out{uuid.uuid4().hex}"
        Administrator(self.server).makes(self.stream)

    def sink(self) -> Sink:
        return cw.sinks.nats(self.server.url, f"{self.stream}.a", **self.options)

    @staticmethod
    def record(number: int) -> Any:
        return str(number)

    def received(self) -> Sequence[int]:
        async def count(js: Any) -> int:
            return int((await js.stream_info(self.stream)).state.messages)

        source = cw.sources.nats(self.server.url, self.stream, value="json")
        return read(source, Administrator(self.server).does(count))[0]


class StreamWrittenWithIds(StreamWritten):
    options: ClassVar[dict[str, Any]] = {"delivery": "fingerprint", "id": str}


@pytest.mark.parametrize("fault", ALL)
def test_a_stream_is_read_exactly_once(spark: Any, nats: Nats, fault: Fault) -> None:
    report = check_source(StreamRead(nats), records=RECORDS, faults=[fault], spark=spark)
    print(report)  # noqa: T201 - for people who want to see the table: pytest -s
    assert report.guarantee is Guarantee.EXACTLY_ONCE


@pytest.mark.parametrize("fault", SINK_FAULTS)
def test_a_stream_is_written_exactly_once(spark: Any, nats: Nats, fault: Fault) -> None:
    report = check_sink(StreamWritten(nats), records=RECORDS, faults=[fault], spark=spark)
    print(report)  # noqa: T201
    assert report.guarantee is Guarantee.EXACTLY_ONCE


@pytest.mark.parametrize("fault", [Fault.SLOTS_KILLED, Fault.SERVER_KILLED])
def test_a_stream_is_written_exactly_once_by_the_records_ids(spark: Any, nats: Nats, fault: Fault) -> None:
    report = check_sink(StreamWrittenWithIds(nats), records=RECORDS, faults=[fault], spark=spark)
    print(report)  # noqa: T201
    assert report.guarantee is Guarantee.EXACTLY_ONCE
