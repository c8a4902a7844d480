"""RabbitMQ and Kinesis beside pika and boto3."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, ClassVar

import cutwater as cw
from benchmarks.connectors.cases import EPOCH_SECONDS, Case, SinkCase, SourceCase, payload
from benchmarks.connectors.ratios import Run, Stopwatch
from cutwater.connectors.contract import Sink, Source

PER_CALL = 1_000


def rabbitmq_cases(url: str) -> list[Case]:
    return [RabbitMQStreamSource(url), RabbitMQSource(url), RabbitMQSink(url)]


def kinesis_cases(endpoint: str, credentials: Mapping[str, str]) -> list[Case]:
    return [KinesisSource(endpoint, dict(credentials)), KinesisSink(endpoint, dict(credentials))]


# ------------------------------------------------------------------------------------------------------------- RabbitMQ


class RabbitMQSource(SourceCase):
    name = "RabbitMQ, a queue"
    bare_does = "pika, basic_consume, acknowledged by the thousand"
    rows_share = 0.02
    arguments: ClassVar[dict[str, Any]] = {}
    prefetch: ClassVar[int] = 10_000

    def __init__(self, url: str) -> None:
        self.url = url

    def fill(self) -> None:
        """Before each run: see `restore`."""

    def restore(self) -> None:
        connection, channel = _rabbitmq(self.url)
        channel.queue_delete(self._queue)
        channel.queue_declare(self._queue, durable=True, arguments=self.arguments)
        _send(channel, self._queue, self.rows)
        connection.close()

    @property
    def _queue(self) -> str:
        return f"queue-{self.rows}"

    def source(self) -> Source:
        return cw.sources.rabbitmq(self.url, self._queue)

    def bare(self) -> Run:
        connection, channel = _rabbitmq(self.url)
        channel.basic_qos(prefetch_count=self.prefetch)
        watch = Stopwatch(self.rows)
        bodies: list[bytes] = []

        def take(channel: Any, method: Any, properties: Any, body: bytes) -> None:
            bodies.append(body)
            if method.delivery_tag % PER_CALL == 0:
                channel.basic_ack(method.delivery_tag, multiple=True)
            if watch.saw(1):
                channel.stop_consuming()

        channel.basic_consume(self._queue, take, arguments=self.consume_arguments())
        channel.start_consuming()
        run = watch.end()
        connection.close()
        return run

    def consume_arguments(self) -> dict[str, Any]:
        return {}


class RabbitMQStreamSource(RabbitMQSource):
    name = "RabbitMQ, a stream"
    bare_does = "pika, basic_consume from the first offset"
    arguments: ClassVar[dict[str, Any]] = {"x-queue-type": "stream"}

    def fill(self) -> None:
        connection, channel = _rabbitmq(self.url)
        if channel.queue_declare(self._queue, durable=True, arguments=self.arguments).method.message_count == 0:
            _send(channel, self._queue, self.rows)
        connection.close()

    def restore(self) -> None:
        """Streams keep what was read."""

    @property
    def _queue(self) -> str:
        return f"stream-{self.rows}"

    def source(self) -> Source:
        return cw.sources.rabbitmq_stream(self.url, self._queue)

    def consume_arguments(self) -> dict[str, Any]:
        return {"x-stream-offset": "first"}


class RabbitMQSink(SinkCase):
    name = "RabbitMQ, at least once"
    bare_does = "pika, a transaction (tx) every second"
    rows_share = 0.02
    record = staticmethod(payload)

    def __init__(self, url: str) -> None:
        self.url = url

    def clear(self) -> None:
        connection, channel = _rabbitmq(self.url)
        channel.queue_delete("sink")
        channel.queue_declare("sink", durable=True)
        connection.close()

    def sink(self) -> Sink:
        return cw.sinks.rabbitmq(self.url, routing_key="sink")

    def bare(self) -> Run:
        connection, channel = _rabbitmq(self.url)
        watch = Stopwatch(self.rows)
        watch.begin()
        _send(channel, "sink", self.rows)
        run = watch.end()
        connection.close()
        return run

    def received(self) -> int | None:
        connection, channel = _rabbitmq(self.url)
        count: int = channel.queue_declare("sink", passive=True).method.message_count
        connection.close()
        return count


def _rabbitmq(url: str) -> tuple[Any, Any]:
    import pika

    connection = pika.BlockingConnection(pika.URLParameters(url))
    return connection, connection.channel()


def _send(channel: Any, queue: str, rows: int) -> None:
    """Persistent, and acknowledged when it returns: with confirms, pika would wait for each message."""
    import pika

    persistent = pika.BasicProperties(delivery_mode=2)
    channel.tx_select()
    due_seconds = time.monotonic() + EPOCH_SECONDS
    for index in range(rows):
        channel.basic_publish("", queue, payload(index), persistent)
        if index % PER_CALL == 0 and time.monotonic() >= due_seconds:
            channel.tx_commit()
            due_seconds = time.monotonic() + EPOCH_SECONDS
    channel.tx_commit()


# -------------------------------------------------------------------------------------------------------------- Kinesis


class KinesisSource(SourceCase):
    name = "Kinesis"
    bare_does = "boto3, get_records(10,000)"
    rows_share = 0.005

    def __init__(self, endpoint: str, credentials: dict[str, str]) -> None:
        self.endpoint = endpoint
        self.credentials = credentials

    @property
    def _stream(self) -> str:
        return f"source-{self.rows}"

    def fill(self) -> None:
        client = _kinesis(self.endpoint, self.credentials)
        if self._stream not in client.list_streams()["StreamNames"]:
            _make_stream(client, self._stream)
            _put(client, self._stream, self.rows)

    def source(self) -> Source:
        return cw.sources.kinesis(self._stream, **_settings(self.endpoint, self.credentials))

    def bare(self) -> Run:
        client = _kinesis(self.endpoint, self.credentials)
        (shard,) = client.list_shards(StreamName=self._stream)["Shards"]
        iterator = client.get_shard_iterator(
            StreamName=self._stream, ShardId=shard["ShardId"], ShardIteratorType="TRIM_HORIZON"
        )["ShardIterator"]
        watch = Stopwatch(self.rows)
        while True:
            answer = client.get_records(ShardIterator=iterator, Limit=10_000)
            iterator = answer["NextShardIterator"]
            if answer["Records"] and watch.saw(len([each["Data"] for each in answer["Records"]])):
                return watch.end()


class KinesisSink(SinkCase):
    name = "Kinesis, at least once"
    bare_does = "boto3, put_records(500)"
    rows_share = 0.005
    record = staticmethod(payload)

    def __init__(self, endpoint: str, credentials: dict[str, str]) -> None:
        self.endpoint = endpoint
        self.credentials = credentials
        self.runs = 0

    def clear(self) -> None:
        self.runs += 1
        _make_stream(_kinesis(self.endpoint, self.credentials), self._stream)

    @property
    def _stream(self) -> str:
        return f"sink-{self.rows}-{self.runs}"

    def sink(self) -> Sink:
        return cw.sinks.kinesis(self._stream, **_settings(self.endpoint, self.credentials))

    def bare(self) -> Run:
        client = _kinesis(self.endpoint, self.credentials)
        watch = Stopwatch(self.rows)
        watch.begin()
        _put(client, self._stream, self.rows)
        return watch.end()


def _settings(endpoint: str, credentials: Mapping[str, str]) -> dict[str, Any]:
    rest = {name: value for name, value in credentials.items() if name != "region_name"}
    return {"endpoint": endpoint, "region": credentials["region_name"], "options": rest}


def _kinesis(endpoint: str, credentials: Mapping[str, str]) -> Any:
    import boto3

    return boto3.client("kinesis", endpoint_url=endpoint, **credentials)


def _make_stream(client: Any, name: str) -> None:
    client.create_stream(StreamName=name, ShardCount=1)
    while client.describe_stream_summary(StreamName=name)["StreamDescriptionSummary"]["StreamStatus"] != "ACTIVE":
        time.sleep(0.1)


def _put(client: Any, stream: str, rows: int) -> None:
    for first in range(0, rows, 500):
        wanted = [
            {"Data": payload(index), "PartitionKey": str(index)} for index in range(first, min(first + 500, rows))
        ]
        while wanted:
            answers = client.put_records(StreamName=stream, Records=wanted)["Records"]
            wanted = [record for record, answer in zip(wanted, answers, strict=True) if "ErrorCode" in answer]
