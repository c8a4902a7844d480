"""How does an epoch get into Kafka once, however often it is committed?

Its records and its number go out in one transaction. The number is kept as the offset of a consumer group that belongs
to the writer, so it is committed with the records or not at all. A process that commits first opens a producer with the
writer's transactional id: that ends what an older process left open, and shuts the older process out. Then the number
tells what is done.

A cluster forgets the offsets of a group that is not renewed (`offsets.retention.minutes`, a week by default). So each
writer stores a number when it opens, and renews it while it has nothing to write. When there is none, it was forgotten:
whether the epoch was written can't be known, and a person must decide.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from hashlib import blake2b
from typing import Any

from cutwater.connectors.bases.patience import PATIENCE_SECONDS, Patience
from cutwater.connectors.bases.write_ahead import Epoch
from cutwater.connectors.failures import PeerError
from cutwater.connectors.kafka.cluster import Cluster, kafka
from cutwater.connectors.kafka.outgoing import Outgoing
from cutwater.connectors.kafka.producing import MessageProducer
from cutwater.connectors.kafka.starting import committed_offsets, group_consumer
from cutwater.errors import OperationsError

#: Large epochs take their time; no broker refuses it by default.
TRANSACTION_TIMEOUT_SECONDS = 120.0
CALL_SECONDS = 15.0
#: An epoch is there as a whole, and its end is flushed: waiting for more makes fewer requests, and nothing later.
LARGE_BATCHES = {"linger.ms": 100, "batch.num.messages": 100_000}
#: How much later than it should a call may come back.
LATE_SECONDS = 5.0


class NumberForgottenError(OperationsError):
    """Kafka no longer knows which epochs a writer has written."""

    retryable = False


class Transactions:
    """The producers of one process, one for each writer. Used by several threads; blocks."""

    def __init__(
        self, cluster: Cluster, *, topic: str, if_forgotten: str, patience_seconds: float = PATIENCE_SECONDS
    ) -> None:
        """`topic`: the numbers are offsets of its first partition."""
        self._cluster = cluster
        self._topic = topic
        self._if_forgotten = if_forgotten
        self._patience_seconds = patience_seconds
        self._lock = threading.Lock()
        self._writers: dict[str, _Writer] = {}

    def begin(self, epoch: Epoch) -> None:
        """Stores the number, if the writer has none that is higher."""
        self._writer(epoch.writer).apply(epoch.number, [], begins=True)

    def apply(self, epoch: Epoch, messages: Sequence[Outgoing]) -> None:
        self._writer(epoch.writer).apply(epoch.number, messages)

    def close(self) -> None:
        with self._lock:
            writers, self._writers = self._writers, {}
        for writer in writers.values():
            writer.close()

    def _writer(self, name: str) -> _Writer:
        with self._lock:
            if name not in self._writers:
                patience_seconds = self._patience_seconds
                self._writers[name] = _Writer(self._cluster, name, self._topic, self._if_forgotten, patience_seconds)
            return self._writers[name]


class _Writer:
    def __init__(self, cluster: Cluster, name: str, topic: str, if_forgotten: str, patience_seconds: float) -> None:
        self._cluster = cluster
        self._group = f"cutwater.{blake2b(name.encode(), digest_size=16).hexdigest()}"
        self._topic = topic
        self._if_forgotten = if_forgotten
        self._patience_seconds = patience_seconds
        self._lock = threading.Lock()
        self._producer: MessageProducer | None = None
        self._group_metadata: Any = None
        #: The highest number that Kafka has, if there is a producer; None: it knows none.
        self._done: int | None = None

    def apply(self, number: int, messages: Sequence[Outgoing], *, begins: bool = False) -> None:
        patience = Patience(f'sink "kafka({self._topic})"', now_seconds=time.monotonic, seconds=self._patience_seconds)
        with self._lock:
            while True:
                try:
                    self._apply(number, messages, begins=begins)
                    return
                except PeerError as error:
                    self._drop()
                    time.sleep(patience.failed(error))
                except BaseException:
                    self._drop()
                    raise

    def close(self) -> None:
        with self._lock:
            self._drop()

    def _apply(self, number: int, messages: Sequence[Outgoing], *, begins: bool) -> None:
        try:
            producer = self._producer or self._opened()
            if self._done is None and not begins:
                if self._if_forgotten == "fail":
                    raise self._forgotten(number)
                messages = messages if self._if_forgotten == "write" else []
            if self._done is None or self._done < number:
                self._commit(producer, number, messages)
                self._done = number
        except kafka().KafkaException as error:
            raise self._cluster.failure(error.args[0], f"write to topic {self._topic!r}") from error

    def _commit(self, producer: MessageProducer, number: int, messages: Sequence[Outgoing]) -> None:
        client = producer.client
        client.begin_transaction()
        producer.produce(messages)
        producer.flush()
        offset = kafka().TopicPartition(self._topic, 0, number)
        self._within_time(lambda: client.send_offsets_to_transaction([offset], self._group_metadata, CALL_SECONDS))
        self._within_time(lambda: client.commit_transaction(CALL_SECONDS))

    def _opened(self) -> MessageProducer:
        producer = self._producer = MessageProducer(
            self._cluster,
            defaults={"transaction.timeout.ms": int(TRANSACTION_TIMEOUT_SECONDS * 1000), **LARGE_BATCHES},
            ours={"transactional.id": self._group},
        )
        self._within_time(lambda: producer.client.init_transactions(CALL_SECONDS))
        # Only now: what an older producer had begun is decided, and it can begin nothing more.
        with group_consumer(self._cluster, self._group) as consumer:
            number = committed_offsets(self._cluster, consumer, self._group, [(self._topic, 0)])[self._topic, 0]
            self._group_metadata = consumer.consumer_group_metadata()
        self._done = number if number >= 0 else None
        return producer

    def _within_time(self, call: Callable[[], None]) -> None:
        """Gives a client up that doesn't come back: librdkafka 2.16 may wait for ever for a broker that was killed in
        mid-transaction, whatever the timeout. Its successor shuts it out.
        """
        outcome: Future[None] = Future()

        def run() -> None:
            try:
                call()
            except BaseException as error:
                outcome.set_exception(error)
            else:
                outcome.set_result(None)

        threading.Thread(target=run, name="cutwater-kafka-transaction", daemon=True).start()
        try:
            outcome.result(CALL_SECONDS + LATE_SECONDS)
        except TimeoutError:
            raise PeerError(
                f"can't write to topic {self._topic!r}",
                detail=f"{self._cluster.servers}: the client does not come back from a call; another one is made",
            ) from None

    def _drop(self) -> None:
        producer, self._producer, self._done = self._producer, None, None
        if producer is not None:
            producer.close()

    def _forgotten(self, number: int) -> NumberForgottenError:
        return NumberForgottenError(
            f"Kafka at {self._cluster.servers} no longer knows which epochs were written to {self._topic!r}",
            detail=f"group {self._group!r} has no offsets, so epoch {number} may be there or not: the job was down for"
            " longer than offsets.retention.minutes, or this is another topic or cluster",
            hint='look at the end of the topic, then start the job with if_forgotten="skip" if the records of the last'
            ' checkpoint are there, or "write" if not',
        )
