"""How do many messages get to the broker quickly, in order, and with their errors noticed?"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from itertools import repeat
from typing import Any

from cutwater.connectors.failures import PeerError
from cutwater.connectors.kafka.cluster import Cluster, kafka
from cutwater.connectors.kafka.outgoing import Outgoing
from cutwater.errors import ConfigurationError

#: So many become Python objects at once, and then the client is served.
PORTION = 1000
#: What the client holds until the broker has it.
HELD_MESSAGES_MAX = 80_000
HELD_BYTES_MAX = 256 << 20
#: A client whose broker was killed in mid-transaction may never find it again; a new one does.
PROGRESS_WITHIN_SECONDS = 15.0


class MessageProducer:
    """A producer that remembers the first message that failed. Used by one thread at a time; blocks."""

    def __init__(self, cluster: Cluster, *, defaults: dict[str, Any], ours: dict[str, Any]) -> None:
        self._cluster = cluster
        self._refused: tuple[Any, str] | None = None
        # Without this the client calls back for every message.
        reports = {"delivery.report.only.error": True, "on_delivery": self._refuse}
        self.client = cluster.producer(
            {
                "queue.buffering.max.messages": HELD_MESSAGES_MAX,
                "queue.buffering.max.kbytes": HELD_BYTES_MAX >> 10,
                **defaults,
            },
            {"enable.idempotence": True, **ours, **reports},
        )

    def produce(self, messages: Sequence[Outgoing]) -> None:
        for topic, keys, values in messages:
            for begin in range(0, len(values), PORTION):
                portion = values.slice(begin, PORTION).to_pylist()
                keyed = repeat(None, len(portion)) if keys is None else keys.slice(begin, PORTION).to_pylist()
                self._produce(topic, keyed, portion)
                self._served(self.client.poll, 0)

    def flush(self) -> None:
        """Returns when the broker has everything; raises when it refused something, or takes nothing for a while."""
        left, since_seconds = len(self.client), time.monotonic()
        while (still_left := self._served(self.client.flush, 1.0)) > 0:
            now_seconds = time.monotonic()
            if still_left < left:
                left, since_seconds = still_left, now_seconds
            elif now_seconds - since_seconds > PROGRESS_WITHIN_SECONDS:
                raise PeerError(
                    f"Kafka at {self._cluster.servers} takes no messages",
                    detail=f"{left} wait since {now_seconds - since_seconds:.0f} s",
                )

    def close(self) -> None:
        """Drops what was not sent."""
        self.client.purge(blocking=False)
        with suppress(kafka().KafkaException, SystemError):
            self.client.poll(0)

    def _produce(self, topic: str, keys: Iterable[bytes | None], values: Sequence[bytes | None]) -> None:
        produce = self.client.produce
        try:
            for key, value in zip(keys, values, strict=True):
                while True:
                    try:
                        produce(topic, value, key)
                        break
                    except BufferError:
                        self._wait_for_room(topic)
        except kafka().KafkaException as error:
            raise self._cluster.failure(error.args[0], f"write to topic {topic!r}") from error

    def _wait_for_room(self, topic: str) -> None:
        """The client holds as much as it may."""
        held = len(self.client)
        if not held:
            raise ConfigurationError(
                f"a message to topic {topic!r} is larger than all that Kafka's client may hold",
                hint='raise it: properties={"queue.buffering.max.kbytes": …}',
            )
        while len(self.client) > held // 2:
            self._served(self.client.poll, 0.01)

    def _refuse(self, error: Any, message: Any) -> None:
        """Called by the client, while it is polled."""
        # When a transaction is lost, all its messages fail: only the first error says why.
        if error is not None and self._refused is None and error.code() != kafka().KafkaError._PURGE_QUEUE:
            self._refused = error, message.topic()

    def _served(self, call: Callable[[float], int], seconds: float) -> int:
        """The client calls back meanwhile."""
        try:
            result = call(seconds)
        except SystemError as error:
            # When it is fenced, the client raises, and goes on with its callbacks, which Python doesn't forgive. If the
            # reason is lost on the way, another producer will find it.
            raise error.__cause__ or PeerError(
                "Kafka's client failed, and doesn't say why", detail=str(error)
            ) from None
        if self._refused is not None:
            refusal, topic = self._refused
            raise self._cluster.failure(refusal, f"write to topic {topic!r}")
        return result
