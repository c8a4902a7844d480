"""How do all partitions of a task come through one consumer, and each only as fast as it is read?

A client costs threads and connections, so the readers of a task share one, and the thread that runs it. It fetches
ahead: when enough is waiting for the loop, it stops asking. If the loop reads some partitions and leaves another one
alone (its event time is too far ahead), that one is paused, so that it doesn't hold up the others.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, MutableMapping, Sequence
from dataclasses import dataclass
from itertools import groupby, repeat
from typing import Any

from cutwater.batches import Batch
from cutwater.connectors.bases.decoding import Decoded
from cutwater.connectors.bases.patience import PATIENCE_SECONDS, Patience
from cutwater.connectors.contract import Unreadable
from cutwater.connectors.failures import PeerError
from cutwater.connectors.kafka.cluster import Cluster, kafka
from cutwater.errors import CutwaterError, OperationsError

log = logging.getLogger("cutwater")

#: What may wait for the loop, of all partitions of a task.
WAITING_ROWS_MAX = 50_000
WAITING_BYTES_MAX = 64 << 20
#: Large batches cost less, and the client holds no more than its own limit allows (`queued.max.messages.kbytes`).
MESSAGES_PER_CALL = 16_384
#: How long the thread waits for messages: what it must notice meanwhile (a new partition, the end) waits too.
WAIT_SECONDS = 0.1
#: A partition that is left alone for so long, while others are asked, is paused.
LEFT_ALONE_SECONDS = 1.0
FIRST_LIMIT = 1024
CLOSE_WAIT_SECONDS = 1.0
_SHARED_AS = "kafka"


@dataclass(frozen=True, slots=True)
class _Chunk:
    """Messages as they are handed to the loop. Without any, only the position moves, over what isn't a message."""

    next_offset: int
    batch: Batch | None = None
    unreadable: Sequence[Unreadable] = ()
    size_bytes: int = 0

    @property
    def rows(self) -> int:
        return len(self.unreadable) + (0 if self.batch is None else self.batch.num_rows)


class Feed:
    """What was fetched of one partition. Guarded by the lock of its consumer, but for what is fixed."""

    def __init__(self, topic: str, partition: int, *, start: int, end: int | None) -> None:
        """From offset `start` up to `end`, exclusive; None: for ever."""
        self.topic = topic
        self.partition = partition
        self.end = end
        #: Behind everything that was fetched.
        self.next_offset = start
        self.chunks: deque[_Chunk] = deque()
        self.limit = FIRST_LIMIT
        self.ended = end is not None and start >= end
        #: Raised when everything in front of it has been read.
        self.failure: BaseException | None = None
        #: Of the broker's last answer; None: it hasn't answered yet.
        self.end_of_partition: int | None = None
        self.asked_seconds = 0.0
        self.taken_seconds = 0.0
        self.paused = False

    @property
    def key(self) -> tuple[str, int]:
        return self.topic, self.partition

    @property
    def rows(self) -> int:
        return sum(chunk.rows for chunk in self.chunks)


