"""What stands in a topic, as someone else's client sees it."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable
from functools import cache
from typing import Any

from servers.kafka import Kafka

#: Also one that has just been started again.
ANSWERS_WITHIN_SECONDS = 60.0


def fresh_topic(kafka: Kafka, *, partitions: int = 1, prefix: str = "topic") -> str:
    name = f"{prefix}-{uuid.uuid4().hex[:12]}"
    kafka.create_topic(name, partitions=partitions)
    return name


def produce(kafka: Kafka, topic: str, values: Iterable[bytes | None], **message: Any) -> None:
    """Each once, whatever the broker does meanwhile."""
    from confluent_kafka import Producer

    failures: list[Any] = []
    settings = {"bootstrap.servers": kafka.bootstrap_servers, "linger.ms": 5, "enable.idempotence": True}
    producer = Producer(
        {**settings, "delivery.report.only.error": True, "on_delivery": lambda e, _: failures.append(e)}
    )
    for value in values:
        while True:
            try:
                producer.produce(topic, value, **message)
                break
            except BufferError:
                producer.poll(0.1)
    assert (producer.flush(60), failures) == (0, [])


def committed(kafka: Kafka, topic: str) -> list[Any]:
    """All messages that are visible to those who read what is committed, of all partitions."""
    from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition

    consumer = Consumer({
        "bootstrap.servers": kafka.bootstrap_servers, "group.id": "test", "isolation.level": "read_committed",
        "enable.partition.eof": True, "enable.auto.commit": False,
    })  # fmt: skip
    unread = set(consumer.list_topics(topic, timeout=30).topics[topic].partitions)
    consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING) for partition in unread])
    found = []
    try:
        while unread:
            messages = consumer.consume(1, 30) + consumer.consume(10_000, 0)
            assert messages, f"{topic} did not end within 30 s"
            for message in messages:
                if message.error() is None:
                    found.append(message)
                elif message.error().code() == KafkaError._PARTITION_EOF:
                    unread.discard(message.partition())
        return found
    finally:
        consumer.close()


def values(messages: Iterable[Any]) -> list[bytes]:
    return [message.value() for message in messages]


def end_is_stable(kafka: Kafka, topic: str) -> bool:
    """No transaction is open: those who read what is committed see everything up to the end."""
    from confluent_kafka import KafkaException

    deadline = time.monotonic() + ANSWERS_WITHIN_SECONDS
    while True:
        try:
            return _ends_agree(_admin(kafka.bootstrap_servers), topic)
        except KafkaException:  # of a broker that was killed: what the client remembers of it no longer holds
            if time.monotonic() > deadline:
                raise
            _admin.cache_clear()
            time.sleep(0.1)


def _ends_agree(admin: Any, topic: str) -> bool:
    from confluent_kafka import IsolationLevel, TopicPartition
    from confluent_kafka.admin import OffsetSpec

    partitions = admin.list_topics(topic, timeout=30).topics[topic].partitions
    ends = [
        {
            key.partition: future.result().offset
            for key, future in admin.list_offsets(
                {TopicPartition(topic, partition): OffsetSpec.latest() for partition in partitions},
                isolation_level=level,
            ).items()
        }
        for level in (IsolationLevel.READ_COMMITTED, IsolationLevel.READ_UNCOMMITTED)
    ]
    return ends[0] == ends[1]


@cache
def _admin(address: str) -> Any:
    """Kept, as a transaction may be open for milliseconds only."""
    from confluent_kafka.admin import AdminClient

    return AdminClient({"bootstrap.servers": address, "log_level": 0})
