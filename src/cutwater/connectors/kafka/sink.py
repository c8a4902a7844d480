"""How does a stream get into a topic?"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from cutwater.batches import Batch
from cutwater.connectors.bases.message_formats import MessageFormat
from cutwater.connectors.bases.sending import Sender, SendingWriter
from cutwater.connectors.bases.write_ahead import Epoch, WriteAheadSink, WriteAheadWriter
from cutwater.connectors.contract import Delivery, Sink, SinkWriter, WriterContext
from cutwater.connectors.kafka.cluster import Cluster
from cutwater.connectors.kafka.outgoing import Encoder, Key, Topic, Value, check_encoding, packed, unpacked
from cutwater.connectors.kafka.producing import MessageProducer
from cutwater.connectors.kafka.source import missing_topics
from cutwater.connectors.kafka.transactions import Transactions
from cutwater.connectors.settings import check_choice
from cutwater.protocol.ids import CheckpointId

#: Far less than a cluster remembers (`offsets.retention.minutes`).
RENEW_AFTER_SECONDS = 3600.0


def kafka(
    servers: str | Sequence[str],
    topic: Topic,
    *,
    topics: Sequence[str] = (),
    key: Key = None,
    value: Value = "bytes",
    delivery: Literal["exactly_once", "at_least_once"] = "exactly_once",
    if_forgotten: Literal["fail", "write", "skip"] = "fail",
    properties: Mapping[str, Any] | None = None,
) -> KafkaSink | PlainKafkaSink:
    """A sink of this topic, or of those of `topics` that the function `topic` chooses for each record.

    Exactly once, for consumers that read committed messages only: records are part of the snapshot; when their
    checkpoint is complete, they go out in one Kafka transaction together with the number of the epoch. No transaction
    is open while a checkpoint runs, so none can time out, however long the job is down. Records appear when their
    checkpoint completes. `delivery="at_least_once"` sends at once, and a checkpoint waits until the brokers have
    acknowledged everything before it.

    `key`: a function of the record, or the name of a column: bytes, text (UTF-8), a whole number (in decimal) or None.
    `value`: "bytes", "text", "json" (rows and dicts become objects), a function that gives bytes, str or None, or one
    of `cw.formats` (Avro, Protobuf).

    `if_forgotten`: what to do when the cluster has forgotten the last epoch's number, because the job was down for
    longer than its `offsets.retention.minutes` (a week by default): fail, write the epoch of the snapshot, or skip it.
    `properties`: settings of librdkafka, for TLS, SASL, compression and tuning.
    """
    check_encoding(topic, topics, key, value)
    check_choice("delivery", delivery, ("exactly_once", "at_least_once"))
    check_choice("if_forgotten", if_forgotten, ("fail", "write", "skip"))
    cluster = Cluster(servers, properties)
    names = list(topics) if callable(topic) else [topic]
    if isinstance(value, MessageFormat):
        value = value.of_topic(names[0] if len(names) == 1 else None)
    encoder = Encoder(topic, key, value)
    if delivery == "at_least_once":
        return PlainKafkaSink(cluster, names, encoder)
    return KafkaSink(cluster, names, encoder, if_forgotten=if_forgotten)


class KafkaSink(WriteAheadSink):
    """Exactly once."""

    def __init__(self, cluster: Cluster, topics: Sequence[str], encoder: Encoder, *, if_forgotten: str) -> None:
        self._cluster = cluster
        self._topics = list(topics)
        self._encoder = encoder
        self._if_forgotten = if_forgotten
        self._transactions = self._no_transactions()

    @property
    def name(self) -> str:
        return f"kafka({', '.join(self._topics)})"

    def check(self, *, restores: bool = False) -> None:
        check_topics(self._cluster, self._topics)
        self._encoder.check()

    def encode(self, batch: Batch) -> Sequence[Any]:
        return self._encoder.messages(batch)

    def writer(self, context: WriterContext) -> SinkWriter:
        self._encoder.open()
        writer = _Writer(self, context)
        self._transactions.begin(writer.epoch(CheckpointId(0)))
        return writer

    def pack(self, records: list[Any]) -> Sequence[Any]:
        return packed(records)

    def apply(self, epoch: Epoch, records: Sequence[Any]) -> None:
        self._transactions.apply(epoch, unpacked(records))

    def recover(self, **facts: Any) -> None:
        super().recover(**facts)
        # The slots open their own.
        self._transactions.close()

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_transactions"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._transactions = self._no_transactions()

    def _no_transactions(self) -> Transactions:
        return Transactions(self._cluster, topic=self._topics[0], if_forgotten=self._if_forgotten)


class _Writer(WriteAheadWriter):
    """Renews its number while it has nothing to write."""

    def __init__(self, sink: WriteAheadSink, context: WriterContext) -> None:
        super().__init__(sink, context)
        self._renewed_seconds = time.monotonic()

    def prepare(self, checkpoint: CheckpointId) -> list[bytes]:
        now_seconds = time.monotonic()
        due = now_seconds - self._renewed_seconds >= RENEW_AFTER_SECONDS
        prepared = self.prepare_epoch(checkpoint, also_empty=due)
        if prepared:
            self._renewed_seconds = now_seconds
        return prepared


class PlainKafkaSink(Sink):
    """At least once."""

    delivery = Delivery.PLAIN

    def __init__(self, cluster: Cluster, topics: Sequence[str], encoder: Encoder) -> None:
        self._cluster = cluster
        self._topics = list(topics)
        self._encoder = encoder

    @property
    def name(self) -> str:
        return f"kafka({', '.join(self._topics)})"

    def check(self, *, restores: bool = False) -> None:
        check_topics(self._cluster, self._topics)
        self._encoder.check()

    def writer(self, context: WriterContext) -> SinkWriter:
        return SendingWriter(self, _Sender(self._cluster, self._encoder), context)


class _Sender(Sender):
    def __init__(self, cluster: Cluster, encoder: Encoder) -> None:
        self._cluster = cluster
        self._encoder = encoder
        self._producer: MessageProducer | None = None

    def connect(self) -> None:
        self._encoder.open()
        # What a broker doesn't take within this time is sent again on a new connection.
        self._producer = MessageProducer(self._cluster, defaults={"message.timeout.ms": 30_000}, ours={})

    def send(self, batch: Batch) -> None:
        assert self._producer is not None
        self._producer.produce(self._encoder.messages(batch))

    def settle(self) -> None:
        assert self._producer is not None
        self._producer.flush()

    def close(self) -> None:
        producer, self._producer = self._producer, None
        if producer is not None:
            producer.close()


def check_topics(cluster: Cluster, topics: Sequence[str]) -> None:
    """Refuses what isn't there."""
    there = cluster.partitions()
    missing = [topic for topic in topics if topic not in there]
    if missing:
        raise missing_topics(cluster, missing, there)