class TaskConsumer:
    """The consumer of one task, with its thread; it ends when its last feed is taken off."""

    def __init__(
        self,
        cluster: Cluster,
        *,
        name: str,
        settings: dict[str, Any],
        decode: Callable[[Sequence[Any], Sequence[bytes | None]], Decoded],
        wake: Callable[[], None],
        commits: bool,
        patience_seconds: float = PATIENCE_SECONDS,
    ) -> None:
        """`commits`: what is acknowledged is committed for the group in `settings`."""
        self._cluster = cluster
        self._name = name
        self._settings = settings
        self._decode = decode
        self._wake = wake
        self._commits = commits
        self._patience = Patience(f'source "{name}"', now_seconds=time.monotonic, seconds=patience_seconds)
        self._changed = threading.Condition()
        self._feeds: dict[tuple[str, int], Feed] = {}
        #: Of all feeds there ever were: messages of one that was taken off may still come.
        self._topics: set[str] = set()
        self._waiting_rows = 0
        self._waiting_bytes = 0
        self._to_assign: list[Feed] = []
        self._to_unassign: list[Feed] = []
        self._to_commit: dict[tuple[str, int], int] = {}
        self._failure: BaseException | None = None
        self._closed = False
        self._trouble: Any = None
        self._thread: threading.Thread | None = None

    # On any thread but its own.

    def add(self, feed: Feed) -> bool:
        """False: the consumer has ended meanwhile."""
        with self._changed:
            if self._closed:
                return False
            self._feeds[feed.key] = feed
            self._topics.add(feed.topic)
            self._to_assign.append(feed)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name=f"cutwater-{self._name}", daemon=True)
                self._thread.start()
            self._changed.notify()
            return True

    def remove(self, feed: Feed) -> None:
        """The last one ends the consumer."""
        with self._changed:
            if self._feeds.pop(feed.key, None) is None:
                return
            self._to_unassign.append(feed)
            self._forget(feed.chunks)
            self._closed = not self._feeds
            self._changed.notify()
        if self._closed and self._thread is not None:
            self._thread.join(CLOSE_WAIT_SECONDS)

    def take(self, feed: Feed, limit: int) -> _Chunk | None:
        """The next messages, if they are here. Raises when there is nothing more to come."""
        with self._changed:
            feed.limit = limit
            feed.asked_seconds = time.monotonic()
            if not feed.chunks:
                failure = feed.failure or self._failure
                if failure is not None:
                    raise failure
                return None
            chunk = feed.chunks.popleft()
            feed.taken_seconds = feed.asked_seconds
            was_full = self._is_full()
            self._forget([chunk])
            if was_full or feed.paused:
                self._changed.notify()
            return chunk

    def acknowledge(self, feed: Feed, next_offset: int) -> None:
        if self._commits:
            with self._changed:
                self._to_commit[feed.key] = next_offset

    def has_ended(self, feed: Feed) -> bool:
        return feed.ended and not feed.chunks

    def has_news(self, feed: Feed) -> bool:
        return bool(feed.chunks) or feed.failure is not None or self._failure is not None

    # On its own thread.

    def _run(self) -> None:
        consumer: Any = None
        try:
            consumer = self._cluster.consumer({**self._settings, "error_cb": self._note_trouble})
            while self._may_go_on():
                self._follow(consumer)
                if self._wait_for_room(consumer):
                    self._fetch(consumer)
                self._look_after(consumer)
        except BaseException as error:  # the loop raises it
            self._failure = self._as_ours(error)
        finally:
            if consumer is not None:
                consumer.close()
            self._wake()

    def _may_go_on(self) -> bool:
        with self._changed:
            return not self._closed

    def _follow(self, consumer: Any) -> None:
        """Assigns and commits what was asked for."""
        with self._changed:
            added, self._to_assign = self._to_assign, []
            removed, self._to_unassign = self._to_unassign, []
            commits, self._to_commit = self._to_commit, {}
            resumed = [feed for feed in self._feeds.values() if feed.paused and not feed.chunks]
        assigned = [feed for feed in added if not feed.ended]
        if assigned:
            consumer.incremental_assign([_as_kafka(feed, feed.next_offset) for feed in assigned])
        gone = [feed for feed in removed if feed not in added]
        if gone:
            kept = {(each.topic, each.partition) for each in consumer.assignment()}
            consumer.incremental_unassign([_as_kafka(feed) for feed in gone if feed.key in kept])
        if resumed:
            consumer.resume([_as_kafka(feed) for feed in resumed])
            for feed in resumed:
                feed.paused = False
        if commits:
            self._commit(consumer, commits)

    def _commit(self, consumer: Any, offsets: dict[tuple[str, int], int]) -> None:
        """For people who watch the group's lag; nothing depends on it."""
        wanted = [kafka().TopicPartition(*key, offset) for key, offset in offsets.items()]
        try:
            consumer.commit(offsets=wanted, asynchronous=True)
        except kafka().KafkaException as error:
            log.info('source "%s" could not commit offsets: %s', self._name, error)

    def _wait_for_room(self, consumer: Any) -> bool:
        with self._changed:
            if not self._is_full():
                return True
            left_alone = self._left_alone()
            if not left_alone:
                self._changed.wait(WAIT_SECONDS)
                return False
            for feed in left_alone:
                feed.paused = True
        consumer.pause([_as_kafka(feed) for feed in left_alone])
        return True

    def _is_full(self) -> bool:
        """Paused feeds don't count: they wait for something else."""
        rows, size_bytes = self._waiting_rows, self._waiting_bytes
        for feed in self._feeds.values():
            if feed.paused:
                rows -= feed.rows
                size_bytes -= sum(chunk.size_bytes for chunk in feed.chunks)
        return rows >= WAITING_ROWS_MAX or size_bytes >= WAITING_BYTES_MAX

    def _left_alone(self) -> list[Feed]:
        asked_seconds = max((feed.asked_seconds for feed in self._feeds.values()), default=0.0)
        return [
            feed
            for feed in self._feeds.values()
            if feed.chunks and not feed.paused and asked_seconds - feed.asked_seconds >= LEFT_ALONE_SECONDS
        ]

    def _fetch(self, consumer: Any) -> None:
        messages = consumer.consume(MESSAGES_PER_CALL, 0)
        if not messages:
            # This returns with the first one, where `consume` would wait for all.
            first = consumer.poll(WAIT_SECONDS)
            if first is None:
                return
            messages = [first, *consumer.consume(MESSAGES_PER_CALL, 0)]
        begin = 0
        for key, run in groupby(self._keys_of(messages)):
            end = begin + len(list(run))
            feed = self._feeds.get(key)
            if feed is not None and not feed.ended and feed.failure is None:
                self._hand_over(consumer, feed, messages[begin:end])
            begin = end
        self._wake()

    def _keys_of(self, messages: list[Any]) -> Iterable[tuple[str, int]]:
        """Without a call of ours for each message; and not by names when there is only one, since they are compared."""
        message, known = kafka().Message, tuple(self._topics)
        topics = repeat(known[0], len(messages)) if len(known) == 1 else map(message.topic, messages)
        return zip(topics, map(message.partition, messages), strict=True)

    def _hand_over(self, consumer: Any, feed: Feed, run: list[Any]) -> None:
        messages = run
        reaches_end = False
        if any(map(kafka().Message.error, run)):
            messages = [message for message in run if message.error() is None]
        if messages and messages[0].offset() < feed.next_offset:  # once more, after a pause
            messages = [message for message in messages if message.offset() >= feed.next_offset]
        if messages and feed.end is not None and messages[-1].offset() >= feed.end:
            messages = [message for message in messages if message.offset() < feed.end]
            reaches_end = True
        limit = feed.limit  # the loop may want another one meanwhile
        try:
            for begin in range(0, len(messages), limit):
                self._append(feed, messages[begin : begin + limit])
            if messages is not run:
                self._heed(consumer, feed, run)
            # Only now: the loop takes a feed for read that has ended and holds nothing.
            feed.ended = feed.ended or reaches_end
        except Exception as error:
            feed.failure = self._as_ours(error)
        self._note_end(consumer, feed)

    def _append(self, feed: Feed, messages: list[Any]) -> None:
        values = [*map(kafka().Message.value, messages)]
        decoded = self._decode(messages, values)
        size_bytes = sum(map(len, filter(None, values)))
        self._put(feed, _Chunk(messages[-1].offset() + 1, decoded.batch, decoded.unreadable, size_bytes))

    def _put(self, feed: Feed, chunk: _Chunk) -> None:
        with self._changed:
            feed.next_offset = chunk.next_offset
            feed.chunks.append(chunk)
            self._waiting_rows += chunk.rows
            self._waiting_bytes += chunk.size_bytes

    def _heed(self, consumer: Any, feed: Feed, run: list[Any]) -> None:
        """Messages that are none: the end of the partition for now, or an error."""
        errors = kafka().KafkaError
        for message in run:
            error = message.error()
            if error is None:
                continue
            if error.code() == errors._PARTITION_EOF:
                feed.end_of_partition = message.offset()
                if message.offset() > feed.next_offset:  # over markers of transactions
                    self._put(feed, _Chunk(message.offset()))
            elif error.code() == errors._AUTO_OFFSET_RESET:
                raise self._gap(consumer, feed)
            else:
                failure = self._cluster.failure(error, f"read {feed.topic}/{feed.partition}")
                if not isinstance(failure, PeerError):
                    raise failure
                self._trouble = error

    def _note_end(self, consumer: Any, feed: Feed) -> None:
        if feed.end is not None and feed.next_offset >= feed.end:
            feed.ended = True
        known = consumer.get_watermark_offsets(_as_kafka(feed), cached=True)
        if known is not None and known[1] >= 0:
            feed.end_of_partition = max(known[1], feed.end_of_partition or 0)

    def _gap(self, consumer: Any, feed: Feed) -> OperationsError:
        wanted = feed.next_offset
        first, behind = consumer.get_watermark_offsets(_as_kafka(feed), timeout=10.0) or (None, None)
        if first is not None and wanted < first:
            detail = f"the first that is there is {first}: {first - wanted} offsets are gone, most likely by retention"
        else:
            detail = f"the partition ends at {behind}: the topic was made anew, or lost data"
        return GapError(
            f"{feed.topic}/{feed.partition} has no offset {wanted} any more",
            detail=detail,
            hint="start the job without its snapshots, or with another uid for this source, to go on behind the gap",
        )

    def _note_trouble(self, error: Any) -> None:
        """Called by the client while it fetches."""
        self._trouble = error

    def _look_after(self, consumer: Any) -> None:
        """The client connects again by itself; we see how long it takes."""
        if self._trouble is None:
            return
        try:
            consumer.list_topics(next(iter(self._feeds))[0], timeout=1.0)
        except kafka().KafkaException:
            pause_seconds = self._patience.failed(self._cluster.silent(self._trouble))
            with self._changed:
                self._changed.wait_for(lambda: self._closed, pause_seconds)
        except StopIteration:
            return
        else:
            self._patience.succeeded()
            self._trouble = None

    def _as_ours(self, error: BaseException) -> BaseException:
        if isinstance(error, kafka().KafkaException) and not isinstance(error, CutwaterError):
            return self._cluster.failure(error.args[0], "read from Kafka")
        return error

    def _forget(self, chunks: Sequence[_Chunk] | deque[_Chunk]) -> None:
        self._waiting_rows -= sum(chunk.rows for chunk in chunks)
        self._waiting_bytes -= sum(chunk.size_bytes for chunk in chunks)


class GapError(OperationsError):
    """Messages are gone before they were read: a person must decide."""

    retryable = False


def shared_consumer(shared: MutableMapping[str, Any], feed: Feed, make: Callable[[], TaskConsumer]) -> TaskConsumer:
    """The task's consumer, with this feed; a new one if there is none, or it has ended."""
    while True:
        consumer: TaskConsumer = shared.get(_SHARED_AS) or shared.setdefault(_SHARED_AS, make())
        if consumer.add(feed):
            return consumer
        if shared.get(_SHARED_AS) is consumer:
            shared.pop(_SHARED_AS, None)


def _as_kafka(feed: Feed, offset: int | None = None) -> Any:
    if offset is None:
        return kafka().TopicPartition(feed.topic, feed.partition)
    return kafka().TopicPartition(feed.topic, feed.partition, offset)
