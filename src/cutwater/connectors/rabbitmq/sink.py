"""How do records get into RabbitMQ?

At least once: a barrier waits until the server has confirmed what was published before it. With fingerprints: the
records of an epoch wait in the snapshot, and each has a message id from then on, however often it is published. So its
receiver can tell what it has seen.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from hashlib import blake2b
from typing import Any, Literal

from cutwater.batches import Batch, rows_of
from cutwater.connectors.bases.extras import client
from cutwater.connectors.bases.payloads import encoded
from cutwater.connectors.bases.sending import Sender, SendingWriter
from cutwater.connectors.bases.write_ahead import Epoch, WriteAheadSink
from cutwater.connectors.contract import Delivery, Sink, SinkWriter, WriterContext
from cutwater.connectors.failures import user_function_failed
from cutwater.connectors.rabbitmq.link import check_url
from cutwater.connectors.rabbitmq.publisher import Publisher
from cutwater.connectors.settings import check_callable, check_choice
from cutwater.errors import ConfigurationError

RoutingKey = str | Callable[[Any], str]
#: Rows that are published before the client sends.
_ROWS_PER_TURN = 256
#: What AMQP allows, less number and index.
_WRITER_BYTES_MAX = 200
_PERSISTENT = 2
_TRANSIENT = 1


def rabbitmq(
    url: str,
    *,
    exchange: str = "",
    routing_key: RoutingKey,
    delivery: Literal["plain", "fingerprint"] = "plain",
    persistent: bool = True,
    mandatory: bool = True,
) -> RabbitMQSink | RabbitMQFingerprintSink:
    """Publishes each record as a message: bytes as they are, text as UTF-8, everything else as JSON.

    `delivery="plain"`, at least once: a checkpoint completes when the server has confirmed (publisher confirms) what
    came before it; after a failure records are published again. `delivery="fingerprint"`: records wait in the snapshot
    until their checkpoint is complete and go out with a message id that never changes, `<writer>-<number>-<index>`.
    Exactly once for receivers that drop ids which they have seen, such as `cw.sources.rabbitmq(…, id="message_id")`.

    `url`: `amqp://user:password@host:5672/%2F`, or `amqps://…`; its query may hold options of the client pika.
    `exchange`: must exist; "" is the default one, which routes to the queue whose name is the routing key.
    `routing_key`: a string, or a function of the record.
    `persistent`: the server writes messages to disk.
    `mandatory`: a message that no queue takes fails the job; False: it is dropped, as RabbitMQ does.
    """
    check_url(url)
    check_choice("delivery", delivery, ("plain", "fingerprint"))
    if not isinstance(exchange, str):
        raise ConfigurationError("exchange must be a string", detail=f"it is {exchange!r}")
    if not isinstance(routing_key, str):
        check_callable("routing_key", routing_key)
    target = Target(url, exchange, routing_key, persistent=persistent, mandatory=mandatory)
    return RabbitMQSink(target) if delivery == "plain" else RabbitMQFingerprintSink(target)


class Target:
    """Where messages go, and how they look."""

    def __init__(self, url: str, exchange: str, routing_key: RoutingKey, *, persistent: bool, mandatory: bool) -> None:
        self._url = url
        self._exchange = exchange
        self._routing_key = routing_key
        self._mandatory = mandatory
        self._mode = _PERSISTENT if persistent else _TRANSIENT

    @property
    def name(self) -> str:
        key = self._routing_key if isinstance(self._routing_key, str) else "…"
        return f"rabbitmq({self._exchange or key})"

    def publisher(self) -> Publisher:
        return Publisher(self._url, self._exchange, mandatory=self._mandatory)

    def check(self) -> None:
        publisher = self.publisher()
        try:
            if not self._exchange and isinstance(self._routing_key, str):
                publisher.link.messages_in(self._routing_key)
        finally:
            publisher.close()

    def properties(self, message_id: str | None = None) -> Any:
        return client("pika", extra="rabbitmq").BasicProperties(delivery_mode=self._mode, message_id=message_id)

    def messages(self, batch: Batch) -> list[tuple[str, bytes]]:
        """Routing keys and bodies."""
        bodies = encoded(batch)
        if isinstance(self._routing_key, str):
            return [(self._routing_key, body) for body in bodies]
        return list(zip(map(self._key_of, rows_of(batch)), bodies, strict=True))

    def _key_of(self, row: Any) -> str:
        assert callable(self._routing_key)
        try:
            key = self._routing_key(row)
        except Exception as error:
            raise user_function_failed("routing_key=", error, given=f"{row!r:.200}") from error
        if not isinstance(key, str):
            raise ConfigurationError(
                "routing_key= must return a string", detail=f"it returned {key!r} for {row!r:.200}"
            )
        return key


class RabbitMQSink(Sink):
    """Publishes records as they come."""

    def __init__(self, target: Target) -> None:
        self._target = target

    @property
    def name(self) -> str:
        return self._target.name

    def check(self, *, restores: bool = False) -> None:
        self._target.check()

    def writer(self, context: WriterContext) -> SinkWriter:
        return SendingWriter(self, RabbitMQSender(self._target), context)


class RabbitMQSender(Sender):
    def __init__(self, target: Target) -> None:
        self._target = target
        self._publisher: Publisher | None = None
        self._properties: Any = None

    def connect(self) -> None:
        self._properties = self._target.properties()
        self._publisher = self._target.publisher()

    def send(self, batch: Batch) -> None:
        assert self._publisher is not None, "not connected"
        for index, (key, body) in enumerate(self._target.messages(batch), start=1):
            self._publisher.publish(key, body, self._properties)
            if index % _ROWS_PER_TURN == 0:
                self._publisher.send_on()
        self._publisher.send_on()

    def settle(self) -> None:
        assert self._publisher is not None, "not connected"
        self._publisher.settle()

    def keep_alive(self) -> None:
        assert self._publisher is not None, "not connected"
        self._publisher.link.turn()

    def close(self) -> None:
        if self._publisher is not None:
            self._publisher.close()
            self._publisher = None


class RabbitMQFingerprintSink(WriteAheadSink):
    """Publishes the records of an epoch when its checkpoint is complete, each time with the same ids."""

    delivery = Delivery.FINGERPRINT

    def __init__(self, target: Target) -> None:
        self._target = target

    @property
    def name(self) -> str:
        return self._target.name

    def check(self, *, restores: bool = False) -> None:
        self._target.check()

    def encode(self, batch: Batch) -> Sequence[tuple[str, bytes]]:
        return self._target.messages(batch)

    def apply(self, epoch: Epoch, records: Sequence[Any]) -> None:
        """RabbitMQ keeps no number of the epoch: what was published before a failure is published again."""
        prefix = f"{_short(epoch.writer)}-{epoch.number}"
        publisher = self._target.publisher()
        try:
            for index, (key, body) in enumerate(records):
                publisher.publish(key, body, self._target.properties(f"{prefix}-{index}"))
                if index % _ROWS_PER_TURN == 0:
                    publisher.send_on()
            publisher.settle()
        finally:
            publisher.close()


def _short(writer: str) -> str:
    too_long = len(writer.encode()) > _WRITER_BYTES_MAX
    return blake2b(writer.encode(), digest_size=16).hexdigest() if too_long else writer
