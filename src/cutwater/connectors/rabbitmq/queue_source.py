"""How is a RabbitMQ queue read so that no message is lost, and with ids none counts twice?

A queue forgets what is acknowledged, and delivers again what is not. So a message is acknowledged when a completed
checkpoint holds it. After a failure, messages that were read but not acknowledged come again, those that the snapshot
has counted among them. The server doesn't say that it has seen an acknowledgement, and after a crash it may have
forgotten some.

With ids the snapshot holds those of the messages that were not acknowledged when it was taken, and of the last ones
that were: what comes again is recognised, and dropped.
"""

from __future__ import annotations

from collections import deque
from typing import Any, Literal

import pyarrow as pa

from cutwater.connectors.bases.decoding import Decoded, Decoder, Place, Value, settled
from cutwater.connectors.bases.fetching import Fetched, FetchingReader
from cutwater.connectors.contract import Discovery, ReaderContext, Replay, SplitReader
from cutwater.connectors.rabbitmq.link import Consumer, Link, Message, check_url
from cutwater.connectors.rabbitmq.reading import ConsumingFetcher, RabbitMQSource
from cutwater.connectors.rabbitmq.seen_ids import SeenIds
from cutwater.connectors.settings import check_choice, check_name, check_positive
from cutwater.errors import ConfigurationError, SchemaError
from cutwater.protocol.splits import Split

MessageId = Literal["correlation_id", "message_id"]
#: AMQP's largest.
PREFETCH_MAX = 65_535
#: RabbitMQ writes out a queue's journal after 32,768 entries at the latest (queue_index_max_journal_entries): no more
#: acknowledgements than that are forgotten in a crash.
REMEMBERED = 65_536


def rabbitmq(
    url: str,
    queue: str,
    *,
    id: MessageId | None = None,  # noqa: A002
    value: Value = "bytes",
    schema: pa.Schema | None = None,
    prefetch: int = PREFETCH_MAX,
    remember: int = REMEMBERED,
) -> RabbitMQQueueSource:
    """Reads a queue over AMQP 0-9-1, and acknowledges what a completed checkpoint holds. Never ends.

    With `id`, exactly once: messages that are delivered again are recognised by this property, which publishers must
    set and which no two messages may share. The queue then has no other consumer: the server refuses it (a quorum
    queue must be declared with x-single-active-consumer). Without `id`, at least once: after a failure of a slot or of
    the server, messages may count twice. One task reads the queue.

    In a snapshot is how many messages were read and, with `id`, the ids of those that were not acknowledged yet and of
    the last ones that were (`remember`). What is acknowledged is gone: a snapshot older than the newest can be
    restored, but messages that were read since don't come again.

    `url`: `amqp://user:password@host:5672/%2F`, or `amqps://…`; its query may hold options of the client pika, such as
    `?heartbeat=30` or `ssl_options`.
    `value`: records are "bytes", "text" (UTF-8), "json" values, or what a function makes of the bytes; with a `schema`,
    JSON objects become typed rows.
    `prefetch`: how many messages may be unacknowledged, so also how many are read between two checkpoints at most.
    """
    check_url(url)
    check_name("queue", queue)
    value, schema = settled(value, schema, topic=queue)
    check_positive("prefetch", prefetch)
    if prefetch > PREFETCH_MAX:
        raise ConfigurationError(f"prefetch is at most {PREFETCH_MAX}", detail=f"it is {prefetch}")
    check_positive("remember", remember)
    if id is not None:
        check_choice("id", id, ("correlation_id", "message_id"))
    return RabbitMQQueueSource(
        url, queue, id=id, value=value, schema=schema, prefetch=prefetch, remember=remember
    )  # fmt: skip


