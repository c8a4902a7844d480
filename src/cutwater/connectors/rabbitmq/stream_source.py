"""How is a RabbitMQ stream read exactly once?

Every message of a stream has an offset, and reading doesn't remove it. So a position is an offset, and what was read is
acknowledged at once: that only asks for more.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Literal

import msgspec
import pyarrow as pa

from cutwater.connectors.bases.decoding import Decoder, Place, Value, settled
from cutwater.connectors.bases.fetching import Fetched, FetchingReader
from cutwater.connectors.contract import Discovery, ReaderContext, SplitReader
from cutwater.connectors.failures import PeerError
from cutwater.connectors.rabbitmq.link import Consumer, Link, address_of, check_url
from cutwater.connectors.rabbitmq.reading import ConsumingFetcher, RabbitMQSource
from cutwater.connectors.settings import check_name, check_positive
from cutwater.errors import ConfigurationError, RecoveryRefusedError
from cutwater.protocol.splits import Split

StreamStart = Literal["first", "last", "next"] | int | datetime
#: What the server sends before the first is acknowledged.
PREFETCH = 10_000
OFFSET = "x-stream-offset"
#: How long the end of a stream is looked for, and a message after which nothing follows is the last.
LOOK_SECONDS = 1.0


def rabbitmq_stream(
    url: str,
    stream: str,
    *,
    start: StreamStart = "first",
    value: Value = "bytes",
    schema: pa.Schema | None = None,
    prefetch: int = PREFETCH,
) -> RabbitMQStreamSource:
    """Reads a stream (a queue with `x-queue-type=stream`) over AMQP 0-9-1. Never ends.

    Exactly once: the position in a snapshot is the offset of the next message. One task reads the stream.

    `url`: `amqp://user:password@host:5672/%2F`, or `amqps://…`; its query may hold options of the client pika, such as
    `?heartbeat=30` or `ssl_options`.
    `start`: where a job begins that restores nothing. "first": with the oldest message; "last": with the newest chunk
    of messages; "next": with what comes from now on; an offset; or a moment (the chunk that holds it; one without a
    time zone is local).
    `value`: records are "bytes", "text" (UTF-8), "json" values, or what a function makes of the bytes; with a `schema`,
    JSON objects become typed rows.
    `prefetch`: how many messages the server sends ahead.
    """
    check_url(url)
    check_name("stream", stream)
    value, schema = settled(value, schema, topic=stream)
    check_positive("prefetch", prefetch)
    is_offset = isinstance(start, int) and not isinstance(start, bool) and start >= 0
    if not (is_offset or isinstance(start, datetime) or start in ("first", "last", "next")):
        raise ConfigurationError(
            f"start {start!r} is unknown", hint="'first', 'last', 'next', an offset from 0, or a datetime"
        )
    if isinstance(start, datetime):
        start = start.astimezone(UTC)
    return RabbitMQStreamSource(url, stream, start=start, value=value, schema=schema, prefetch=prefetch)


class RabbitMQStreamSource(RabbitMQSource):
    """One split: the stream. Its payload says where it begins."""

    def __init__(
        self,
        url: str,
        stream: str,
        *,
        start: StreamStart,
        value: Value,
        schema: pa.Schema | None,
        prefetch: int,
    ) -> None:
        super().__init__(url, value=value, schema=schema, prefetch=prefetch)
        self.stream = stream
        self._start: StreamStart = start

    @property
    def name(self) -> str:
        return f"rabbitmq_stream({self.stream})"

    def check(self) -> None:
        link = Link(self.url)
        try:
            link.messages_in(self.stream)
            # Only a stream can be consumed from an offset; other queues refuse the argument.
            link.ask(link.channel.basic_qos, prefetch_count=1)
            link.ask(link.channel.basic_consume, self.stream, lambda *_: None, arguments={OFFSET: "next"})
        except ConfigurationError as error:
            if "invalid arg" in error.detail:
                raise ConfigurationError(
                    f'"{self.stream}" of RabbitMQ at {address_of(self.url)} is not a stream',
                    detail=error.detail,
                    hint="read queues with cw.sources.rabbitmq",
                ) from error
            raise
        finally:
            link.close()

    def discover(self, parallelism: int) -> Discovery:
        return self.only_split(self.stream, msgspec.msgpack.encode(self._first_offset()))

    def _first_offset(self) -> int | str | datetime:
        """A number, where one can be had, and one for all attempts: later "next" would be another place."""
        match self._start:
            case "next":
                offsets = self.offsets_from("last")
                self._start = offsets[-1] + 1 if offsets else "first"
            case "last" | datetime():
                offsets = self.offsets_from(self._start)
                self._start = offsets[0] if offsets else self._start
        return self._start

    def offsets_from(self, start: str | datetime) -> list[int]:
        """The first that come from there; from "last" to the end, if the end is wanted. May block."""
        consumer = Consumer(self.url, self.stream, prefetch=self.prefetch, arguments={OFFSET: start})
        offsets: list[int] = []
        try:
            while messages := consumer.take(self.prefetch, wait_seconds=LOOK_SECONDS):
                offsets += [int(message.properties.headers[OFFSET]) for message in messages]
                if start != "last" or self._start != "next":
                    break
                consumer.acknowledge(messages[-1].method.delivery_tag)
        finally:
            consumer.close()
        return offsets

    def reader(self, split: Split, position: Any, context: ReaderContext) -> SplitReader:
        fetcher = StreamFetcher(self, msgspec.msgpack.decode(split.payload), self.decoder(context))
        return FetchingReader(fetcher, position, context, name=f'source "{self.name}"')


class StreamFetcher(ConsumingFetcher):
    """A consumer from an offset. A position is the offset of the next message."""

    def __init__(self, source: RabbitMQStreamSource, start: Any, decoder: Decoder) -> None:
        super().__init__(decoder)
        self._source = source
        self._start: StreamStart = start
        self._next: int | None = None

    def connect(self, position: Any) -> None:
        self._next = position if position is not None else self._start if isinstance(self._start, int) else None
        start = self._start if self._next is None else self._next
        source = self._source
        self._consumer = Consumer(source.url, source.stream, prefetch=source.prefetch, arguments={OFFSET: start})

    def fetch(self, limit: int) -> Fetched | None:
        messages = self.take(limit)
        if not messages:
            return None
        self.consumer.acknowledge(messages[-1].method.delivery_tag)
        offsets = [message.properties.headers[OFFSET] for message in messages]
        bodies = [message.body for message in messages]
        if self._next is not None and offsets[0] != self._next:
            offsets, bodies = self._from_next(offsets, bodies)
        if not offsets:
            return None
        self._next = offsets[-1] + 1
        place = Place(lambda offset: f'message {offset} of stream "{self._source.stream}"', offsets.__getitem__)
        decoded = self._decoder.decode(bodies, place)
        return Fetched(self._next, decoded.batch, unreadable=decoded.unreadable)

    def _from_next(self, offsets: list[int], bodies: list[bytes]) -> tuple[list[int], list[bytes]]:
        """The server begins with a chunk, and where messages were deleted, with the oldest that there is."""
        assert self._next is not None
        if offsets[0] > self._next:
            self._refuse_loss(self._next)
        skipped = sum(offset < self._next for offset in offsets)
        return offsets[skipped:], bodies[skipped:]

    def _refuse_loss(self, wanted: int) -> None:
        """A gap alone means nothing: the server numbers notes of its own, too."""
        oldest = self._source.offsets_from("first")[:1]
        if not oldest:
            raise PeerError(f'stream "{self._source.stream}" doesn\'t tell which message is its oldest')
        if oldest[0] > wanted:
            raise RecoveryRefusedError(
                f'messages of stream "{self._source.stream}" were deleted before they were read',
                detail=f"offset {wanted} was next, the oldest that there is is {oldest[0]}",
                hint="keep messages for longer (x-max-age, x-max-length-bytes), or begin anew",
            )
