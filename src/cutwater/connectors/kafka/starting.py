"""At which offset does each partition begin, and where does a bounded one end?

Found once, in the driver, when the partition is found: "latest" is the end at that time, whatever restarts follow.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from cutwater.connectors.kafka.cluster import ANSWER_WITHIN_SECONDS, Cluster, kafka, kafka_admin
from cutwater.errors import ConfigurationError

TopicAndPartition = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Start:
    """`kind`: earliest, latest, committed, or timestamp."""

    kind: str
    timestamp_ms: int = 0


def parse_start(start: Any, *, group: str | None) -> Start:
    """As users write it."""
    match start:
        case "committed" if group is None:
            raise ConfigurationError('start="committed" needs the group that committed', hint='group="…"')
        case "earliest" | "latest" | "committed":
            return Start(start)
        case datetime() if start.tzinfo is not None:
            return Start("timestamp", int(start.timestamp() * 1000))
        case datetime():
            raise ConfigurationError("start has no time zone", hint="datetime(…, tzinfo=timezone.utc)")
        case {"timestamp": datetime() as moment, **others} if not others:
            return parse_start(moment, group=group)
        case {"timestamp": int() as timestamp_ms, **others} if not others and timestamp_ms >= 0:
            return Start("timestamp", timestamp_ms)
    raise ConfigurationError(
        f"start {start!r} is unknown",
        hint='"earliest", "latest", "committed", a datetime, or {"timestamp": milliseconds}',
    )


class Offsets:
    """Asks a cluster. In the driver; blocks."""

    def __init__(self, cluster: Cluster, *, isolation: str, group: str | None) -> None:
        self._cluster = cluster
        self._isolation = isolation
        self._group = group
        self._admin = cluster.admin(lambda error: None)

    def at(self, start: Start, partitions: Sequence[TopicAndPartition]) -> dict[TopicAndPartition, int]:
        if not partitions:
            return {}
        spec = kafka_admin().OffsetSpec
        match start.kind:
            case "earliest":
                return self._listed(spec.earliest(), partitions)
            case "latest":
                return self._listed(spec.latest(), partitions)
            case "committed":
                return self._or(Start("earliest"), self._committed(partitions))
            case _:
                return self._or(Start("latest"), self._listed(spec.for_timestamp(start.timestamp_ms), partitions))

    def _or(self, other: Start, offsets: dict[TopicAndPartition, int]) -> dict[TopicAndPartition, int]:
        """Where there is none."""
        missing = [partition for partition, offset in offsets.items() if offset < 0]
        return {**offsets, **self.at(other, missing)}

    def _listed(self, spec: Any, partitions: Sequence[TopicAndPartition]) -> dict[TopicAndPartition, int]:
        levels = kafka().IsolationLevel
        level = levels.READ_COMMITTED if self._isolation == "read_committed" else levels.READ_UNCOMMITTED
        wanted = {kafka().TopicPartition(*partition): spec for partition in partitions}
        try:
            futures = self._admin.list_offsets(wanted, isolation_level=level, request_timeout=ANSWER_WITHIN_SECONDS)
            return {(key.topic, key.partition): future.result().offset for key, future in futures.items()}
        except kafka().KafkaException as error:
            raise self._cluster.failure(error.args[0], f"ask for offsets of {partitions[0][0]}") from None

    def _committed(self, partitions: Sequence[TopicAndPartition]) -> dict[TopicAndPartition, int]:
        with group_consumer(self._cluster, str(self._group)) as consumer:
            return committed_offsets(self._cluster, consumer, str(self._group), partitions)


@contextmanager
def group_consumer(cluster: Cluster, group: str) -> Iterator[Any]:
    """A consumer that reads no messages; it sees only offsets whose transaction has ended."""
    consumer = cluster.consumer({"group.id": group, "enable.auto.commit": False, "isolation.level": "read_committed"})
    try:
        yield consumer
    finally:
        consumer.close()


def committed_offsets(
    cluster: Cluster, consumer: Any, group: str, partitions: Sequence[TopicAndPartition]
) -> dict[TopicAndPartition, int]:
    """By partition; negative: none.

    By a consumer: librdkafka 2.16 crashes when an admin client asks while the group's coordinator is still loading.
    """
    wanted = [kafka().TopicPartition(*partition) for partition in partitions]
    try:
        found = consumer.committed(wanted, timeout=ANSWER_WITHIN_SECONDS)
    except kafka().KafkaException as error:
        raise cluster.failure(error.args[0], f'read the offsets of group "{group}"') from None
    for each in found:
        if each.error is not None:
            raise cluster.failure(each.error, f'read the offsets of group "{group}"')
    return {(each.topic, each.partition): each.offset for each in found}