class RabbitMQQueueSource(RabbitMQSource):
    """One split: the queue. Two tasks would not know each other's ids when a message changes from one to the other."""

    def __init__(
        self,
        url: str,
        queue: str,
        *,
        id: MessageId | None,  # noqa: A002
        value: Value,
        schema: pa.Schema | None,
        prefetch: int,
        remember: int,
    ) -> None:
        super().__init__(url, value=value, schema=schema, prefetch=prefetch)
        self.queue = queue
        self.id = id
        self.replay = Replay.REDELIVERED if id is None else Replay.REPLAYABLE
        self._remember = remember

    @property
    def name(self) -> str:
        return f"rabbitmq({self.queue})"

    def check(self) -> None:
        link = Link(self.url)
        try:
            link.messages_in(self.queue)
        finally:
            link.close()

    def discover(self, parallelism: int) -> Discovery:
        return self.only_split(self.queue, b"")

    def reader(self, split: Split, position: Any, context: ReaderContext) -> SplitReader:
        number, ids = (0, ()) if position is None else position
        seen = SeenIds(number, ids, remember=self._remember)
        fetcher = QueueFetcher(self, self.decoder(context), seen)
        return QueueReader(fetcher, number, seen, context, name=f'source "{self.name}"')


class QueueReader(FetchingReader):
    """Its own positions are numbers of messages; to the outside they come with the ids that were seen up to there."""

    def __init__(self, fetcher: QueueFetcher, number: int, seen: SeenIds, context: ReaderContext, *, name: str) -> None:
        self._seen = seen
        super().__init__(fetcher, number, context, name=name)

    @property
    def position(self) -> list[Any]:
        number: int = super().position
        return [number, self._seen.up_to(number)]

    def checkpoint_completed(self, position: Any) -> None:
        super().checkpoint_completed(position[0])


class QueueFetcher(ConsumingFetcher):
    """A consumer that acknowledges late. Messages are numbered as they come, also those that are dropped."""

    def __init__(self, source: RabbitMQQueueSource, decoder: Decoder, seen: SeenIds) -> None:
        super().__init__(decoder)
        self._source = source
        self._seen = seen
        self._number = 0
        #: The last number of a batch, and its tag; tags belong to one connection.
        self._unacknowledged: deque[tuple[int, int]] = deque()
        self._lag: int | None = None

    def connect(self, position: int) -> None:
        self._number = position
        self._unacknowledged.clear()
        source = self._source
        # With ids, only when what others have not acknowledged is back in the queue: then it comes before all else, and
        # ids may be forgotten by and by.
        alone = source.id is not None
        self._consumer = Consumer(source.url, source.queue, prefetch=source.prefetch, alone=alone)

    def fetch(self, limit: int) -> Fetched | None:
        messages = self.take(limit)
        if not messages:
            return None
        number = self._number + len(messages)
        new = messages if self._source.id is None else self._only_new(messages, self._source.id, number)
        decoded = self._decoded(new) if new else Decoded(None)
        self._number = number
        self._unacknowledged.append((number, messages[-1].method.delivery_tag))
        return Fetched(number, decoded.batch, lag=self._lag, unreadable=decoded.unreadable)

    def acknowledge(self, position: int) -> None:
        tag = None
        while self._unacknowledged and self._unacknowledged[0][0] <= position:
            _, tag = self._unacknowledged.popleft()
        if tag is not None:
            self.consumer.acknowledge(tag)
            self._lag = self.consumer.waiting()
        self._seen.acknowledged(position)

    def _only_new(self, messages: list[Message], property: str, number: int) -> list[Message]:  # noqa: A002
        ids = [getattr(message.properties, property) for message in messages]
        if None in ids:
            raise SchemaError(
                f'a message of queue "{self._source.queue}" has no {property}',
                detail=f"{messages[ids.index(None)].body!r:.200}",
                hint="publishers must set it; without id= messages are read at least once",
            )
        return [messages[index] for index in self._seen.add(ids, number)]

    def _decoded(self, messages: list[Message]) -> Decoded:
        """Positions are ids, where there are any, and delivery tags elsewhere: those belong to one connection."""

        def position(index: int) -> object:
            message = messages[index]
            return (
                message.method.delivery_tag if self._source.id is None else getattr(message.properties, self._source.id)
            )

        place = Place(lambda position: f'message {position} of queue "{self._source.queue}"', position)
        return self._decoder.decode([message.body for message in messages], place)
