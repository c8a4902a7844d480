from __future__ import annotations

import random
import threading
from collections import Counter
from typing import Any
from uuid import uuid4

import pika
import pytest
from servers.rabbitmq import RabbitMQ

import cutwater as cw
from cutwater.batches import ObjectBatch
from cutwater.connectors.contract import Sink, WriterContext
from cutwater.connectors.failures import PeerError
from cutwater.connectors.rabbitmq.link import Consumer, Message
from cutwater.errors import ConfigurationError, RecoveryRefusedError
from cutwater.protocol.ids import AttemptNumber, CheckpointId

from .rehearsals import Rehearsal
from .waiting import until

COUNT = 100_000


def declare(rabbitmq: RabbitMQ, **arguments: str | int) -> str:
    """A queue that is on disk."""
    name = f"test-{uuid4().hex}"
    connection = pika.BlockingConnection(pika.URLParameters(rabbitmq.url))
    connection.channel().queue_declare(
        name, durable=True, arguments={f"x-{key.replace('_', '-')}": value for key, value in arguments.items()}
    )
    connection.close()
    rabbitmq.write_queues_to_disk()
    until(lambda: rabbitmq.has_leader_on_disk(name, kind=str(arguments.get("queue_type", "classic"))))
    return name


def publish(rabbitmq: RabbitMQ, queue: str, count: int = COUNT) -> None:
    """The numbers from 0, each with an id, confirmed."""
    sink = cw.sinks.rabbitmq(rabbitmq.url, routing_key=queue, delivery="fingerprint")
    batches = (range(start, min(start + 10_000, count)) for start in range(0, count, 10_000))
    for checkpoint, numbers in enumerate(batches, start=1):
        commit(sink, [str(number) for number in numbers], checkpoint)


def commit(sink: Sink, values: list[Any], checkpoint: int) -> list[bytes]:
    writer = sink.writer(WriterContext("job", "uid", 0, 1, AttemptNumber(0)))
    writer.write(ObjectBatch(values))
    committables = list(writer.prepare(CheckpointId(checkpoint)))  # type: ignore[arg-type]
    sink.commit(committables)
    return committables


def messages_of(rabbitmq: RabbitMQ, queue: str) -> list[tuple[str, str]]:
    """Ids and bodies of all that are in the queue."""
    consumer = Consumer(rabbitmq.url, queue, prefetch=0)
    try:
        found: list[Message] = []
        while messages := consumer.take(COUNT, wait_seconds=0.5):
            found += messages
    finally:
        consumer.close()
    return [(message.properties.message_id, message.body.decode()) for message in found]


def killed_while_it_runs(rabbitmq: RabbitMQ, after_seconds: float) -> threading.Timer:
    timer = threading.Timer(after_seconds, rabbitmq.restart)
    timer.start()
    return timer


def test_a_stream_is_read_exactly_once_though_attempts_fail_and_the_server_is_killed(rabbitmq: RabbitMQ) -> None:
    stream = declare(rabbitmq, queue_type="stream")
    publish(rabbitmq, stream)
    source = cw.sources.rabbitmq_stream(rabbitmq.url, stream, value="text")
    rehearsal = Rehearsal(source, source.discover(1).splits[0], random.Random(1))
    kill = killed_while_it_runs(rabbitmq, 1.0)
    rehearsal.read(lambda records: len(records) >= COUNT, failures=5)
    kill.join()
    assert rehearsal.records == [str(number) for number in range(COUNT)]


def test_a_queue_with_ids_is_read_exactly_once_though_attempts_fail_and_the_server_is_killed(
    rabbitmq: RabbitMQ,
) -> None:
    queue = declare(rabbitmq)
    publish(rabbitmq, queue)
    source = cw.sources.rabbitmq(rabbitmq.url, queue, id="message_id", value="text")
    rehearsal = Rehearsal(source, source.discover(1).splits[0], random.Random(2))
    kill = killed_while_it_runs(rabbitmq, 1.0)
    rehearsal.read(lambda records: len(records) >= COUNT, failures=5)
    kill.join()
    assert sorted(map(int, rehearsal.records)) == list(range(COUNT))


def test_nothing_is_left_in_a_queue_when_the_last_checkpoint_is_complete(rabbitmq: RabbitMQ) -> None:
    queue = declare(rabbitmq)
    publish(rabbitmq, queue, 1000)
    source = cw.sources.rabbitmq(rabbitmq.url, queue, value="text")
    Rehearsal(source, source.discover(1).splits[0], random.Random(3)).read(lambda got: len(got) >= 1000, failures=0)
    assert messages_of(rabbitmq, queue) == []


def test_a_queue_without_ids_loses_nothing(rabbitmq: RabbitMQ) -> None:
    queue = declare(rabbitmq)
    publish(rabbitmq, queue, 20_000)
    source = cw.sources.rabbitmq(rabbitmq.url, queue, value="text")
    rehearsal = Rehearsal(source, source.discover(1).splits[0], random.Random(4))
    rehearsal.read(lambda records: len(set(records)) >= 20_000, failures=1, between=rabbitmq.restart)
    assert set(rehearsal.records) == {str(number) for number in range(20_000)}


def test_a_plain_sink_loses_nothing_when_the_server_is_killed(rabbitmq: RabbitMQ) -> None:
    queue = declare(rabbitmq)
    writer = cw.sinks.rabbitmq(rabbitmq.url, routing_key=queue).writer(WriterContext("j", "u", 0, 1, AttemptNumber(0)))
    for start in range(0, 20_000, 1000):
        writer.write(ObjectBatch([str(number) for number in range(start, start + 1000)]))
        if start == 10_000:
            rabbitmq.restart()
    writer.prepare(CheckpointId(1)).result(60)  # type: ignore[union-attr]
    writer.close()
    assert {body for _, body in messages_of(rabbitmq, queue)} == {str(number) for number in range(20_000)}


