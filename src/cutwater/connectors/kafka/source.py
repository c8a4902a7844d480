"""How does a topic become a stream?"""

from __future__ import annotations

import copy
import logging
import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Literal

import msgspec
import pyarrow as pa

from cutwater.batches import Batch
from cutwater.connectors.bases.decoding import Value, settled
from cutwater.connectors.bases.message_formats import MessageFormat
from cutwater.connectors.contract import Discovery, ReaderContext, Source, SplitReader, Unreadable
from cutwater.connectors.failures import PeerError
from cutwater.connectors.kafka.cluster import Cluster
from cutwater.connectors.kafka.consuming import Feed, TaskConsumer, shared_consumer
from cutwater.connectors.kafka.starting import Offsets, Start, TopicAndPartition, parse_start
from cutwater.connectors.kafka.values import MessageDecoder, typed_schema
from cutwater.connectors.settings import check_choice
from cutwater.durations import Duration, parse_duration
from cutwater.errors import ConfigurationError
from cutwater.protocol.known_origins import KnownOrigins, digest_of
from cutwater.protocol.splits import Split

log = logging.getLogger("cutwater")


def kafka(
    servers: str | Sequence[str],
    topics: str | Sequence[str] | None = None,
    *,
    pattern: str | None = None,
    start: Literal["earliest", "latest", "committed"] | datetime | Mapping[str, Any] = "earliest",
    group: str | None = None,
    value: Value = "bytes",
    schema: pa.Schema | None = None,
    with_metadata: bool = False,
    bounded: bool = False,
    isolation: Literal["read_committed", "read_uncommitted"] = "read_committed",
    discovery: Duration = "10s",
    properties: Mapping[str, Any] | None = None,
) -> KafkaSource:
    """A source of these topics, or of those whose whole name matches the regular expression `pattern`.

    Exactly once: a split is a partition, and its position in a snapshot the next offset. What the group committed
    plays no part in recovery. A message that is gone before it was read (retention) fails the job; it never skips.

    `start`: where partitions begin that the first look finds; a time (`datetime` with a time zone, or
    `{"timestamp": milliseconds}`) stands for the first message at or after it, "committed" for what `group` committed,
    or the earliest where it has committed nothing. Partitions that appear later begin at the earliest.

    `value`: "bytes", "text" (UTF-8), "json", a function of the bytes, or one of `cw.formats` (Avro, Protobuf); messages
    without a value give None.
    `schema`: messages are JSON objects, which become typed Arrow batches. `with_metadata`: records of type
    `KafkaRecord` (value, key, topic, partition, offset, timestamp_ms, headers); typed, columns kafka_key, kafka_topic,
    kafka_partition, kafka_offset and kafka_timestamp.

    `group`: completed checkpoints commit their offsets there, for people who watch its lag. `bounded`: ends where the
    partitions ended when the job started. `isolation`: "read_uncommitted" also gives messages of aborted transactions.
    `discovery`: how often to look for new partitions and topics. `properties`: settings of librdkafka, for TLS, SASL
    and tuning.
    """
    titles = [topics] if isinstance(topics, str) else list(topics or [])
    if bool(titles) == (pattern is not None):
        raise ConfigurationError("kafka() reads topics or a pattern", hint='topics="orders", or pattern="orders-.*"')
    check_choice("isolation", isolation, ("read_committed", "read_uncommitted"))
    value, schema = settled(value, schema, topic=titles[0] if len(titles) == 1 else None)
    return KafkaSource(
        Cluster(servers, properties),
        titles,
        _compiled(pattern),
        start=parse_start(start, group=group),
        group=group,
        value=value,
        schema=None if schema is None else typed_schema(schema, with_metadata=with_metadata),
        with_metadata=with_metadata,
        bounded=bounded,
        isolation=isolation,
        discovery_seconds=parse_duration(discovery, option="discovery"),
    )


class _Part(msgspec.Struct, frozen=True, array_like=True):
    """What a split is: offsets from `start` up to `end`, exclusive; None: for ever."""

    topic: str
    partition: int
    start: int
    end: int | None


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_Part).decode
#: The state of discovery behind the first look.
_LOOKED = b"looked"


