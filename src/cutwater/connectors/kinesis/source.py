"""How is a Kinesis stream read exactly once, also when its shards are split and merged?

Every record of a shard has a sequence number, which is the position. A shard that is split or merged is closed; the
shards that follow it name it as their parent. They are found while the job runs, and read when it has been read to its
end: so the records of a partition key stay in order.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Literal

import msgspec
import pyarrow as pa

from cutwater.connectors.bases.decoding import Decoder, Place, Value, decoder_of, settled
from cutwater.connectors.bases.fetching import FETCH_WAIT_SECONDS, Fetched, Fetcher, FetchingReader
from cutwater.connectors.contract import Discovery, ReaderContext, Source, SplitReader
from cutwater.connectors.failures import PeerError
from cutwater.connectors.kinesis.client import IteratorExpired, Stream, Throttled
from cutwater.connectors.settings import check_positive
from cutwater.errors import ConfigurationError
from cutwater.protocol.known_origins import KnownOrigins, digest_of
from cutwater.protocol.splits import Split

log = logging.getLogger("cutwater")

KinesisStart = Literal["earliest", "latest"] | datetime
#: The most that one call returns.
RECORDS_PER_CALL = 10_000
DISCOVERY_SECONDS = 5.0
_LOOKED_BEFORE = b"1"


def kinesis(
    stream: str,
    *,
    start: KinesisStart = "earliest",
    endpoint: str | None = None,
    region: str | None = None,
    value: Value = "bytes",
    schema: pa.Schema | None = None,
    discovery_seconds: float = DISCOVERY_SECONDS,
    options: Mapping[str, Any] | None = None,
) -> KinesisSource:
    """Reads a stream of Amazon Kinesis, or of a compatible server. Never ends.

    Exactly once: the position in a snapshot is, by shard, the sequence number of the last record. Shards are spread
    over the tasks. Resharding is followed in order: shards that come from a split or a merge are found while the job
    runs, and read when their parents have been read to their end. A job that is down for longer than the stream's
    retention loses what was deleted meanwhile. Records that a producer's library has packed together are not unpacked.

    `start`: where a job begins that restores nothing. "earliest": with the oldest record; "latest": with what comes
    after this call; or a moment (one without a time zone is local).
    `endpoint`, `region`: where the stream is; left out, as the environment tells boto3.
    `value`: records are "bytes", "text" (UTF-8), "json" values, or what a function makes of the bytes; with a `schema`,
    JSON objects become typed rows.
    `discovery_seconds`: between two looks for new shards.
    `options`: of `boto3.client`, such as credentials and certificates.
    """
    value, schema = settled(value, schema, topic=stream)
    check_positive("discovery_seconds", discovery_seconds, whole=False)
    if not isinstance(start, datetime) and start not in ("earliest", "latest"):
        raise ConfigurationError(f"start {start!r} is unknown", hint="'earliest', 'latest', or a datetime")
    where = Stream(stream, endpoint, region, dict(options or {}))
    # One moment for all attempts.
    moment = datetime.now(UTC) if start == "latest" else start if isinstance(start, datetime) else None
    return KinesisSource(where, moment, value=value, schema=schema, discovery_seconds=discovery_seconds)


class KinesisSource(Source):
    """A shard is a split. Its payload is the moment from which it is read; None: all of it."""

    eager = True
    bounded = False
    can_tolerate = True
    has_successors = True

    def __init__(
        self,
        stream: Stream,
        start: datetime | None,
        *,
        value: Value,
        schema: pa.Schema | None,
        discovery_seconds: float,
    ) -> None:
        self.stream = stream
        self.discovery_interval_seconds = discovery_seconds
        self._start_seconds = None if start is None else start.timestamp()
        self._value = value
        self._schema = schema

    @property
    def name(self) -> str:
        return f"kinesis({self.stream.name})"

    @property
    def schema(self) -> pa.Schema | None:
        return self._schema

    def check(self) -> None:
        self.stream.check()

    def discover(self, parallelism: int) -> Discovery:
        return self.discover_new(parallelism, KnownOrigins())

    def discover_new(self, parallelism: int, known: KnownOrigins, state: bytes = b"") -> Discovery:
        try:
            shards = self._shards()
        except PeerError as error:
            if not state:
                raise
            # What there is can be read meanwhile, and its readers tell when the server is gone for too long.
            log.warning('source "%s" can\'t look for new shards: %s', self.name, error.in_one_line)
            return Discovery((), complete=False, state=state)
        payload = msgspec.msgpack.encode(None if state else self._start_seconds)
        new = [shard for shard in shards if shard["ShardId"] not in known]
        gone = known.digests.keys() - {digest_of(shard["ShardId"]) for shard in shards}
        splits = tuple(Split(shard["ShardId"], payload, after=_parents(shard)) for shard in new)
        return Discovery(splits, complete=False, gone=gone, state=_LOOKED_BEFORE)

    def _shards(self) -> list[Mapping[str, Any]]:
        with self.stream.telling():
            pages = self.stream.connect().get_paginator("list_shards").paginate(StreamName=self.stream.name)
            return [shard for page in pages for shard in page["Shards"]]

    def reader(self, split: Split, position: Any, context: ReaderContext) -> SplitReader:
        client = context.shared.get("kinesis") or context.shared.setdefault("kinesis", self.stream.connect())
        decoder = decoder_of(self._value, self._schema, tolerant=context.tolerant)
        fetcher = ShardFetcher(client, self.stream, split.id, msgspec.msgpack.decode(split.payload), decoder)
        return FetchingReader(fetcher, position, context, name=f'source "{self.name}", {split.id}')


class ShardFetcher(Fetcher):
    """Position: the sequence number of the last record."""

    def __init__(self, client: Any, stream: Stream, shard: str, start_seconds: float | None, decoder: Decoder) -> None:
        self._client = client
        self._stream = stream
        self._shard = shard
        self._start_seconds = start_seconds
        self._decoder = decoder
        #: Records that a call returned and that were not handed on.
        self._records: deque[Mapping[str, Any]] = deque()
        self._last: str | None = None
        self._iterator: str | None = None
        self._is_behind = True

    def connect(self, position: Any) -> None:
        self._records.clear()
        self._last = position
        self._renew()

    def fetch(self, limit: int) -> Fetched | None:
        if not self._records and self._iterator is not None:
            self._call()
        taken = [self._records.popleft() for _ in range(min(limit, len(self._records)))]
        ends = self._iterator is None and not self._records
        if not taken:
            return Fetched(self._last, ends_split=True) if ends else None
        self._last = taken[-1]["SequenceNumber"]
        place = Place(
            lambda number: f'record {number} of {self._shard} of stream "{self._stream.name}"',
            lambda index: taken[index]["SequenceNumber"],
        )
        decoded = self._decoder.decode([record["Data"] for record in taken], place)
        return Fetched(self._last, decoded.batch, ends_split=ends, unreadable=decoded.unreadable)

    def _call(self) -> None:
        """A shard answers five times a second: when we are up to date, we ask no more often."""
        if not self._is_behind:
            time.sleep(FETCH_WAIT_SECONDS)
        try:
            with self._stream.telling():
                answer = self._client.get_records(ShardIterator=self._iterator, Limit=RECORDS_PER_CALL)
        except Throttled:
            self._is_behind = False
            return
        except IteratorExpired:
            self._renew()
            return
        self._records.extend(answer["Records"])
        self._iterator = answer.get("NextShardIterator")
        self._is_behind = bool(answer["Records"]) or answer.get("MillisBehindLatest", 0) > 0

    def _renew(self) -> None:
        """Everything up to the last record was handed on."""
        if self._last is not None:
            begin: dict[str, Any] = {"ShardIteratorType": "AFTER_SEQUENCE_NUMBER", "StartingSequenceNumber": self._last}
        elif self._start_seconds is not None:
            moment = datetime.fromtimestamp(self._start_seconds, UTC)
            begin = {"ShardIteratorType": "AT_TIMESTAMP", "Timestamp": moment}
        else:
            begin = {"ShardIteratorType": "TRIM_HORIZON"}
        with self._stream.telling():
            answer = self._client.get_shard_iterator(StreamName=self._stream.name, ShardId=self._shard, **begin)
        self._iterator = answer["ShardIterator"]


def _parents(shard: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(shard[key] for key in ("ParentShardId", "AdjacentParentShardId") if shard.get(key))