def test_an_epoch_that_is_committed_again_has_the_same_ids(rabbitmq: RabbitMQ) -> None:
    queue = declare(rabbitmq)
    sink = cw.sinks.rabbitmq(rabbitmq.url, routing_key=queue, delivery="fingerprint")
    sink.commit(commit(sink, ["a", "b"], checkpoint=7))
    assert Counter(messages_of(rabbitmq, queue)) == {("job/uid/0/0-7-0", "a"): 2, ("job/uid/0/0-7-1", "b"): 2}


def test_what_a_sink_repeats_a_source_with_ids_drops(rabbitmq: RabbitMQ) -> None:
    queue = declare(rabbitmq)
    sink = cw.sinks.rabbitmq(rabbitmq.url, routing_key=queue, delivery="fingerprint")
    sink.commit(commit(sink, ["a", "b"], checkpoint=7))
    commit(sink, ["c"], checkpoint=8)
    source = cw.sources.rabbitmq(rabbitmq.url, queue, id="message_id", value="text")
    rehearsal = Rehearsal(source, source.discover(1).splits[0], random.Random(5))
    rehearsal.read(lambda records: "c" in records, failures=0)
    assert rehearsal.records == ["a", "b", "c"]


def test_a_message_that_no_queue_takes_fails_the_writer(rabbitmq: RabbitMQ) -> None:
    sink = cw.sinks.rabbitmq(rabbitmq.url, exchange="amq.direct", routing_key=lambda value: value)
    writer = sink.writer(WriterContext("j", "u", 0, 1, AttemptNumber(0)))
    writer.write(ObjectBatch(["nowhere"]))
    with pytest.raises(ConfigurationError, match=r'exchange "amq\.direct" has no queue for routing key "nowhere"'):
        writer.prepare(CheckpointId(1)).result(60)  # type: ignore[union-attr]
    writer.close()


@pytest.mark.parametrize("start", ["last", "next"])
def test_where_a_stream_begins_is_settled_by_the_first_look(rabbitmq: RabbitMQ, start: Any) -> None:
    stream = declare(rabbitmq, queue_type="stream")
    publish(rabbitmq, stream, 10)
    source = cw.sources.rabbitmq_stream(rabbitmq.url, stream, start=start, value="text")
    split = source.discover(1).splits[0]
    publish(rabbitmq, stream, 12)
    rehearsal = Rehearsal(source, split, random.Random(6))
    rehearsal.read(lambda records: records[-2:] == ["10", "11"], failures=0)
    assert rehearsal.records[-12:] == [str(number) for number in range(12)]


def test_a_stream_whose_messages_were_deleted_before_they_were_read_is_refused(rabbitmq: RabbitMQ) -> None:
    stream = declare(rabbitmq, queue_type="stream", max_length_bytes=10_000, stream_max_segment_size_bytes=5_000)
    source = cw.sources.rabbitmq_stream(rabbitmq.url, stream, start=1)
    publish(rabbitmq, stream, 10_000)
    while source.offsets_from("first")[:1] <= [1]:  # the server looks what is old when it begins a new segment
        publish(rabbitmq, stream, 2_000)
    publish(rabbitmq, stream, 1)  # all may be deleted, and a stream without messages says nothing
    rehearsal = Rehearsal(source, source.discover(1).splits[0], random.Random(7))
    with pytest.raises(RecoveryRefusedError, match="deleted before they were read"):
        rehearsal.read(lambda records: len(records) >= 10, failures=0)


def test_a_second_consumer_of_a_queue_with_ids_waits(rabbitmq: RabbitMQ) -> None:
    queue = declare(rabbitmq)
    first = Consumer(rabbitmq.url, queue, prefetch=1, alone=True)
    with pytest.raises(PeerError, match="has another consumer"):
        Consumer(rabbitmq.url, queue, prefetch=1, alone=True)
    first.close()


def test_wrong_addresses_and_names_are_told_before_the_job_starts(rabbitmq: RabbitMQ) -> None:
    queue = declare(rabbitmq)
    at = rabbitmq.address
    wrong = {
        f'RabbitMQ at {at} refuses user "guest"': cw.sources.rabbitmq(f"amqp://guest:hidden@{at}/%2F", queue),
        f"RabbitMQ at {at} refuses its virtual host": cw.sources.rabbitmq(f"amqp://guest:guest@{at}/nix", queue),
        "RabbitMQ at 127.0.0.1:1 can't be reached": cw.sources.rabbitmq("amqp://guest:hidden@127.0.0.1:1/%2F", queue),
        "has no queue 'nix' in vhost '/'": cw.sources.rabbitmq(rabbitmq.url, "nix"),
        "is not a stream": cw.sources.rabbitmq_stream(rabbitmq.url, queue),
        "has no exchange 'nix' in vhost '/'": cw.sinks.rabbitmq(rabbitmq.url, exchange="nix", routing_key=""),
        "has no queue 'nothing' in vhost '/'": cw.sinks.rabbitmq(rabbitmq.url, routing_key="nothing"),
    }
    for message, connector in wrong.items():
        with pytest.raises((ConfigurationError, PeerError), match=message) as raised:
            connector.check()
        assert "hidden" not in str(raised.value)
