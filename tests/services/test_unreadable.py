"""Does one message that can't be decoded cost only itself, in every source of a real server?"""

from __future__ import annotations

import time
import uuid
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
import redis as redis_client
from servers.kafka import Kafka
from servers.kinesis import Kinesis
from servers.nats import Nats
from servers.rabbitmq import RabbitMQ
from servers.redis import Redis
from tests.services.kafka_topics import fresh_topic, produce

import cutwater as cw
from cutwater.batches import rows_of
from cutwater.connectors.contract import ReaderContext, Source

from .test_http import Firehose
from .test_kinesis import Outside
from .test_nats import Administrator
from .test_rabbitmq import commit, declare

SCHEMA = pa.schema([("n", pa.int64())])
TYPED = pytest.mark.parametrize("options", [{"value": "json"}, {"schema": SCHEMA}], ids=["values", "typed"])
GOOD, BAD = [b'{"n":1}', b'{"n":3}'], b'{"n":'
MESSAGES = [GOOD[0], BAD, GOOD[1]]
DEADLINE_SECONDS = 60.0


def read(source: Source, count: int = 3) -> tuple[list[int], list[tuple[Any, object]]]:
    """The numbers that could be read, and what couldn't, with its position."""
    (split,) = source.discover(1).splits
    reader = source.reader(split, None, ReaderContext(tolerant=True))
    numbers: list[int] = []
    unreadable: list[tuple[Any, object]] = []
    deadline = time.monotonic() + DEADLINE_SECONDS
    try:
        while len(numbers) + len(unreadable) < count:
            assert time.monotonic() < deadline, (numbers, unreadable)
            batch = reader.read(1024, 0.0)
            numbers += [] if batch is None else [_number(row) for row in rows_of(batch)]
            found = reader.take_unreadable()
            unreadable += [(each.raw, each.position) for each in found]
            if batch is None and not found:
                time.sleep(0.01)
    finally:
        reader.close()
    return numbers, unreadable


def _number(row: Any) -> int:
    value = getattr(row, "value", row)
    return int(value["n"] if isinstance(value, dict) else getattr(value, "n", value))


@pytest.mark.parametrize(
    "options", [{"value": "json"}, {"value": "json", "with_metadata": True}, {"schema": SCHEMA, "with_metadata": True}]
)
def test_of_a_kafka_topic(kafka: Kafka, options: Any) -> None:
    topic = fresh_topic(kafka)
    produce(kafka, topic, MESSAGES)
    assert read(cw.sources.kafka(kafka.address, topic, bounded=True, **options)) == ([1, 3], [(BAD, 1)])


@TYPED
def test_of_a_kinesis_shard(kinesis: Kinesis, options: Any) -> None:
    outside = Outside(kinesis, shards=1)
    for data in MESSAGES:
        outside.client.put_record(StreamName=outside.name, Data=data, PartitionKey="k")
    numbers, unreadable = read(cw.sources.kinesis(**outside.settings, **options))
    assert (numbers, [raw for raw, _ in unreadable]) == ([1, 3], [BAD])


@TYPED
@pytest.mark.parametrize("kind", ["queue", "stream"])
def test_of_rabbitmq(rabbitmq: RabbitMQ, options: Any, kind: str) -> None:
    name = declare(rabbitmq, **({"queue_type": "stream"} if kind == "stream" else {}))
    commit(cw.sinks.rabbitmq(rabbitmq.url, routing_key=name, delivery="fingerprint"), list(MESSAGES), 1)
    if kind == "stream":
        source: Source = cw.sources.rabbitmq_stream(rabbitmq.url, name, **options)
    else:
        source = cw.sources.rabbitmq(rabbitmq.url, name, **options)
    assert read(source) == ([1, 3], [(BAD, 1 if kind == "stream" else 2)])


@TYPED
def test_of_a_nats_stream(nats: Nats, options: Any) -> None:
    stream = f"in{uuid.uuid4().hex}"
    administrator = Administrator(nats)
    administrator.makes(stream)
    for data in MESSAGES:
        administrator.does(lambda js, data=data: js.publish(f"{stream}.a", data))
    assert read(cw.sources.nats(nats.url, stream, **options)) == ([1, 3], [(BAD, 2)])


@pytest.mark.parametrize("options", [{"value": lambda _, fields: int(fields[b"n"])}, {"schema": SCHEMA}])
def test_of_a_redis_stream(redis: Redis, options: Any) -> None:
    stream = f"in-{uuid.uuid4().hex}"
    with redis_client.Redis.from_url(redis.how_to_connect) as client:
        for number, text in enumerate(("1", "two", "3"), start=1):
            client.xadd(stream, {"n": text}, id=f"{number}-0")
    source = cw.sources.redis_stream(redis.how_to_connect, stream, **options)
    assert read(source) == ([1, 3], [({b"n": b"two"}, "2-0")])


def test_of_an_http_response() -> None:
    with Firehose() as firehose:
        source = cw.sources.http_stream(f"{firehose.how_to_connect}/poison", format="ndjson")
        assert read(source, 2) == ([1], [(BAD, "#2")])


@pytest.mark.parametrize("on_error", ["skip", "dead_letter"])
def test_a_job_goes_on_behind_bad_messages(kafka: Kafka, spark: Any, on_error: Any) -> None:
    topic = fresh_topic(kafka)
    produce(kafka, topic, [*MESSAGES, BAD])
    env = cw.Environment(spark=spark, parallelism=1)
    source = cw.sources.kafka(kafka.address, topic, value="json", bounded=True)
    records = env.from_source(source, on_error=on_error, uid="in")
    numbers = records.map(lambda record: record["n"])
    expected: Sequence[Any] = [1, 3]
    if on_error == "dead_letter":
        letters = records.side_output("errors").map(lambda letter: (letter.record, letter.position, letter.operator))
        numbers = numbers.union(letters)
        expected = [1, 3, (BAD, f"{topic}/0@1", "in"), (BAD, f"{topic}/0@3", "in")]
    assert sorted(numbers.execute_and_collect(), key=str) == sorted(expected, key=str)
