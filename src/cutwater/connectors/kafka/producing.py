"""How do many messages get to the broker quickly, in order, and with their errors noticed?"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from cutwater.connectors.failures import PeerError
from cutwater.connectors.kafka.cluster import Cluster, kafka
from cutwater.connectors.kafka.outgoing import Outgoing

MESSAGES_PER_CALL = 1000
#: What the client holds until the broker has it. Below its own limits: beyond those it takes later messages while it
#: refuses earlier ones.
HELD_MESSAGES_MAX = 80_000
HELD_BYTES_MAX = 256 << 20
#: A client whose broker was killed in mid-transaction may never find it again; a new one does.
PROGRESS_WITHIN_SECONDS = 15.0


class MessageProducer:
    """A producer that remembers the first message that failed. Used by one thread at a time; blocks."""

    def __init__(self, cluster: Cluster, *, defaults: dict[str, Any], ours: dict[str, Any]) -> None:
        self._cluster = cluster
        self._refused: tuple[Any, str] | None = None
        self._largest_bytes = 1
        # Without this the client calls back for every message.
        reports = {"delivery.report.only.error": True, "on_delivery": self._refuse}
        self.client = cluster.producer(
            {"queue.buffering.max.messages": 2 * HELD_MESSAGES_MAX, **defaults},
            {"enable.idempotence": True, **ours, **reports},
        )

    def produce(self, messages: Sequence[Outgoing]) -> None:
        for topic, keys, values in messages:
            self._largest_bytes = max(self._largest_bytes, _largest_bytes(keys, values))
            for begin in range(0, len(values), MESSAGES_PER_CALL):
                portion = values.slice(begin, MESSAGES_PER_CALL).to_pylist()
                keyed = None if keys is None else keys.slice(begin, MESSAGES_PER_CALL).to_pylist()
                self._produce(topic, keyed, portion)

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

    def _produce(self, topic: str, keys: Sequence[bytes | None] | None, values: Sequence[bytes | None]) -> None:
        held_max = min(HELD_MESSAGES_MAX, max(MESSAGES_PER_CALL, HELD_BYTES_MAX // self._largest_bytes))
        while len(self.client) + len(values) > held_max and len(self.client):
            self._served(self.client.poll, 0.01)
        wanted: list[dict[str, Any]]
        if keys is None:
            wanted = [{"value": value} for value in values]
        else:
            wanted = [{"value": value, "key": key} for key, value in zip(keys, values, strict=True)]
        if self.client.produce_batch(topic, wanted) != len(wanted):
            error = next(message["_error"] for message in wanted if "_error" in message)
            raise self._cluster.failure(error, f"write to topic {topic!r}")
        self._served(self.client.poll, 0)

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


def _largest_bytes(keys: pa.Array | None, values: pa.Array) -> int:
    """At most so large is any message of these."""
    lengths = [pc.max(pc.binary_length(column)).as_py() or 0 for column in (keys, values) if column is not None]
    return sum(lengths)
