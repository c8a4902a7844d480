"""Kafka beside confluent-kafka, the client that the connector is built on."""

from __future__ import annotations

import time
from typing import Any, ClassVar

import msgspec
import pyarrow as pa
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

import cutwater as cw
from benchmarks.connectors.cases import EPOCH_SECONDS, Case, SinkCase, SourceCase, payload
from benchmarks.connectors.ratios import Run, Stopwatch
from cutwater.connectors.contract import Sink, Source

PARTITIONS = 4
MESSAGES_PER_CALL = 10_000
SCHEMA = pa.schema([("id", pa.int64()), ("key", pa.string()), ("value", pa.int64()), ("text", pa.string())])


def cases(servers: str) -> list[Case]:
    return [
        KafkaSource(servers),
        KafkaJsonSource(servers),
        KafkaTypedSource(servers),
        KafkaTransactionalSink(servers),
        KafkaSink(servers),
    ]


class KafkaSource(SourceCase):
    name = "Kafka, bytes"
    asked = 0.7
    bare_does = "confluent-kafka, consume(10,000), fetch.queue.backoff.ms=10"
    topic: ClassVar[str] = "source"
    options: ClassVar[dict[str, Any]] = {}

    def __init__(self, servers: str) -> None:
        self.servers = servers

    def fill(self) -> None:
        if make_topic(self.servers, f"{self.topic}-{self.rows}"):
            send_plainly(self.servers, f"{self.topic}-{self.rows}", self.rows, Stopwatch(self.rows))

    def source(self) -> Source:
        return cw.sources.kafka(self.servers, f"{self.topic}-{self.rows}", bounded=True, **self.options)

    def bare(self) -> Run:
        consumer = Consumer(
            {
                "bootstrap.servers": self.servers,
                "group.id": "bare",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                # As the connector: by default it waits a second when it holds enough of a partition.
                "fetch.queue.backoff.ms": 10,
            }
        )
        consumer.assign([TopicPartition(f"{self.topic}-{self.rows}", number, 0) for number in range(PARTITIONS)])
        watch = Stopwatch(self.rows)
        while True:
            values = []
            for message in consumer.consume(MESSAGES_PER_CALL, 0.1):
                if message.error() is not None:
                    raise KafkaException(message.error())
                values.append(message.value())
            if values:
                self.use(values)
                if watch.saw(len(values)):
                    break
        run = watch.end()
        consumer.close()
        return run

    def use(self, values: list[bytes | None]) -> None:
        """What a user does with them."""


class KafkaJsonSource(KafkaSource):
    name = "Kafka, JSON as Python values"
    bare_does = "the same, and msgspec for each message"
    options: ClassVar[dict[str, Any]] = {"value": "json"}

    def use(self, values: list[bytes | None]) -> None:
        decode = msgspec.json.decode
        for value in values:
            if value is not None:
                decode(value)


class KafkaTypedSource(KafkaJsonSource):
    name = "Kafka, JSON as typed columns"
    bare_does = "the same, and RecordBatch.from_pylist"
    options: ClassVar[dict[str, Any]] = {"schema": SCHEMA}

    def use(self, values: list[bytes | None]) -> None:
        rows = [msgspec.json.decode(value) for value in values if value is not None]
        pa.RecordBatch.from_pylist(rows, schema=SCHEMA)


class KafkaSink(SinkCase):
    name = "Kafka, at least once"
    bare_does = "confluent-kafka, an idempotent producer"
    options: ClassVar[dict[str, Any]] = {"delivery": "at_least_once"}
    topic: ClassVar[str] = "sink"
    record = staticmethod(payload)

    def __init__(self, servers: str) -> None:
        self.servers = servers
        self.runs = 0

    def clear(self) -> None:
        self.runs += 1
        make_topic(self.servers, self.current)

    @property
    def current(self) -> str:
        return f"{self.topic}-{self.rows}-{self.runs}"

    def sink(self) -> Sink:
        return cw.sinks.kafka(self.servers, self.current, **self.options)

    def bare(self) -> Run:
        watch = Stopwatch(self.rows)
        return send_plainly(self.servers, self.current, self.rows, watch)

    def received(self) -> int | None:
        return count_messages(self.servers, self.current)


class KafkaTransactionalSink(KafkaSink):
    name = "Kafka, exactly once"
    asked = 0.5
    bare_does = "confluent-kafka, a transaction every second"
    options: ClassVar[dict[str, Any]] = {}
    topic: ClassVar[str] = "transactional-sink"

    def bare(self) -> Run:
        producer = Producer(
            {"bootstrap.servers": self.servers, "transactional.id": self.current, **producer_settings()}
        )
        producer.init_transactions()
        watch = Stopwatch(self.rows)
        watch.begin()
        producer.begin_transaction()
        due_seconds = time.monotonic() + EPOCH_SECONDS
        for first in range(0, self.rows, 1000):
            produce(producer, self.current, first, min(first + 1000, self.rows))
            if time.monotonic() >= due_seconds:
                producer.commit_transaction()
                producer.begin_transaction()
                due_seconds = time.monotonic() + EPOCH_SECONDS
        producer.commit_transaction()
        return watch.end()


def producer_settings() -> dict[str, Any]:
    """More may wait than by default, as in the connector."""
    return {"enable.idempotence": True, "queue.buffering.max.messages": 200_000}


def send_plainly(servers: str, topic: str, rows: int, watch: Stopwatch) -> Run:
    producer = Producer({"bootstrap.servers": servers, **producer_settings()})
    watch.begin()
    for first in range(0, rows, 1000):
        produce(producer, topic, first, min(first + 1000, rows))
    producer.flush()
    return watch.end()


def produce(producer: Producer, topic: str, first: int, end: int) -> None:
    """The usual loop: one call for each message; when the client's queue is full, wait for it."""
    for index in range(first, end):
        while True:
            try:
                producer.produce(topic, payload(index))
                break
            except BufferError:
                producer.poll(0.1)
    producer.poll(0)


def make_topic(servers: str, name: str, *, partitions: int = PARTITIONS) -> bool:
    """False: it was there."""
    admin = AdminClient({"bootstrap.servers": servers})
    try:
        admin.create_topics([NewTopic(name, num_partitions=partitions, replication_factor=1)])[name].result(30)
    except KafkaException as error:
        if error.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS:
            return False
        raise
    return True


def count_messages(servers: str, topic: str) -> int:
    """That those can see who read what is committed."""
    settings = {
        "bootstrap.servers": servers,
        "group.id": "count",
        "isolation.level": "read_committed",
        "enable.partition.eof": True,
        "enable.auto.commit": False,
    }
    consumer = Consumer(settings)
    consumer.assign([TopicPartition(topic, number, 0) for number in range(PARTITIONS)])
    found, open_partitions = 0, PARTITIONS
    while open_partitions:
        for message in consumer.consume(MESSAGES_PER_CALL, 1.0):
            if message.error() is None:
                found += 1
            elif message.error().code() == KafkaError._PARTITION_EOF:
                open_partitions -= 1
            else:
                raise KafkaException(message.error())
    consumer.close()
    return found
