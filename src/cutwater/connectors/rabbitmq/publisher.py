"""Has the server taken what was published?

It confirms messages by their number, single ones out of order or all up to one. What it can't route comes back, and is
confirmed nevertheless.
"""

from __future__ import annotations

from typing import Any

from cutwater.connectors.bases.extras import client
from cutwater.connectors.failures import PeerError
from cutwater.connectors.rabbitmq.link import Link
from cutwater.errors import ConfigurationError

#: Messages that were published and not confirmed: more would only fill buffers.
UNCONFIRMED_MAX = 10_000
_LOOK_SECONDS = 5.0


class Publisher:
    """A link that publishes with confirms. Used by one thread."""

    def __init__(self, url: str, exchange: str, *, mandatory: bool) -> None:
        """`mandatory`: a message that no queue takes is an error."""
        self.link = Link(url)
        self._exchange = exchange
        self._mandatory = mandatory
        self._published = 0
        self._confirms = Confirms()
        try:
            if exchange:
                self.link.ask(self.link.channel.exchange_declare, exchange, passive=True)
            self.link.channel.add_on_return_callback(self._returned)
            self.link.ask(self.link.channel.confirm_delivery, self._confirmed)
        except BaseException:
            self.link.close()
            raise

    def publish(self, routing_key: str, body: bytes, properties: Any) -> None:
        """Puts the message into the client's buffer; `send_on` sends it."""
        try:
            self.link.channel.basic_publish(self._exchange, routing_key, body, properties, self._mandatory)
        except client("pika.exceptions", extra="rabbitmq").AMQPError as error:
            raise self.link.translated(error) from error
        self._published += 1

    def send_on(self) -> None:
        """Sends; waits while too much is unconfirmed."""
        self.link.turn()
        while not self.link.drive(lambda: self._published - self._confirms.up_to <= UNCONFIRMED_MAX, _LOOK_SECONDS):
            pass

    def settle(self) -> None:
        """Returns when everything is confirmed. A server that hangs is noticed by its heartbeats."""
        while not self.link.drive(lambda: self._published == self._confirms.up_to, _LOOK_SECONDS):
            pass
        self.link.turn()  # raises what came in with the last confirms

    def close(self) -> None:
        self.link.close()

    def _confirmed(self, frame: Any) -> None:
        if frame.method.NAME == "Basic.Nack":
            self.link.fail(PeerError("RabbitMQ could not store a message", hint="see the server's log"))
        else:
            self._confirms.add(frame.method.delivery_tag, multiple=frame.method.multiple)

    def _returned(self, _: Any, method: Any, properties: Any, body: bytes) -> None:
        self.link.fail(
            ConfigurationError(
                f'exchange "{method.exchange}" has no queue for routing key "{method.routing_key}"',
                detail=f"{method.reply_text}: {body!r:.200}",
                hint="bind a queue, or drop such messages with mandatory=False",
            )
        )


class Confirms:
    """Up to which message is everything confirmed?"""

    def __init__(self) -> None:
        self.up_to = 0
        self._single: set[int] = set()

    def add(self, number: int, *, multiple: bool) -> None:
        if multiple:
            if number > self.up_to:
                self.up_to = number
                self._single = {single for single in self._single if single > number}
        else:
            self._single.add(number)
        while self.up_to + 1 in self._single:
            self.up_to += 1
            self._single.discard(self.up_to)
