"""RabbitMQ under real jobs whose slots, driver and server are killed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pytest
from servers.rabbitmq import RabbitMQ

import cutwater as cw
from cutwater.connectors.contract import Sink, Source
from cutwater.graph.guarantees import Guarantee
from cutwater.testing.connectors import ALL, Fault, SinkSubject, SourceSubject, check_sink, check_source

from .amounts import RECORDS
from .test_rabbitmq import commit, declare, messages_of, publish

FAULTS = [fault for fault in ALL if fault is not Fault.POISON]


class MessagesRead(SourceSubject):
    bounded = False

    def __init__(self, server: RabbitMQ) -> None:
        self.server = server
        self.queue = "nothing yet"

    def fill(self, numbers: Iterable[int]) -> None:
        self.queue = self.declare()
        publish(self.server, self.queue, len(list(numbers)))

    def declare(self) -> str:
        return declare(self.server)

    @staticmethod
    def number_of(record: Any) -> int:
        return int(record)

    def poison(self) -> None:
        commit(cw.sinks.rabbitmq(self.server.url, routing_key=self.queue, delivery="fingerprint"), [b"\xff"], 1_000)


class StreamRead(MessagesRead):
    def declare(self) -> str:
        return declare(self.server, queue_type="stream")

    def source(self) -> Source:
        return cw.sources.rabbitmq_stream(self.server.url, self.queue, value="text")


class QueueRead(MessagesRead):
    def source(self) -> Source:
        return cw.sources.rabbitmq(self.server.url, self.queue, id="message_id", value="text")


class QueueReadWithoutIds(MessagesRead):
    def source(self) -> Source:
        return cw.sources.rabbitmq(self.server.url, self.queue, value="text")


class Published(SinkSubject):
    def __init__(self, server: RabbitMQ) -> None:
        self.server = server
        self.clear()

    def clear(self) -> None:
        self.queue = declare(self.server)

    def sink(self) -> Sink:
        return cw.sinks.rabbitmq(self.server.url, routing_key=self.queue)

    @staticmethod
    def record(number: int) -> Any:
        return str(number)

    def received(self) -> Sequence[int]:
        return [int(body) for _, body in messages_of(self.server, self.queue)]


class PublishedWithFingerprints(Published):
    def sink(self) -> Sink:
        return cw.sinks.rabbitmq(self.server.url, routing_key=self.queue, delivery="fingerprint")

    def received(self) -> Sequence[int]:
        return [int(body) for body in dict(messages_of(self.server, self.queue)).values()]


@pytest.mark.parametrize("fault", ALL)
def test_a_stream_is_read_exactly_once(spark: Any, rabbitmq: RabbitMQ, fault: Fault) -> None:
    report = check_source(StreamRead(rabbitmq), records=RECORDS, faults=[fault], spark=spark)
    print(report)  # noqa: T201 — for people who want to see the table: pytest -s
    assert report.guarantee is Guarantee.EXACTLY_ONCE


@pytest.mark.parametrize("fault", ALL)
def test_a_queue_with_ids_is_read_exactly_once(spark: Any, rabbitmq: RabbitMQ, fault: Fault) -> None:
    report = check_source(QueueRead(rabbitmq), records=RECORDS, faults=[fault], spark=spark)
    print(report)  # noqa: T201
    assert report.guarantee is Guarantee.EXACTLY_ONCE


@pytest.mark.trials
@pytest.mark.parametrize("fault", [Fault.SLOTS_KILLED, Fault.SERVER_KILLED])
def test_a_queue_without_ids_is_read_at_least_once(spark: Any, rabbitmq: RabbitMQ, fault: Fault) -> None:
    report = check_source(QueueReadWithoutIds(rabbitmq), records=RECORDS, faults=[fault], spark=spark)
    print(report)  # noqa: T201
    assert report.guarantee is Guarantee.AT_LEAST_ONCE


@pytest.mark.trials
@pytest.mark.parametrize("fault", [Fault.SLOTS_KILLED, Fault.SERVER_KILLED, Fault.SERVER_PAUSED])
def test_messages_are_published_at_least_once(spark: Any, rabbitmq: RabbitMQ, fault: Fault) -> None:
    report = check_sink(Published(rabbitmq), records=RECORDS, faults=[fault], spark=spark)
    print(report)  # noqa: T201
    assert report.guarantee is Guarantee.AT_LEAST_ONCE


@pytest.mark.parametrize("fault", FAULTS)
def test_messages_with_fingerprints_are_published_exactly_once(spark: Any, rabbitmq: RabbitMQ, fault: Fault) -> None:
    report = check_sink(PublishedWithFingerprints(rabbitmq), records=RECORDS, faults=[fault], spark=spark)
    print(report)  # noqa: T201
    assert report.guarantee is Guarantee.EXACTLY_ONCE