class KafkaSource(Source):
    """Finds partitions in the driver; reads them in the slots."""

    eager = True
    can_tolerate = True

    def __init__(
        self,
        cluster: Cluster,
        topics: Sequence[str],
        pattern: re.Pattern[str] | None,
        *,
        start: Start,
        group: str | None,
        value: Value,
        schema: pa.Schema | None,
        with_metadata: bool,
        bounded: bool,
        isolation: str,
        discovery_seconds: float,
    ) -> None:
        self._cluster = cluster
        self._topics = list(dict.fromkeys(topics))
        self._pattern = pattern
        self._start = start
        self._group = group
        self._value = value
        self._schema = schema
        self._with_metadata = with_metadata
        self.bounded = self._bounded = bounded
        self._isolation = isolation
        self.discovery_interval_seconds = discovery_seconds

    @property
    def name(self) -> str:
        return f"kafka({', '.join(self._topics) if self._pattern is None else self._pattern.pattern})"

    @property
    def schema(self) -> pa.Schema | None:
        return self._schema

    def narrowed(self, columns: frozenset[str], as_keys: frozenset[str]) -> Source:
        if self._schema is None:
            return self
        narrow = copy.copy(self)
        # A batch without columns would have no rows.
        kept = [field for field in self._schema if field.name in columns] or [self._schema.field(0)]
        narrow._schema = pa.schema(kept, metadata=self._schema.metadata)
        return narrow

    def check(self) -> None:
        if isinstance(self._value, MessageFormat):
            self._value.check(writes=False)
        found = self._partitions()
        if self._bounded and not found:
            raise ConfigurationError(
                f"no topic at {self._cluster.servers} matches {self.name}", hint="a bounded source needs one to read"
            )

    def discover(self, parallelism: int) -> Discovery:
        return self.discover_new(parallelism, KnownOrigins())

    def discover_new(self, parallelism: int, known: KnownOrigins, state: bytes = b"") -> Discovery:
        try:
            new = [each for each in self._partitions() if digest_of(_split_id(each)) not in known.digests]
            splits = self._splits(new, self._start if state == b"" else Start("earliest"))
        except PeerError as error:
            if state == b"":
                raise
            # Those who read know how long to wait for the brokers.
            log.info("%s could not look for partitions: %s", self.name, error.in_one_line)
            splits = ()
        return Discovery(splits, complete=self._bounded, state=_LOOKED)

    def reader(self, split: Split, position: Any, context: ReaderContext) -> SplitReader:
        part = _decode(split.payload)
        feed = Feed(part.topic, part.partition, start=part.start if position is None else position, end=part.end)
        return PartitionReader(feed, shared_consumer(context.shared, feed, lambda: self._consumer(context)))

    def _consumer(self, context: ReaderContext) -> TaskConsumer:
        settings = {
            # Without subscription it is only a name: partitions are assigned by the job.
            "group.id": self._group or f"cutwater.{context.job_id}.{context.uid}",
            "isolation.level": self._isolation,
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "error",
        }
        decoder = MessageDecoder(
            self._value, self._schema, with_metadata=self._with_metadata, tolerant=context.tolerant
        )
        return TaskConsumer(
            self._cluster,
            name=self.name,
            settings=settings,
            decode=decoder.decode,
            wake=context.wake,
            commits=self._group is not None,
        )

    def _partitions(self) -> list[TopicAndPartition]:
        """All there are now, of these topics."""
        counts = self._cluster.partitions()
        if self._pattern is not None:
            matches = self._pattern.fullmatch
            names = sorted(name for name in counts if matches(name) and not name.startswith("__"))
        else:
            names = self._topics
            missing = [name for name in names if name not in counts]
            if missing:
                raise missing_topics(self._cluster, missing, counts)
        return [(name, partition) for name in names for partition in range(counts[name])]

    def _splits(self, partitions: Sequence[TopicAndPartition], start: Start) -> tuple[Split, ...]:
        if not partitions:
            return ()
        offsets = Offsets(self._cluster, isolation=self._isolation, group=self._group)
        starts = offsets.at(start, partitions)
        ends = offsets.at(Start("latest"), partitions) if self._bounded else {}
        parts = [_Part(*each, starts[each], ends.get(each)) for each in partitions]
        return tuple(Split(_split_id((part.topic, part.partition)), _encode(part)) for part in parts)


class PartitionReader(SplitReader):
    """What the shared consumer has fetched of one partition."""

    wakes_loop = True

    def __init__(self, feed: Feed, consumer: TaskConsumer) -> None:
        self._feed = feed
        self._consumer = consumer
        self._position = feed.next_offset
        self._unreadable: Sequence[Unreadable] = ()

    def read(self, limit: int, now_seconds: float) -> Batch | None:
        while (chunk := self._consumer.take(self._feed, limit)) is not None:
            self._position = chunk.next_offset
            if chunk.rows:
                self._unreadable = chunk.unreadable
                return chunk.batch
        return None

    def take_unreadable(self) -> Sequence[Unreadable]:
        unreadable, self._unreadable = self._unreadable, ()
        return unreadable

    @property
    def position(self) -> int:
        return self._position

    @property
    def finished(self) -> bool:
        return self._consumer.has_ended(self._feed)

    @property
    def lag(self) -> int | None:
        end = self._feed.end_of_partition
        return None if end is None else max(0, end - self._position)

    def wake_at(self) -> float | None:
        return 0.0 if self._consumer.has_news(self._feed) else None

    def checkpoint_completed(self, position: Any) -> None:
        if position is not None:
            self._consumer.acknowledge(self._feed, position)

    def close(self) -> None:
        self._consumer.remove(self._feed)


def missing_topics(cluster: Cluster, missing: Sequence[str], there: Mapping[str, int]) -> ConfigurationError:
    visible = sorted(name for name in there if not name.startswith("__"))
    listed = ", ".join(visible[:10]) + (", …" if len(visible) > 10 else "") if visible else "none"
    return ConfigurationError(
        f"Kafka at {cluster.servers} has no topic {', '.join(map(repr, missing))}",
        detail=f"topics that this user may see: {listed}",
        hint="create it first, or check the name and the user's rights",
    )


def _split_id(partition: TopicAndPartition) -> str:
    return f"{partition[0]}/{partition[1]}"


def _compiled(pattern: str | None) -> re.Pattern[str] | None:
    try:
        return None if pattern is None else re.compile(pattern)
    except re.error as error:
        raise ConfigurationError(f"pattern {pattern!r} is not a regular expression", detail=str(error)) from None
