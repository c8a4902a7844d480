"""What do the sources of queues and of streams have in common?

One split, which one task reads: a consumer sends ahead, on the reader's own thread, and its messages are decoded.
"""

from __future__ import annotations

import pyarrow as pa

from cutwater.connectors.bases.decoding import Decoder, Value, decoder_of
from cutwater.connectors.bases.fetching import FETCH_WAIT_SECONDS, Fetcher
from cutwater.connectors.contract import Discovery, ReaderContext, Source
from cutwater.connectors.rabbitmq.link import Consumer, Message, address_of
from cutwater.protocol.splits import Split


class RabbitMQSource(Source):
    eager = True
    bounded = False
    can_tolerate = True

    def __init__(self, url: str, *, value: Value, schema: pa.Schema | None, prefetch: int) -> None:
        self.url = url
        self.prefetch = prefetch
        self._value = value
        self._schema = schema

    @property
    def schema(self) -> pa.Schema | None:
        return self._schema

    def only_split(self, queue: str, payload: bytes) -> Discovery:
        """All of the queue, or stream."""
        return Discovery((Split(f"{address_of(self.url)}/{queue}", payload),), complete=True)

    def decoder(self, context: ReaderContext) -> Decoder:
        return decoder_of(self._value, self._schema, tolerant=context.tolerant)


class ConsumingFetcher(Fetcher):
    """Subclasses make the consumer in `connect`."""

    def __init__(self, decoder: Decoder) -> None:
        self._decoder = decoder
        self._consumer: Consumer | None = None

    @property
    def consumer(self) -> Consumer:
        assert self._consumer is not None, "not connected"
        return self._consumer

    def take(self, limit: int) -> list[Message]:
        """What has arrived; none when nothing did for a while."""
        return self.consumer.take(limit, wait_seconds=FETCH_WAIT_SECONDS)

    def keep_alive(self) -> None:
        if self._consumer is not None:
            self._consumer.link.turn()

    def close(self) -> None:
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None
