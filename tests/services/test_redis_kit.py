"""Redis under real jobs whose slots, driver and server are killed."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence
from typing import Any

import pytest
from servers.redis import Redis

import cutwater as cw
from cutwater.connectors.contract import Sink, Source
from cutwater.graph.guarantees import Guarantee
from cutwater.testing.connectors import ALL, Fault, SinkSubject, SourceSubject, check_sink, check_source

from .amounts import RECORDS

redis_client = pytest.importorskip("redis")

SINK_FAULTS = [fault for fault in ALL if fault is not Fault.POISON]


class StreamRead(SourceSubject):
    bounded = False

    def __init__(self, server: Redis) -> None:
        self.server = server
        self.stream = "nothing yet"

    def fill(self, numbers: Iterable[int]) -> None:
        self.stream = f"in-{uuid.uuid4().hex}"
        with redis_client.Redis.from_url(self.server.how_to_connect) as client:
            together = client.pipeline(transaction=False)
            for number in numbers:
                together.xadd(self.stream, {"n": number})
            together.execute()

    def source(self) -> Source:
        return cw.sources.redis_stream(self.server.how_to_connect, self.stream, value=_number)

    @staticmethod
    def number_of(record: Any) -> int:
        return int(record)

    def poison(self) -> None:
        with redis_client.Redis.from_url(self.server.how_to_connect) as client:
            client.xadd(self.stream, {"n": "nothing that counts"})


def _number(entry_id: str, fields: dict[bytes, bytes]) -> int:
    return int(fields[b"n"])


class StreamWritten(SinkSubject):
    delivery = "exactly_once"

    def __init__(self, server: Redis) -> None:
        self.server = server
        self.clear()

    def clear(self) -> None:
        self.stream = f"out-{uuid.uuid4().hex}"

    def sink(self) -> Sink:
        return cw.sinks.redis_stream(self.server.how_to_connect, self.stream, delivery=self.delivery)

    def received(self) -> Sequence[int]:
        with redis_client.Redis.from_url(self.server.how_to_connect) as client:
            return [int(fields[b"n"]) for _, fields in client.xrange(self.stream)]


class StreamWrittenPlainly(StreamWritten):
    delivery = "at_least_once"


class KeysSet(SinkSubject):
    def __init__(self, server: Redis) -> None:
        self.server = server
        self.clear()

    def clear(self) -> None:
        self.prefix = f"{uuid.uuid4().hex}:"

    def sink(self) -> Sink:
        return cw.sinks.redis(self.server.how_to_connect, key="n", value="n", prefix=self.prefix)

    def received(self) -> Sequence[int]:
        with redis_client.Redis.from_url(self.server.how_to_connect) as client:
            keys = list(client.scan_iter(f"{self.prefix}*", count=10_000))
            return [int(value) for value in client.mget(keys)] if keys else []


@pytest.mark.parametrize("fault", ALL)
def test_a_stream_is_read_exactly_once(spark: Any, redis: Redis, fault: Fault) -> None:
    report = check_source(StreamRead(redis), records=RECORDS, faults=[fault], spark=spark)
    print(report)  # noqa: T201 - for people who want to see the table: pytest -s
    assert report.guarantee is Guarantee.EXACTLY_ONCE


@pytest.mark.parametrize("fault", SINK_FAULTS)
def test_a_stream_is_written_exactly_once(spark: Any, redis: Redis, fault: Fault) -> None:
    report = check_sink(StreamWritten(redis), records=RECORDS, faults=[fault], spark=spark)
    print(report)  # noqa: T201
    assert report.guarantee is Guarantee.EXACTLY_ONCE


@pytest.mark.parametrize("fault", SINK_FAULTS)
def test_keys_are_set_exactly_once_in_effect(spark: Any, redis: Redis, fault: Fault) -> None:
    report = check_sink(KeysSet(redis), records=RECORDS, faults=[fault], spark=spark)
    print(report)  # noqa: T201
    assert report.guarantee is Guarantee.EXACTLY_ONCE


@pytest.mark.trials
@pytest.mark.parametrize("fault", [Fault.SLOTS_KILLED, Fault.SERVER_KILLED])
def test_a_stream_is_written_at_least_once(spark: Any, redis: Redis, fault: Fault) -> None:
    report = check_sink(StreamWrittenPlainly(redis), records=RECORDS, faults=[fault], spark=spark)
    print(report)  # noqa: T201
    assert report.guarantee is Guarantee.AT_LEAST_ONCE
