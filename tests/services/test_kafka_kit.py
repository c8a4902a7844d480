"""Kafka under real jobs whose slots, driver and broker are killed: topics that are read, written, or both."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import Any, Literal

import pytest
from servers.kafka import Kafka
from tests.services.amounts import RECORDS
from tests.services.kafka_topics import committed, end_is_stable, fresh_topic, produce

import cutwater as cw
from cutwater.connectors.contract import Sink, Source
from cutwater.graph.guarantees import Guarantee
from cutwater.testing.connectors import (
    ALL,
    Fault,
    SinkSubject,
    SourceSubject,
    check_pair,
    check_sink,
    check_source,
)

SINK_FAULTS = [fault for fault in ALL if fault is not Fault.POISON]
#: Far less than a broker waits for a transaction that nobody ends.
SETTLES_WITHIN_SECONDS = 10.0


class TopicRead(SourceSubject):
    """Of four partitions, to where they end now."""

    def __init__(self, server: Kafka) -> None:
        self.server = server
        self.topic = "nothing yet"

    def fill(self, numbers: Iterable[int]) -> None:
        self.topic = fresh_topic(self.server, partitions=4, prefix="in")
        produce(self.server, self.topic, (b"%d" % number for number in numbers))

    def source(self) -> Source:
        return cw.sources.kafka(self.server.address, self.topic, value="json", bounded=True)

    @staticmethod
    def number_of(record: Any) -> int:
        return int(record)

    def poison(self) -> None:
        produce(self.server, self.topic, [b"{"])


class EndlessTopicRead(TopicRead):
    bounded = False

    def source(self) -> Source:
        return cw.sources.kafka(self.server.address, self.topic, value="json")


class TopicWritten(SinkSubject):
    """Of three partitions, read by a consumer that sees what is committed."""

    delivery: Literal["exactly_once", "at_least_once"] = "exactly_once"

    def __init__(self, server: Kafka) -> None:
        self.server = server
        self.clear()

    def clear(self) -> None:
        self.topic = fresh_topic(self.server, partitions=3, prefix="out")

    def sink(self) -> Sink:
        return cw.sinks.kafka(self.server.address, self.topic, value="json", delivery=self.delivery, key=str)

    @staticmethod
    def record(number: int) -> Any:
        return number

    def received(self) -> Sequence[int]:
        """A commit is done when the broker has said so, and seen by all a moment later."""
        deadline = time.monotonic() + SETTLES_WITHIN_SECONDS
        while self.pending() and time.monotonic() < deadline:
            time.sleep(0.05)
        return [int(message.value()) for message in committed(self.server, self.topic)]

    def pending(self) -> Sequence[str]:
        return [] if end_is_stable(self.server, self.topic) else ["an open transaction"]


class TopicWrittenPlainly(TopicWritten):
    delivery = "at_least_once"


@pytest.mark.trials  # the usual faults strike both in the pair
@pytest.mark.parametrize("fault", ALL)
def test_a_topic_is_read_exactly_once(spark: Any, kafka: Kafka, fault: Fault) -> None:
    report = check_source(TopicRead(kafka), records=RECORDS, faults=[fault], spark=spark)
    print(report)  # noqa: T201 - for people who want to see the table: pytest -s
    assert report.guarantee is Guarantee.EXACTLY_ONCE


@pytest.mark.trials  # the usual faults strike both in the pair
@pytest.mark.parametrize("fault", SINK_FAULTS)
def test_a_topic_is_written_exactly_once(spark: Any, kafka: Kafka, fault: Fault) -> None:
    report = check_sink(TopicWritten(kafka), records=RECORDS, faults=[fault], spark=spark)
    print(report)  # noqa: T201
    assert report.guarantee is Guarantee.EXACTLY_ONCE


@pytest.mark.parametrize("fault", SINK_FAULTS)
def test_each_record_goes_once_from_topic_to_topic(spark: Any, kafka: Kafka, fault: Fault) -> None:
    report = check_pair(EndlessTopicRead(kafka), TopicWritten(kafka), records=RECORDS, faults=[fault], spark=spark)
    print(report)  # noqa: T201
    assert report.guarantee is Guarantee.EXACTLY_ONCE


@pytest.mark.trials  # the usual faults strike both in the pair
@pytest.mark.parametrize("fault", [Fault.SLOTS_KILLED, Fault.SERVER_KILLED])
def test_a_topic_is_written_at_least_once(spark: Any, kafka: Kafka, fault: Fault) -> None:
    report = check_sink(TopicWrittenPlainly(kafka), records=RECORDS, faults=[fault], spark=spark)
    print(report)  # noqa: T201
    assert report.guarantee is Guarantee.AT_LEAST_ONCE
