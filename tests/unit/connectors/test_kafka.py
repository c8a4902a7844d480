"""Are settings of the Kafka connectors checked where they are written, and messages made as promised?"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import Message

import cutwater as cw
from cutwater.batches import TIME_COLUMN, Batch, ObjectBatch
from cutwater.connectors.bases.decoding import Decoded
from cutwater.connectors.contract import Delivery, WriterContext
from cutwater.connectors.failures import PeerError
from cutwater.connectors.kafka import sink as kafka_sink
from cutwater.connectors.kafka.cluster import Cluster
from cutwater.connectors.kafka.consuming import Feed, TaskConsumer
from cutwater.connectors.kafka.outgoing import Encoder, packed, unpacked
from cutwater.connectors.kafka.producing import MessageProducer
from cutwater.connectors.kafka.starting import Start, parse_start
from cutwater.errors import ConfigurationError, SerializationError
from cutwater.protocol.ids import AttemptNumber, CheckpointId


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: cw.sources.kafka("nowhere", "a"), "servers must be addresses of brokers"),
        (lambda: cw.sources.kafka("a:1"), "reads topics or a pattern"),
        (lambda: cw.sources.kafka("a:1", "a", pattern="b"), "reads topics or a pattern"),
        (lambda: cw.sources.kafka("a:1", pattern="("), "is not a regular expression"),
        (lambda: cw.sources.kafka("a:1", "a", start="committed"), "needs the group"),
        (lambda: cw.sources.kafka("a:1", "a", start="newest"), "start 'newest' is unknown"),
        (lambda: cw.sources.kafka("a:1", "a", value="xml"), "value 'xml' is unknown"),
        (lambda: cw.sources.kafka("a:1", "a", value="text", schema=pa.schema([])), "has no columns"),
        (lambda: cw.sources.kafka("a:1", "a", properties={"group.id": "x"}), "properties must not set group.id"),
        (lambda: cw.sinks.kafka("a:1", len), "lists its topics"),
        (lambda: cw.sinks.kafka("a:1", "a", topics=["b"]), "lists its topics"),
        (lambda: cw.sinks.kafka("a:1", "a", key=7), "key must be a function or the name of a column"),
        (lambda: cw.sinks.kafka("a:1", "a", delivery="twice"), "delivery 'twice' is unknown"),
    ],
)
def test_a_wrong_setting_is_refused_where_it_is_written(make: Callable[[], Any], words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        make()


def test_a_start_is_a_word_a_moment_or_milliseconds() -> None:
    moment = datetime(2026, 1, 1, tzinfo=UTC)
    starts = [parse_start(start, group="g") for start in ("latest", moment, {"timestamp": moment}, {"timestamp": 5})]
    at_moment = Start("timestamp", int(moment.timestamp() * 1000))
    assert starts == [Start("latest"), at_moment, at_moment, Start("timestamp", 5)]


def test_a_moment_without_a_time_zone_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="no time zone"):
        parse_start(datetime(2026, 1, 1), group=None)  # noqa: DTZ001 — the mistake


def test_a_password_shows_in_no_name_or_repr() -> None:
    source = cw.sources.kafka("a:1", "orders", properties={"sasl.password": "secret"})
    assert "secret" not in f"{source.name} {source!r} {source._cluster!r}"


def test_what_a_sink_gives_is_what_it_says() -> None:
    deliveries = [cw.sinks.kafka("a:1", "t", delivery=each).delivery for each in ("exactly_once", "at_least_once")]
    assert deliveries == [Delivery.WRITE_AHEAD, Delivery.PLAIN]


def sent(encoder: Encoder, *batches: Batch) -> list[tuple[str, list[bytes | None] | None, list[bytes | None]]]:
    """The messages of an epoch, by way of a snapshot."""
    held = [message for batch in batches for message in encoder.messages(batch)]
    return [
        (topic, None if keys is None else keys.to_pylist(), values.to_pylist())
        for topic, keys, values in unpacked(packed(held))
    ]


def test_messages_of_one_epoch_stay_in_order_and_together() -> None:
    encoder = Encoder(lambda record: record[0], None, lambda record: record[1])
    batches = [ObjectBatch([("a", b"1"), ("a", None)]), ObjectBatch([("a", b"3"), ("b", "4"), ("a", b"")])]
    assert sent(encoder, *batches) == [("a", None, [b"1", None, b"3"]), ("b", None, [b"4"]), ("a", None, [b""])]


def test_messages_in_snapshots_of_an_earlier_version_are_read() -> None:
    ((topic, keys, values),) = unpacked([["a", [b"k", None], [b"1", None]]])
    ((_, no_keys, _),) = unpacked([["a", None, [b"1"]]])
    assert (topic, keys.to_pylist(), values.to_pylist(), no_keys) == ("a", [b"k", None], [b"1", None], None)


def test_records_become_messages_with_topic_key_and_value() -> None:
    encoder = Encoder(lambda record: record["to"], lambda record: record["n"], "json")
    messages = sent(encoder, ObjectBatch([{"to": "a", "n": 1}, {"to": "b", "n": 2}]))
    assert messages == [("a", [b"1"], [b'{"to":"a","n":1}']), ("b", [b"2"], [b'{"to":"b","n":2}'])]


def test_rows_of_a_typed_stream_take_their_key_from_a_column() -> None:
    batch = pa.RecordBatch.from_pydict({"user": ["x", None], "n": [1, 2]})
    assert sent(Encoder("t", "user", "json"), batch) == [
        ("t", [b"x", None], [b'{"user":"x","n":1}', b'{"user":null,"n":2}'])
    ]


def test_times_that_only_travel_with_the_rows_are_not_sent() -> None:
    for number, text in ((1, b"1"), (1.5, b"1.5")):
        batch = pa.record_batch({"n": [number], TIME_COLUMN: [1_700_000_000_000]})
        assert sent(Encoder("t", None, "json"), batch) == [("t", None, [b'{"n":' + text + b"}"])]


def test_plain_columns_are_the_same_json_as_any_others() -> None:
    plain = pa.RecordBatch.from_pydict({"s": ['"\\ü\n', None], "n": [1, None], "is": [True, False]})
    others = plain.append_column("f", pa.array([None, None], pa.float64()))
    ((_, _, values),) = sent(Encoder("t", None, "json"), plain)
    ((_, _, longer),) = sent(Encoder("t", None, "json"), others)
    assert [value[:-1] + b',"f":null}' for value in values] == longer


def test_a_client_that_loses_its_error_is_replaced_by_another_one() -> None:
    class Confused:
        def __len__(self) -> int:
            return 1

        def flush(self, seconds: float) -> int:
            raise SystemError("flush returned NULL without setting an exception")

    producer = MessageProducer(Cluster("a:1", None), defaults={}, ours={})
    producer.client = Confused()
    with pytest.raises(PeerError, match="doesn't say why"):
        producer.flush()


class Narrow:
    """A client that holds three messages, and hands them over when it is polled."""

    def __init__(self) -> None:
        self.held: list[Any] = []
        self.sent: list[Any] = []

    def produce(self, *message: Any) -> None:
        if len(self.held) == 3 or (message[1] == b"large" and self.held) or message[1] == b"huge":
            raise BufferError("Local: Queue full")
        self.held.append(message)

    def poll(self, seconds: float) -> int:
        if seconds > 0:
            self.sent.append(self.held.pop(0))
        return 0

    def __len__(self) -> int:
        return len(self.held)


def narrow_producer() -> MessageProducer:
    producer = MessageProducer(Cluster("a:1", None), defaults={}, ours={})
    producer.client = Narrow()
    return producer


def test_a_full_client_gets_the_other_messages_later_in_their_order() -> None:
    producer = narrow_producer()
    producer.produce(Encoder("t", None, "text").messages(ObjectBatch([*"abcdef", "large", "h"])))
    assert b"".join(message[1] for message in producer.client.sent + producer.client.held) == b"abcdeflargeh"


def test_a_message_that_no_room_is_enough_for_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="larger than all that Kafka's client may hold"):
        narrow_producer().produce(Encoder("t", None, "text").messages(ObjectBatch(["huge"])))


def test_a_record_of_the_wrong_type_is_shown() -> None:
    with pytest.raises(SerializationError, match='value="bytes" takes bytes, not dict'):
        Encoder("t", None, "bytes").messages(ObjectBatch([b"fine", {"n": 1}]))


def test_a_writer_with_nothing_to_write_renews_its_number_before_the_cluster_forgets_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now_seconds = 0.0
    monkeypatch.setattr(kafka_sink.time, "monotonic", lambda: now_seconds)
    sink = cw.sinks.kafka("a:1", "t")
    writer = kafka_sink._Writer(sink, WriterContext("job", "out", 0, 1, AttemptNumber(1)))
    at_once = writer.prepare(CheckpointId(1))
    now_seconds = kafka_sink.RENEW_AFTER_SECONDS
    assert [len(at_once), len(writer.prepare(CheckpointId(2))), len(writer.prepare(CheckpointId(3)))] == [0, 1, 0]


class Handed:
    """A consumer of one partition whose client is not asked; says what the loop would have seen meanwhile."""

    def __init__(self, *, fails: bool = False) -> None:
        self._fails = fails
        self.seen: list[bool] = []
        self.feed = Feed("t", 0, start=0, end=1)
        self.consumer = TaskConsumer(
            Cluster("a:1", None), name="t", settings={}, decode=self._decode, wake=lambda: None, commits=False
        )
        messages = [Message(topic="t", partition=0, offset=offset, value=b"v") for offset in range(2)]
        self.consumer._hand_over(self, self.feed, messages)

    def _decode(self, messages: Any, values: Any) -> Decoded:
        self.seen.append(self.consumer.has_ended(self.feed))
        if self._fails:
            raise ValueError("unreadable")
        return Decoded(ObjectBatch([message.value() for message in messages]))

    def get_watermark_offsets(self, partition: Any, *, cached: bool) -> None:
        """Not known."""


def test_a_partition_has_not_ended_while_its_last_messages_are_decoded() -> None:
    assert Handed().seen == [False]


def test_a_failure_in_front_of_the_end_is_not_taken_for_the_end() -> None:
    handed = Handed(fails=True)
    assert not handed.consumer.has_ended(handed.feed)


@pytest.mark.parametrize("others", [(), ("b",)])
def test_messages_find_their_partition_also_among_several_topics(others: tuple[str, ...]) -> None:
    consumer = Handed().consumer
    consumer._topics.update(("a", *others))
    keys = [(topic, partition) for topic in ("a", *others) for partition in (0, 1)]
    messages = [Message(topic=topic, partition=partition, offset=0, value=b"v") for topic, partition in keys]
    assert [*consumer._keys_of(messages)] == keys
